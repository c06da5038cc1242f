package status

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestMachineThatDoesNotJoin: status names the Machine of a step that cannot end, what it lacks, and a way
// out that the engine in charge has.
func TestMachineThatDoesNotJoin(t *testing.T) {
	t.Parallel()
	const said = "Machine cp-new, made for v1.31.99, has not joined: InfrastructureReady: no image of v1.31.99. Fix: "
	for name, tt := range map[string]struct {
		engine string
		age    time.Duration
		joined bool
		want   string
	}{
		"windlass manager":   {engine: v1alpha1.EngineManager, age: lateToJoin, want: said + "give it what it lacks, or set spec.topology.version"},
		"stock Cluster API":  {age: lateToJoin, want: said + "give it what it lacks, or leave its version out by hand"},
		"before its time":    {age: lateToJoin - time.Second},
		"it has joined":      {age: lateToJoin, joined: true},
		"windlass, too late": {engine: v1alpha1.EngineManager, age: lateToJoin, joined: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := upgrade{target: "v1.31.99", controlPlane: "v1.30.0", members: repeat(2, "v1.30.0")}.facts(t)
			f.Rollouts.Engine = tt.engine
			for _, m := range f.Machines {
				m.Status.NodeRef.Name = m.Name
			}
			m := machine("cp-new", controlPlaneMachine)
			m.Spec.Version, m.CreationTimestamp = "v1.31.99", metav1.NewTime(start.Add(-tt.age))
			m.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse,
				Reason: "NotReady", Message: "no image of v1.31.99",
			}}
			if tt.joined {
				m.Status.NodeRef.Name = "cp-new"
			}
			f.Machines = append(f.Machines, m)
			if err := unstructured.SetNestedField(f.ControlPlane.Object, "v1.31.99", "spec", "version"); err != nil {
				t.Fatal(err)
			}
			var holds []string
			for _, h := range Compute(f, start).Chain.Holds {
				if h.Kind == HeldByMachines {
					holds = append(holds, h.Message)
				}
			}
			got := strings.Join(holds, "\n")
			if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
				t.Errorf("holds %q, want %q", got, tt.want)
			}
		})
	}
}
