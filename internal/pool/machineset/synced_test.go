package machineset

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// copyCounter counts the copies that reads of the objects of Machines make, by kind.
type copyCounter struct {
	client.Client
	copies map[string]int
}

func (c copyCounter) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	read := (&client.GetOptions{}).ApplyOptions(options)
	kind := object.GetObjectKind().GroupVersionKind().Kind
	ofMachine := kind == "TestMachine" || kind == "TestConfig"
	if ofMachine && (read.UnsafeDisableDeepCopy == nil || !*read.UnsafeDisableDeepCopy) {
		c.copies[kind]++
	}
	return c.Client.Get(ctx, key, object, options...)
}

// TestSyncCosts counts the objects that a run copies in order to compare them with what is wanted: none
// of a group in which nothing has changed, and those of one Machine after a change of one.
func TestSyncCosts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(w *world)
		want   map[string]int
		writes []string
	}{
		{"nothing", func(*world) {}, map[string]int{}, nil},
		{"the status of one Machine", func(w *world) {
			m := w.machines()[1]
			editStatus(w, &m, func(m *clusterv1.Machine) { m.Status.Phase = "Running" })
		}, map[string]int{"TestMachine": 1, "TestConfig": 1}, nil},
		{"a label of the infrastructure of one Machine", func(w *world) {
			o := &unstructured.Unstructured{}
			o.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta2")
			o.SetKind("TestMachine")
			edit(w, get(w, w.machines()[1].Name, o), func(o *unstructured.Unstructured) {
				o.SetLabels(with(o.GetLabels(), "l", "of somebody"))
			})
		}, map[string]int{"TestMachine": 1, "TestConfig": 1}, []string{"apply TestMachine"}},
		{"the template", func(w *world) {
			edit(w, w.set("a"), func(s *clusterv1.MachineSet) { s.Spec.Template.Labels["l"] = "2" })
		}, map[string]int{"TestMachine": 2, "TestConfig": 2}, []string{
			"apply Machine", "apply TestMachine", "apply TestConfig",
			"apply Machine", "apply TestMachine", "apply TestConfig", "patch-status MachineSet",
		}},
		{"nothing for a long time", func(w *world) { w.now = w.now.Add(syncedFor + time.Second) },
			map[string]int{"TestMachine": 2, "TestConfig": 2}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			existing(w)
			test.change(w)
			counter := copyCounter{w.r.Client, map[string]int{}}
			w.r.Client = counter
			w.Take()
			if err := w.reconcile("a"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, counter.copies); diff != "" {
				t.Errorf("copies (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.writes, w.Take()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}
