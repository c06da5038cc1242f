package annotated

import (
	"testing"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// TestCallHasItsTime holds that an updater is not asked to do something in a reconcile in which a drain, or the question what updaters cover, may have taken most
// of the time, and that it is in the next one.
func TestCallHasItsTime(t *testing.T) {
	t.Parallel()
	for _, drain := range []string{"true", "false"} {
		w := newWorld(t)
		kubelet, _ := w.register()
		w.add(newMachine("a", ""))
		w.nodes.SetDrain(inCluster, "a", 1)
		w.annotate(w.machine("a"), map[string]any{v1alpha1.InPlaceUpgradeDrainAnnotation: drain})
		w.ask("a", toVersion)
		for range 4 {
			drains, asked := w.nodes.Calls()[porttest.DrainMethod], kubelet.asked
			result, err := w.reconcile("a")
			if err != nil {
				t.Fatal(err)
			}
			busy := w.nodes.Calls()[porttest.DrainMethod] > drains || kubelet.asked > asked
			if called := len(kubelet.requests) > 0; called == busy {
				t.Errorf("drain %s: called %t, drained or asked %t", drain, called, busy)
			}
			if result.Now || result.After <= 0 {
				t.Errorf("drain %s: the next one is due %+v", drain, result)
			}
			if len(kubelet.requests) > 0 {
				break
			}
		}
		if len(kubelet.requests) != 1 {
			t.Errorf("drain %s: %d requests", drain, len(kubelet.requests))
		}
	}
}
