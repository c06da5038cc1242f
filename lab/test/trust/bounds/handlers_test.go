package bounds

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// What the first tenant has when the extension runs. Its stored objects have more than storedBytes.
const groups, rivals, annotated, stored = 200, 100, 50, 106

// requests returns the largest request of each handler, by its path.
var requests = map[string]func(*testing.T, *world) any{
	"/guard-machine": review,
	"/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery": func(*testing.T, *world) any {
		return request("DiscoveryRequest", map[string]any{
			"settings": map[string]string{"filler": filler(3 << 20)},
		})
	},
	wire.BeforeClusterUpgrade.Path():      aboutCluster(wire.BeforeClusterUpgrade),
	wire.BeforeControlPlaneUpgrade.Path(): aboutCluster(wire.BeforeControlPlaneUpgrade),
	wire.AfterControlPlaneUpgrade.Path():  aboutCluster(wire.AfterControlPlaneUpgrade),
	wire.BeforeWorkersUpgrade.Path():      aboutCluster(wire.BeforeWorkersUpgrade),
	wire.AfterWorkersUpgrade.Path():       aboutCluster(wire.AfterWorkersUpgrade),
	wire.AfterClusterUpgrade.Path():       aboutCluster(wire.AfterClusterUpgrade),
	wire.GenerateUpgradePlan.Path():       aboutCluster(wire.GenerateUpgradePlan),
	wire.CanUpdateMachineSet.Path(): func(_ *testing.T, w *world) any {
		objects := func(infrastructure any) map[string]any {
			return map[string]any{
				"machineSet":                    w.object("MachineSet", "md-0"),
				"infrastructureMachineTemplate": infrastructure,
				"bootstrapConfigTemplate":       w.object("KubeadmConfigTemplate", "md-0"),
			}
		}
		return request("CanUpdateMachineSetRequest", map[string]any{
			"current": objects(w.object("DevMachineTemplate", "a")),
			"desired": objects(map[string]any{"kind": "DevMachineTemplate", "spec": leaves()}),
		})
	},
	wire.CanUpdateMachine.Path(): func(_ *testing.T, w *world) any {
		objects := func(infrastructure any) map[string]any {
			return map[string]any{
				"machine": w.object("Machine", "m-0"), "infrastructureMachine": infrastructure,
				"bootstrapConfig": w.object("KubeadmConfig", "m-0"),
			}
		}
		return request("CanUpdateMachineRequest", map[string]any{
			"current": objects(w.object("DevMachine", "m-0")),
			"desired": objects(map[string]any{"kind": "DevMachine", "spec": leaves()}),
		})
	},
	wire.UpdateMachine.Path(): func(_ *testing.T, w *world) any {
		return request("UpdateMachineRequest", map[string]any{"desired": map[string]any{
			"machine":               w.object("Machine", "m-0"),
			"infrastructureMachine": map[string]any{"kind": "DevMachine", "spec": leaves()},
			"bootstrapConfig":       w.object("KubeadmConfig", "m-0"),
		}})
	},
}

// request is a request of a hook.
func request(kind string, fields map[string]any) map[string]any {
	fields["apiVersion"], fields["kind"] = runtimehooksv1.GroupVersion.String(), kind
	return fields
}

// object is an object of the first tenant.
func (w *world) object(kind, name string) map[string]any {
	return map[string]any{
		"apiVersion": clusterv1.GroupVersion.String(), "kind": kind,
		"metadata": map[string]any{"name": name, "namespace": w.namespace},
		"spec":     map[string]any{"clusterName": "c", "version": wire.From},
	}
}

// leaves has as many values as one request may have: the intake reserves memory for each. They are
// deep, so a list of their paths would be much longer than they are.
func leaves() map[string]any {
	const wide, deep = 10_000, 30
	all := map[string]any{}
	for i := range wide {
		all[fmt.Sprint(i)] = i
	}
	for range deep {
		all = map[string]any{"deeper": all}
	}
	return all
}

