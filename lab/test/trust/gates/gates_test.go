// Package gates holds tests of what calls of lifecycle hooks can change.
package gates

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

func TestMain(m *testing.M) { wire.Main(m) }

const (
	from = "v1.31.4"
	to   = "v1.32.4"
)

// world is a Cluster with a gate that needs approval before the cluster and before workers, and the extension.
type world struct {
	plane     *wire.Plane
	extension *wire.Process
	cluster   *clusterv1.Cluster
	control   *controlplanev1.KubeadmControlPlane
	gate      *v1alpha1.UpgradeGate
}

// newWorld creates the objects of an upgrade, and then the extension, so that its caches have them.
func newWorld(t *testing.T, target, controlPlane, pending string) *world {
	t.Helper()
	w := &world{plane: wire.Start(t)}
	namespace := w.plane.Namespace(t)
	w.control = &controlplanev1.KubeadmControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cp"},
		Spec: controlplanev1.KubeadmControlPlaneSpec{
			Version: controlPlane,
			MachineTemplate: controlplanev1.KubeadmControlPlaneMachineTemplate{Spec: controlplanev1.KubeadmControlPlaneMachineTemplateSpec{
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevMachineTemplate", Name: "cp"},
			}},
		},
	}
	w.cluster = &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prod", Annotations: map[string]string{runtimev1.PendingHooksAnnotation: pending}},
		Spec: clusterv1.ClusterSpec{
			ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "cp"},
			Topology:        clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: target},
		},
	}
	w.plane.Create(t, w.control, w.cluster)
	w.gate = &v1alpha1.UpgradeGate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g"},
		Spec: v1alpha1.UpgradeGateSpec{
			Steps:    []v1alpha1.GateStep{{At: "BeforeClusterUpgrade"}, {At: "BeforeWorkersUpgrade"}},
			Requires: v1alpha1.GateRequirements{Approval: &v1alpha1.GateApproval{}},
		},
	}
	w.plane.Create(t, w.gate)
	w.gate.Status.Approvals = []v1alpha1.GateApprovalRecord{{
		Cluster: "prod", ClusterUID: string(w.cluster.UID), At: "BeforeWorkersUpgrade", Version: to, Generation: w.gate.Generation,
		By: "jane", Time: metav1.NewTime(time.Now().UTC().Truncate(time.Second)),
	}}
	if err := w.plane.Client.Status().Update(t.Context(), w.gate); err != nil {
		t.Fatal(err)
	}
	w.extension = w.plane.Run(t)
	return w
}

// call calls a hook about a Cluster, for a version.
func (w *world) call(t *testing.T, hook wire.Hook, cluster *clusterv1.Cluster, version string) wire.Answer {
	t.Helper()
	return w.extension.Call(t, hook, map[string]any{"cluster": cluster, "fromKubernetesVersion": from, "toKubernetesVersion": version, "kubernetesVersion": version})
}

// records are what the gate has recorded: who waits, and what is approved.
func (w *world) records(t *testing.T) (waiting, approvals []string) {
	t.Helper()
	w.plane.Get(t, w.gate)
	for _, r := range w.gate.Status.Waiting {
		waiting = append(waiting, string(r.At)+" "+r.Version)
	}
	for _, r := range w.gate.Status.Approvals {
		approvals = append(approvals, string(r.At)+" "+r.Version)
	}
	return waiting, approvals
}

// check compares what the gate has recorded.
func (w *world) check(t *testing.T, when string, waiting, approvals []string) {
	t.Helper()
	gotWaiting, gotApprovals := w.records(t)
	if diff := cmp.Diff(waiting, gotWaiting); diff != "" {
		t.Errorf("%s: Clusters that wait (-want +got):\n%s", when, diff)
	}
	if diff := cmp.Diff(approvals, gotApprovals); diff != "" {
		t.Errorf("%s: approvals (-want +got):\n%s", when, diff)
	}
}

