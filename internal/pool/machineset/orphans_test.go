package machineset

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/policy"
)

// TestUnadopted: a Machine that cannot be adopted is not absent. In a kept group neither its
// MachineSet nor another one creates a Machine in its place, or deletes one. Others continue, as
// with Cluster API's controller.
func TestUnadopted(t *testing.T) {
	t.Parallel()
	keep := policy.Policy{Guarded: true}
	for name, tt := range map[string]struct {
		policy policy.Policy
		// a and b are the replicas of two MachineSets, of which a has two Machines and an orphan.
		a, b int32
		// machines is how many Machines there are then; failed says that a run ends with an error.
		machines int
		failed   bool
	}{
		"kept":                       {policy: keep, a: 3, machines: 3, failed: true},
		"kept, the other MachineSet": {policy: keep, a: 2, b: 1, machines: 3, failed: true},
		"kept, one too many":         {policy: keep, a: 1, machines: 3, failed: true},
		"replaced":                   {a: 3, machines: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.policy = tt.policy
			w.Put(set("a", "a", 3))
			w.Put(set("b", "b", 0))
			w.settle("a", "b")
			w.belongs()
			md := get(w, "d", &clusterv1.MachineDeployment{})
			edit(w, md, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(3)) })
			for name, replicas := range map[string]int32{"a": tt.a, "b": tt.b} {
				edit(w, w.set(name), func(s *clusterv1.MachineSet) {
					owner := *metav1.NewControllerRef(md, capi.MachineDeploymentKind)
					s.OwnerReferences = []metav1.OwnerReference{owner}
					s.Labels = with(s.Labels, clusterv1.MachineDeploymentNameLabel, "d")
					*s.Spec.Replicas = replicas
				})
			}
			orphan := w.machines()[0]
			edit(w, &orphan, func(m *clusterv1.Machine) { m.OwnerReferences = nil })
			w.Fail = func(verb, kind string) (error, bool) {
				if verb == "patch" && kind == "Machine" && w.LastName == orphan.Name {
					return errors.New("denied"), false
				}
				return nil, false
			}
			failed := false
			for range 2 {
				for _, name := range []string{"a", "b"} {
					failed = w.reconcile(name) != nil || failed
				}
			}
			if n := len(w.machines()); n != tt.machines || failed != tt.failed {
				t.Errorf("%d Machines exist, want %d; failed: %t", n, tt.machines, failed)
			}
			if tt.failed {
				w.Fail = nil
				edit(w, w.set("a"), func(s *clusterv1.MachineSet) { *s.Spec.Replicas = 3 })
				edit(w, w.set("b"), func(s *clusterv1.MachineSet) { *s.Spec.Replicas = 0 })
				w.settle("a", "b")
				if n := len(w.machines()); n != 3 {
					t.Errorf("%d Machines exist after the adoption", n)
				}
			}
		})
	}
}