// aboutCluster returns a request about the first tenant's Cluster, with everything that hooks about
// Clusters may read.
func aboutCluster(hook wire.Hook) func(*testing.T, *world) any {
	return func(_ *testing.T, w *world) any {
		cluster := w.object("Cluster", "c")
		cluster["metadata"] = map[string]any{
			"name": "c", "namespace": w.namespace,
			"annotations": map[string]string{"filler": filler(3 << 20)},
		}
		return request(hook.Hook+"Request", map[string]any{
			"cluster": cluster, "settings": map[string]string{"graph": w.graph.Name},
			"fromKubernetesVersion": "v1.20.0", "toKubernetesVersion": "v1.35.15",
			"fromControlPlaneKubernetesVersion": "v1.20.0", "fromWorkersKubernetesVersion": "v1.20.0",
			"kubernetesVersion": "v1.21.0",
		})
	}
}

// review asks about the deletion of a Machine whose annotations are as large as the API server
// accepts, in a namespace with the largest policies.
func review(t *testing.T, w *world) any {
	t.Helper()
	m := w.machine("m-0")
	w.plane.Get(t, m)
	m.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"}
	m.Annotations["filler"] = filler(3 << 20)
	return reviewOf(t, admissionv1.Delete, m)
}

// reviewOf is a review of an object with its type.
func reviewOf(t *testing.T, operation admissionv1.Operation, o client.Object) admissionv1.AdmissionReview {
	t.Helper()
	kind := o.GetObjectKind().GroupVersionKind()
	request := &admissionv1.AdmissionRequest{
		UID: "bounds", Operation: operation, Namespace: o.GetNamespace(), Name: o.GetName(),
		Kind: metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
	}
	raw := runtime.RawExtension{Raw: encoded(t, o)}
	if operation == admissionv1.Delete {
		request.OldObject = raw
	} else {
		request.Object = raw
	}
	return admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request:  request,
	}
}

// runExtension starts `windlass extension`, with the rows of its handlers.
func runExtension(t *testing.T, w *world) *program {
	t.Helper()
	m, plane := newMeter(t, w.plane)
	p := &program{
		process: plane.Run(t, "--insecure-diagnostics"), meter: m, requests: requests,
		reconcilers: extensionReconcilers, sends: extensionSends, copies: 4.5,
	}
	p.at = func(path string) string {
		if strings.HasPrefix(path, "/hooks.") {
			return p.process.Hooks + path
		}
		return p.process.Guard + path
	}
	question, client := w.other.Question(t), p.process.Client(t, nil)
	p.asOther = func(ctx context.Context) (int, []byte, error) {
		url := p.process.Hooks + wire.CanUpdateMachineSet.Path()
		return p.process.Post(ctx, client, url, question)
	}
	return p
}

// live are the reads of objects that ask for an upgrade. Each goes with one of its Cluster, and one of
// the Machines of its group.
var live = []string{"get machines", "get machinedeployments"}

var (
	ofMachines = []string{"in-place-upgrade-machine"}
	ofGroups   = []string{"in-place-upgrade-group"}
	ofBoth     = append(ofMachines, ofGroups...)
	ofPolicies = []string{"updatepolicy"}
)

// large is how many bytes a request about an object with large annotations has with its answer, which
// has its managed fields; small is that of others.
const large, small = annotationBytes + 32<<10, 64 << 10

// ofDeployments is how many bytes a list of all MachineDeployments has.
const ofDeployments = (annotated+managed)*large + groups*small/16

// extensionSends is what the reconcilers of the extension may send to the API server. What they read
// again for each reconcile is an object, and never what a namespace has.
var extensionSends = map[string]sent{
	"discovery":                             {once: 10, size: small},
	"get clusters":                          {once: slack, with: live, size: large},
	"get machinedeployments":                {once: 4*annotated + slack, size: large},
	"get machines":                          {once: slack, per: 1, by: ofMachines, size: large},
	"list machines":                         {once: groups + managed + slack, with: live, size: large},
	"list kubeadmcontrolplanes":             {once: 2, per: 1, by: ofPolicies, size: small},
	"list machinedeployments":               {once: 2, per: 1, by: ofPolicies, size: ofDeployments},
	"patch machinedeployments":              {once: 3 * annotated, size: large},
	"patch machinedeployments/status":       {once: 3 * annotated, size: large},
	"patch machines/status":                 {once: 3 * annotated, size: large},
	"patch updatepolicies/status":           {once: 2 * (rivals + stored), size: 2 * small},
	"patch updaters/status":                 {once: 2 * stored, size: 2 * small},
	"patch upgradegates/status":             {once: 2 * stored, size: small},
	"patch upgradegraphs/status":            {once: 2, size: small},
	"post events":                           {once: 4 * annotated, size: small},
	"watch clusters":                        {once: 2, size: 4 * large},
	"watch customresourcedefinitions":       {once: 2, size: small},
	"watch machinedeployments":              {once: 2, size: 2 * ofDeployments},
	"watch machines":                        {once: 4, size: 2 * ofDeployments},
	"watch namespaces":                      {once: 2, size: small},
	"watch updatepolicies":                  {once: 2, size: 2 * storedBytes},
	"watch updaters":                        {once: 2, size: 4 * small},
	"watch upgradegates":                    {once: 2, size: storedBytes},
	"watch upgradegraphs":                   {once: 2, size: small},
	"watch validatingwebhookconfigurations": {once: 2, size: small},
}