// update writes the Cluster.
func (w *world) update(t *testing.T, change func(*clusterv1.Cluster)) {
	t.Helper()
	changed := w.cluster.DeepCopy()
	change(changed)
	if err := w.plane.Client.Patch(t.Context(), changed, client.MergeFrom(w.cluster)); err != nil {
		t.Fatal(err)
	}
	w.cluster = changed
}

const refusal = "the Cluster does not show that this hook is due"

// TestForgedEnd checks that a call which says that an upgrade has ended drops no approval before the Cluster shows that.
func TestForgedEnd(t *testing.T) {
	w := newWorld(t, to, to, "AfterClusterUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade")
	outdated := w.cluster.DeepCopy()
	approved := []string{"BeforeWorkersUpgrade " + to}
	if got := w.call(t, wire.AfterClusterUpgrade, w.cluster, to); got.Status != runtimehooksv1.ResponseStatusFailure || got.Message != refusal {
		t.Errorf("a forged AfterClusterUpgrade got %+v", got)
	}
	w.check(t, "in the middle", nil, approved)
	// The approval still counts for the step that is due.
	if got := w.call(t, wire.BeforeWorkersUpgrade, w.cluster, to); got.Status != runtimehooksv1.ResponseStatusSuccess || got.RetryAfterSeconds != 0 {
		t.Errorf("an approved step got %+v", got)
	}
	w.update(t, func(c *clusterv1.Cluster) { c.Annotations[runtimev1.PendingHooksAnnotation] = "AfterClusterUpgrade" })
	// Cluster API sends the Cluster as its cache has it.
	if got := w.call(t, wire.AfterClusterUpgrade, outdated, to); got.Status != runtimehooksv1.ResponseStatusSuccess || got.RetryAfterSeconds != 0 {
		t.Errorf("AfterClusterUpgrade got %+v", got)
	}
	w.check(t, "at the end", nil, nil)
}

// TestForgedBeginning checks that a call which says that an upgrade begins is not recorded before the Cluster shows that.
func TestForgedBeginning(t *testing.T) {
	w := newWorld(t, from, from, "")
	approved := []string{"BeforeWorkersUpgrade " + to}
	for _, hook := range []wire.Hook{
		wire.BeforeClusterUpgrade, wire.BeforeControlPlaneUpgrade, wire.AfterControlPlaneUpgrade,
		wire.BeforeWorkersUpgrade, wire.AfterWorkersUpgrade, wire.AfterClusterUpgrade,
	} {
		for _, version := range []string{from, to} {
			if got := w.call(t, hook, w.cluster, version); got.Status != runtimehooksv1.ResponseStatusFailure || got.Message != refusal {
				t.Errorf("%s %s at rest got %+v", hook.Hook, version, got)
			}
		}
	}
	w.check(t, "at rest", nil, approved)
	w.update(t, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = to })
	if got := w.call(t, wire.BeforeClusterUpgrade, w.cluster, to); got.Status != runtimehooksv1.ResponseStatusSuccess || got.RetryAfterSeconds == 0 {
		t.Errorf("BeforeClusterUpgrade got %+v, want it held", got)
	}
	w.check(t, "at the beginning", []string{"BeforeClusterUpgrade " + to}, approved)
}

// TestStrangersLearnNothing checks that all answers to callers who do not know the Cluster are the same.
func TestStrangersLearnNothing(t *testing.T) {
	w := newWorld(t, to, from, "")
	for name, change := range map[string]func(*clusterv1.Cluster){
		"another UID":       func(c *clusterv1.Cluster) { c.UID = types.UID("0c7a9d1e-0000-4000-8000-000000000000") },
		"no UID":            func(c *clusterv1.Cluster) { c.UID = "" },
		"another name":      func(c *clusterv1.Cluster) { c.Name = "made-up" },
		"another namespace": func(c *clusterv1.Cluster) { c.Namespace = "made-up" },
	} {
		stranger := w.cluster.DeepCopy()
		change(stranger)
		if got := w.call(t, wire.BeforeClusterUpgrade, stranger, to); got.Status != runtimehooksv1.ResponseStatusFailure || got.Message != refusal || got.RetryAfterSeconds != 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	w.check(t, "after all", nil, []string{"BeforeWorkersUpgrade " + to})
}
