package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/webhook"
)

// machineCache is a cache of Machines that shows what it was last given.
type machineCache struct {
	client.Reader

	machines []metav1.PartialObjectMetadata
}

func (c *machineCache) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	machines, ok := list.(*metav1.PartialObjectMetadataList)
	if !ok {
		return fmt.Errorf("%T was asked for, which is another cache than that of the metadata", list)
	}
	machines.Items = c.machines
	return nil
}

// scaled is a group of many workers, beside the world's others, and a cache that shows them.
func scaled(t *testing.T, workers int) (*world, *machineCache) {
	t.Helper()
	var extra []client.Object
	cache := &machineCache{}
	for i := range workers {
		m := numbered(i)
		extra = append(extra, m)
		cache.machines = append(cache.machines, metadata(m))
	}
	w := newWorld(t, extra...)
	for _, name := range []string{"w-0", "w-1", "w-2"} {
		w.remove(w.machine(name))
	}
	w.options.Cached = cache
	w.guard = webhook.NewGuard(w.options)
	return w, cache
}

func metadata(m *clusterv1.Machine) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{TypeMeta: m.TypeMeta, ObjectMeta: m.ObjectMeta}
}

func numbered(i int) *clusterv1.Machine {
	m := newWorker()
	m.Name = fmt.Sprintf("n-%04d", i)
	m.UID = types.UID("uid-" + m.Name)
	return m
}

// Whether the cache follows at once or has come to a halt: just as many are created as there should be, and only those near the
// limit are decided by live lists.
func TestScaleUp(t *testing.T) {
	const from, to, far = 5, 260, 100
	for name, follows := range map[string]bool{"the cache follows": true, "the cache stands still": false} {
		t.Run(name, func(t *testing.T) {
			w, cache := scaled(t, from)
			w.scale(to)
			for i := from; i < to; i++ {
				expect(t, w.ask(admissionv1.Create, numbered(i)), true, "Missing")
				if err := w.client.Create(t.Context(), numbered(i)); err != nil {
					t.Fatal(err)
				}
				if follows {
					cache.machines = append(cache.machines, metadata(numbered(i)))
				}
				// More in all than admitted requests may be on their way.
				w.now = w.now.Add(time.Second)
			}
			expect(t, w.ask(admissionv1.Create, numbered(to)), false, "beyond spec.replicas")
			if most := (far + 1) * to; w.listed > most {
				t.Errorf("%d Machines were listed live, want at most %d", w.listed, most)
			}
			if w.listed == 0 {
				t.Error("near the limit no list was read live")
			}
		})
	}
}

func TestScaleDown(t *testing.T) {
	const from, to, far = 260, 5, 100
	for name, follows := range map[string]bool{"the cache follows": true, "the cache stands still": false} {
		t.Run(name, func(t *testing.T) {
			w, cache := scaled(t, from)
			w.scale(to)
			for i := range from - to {
				expect(t, w.ask(admissionv1.Delete, numbered(i)), true, "Surplus")
				w.remove(numbered(i))
				if follows {
					cache.machines = cache.machines[1:]
				}
				w.now = w.now.Add(time.Second)
			}
			expect(t, w.ask(admissionv1.Delete, numbered(from-1)), false, "would replace")
			if most := (far + 1) * (to + far); w.listed > most {
				t.Errorf("%d Machines were listed live, want at most %d", w.listed, most)
			}
		})
	}
}

// A cache that cannot be read is done without.
func TestCacheThatFails(t *testing.T) {
	w, _ := scaled(t, 5)
	w.options.Cached = noCache{}
	w.guard = webhook.NewGuard(w.options)
	w.scale(200)
	expect(t, w.ask(admissionv1.Create, numbered(5)), true, "Missing")
}

type noCache struct{ client.Reader }

func (noCache) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("not synced")
}

// What a cache does not show, and this process has not admitted, is found out near the limit.
func TestScaleThatHappenedElsewhere(t *testing.T) {
	const has, desired = 130, 150
	w, cache := scaled(t, has)
	cache.machines = cache.machines[:desired-100]
	w.scale(desired)
	expect(t, w.ask(admissionv1.Create, numbered(has)), true, "Missing")
	for i := has; i < desired; i++ {
		if err := w.client.Create(t.Context(), numbered(i)); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, w.ask(admissionv1.Create, numbered(desired)), false, "beyond spec.replicas")
}

// A request that was allowed while no policy kept machines counts once one does.
func TestPolicyThatComesBetween(t *testing.T) {
	w := newWorld(t, policy("other", func(s *v1alpha1.UpdatePolicySpec) { s.Targets[0].ControlPlane = true }))
	keep := policy("keep", nil)
	w.remove(keep)
	w.scale(4)
	expect(t, w.ask(admissionv1.Create, newWorker()), true, "NotGuarded")
	if err := w.client.Create(t.Context(), policy("keep", nil)); err != nil {
		t.Fatal(err)
	}
	second := newWorker()
	second.Name, second.UID = "w-newer", "uid-newer"
	expect(t, w.ask(admissionv1.Create, second), false, "beyond spec.replicas 4")
}
