package annotated_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

// TestBrokenMachineStopsNoOther: a process that starts removes the condition that an earlier one
// has left, also where a Machine before it in the list cannot be handled, because its Cluster is
// gone.
func TestBrokenMachineStopsNoOther(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "b", "c")
	broken := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: "a", Labels: map[string]string{clusterv1.ClusterNameLabel: "gone"}},
		Spec:       pool.Machine(t, "b").Spec,
	}
	broken.Spec.ClusterName = "gone"
	plane.Create(t, broken)
	for _, name := range []string{"a", "b", "c"} {
		show(t, plane, pool.Machine(t, name))
	}
	plane.Run(t)
	for _, name := range []string{"b", "c"} {
		awaitMachine(t, plane, pool.Namespace, name, "has no condition left", func(m *clusterv1.Machine) string {
			if condition(m) == nil {
				return ""
			}
			return describe(m)
		})
	}
	if condition(pool.Machine(t, "a")) == nil {
		t.Error("the Machine without a Cluster was handled, so this test shows nothing")
	}
}
