package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// readingManager is a manager of which only the clients are used.
type readingManager struct {
	ctrl.Manager
	client client.Client
}

func (m readingManager) GetClient() client.Client                     { return m.client }
func (m readingManager) GetAPIReader() client.Reader                  { return m.client }
func (m readingManager) GetEventRecorder(string) events.EventRecorder { return nil }

// TestGroupStops holds that the engine gets the rules of the graph that the settings of this project's ExtensionConfig name.
func TestGroupStops(t *testing.T) {
	t.Parallel()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	graph := func(name string, rules ...v1alpha1.WorkersRule) *v1alpha1.UpgradeGraph {
		return &v1alpha1.UpgradeGraph{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.UpgradeGraphSpec{Versions: []v1alpha1.Version{"v1.31.0"}, Workers: rules},
		}
	}
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ours"}}
	config.Spec.Settings = map[string]string{"graph": "strict"}
	rule := v1alpha1.WorkersRule{Groups: []string{"b"}, Stops: v1alpha1.WorkerStopsEveryMinor, Reason: "audit"}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(graph("other"), graph("strict", rule), config).Build()
	b := &builder{mgr: readingManager{client: reader}}
	b.ExtensionConfig = "ours"
	options := b.topologyOptions()
	if want := "generate-upgrade-plan.ours"; options.OwnPlanner != want {
		t.Errorf("OwnPlanner is %q, want %q", options.OwnPlanner, want)
	}

	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "c"}}
	cluster.Spec.Topology.ClassRef.Name = "standard"
	cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "a", Class: "w"}, {Name: "b", Class: "w"}}
	got, err := options.OwnGraph(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]plan.StopRule{{Groups: []string{"b"}, EveryMinor: true, Reason: "audit"}}, got.Stops); diff != "" {
		t.Errorf("stops (-want +got):\n%s", diff)
	}
}
