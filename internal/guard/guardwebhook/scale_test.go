package guardwebhook_test

import (
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// scaled is a group of many workers, instead of the world's.
func scaled(t *testing.T, workers int) *world {
	t.Helper()
	var extra []client.Object
	for i := range workers {
		extra = append(extra, numbered(i))
	}
	w := newWorld(t, extra...)
	for _, name := range []string{"w-0", "w-1", "w-2"} {
		w.remove(w.machine(name))
	}
	return w
}

func numbered(i int) *clusterv1.Machine {
	m := newWorker()
	m.Name = fmt.Sprintf("n-%04d", i)
	m.UID = types.UID("uid-" + m.Name)
	return m
}

// Just as many are created as there should be, and only those near the limit cost a list each.
func TestScaleUp(t *testing.T) {
	const from, to, far = 5, 260, 100
	w := scaled(t, from)
	w.scale(to)
	for i := from; i < to; i++ {
		expect(t, w.ask(admissionv1.Create, numbered(i)), true, "Missing")
		w.create(numbered(i))
		w.now = w.now.Add(50 * time.Millisecond)
	}
	expect(t, w.ask(admissionv1.Create, numbered(to)), false, "beyond spec.replicas")
	if most := (far + 10) * to; w.listed > most {
		t.Errorf("%d Machines were listed live, want at most %d", w.listed, most)
	}
	if w.slept != 0 {
		t.Errorf("the guard waited for %s, though no request was in flight", w.slept)
	}
}

func TestScaleDown(t *testing.T) {
	const from, to, far = 260, 5, 100
	w := scaled(t, from)
	w.scale(to)
	for i := range from - to {
		expect(t, w.ask(admissionv1.Delete, numbered(i)), true, "Surplus")
		w.remove(numbered(i))
		w.now = w.now.Add(50 * time.Millisecond)
	}
	expect(t, w.ask(admissionv1.Delete, numbered(from-1)), false, "would replace")
	if most := (far + 10) * (to + far); w.listed > most {
		t.Errorf("%d Machines were listed live, want at most %d", w.listed, most)
	}
}

// Far from the limit, forged requests cost lists and change no answer.
func TestScaleUpWithForgedRequests(t *testing.T) {
	const from, to = 5, 125
	w := scaled(t, from)
	w.scale(to)
	for i := from; i < to; i++ {
		for j := range 2 {
			w.ask(admissionv1.Create, numbered(1000+10*i+j))
		}
		expect(t, w.ask(admissionv1.Create, numbered(i)), true, "Missing")
		w.create(numbered(i))
		w.now = w.now.Add(50 * time.Millisecond)
	}
	expect(t, w.ask(admissionv1.Create, numbered(to)), false, "beyond spec.replicas")
}

// What happened without the guard shows near the limit.
func TestScaleThatHappenedElsewhere(t *testing.T) {
	const has, desired = 10, 130
	w := scaled(t, has)
	w.scale(desired)
	expect(t, w.ask(admissionv1.Create, numbered(has)), true, "Missing")
	for i := has; i < desired; i++ {
		w.create(numbered(i))
	}
	w.now = w.now.Add(10 * time.Second)
	expect(t, w.ask(admissionv1.Create, numbered(desired)), false, "beyond spec.replicas")
}

// A request that was allowed while no policy kept machines counts once one does.
func TestPolicyThatComesBetween(t *testing.T) {
	w := newWorld(t, newPolicy("other", func(s *v1alpha1.UpdatePolicySpec) { s.Targets[0].ControlPlane = true }))
	keep := newPolicy("keep", nil)
	w.remove(keep)
	w.scale(4)
	expect(t, w.ask(admissionv1.Create, newWorker()), true, "NotGuarded")
	w.create(newPolicy("keep", nil))
	w.pause = func() { w.pause = nil; w.create(newWorker()) }
	second := newWorker()
	second.Name, second.UID = "w-newer", "uid-newer"
	expect(t, w.ask(admissionv1.Create, second), false, "beyond spec.replicas 4")
}