// extensionReconcilers look at the objects of newWorld.
var extensionReconcilers = map[string]reconciler{
	"updatepolicy": {1, 40, func(t *testing.T, w *world) {
		t.Helper()
		await(t, w, &v1alpha1.UpdatePolicyList{}, func(p *v1alpha1.UpdatePolicy) string {
			return bounded(p.Generation, p.Status.ObservedGeneration, p.Status.Conditions)
		}, client.InNamespace(w.namespace))
	}},
	"upgradegate": {stored, 4 * stored, func(t *testing.T, w *world) {
		t.Helper()
		await(t, w, &v1alpha1.UpgradeGateList{}, func(g *v1alpha1.UpgradeGate) string {
			return bounded(g.Generation, g.Status.ObservedGeneration, g.Status.Conditions)
		}, client.InNamespace(w.namespace))
	}},
	"upgradegraph": {1, 10, func(t *testing.T, w *world) {
		t.Helper()
		await(t, w, &v1alpha1.UpgradeGraphList{}, func(g *v1alpha1.UpgradeGraph) string {
			return bounded(g.Generation, g.Status.ObservedGeneration, g.Status.Conditions)
		})
	}},
	"updater": {1, 10, func(t *testing.T, w *world) {
		t.Helper()
		await(t, w, &v1alpha1.UpdaterList{}, func(u *v1alpha1.Updater) string {
			return bounded(u.Generation, u.Status.ObservedGeneration, u.Status.Conditions)
		})
	}},
	"in-place-upgrade-machine": {annotated, 0, machinesAnswered},
	"in-place-upgrade-group":   {annotated, 0, groupsAnswered},
	// It looks at Clusters, whose annotations are large, and writes nothing.
	"in-place-upgrade-kinds": {1, 20, nil},
}

func machinesAnswered(t *testing.T, w *world) {
	t.Helper()
	await(t, w, &clusterv1.MachineList{}, func(o *clusterv1.Machine) string {
		return answered(o, o.Status.Conditions)
	}, client.InNamespace(w.namespace))
}

func groupsAnswered(t *testing.T, w *world) {
	t.Helper()
	await(t, w, &clusterv1.MachineDeploymentList{}, func(o *clusterv1.MachineDeployment) string {
		return answered(o, o.Status.Conditions)
	}, client.InNamespace(w.namespace))
}

// bounded returns why a status is not the one of the object's generation, or has a text that is too
// long.
func bounded(generation, observed int64, conditions []metav1.Condition) string {
	if observed != generation || meta.FindStatusCondition(conditions, v1alpha1.ReadyCondition) == nil {
		return "has no status yet"
	}
	for _, c := range conditions {
		if len(c.Message) > v1alpha1.MaxConditionMessageLength {
			return fmt.Sprintf("has a message of %d bytes in %s", len(c.Message), c.Type)
		}
	}
	return ""
}

// answered returns why an object that asks for an upgrade has no answer.
func answered(o client.Object, conditions []metav1.Condition) string {
	if _, asks := o.GetAnnotations()[v1alpha1.DefaultInPlaceUpgradePrefix+v1alpha1.InPlaceUpgradeTo]; !asks {
		return ""
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.InPlaceUpgradeCondition); c == nil || c.Reason == "" {
		return "has no condition yet"
	}
	return ""
}
