package status

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestStateOfUnobservedOwner: what Cluster API says of a Machine before it has seen the owner's latest change is
// not that the Machine is up to date.
func TestStateOfUnobservedOwner(t *testing.T) {
	old := func(m *clusterv1.Machine) { m.Spec.Version = "v1.31.2" }
	for _, test := range []struct {
		name     string
		m        *clusterv1.Machine
		observed int64
		want     State
	}{
		{"seen", machine("m", upToDate, old), 2, UpToDate},
		{"not seen, of another version", machine("m", upToDate, old), 1, Waiting},
		{"not seen, of the version", machine("m", upToDate), 1, UpToDate},
		{"not seen, and not up to date before", machine("m", notUpToDate), 1, Waiting},
	} {
		for _, controlPlane := range []bool{false, true} {
			f := facts(test.m.DeepCopy())
			f.MachineDeployments[0].Generation, f.MachineDeployments[0].Status.ObservedGeneration = 2, test.observed
			f.ControlPlane.SetGeneration(2)
			if err := unstructured.SetNestedField(f.ControlPlane.Object, test.observed, "status", "observedGeneration"); err != nil {
				t.Fatal(err)
			}
			if controlPlane {
				controlPlaneMachine(f.Machines[0])
			}
			if got := Compute(f, after(time.Minute)).Machines[0].State; got != test.want {
				t.Errorf("%s, control plane %t: %s, want %s", test.name, controlPlane, got, test.want)
			}
		}
	}
}
