package bounds

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// size is how much the first tenant has.
type size struct {
	// groups is how many MachineDeployments there are, and rivals how many policies select each of
	// them with the same precision.
	groups, rivals int
	// annotated is how many Machines and MachineDeployments ask for an upgrade by annotation.
	annotated int
	// stored is how many of the largest UpdatePolicies and UpgradeGates there are.
	stored int
}

const (
	// annotationBytes is how much an object's other annotations take.
	annotationBytes = 200 << 10
)

// world is what two tenants have.
type world struct {
	plane *wire.Plane
	// namespace is that of the tenant with the largest objects; other is the other tenant.
	namespace string
	other     *wire.Pool
	graph     *v1alpha1.UpgradeGraph
	updater   *v1alpha1.Updater
	size
	// bytes is how much the largest policies and gates have.
	bytes int
	// class is as large as it was created; see addForManager.
	class *clusterv1.ClusterClass
	// asked is the extension that the manager asks.
	asked *wire.Updater
}

func newWorld(t *testing.T, plane *wire.Plane, has size) *world {
	t.Helper()
	w := &world{plane: plane, size: has, namespace: plane.Namespace(t), other: plane.NewPool(t, "a")}
	cluster := &clusterv1.Cluster{
		ObjectMeta: w.meta("c"),
		Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}},
	}
	cluster.Annotations = map[string]string{"filler": filler(annotationBytes)}
	plane.Create(t, cluster)
	for i := range w.groups {
		plane.Create(t, w.deployment(name("md-%d", i), i < w.annotated))
	}
	for i := range w.annotated {
		plane.Create(t, w.machine(name("m-%d", i)))
	}
	for i := range w.rivals {
		plane.Create(t, w.policy(name("rival-%d", i), v1alpha1.UpdateTarget{ClusterName: "c"}))
	}
	for i := range w.stored {
		policy, gate := w.largestPolicy(i), w.largestGate(i)
		w.bytes += len(encoded(t, policy)) + len(encoded(t, gate))
		plane.Create(t, policy, gate)
	}
	w.graph, w.updater = largestGraph(), largestUpdater()
	plane.CreateForTest(t, w.graph)
	plane.CreateForTest(t, w.updater)
	return w
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}
}

func (w *world) deployment(name string, asks bool) *clusterv1.MachineDeployment {
	labels := map[string]string{clusterv1.ClusterNameLabel: "c", "md": name}
	md := &clusterv1.MachineDeployment{
		ObjectMeta: w.meta(name),
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: "c", Replicas: new(int32(0)), Selector: metav1.LabelSelector{MatchLabels: labels},
			Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: labels}, Spec: w.spec(name)},
			Rollout: clusterv1.MachineDeploymentRolloutSpec{Strategy: clusterv1.MachineDeploymentRolloutStrategy{
				Type: clusterv1.RollingUpdateMachineDeploymentStrategyType,
			}},
		},
	}
	if asks {
		md.Annotations = asking()
	}
	return md
}

func (w *world) machine(name string) *clusterv1.Machine {
	m := &clusterv1.Machine{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: w.meta(name), Spec: w.spec(name),
	}
	m.Annotations = asking()
	return m
}

// asking are the annotations of an object that asks for an upgrade, and has large ones.
func asking() map[string]string {
	return map[string]string{
		v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeTo: "version=" + wire.To,
		"filler": filler(annotationBytes),
	}
}

func (w *world) spec(name string) clusterv1.MachineSpec {
	return clusterv1.MachineSpec{
		ClusterName: "c", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("none")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: wire.InfrastructureVersion.Group, Kind: "DevMachine", Name: name,
		},
	}
}

func (w *world) policy(name string, targets ...v1alpha1.UpdateTarget) *v1alpha1.UpdatePolicy {
	return &v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: v1alpha1.UpdatePolicySpec{
			Targets: targets, Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone,
		},
	}
}

// key returns a key of a label that is as long as keys may be.
func key(i int) string {
	prefix := fmt.Sprintf("%063d.%063d.%063d.%061d", i, i, i, i)
	return prefix + "/" + fmt.Sprintf("%063d", i)
}

// largestSelector has as many terms, and values in all, as selectors may have. It matches no object
// without one of the keys.
func largestSelector() *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	for i := range v1alpha1.MaxSelectorTerms {
		var values []string
		for v := range v1alpha1.MaxSelectorValuesInAll / v1alpha1.MaxSelectorTerms {
			values = append(values, fmt.Sprintf("%0*d", v1alpha1.MaxLabelValueLength, v))
		}
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: key(i), Operator: metav1.LabelSelectorOpNotIn, Values: values,
		})
	}
	return s
}

// largestPolicy has as many entries in its targets as policies may have. Each term is compared for
// each group, because none of them excludes any.
func (w *world) largestPolicy(i int) *v1alpha1.UpdatePolicy {
	entries := v1alpha1.MaxSelectorTerms + v1alpha1.MaxSelectorValuesInAll
	var targets []v1alpha1.UpdateTarget
	for range v1alpha1.MaxTargetEntries / entries {
		targets = append(targets, v1alpha1.UpdateTarget{ClusterName: "c", Selector: largestSelector()})
	}
	return w.policy(name("large-%d", i), targets...)
}

// largestGate selects Clusters by as much as gates may.
func (w *world) largestGate(i int) *v1alpha1.UpgradeGate {
	return &v1alpha1.UpgradeGate{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name("large-%d", i)},
		Spec: v1alpha1.UpgradeGateSpec{
			ClusterSelector: largestSelector(),
			Steps:           []v1alpha1.GateStep{{At: "BeforeWorkersUpgrade"}},
			Requires:        v1alpha1.GateRequirements{Approval: &v1alpha1.GateApproval{}},
		},
	}
}

// largestGraph has as many versions as graphs may have.
func largestGraph() *v1alpha1.UpgradeGraph {
	graph := &v1alpha1.UpgradeGraph{ObjectMeta: metav1.ObjectMeta{Name: "bounds"}}
	const most = 256
	for i := range most {
		graph.Spec.Versions = append(graph.Spec.Versions, v1alpha1.Version(fmt.Sprintf("v1.%d.%d", 20+i/16, i%16)))
	}
	return graph
}

func largestUpdater() *v1alpha1.Updater {
	return &v1alpha1.Updater{
		ObjectMeta: metav1.ObjectMeta{Name: "bounds"},
		Spec: v1alpha1.UpdaterSpec{
			NamespaceSelector: largestSelector(), Selector: largestSelector(),
			Remote: &v1alpha1.RemoteUpdater{URL: "https://127.0.0.1:1/"},
		},
	}
}

// await waits until all objects of a list's kind that are selected have been looked at.
func await[T client.Object](
	t *testing.T, w *world, list client.ObjectList, why func(T) string, o ...client.ListOption,
) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	open := map[string]string{}
	err := w.plane.Client.List(ctx, list, o...)
	if err != nil {
		t.Fatal(err)
	}
	if err := meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(T)
		if !ok {
			return fmt.Errorf("%T in a %T", item, list)
		}
		if reason := why(object); reason != "" {
			open[object.GetName()] = reason
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(open) == 0 {
		return
	}
	if err := wire.Await(ctx, w.plane.Client, list, func(object T) bool {
		if reason := why(object); reason != "" {
			open[object.GetName()] = reason
		} else {
			delete(open, object.GetName())
		}
		return len(open) == 0
	}, o...); err != nil {
		for name, reason := range open {
			t.Fatalf("%d objects of %T: %s %s", len(open), list, name, reason)
		}
	}
}
