package chain_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

// planned is a Cluster that is to go from one version to another, and the plan that an extension makes for it.
type planned struct {
	name, from, to string
	// controlPlane and workers are the plan: versions with spaces between them.
	controlPlane, workers string
	// says is what the Cluster says of a plan that is refused; empty if the control plane goes to the plan's first version.
	says string
}

// plans has one Cluster for each rule of the answer to GenerateUpgradePlan.
func plans() []planned {
	return []planned{
		{"empty", "v1.32.0", "v1.33.0", "", "", "the list is empty"},
		{"minor-skipped", "v1.31.0", "v1.33.0", "v1.33.0", "", "put a v1.32 version before it"},
		{"not-newer", "v1.32.0", "v1.33.0", "v1.32.0 v1.33.0", "", "newer than v1.32.0"},
		{"backwards", "v1.31.0", "v1.33.0", "v1.32.5 v1.32.1 v1.33.0", "", "newer than v1.32.5"},
		{"beyond", "v1.32.0", "v1.33.0", "v1.33.0 v1.33.1", "", "end the list at v1.33.0"},
		{"short", "v1.31.0", "v1.33.0", "v1.32.0", "", "ends at v1.32.0"},
		{"workers-elsewhere", "v1.31.0", "v1.33.0", "v1.32.1 v1.33.0", "v1.32.0 v1.33.0", "controlPlaneUpgrades"},
		{"workers-not-newer", "v1.31.0", "v1.33.0", "v1.32.0 v1.33.0", "v1.31.0 v1.33.0", "no workers are behind it"},
		{"workers-backwards", "v1.30.0", "v1.33.0", "v1.31.0 v1.32.0 v1.33.0", "v1.32.0 v1.31.0 v1.33.0", "from old to new"},
		{"workers-beyond", "v1.31.0", "v1.32.0", "v1.32.0", "v1.32.0 v1.33.0", "end the list at v1.32.0"},
		{"workers-short", "v1.31.0", "v1.33.0", "v1.32.0 v1.33.0", "v1.32.0", "ends at v1.32.0"},
		{"workers-skew", "v1.29.0", "v1.33.0", "v1.30.0 v1.31.0 v1.32.0 v1.33.0", "v1.33.0", "put a version newer than v1.29 and older than v1.33 before it"},
		{
			"builds-order", "v1.31.0", "v1.31.1+c", "v1.31.1+a v1.31.1+b v1.31.1+c", "v1.31.1+b v1.31.1+a v1.31.1+c",
			"order of controlPlaneUpgrades",
		},
		{"patches", "v1.31.0", "v1.32.0", "v1.31.5 v1.32.0", "", ""},
		{"builds", "v1.31.1+a", "v1.31.1+c", "v1.31.1+b v1.31.1+c", "v1.31.1+b v1.31.1+c", ""},
	}
}

// TestPlansOfExtensions gives the manager plans of another extension, one for each rule of the answer. A plan that breaks a rule
// moves nothing, and the Cluster says which; one that does not begins.
func TestPlansOfExtensions(t *testing.T) {
	plane := wire.Start(t)
	c := &cluster{Plane: plane, namespace: plane.Namespace(t)}
	c.extension = &extension{changed: make(chan struct{}), plans: map[string]runtimehooksv1.GenerateUpgradePlanResponse{}}
	for _, p := range plans() {
		c.extension.plans[p.name] = p.response()
	}
	c.extension.serve(t, plane, c.namespace)
	const list = "kubernetesVersions: [v1.31.0, v1.32.0]"
	external := fmt.Sprintf("upgrade: {external: {generateUpgradePlanExtension: %s.%s}}", wire.GenerateUpgradePlan.Handler, c.namespace)
	c.createClass(t, strings.Replace(class, list, external, 1))
	for _, p := range plans() {
		c.create(t, p.name, p.from, 1)
	}
	for _, p := range plans() {
		c.arriveAt(t, p)
	}
	for _, p := range plans() {
		// Without workers, another rule would be broken; and what an extension says counts for a while.
		await(t, c, &clusterv1.MachineList{}, p.name+" has a worker", func(m *clusterv1.Machine) bool {
			return m.Spec.ClusterName == p.name
		})
		await(t, c, &clusterv1.ClusterList{}, p.name+" is at its first version", func(object *clusterv1.Cluster) bool {
			return object.Name == p.name && strings.Contains(told(object), "ReconcileSucceeded")
		})
		target := &clusterv1.Cluster{}
		target.Namespace, target.Name = c.namespace, p.name
		patch := fmt.Sprintf(`{"spec": {"topology": {"version": %q}}}`, p.to)
		if err := c.Client.Patch(t.Context(), target, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range plans() {
		t.Run(p.name, func(t *testing.T) { c.checkPlan(t, p) })
	}
}

// checkPlan waits for what comes of a plan.
func (c *cluster) checkPlan(t *testing.T, p planned) {
	t.Helper()
	if p.says == "" {
		begins, _, _ := strings.Cut(p.controlPlane, " ")
		await(t, c, &controlplanev1.KubeadmControlPlaneList{}, "the control plane goes to "+begins, func(cp *controlplanev1.KubeadmControlPlane) bool {
			return isOf(cp, p.name) && cp.Spec.Version == begins
		})
		return
	}
	await(t, c, &clusterv1.ClusterList{}, "the Cluster says "+p.says, func(object *clusterv1.Cluster) bool {
		return object.Name == p.name && strings.Contains(told(object), p.says)
	})
	list := &controlplanev1.KubeadmControlPlaneList{}
	if err := c.Client.List(t.Context(), list, client.InNamespace(c.namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if cp := &list.Items[i]; isOf(cp, p.name) && cp.Spec.Version != p.from {
			t.Errorf("the plan was refused, but the control plane goes to %s", cp.Spec.Version)
		}
	}
}

// response is the extension's answer.
func (p planned) response() runtimehooksv1.GenerateUpgradePlanResponse {
	steps := func(versions string) (steps []runtimehooksv1.UpgradeStep) {
		for version := range strings.FieldsSeq(versions) {
			steps = append(steps, runtimehooksv1.UpgradeStep{Version: version})
		}
		return steps
	}
	return runtimehooksv1.GenerateUpgradePlanResponse{
		CommonResponse:       runtimehooksv1.CommonResponse{Status: runtimehooksv1.ResponseStatusSuccess},
		ControlPlaneUpgrades: steps(p.controlPlane), WorkersUpgrades: steps(p.workers),
	}
}

func isOf(cp *controlplanev1.KubeadmControlPlane, cluster string) bool {
	return cp.Labels[clusterv1.ClusterNameLabel] == cluster
}

// arriveAt waits for a Cluster's control plane, and has it report its version.
func (c *cluster) arriveAt(t *testing.T, p planned) {
	t.Helper()
	await(t, c, &controlplanev1.KubeadmControlPlaneList{}, "the control plane of "+p.name+" exists", func(cp *controlplanev1.KubeadmControlPlane) bool {
		if !isOf(cp, p.name) {
			return false
		}
		patch := fmt.Sprintf(`{"status": {"version": %q, "initialization": {"controlPlaneInitialized": true}}}`, p.from)
		if err := c.Client.Status().Patch(t.Context(), cp, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
		return true
	})
}
