package peers_test

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// TestAPIServersBeyondOurLimit asks about one healthy cluster far more often than Windlass asks its
// API server. Some callers are told that the cluster was not asked yet. A later caller gets an
// answer at once: the cluster does not count as unreachable.
func TestAPIServersBeyondOurLimit(t *testing.T) {
	const from, to = "v1.31.4", "v1.32.4"
	const callers = 300
	plane := wire.Start(t)
	namespace, workload := plane.Namespace(t), wire.NewWorkload(t)
	workload.SetNode("a", from)
	control := &controlplanev1.KubeadmControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cp"},
		Spec: controlplanev1.KubeadmControlPlaneSpec{
			Version: from,
			MachineTemplate: controlplanev1.KubeadmControlPlaneMachineTemplate{Spec: controlplanev1.KubeadmControlPlaneMachineTemplateSpec{
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: wire.InfrastructureVersion.Group, Kind: "DevMachineTemplate", Name: "cp"},
			}},
		},
	}
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: wire.ClusterName},
		Spec: clusterv1.ClusterSpec{
			ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "cp"},
			Topology:        clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: to},
		},
	}
	plane.Create(t, control, cluster, workload.Secret(t, namespace, wire.ClusterName), &v1alpha1.UpgradeGate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "healthy"},
		Spec: v1alpha1.UpgradeGateSpec{
			Steps:    []v1alpha1.GateStep{{At: "BeforeClusterUpgrade"}},
			Requires: v1alpha1.GateRequirements{Checks: []v1alpha1.GateCheck{"NodesReady"}},
		},
	})
	extension := plane.Run(t)
	request := map[string]any{
		"apiVersion": runtimehooksv1.GroupVersion.String(), "kind": "BeforeClusterUpgradeRequest",
		"cluster": cluster, "fromKubernetesVersion": from, "toKubernetesVersion": to,
	}
	caller := extension.Client(t, nil)
	ask := func() (answer wire.Answer, err error) {
		_, body, err := extension.Post(t.Context(), caller, extension.Hooks+wire.BeforeClusterUpgrade.Path(), request)
		if err == nil {
			err = json.Unmarshal(body, &answer)
		}
		return answer, err
	}
	passes := func(a wire.Answer) bool {
		return a.Status == runtimehooksv1.ResponseStatusSuccess && a.RetryAfterSeconds == 0
	}
	if answer, err := ask(); err != nil || !passes(answer) {
		t.Fatalf("the first caller got %+v, %v", answer, err)
	}
	type outcome struct {
		answer wire.Answer
		err    error
	}
	outcomes := make(chan outcome)
	for range callers {
		go func() {
			answer, err := ask()
			outcomes <- outcome{answer, err}
		}()
	}
	held := map[string]int{}
	for range callers {
		got := <-outcomes
		if got.err != nil {
			t.Error(got.err)
		}
		answer := got.answer
		if strings.Contains(answer.Message, "cannot be asked") {
			t.Errorf("a caller is told that a healthy cluster is unreachable: %s", answer.Message)
		}
		if !passes(answer) {
			held[answer.Message]++
		}
	}
	if len(held) == 0 {
		t.Error("no caller was held back: the test does not reach the limit")
	}
	t.Logf("held back: %v", held)
	if answer, err := ask(); err != nil || !passes(answer) {
		t.Errorf("a later caller got %+v, %v", answer, err)
	}
}
