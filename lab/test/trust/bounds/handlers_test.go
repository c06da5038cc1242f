package bounds

import (
	"encoding/json"
	"fmt"
	"net/http"
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
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "bounds", Operation: admissionv1.Delete, Namespace: m.Namespace, Name: m.Name,
			OldObject: runtime.RawExtension{Raw: data},
		},
	}
}

// reconciled waits until a reconciler has looked at the largest objects of its kind, and checks what
// it wrote.
var reconciled = map[string]func(*testing.T, *world){
	"updatepolicy": func(t *testing.T, w *world) {
		t.Helper()
		await(t, w, &v1alpha1.UpdatePolicyList{}, func(p *v1alpha1.UpdatePolicy) string {
			return bounded(p.Generation, p.Status.ObservedGeneration, p.Status.Conditions)
		}, client.InNamespace(w.namespace))
	},
	"upgradegate": func(t *testing.T, w *world) {
		t.Helper()
		await(t, w, &v1alpha1.UpgradeGateList{}, func(g *v1alpha1.UpgradeGate) string {
			return bounded(g.Generation, g.Status.ObservedGeneration, g.Status.Conditions)
		}, client.InNamespace(w.namespace))
	},
	"upgradegraph": func(t *testing.T, w *world) {
		t.Helper()
		await(t, w, &v1alpha1.UpgradeGraphList{}, func(g *v1alpha1.UpgradeGraph) string {
			return bounded(g.Generation, g.Status.ObservedGeneration, g.Status.Conditions)
		})
	},
	"updater": func(t *testing.T, w *world) {
		t.Helper()
		await(t, w, &v1alpha1.UpdaterList{}, func(u *v1alpha1.Updater) string {
			return bounded(u.Generation, u.Status.ObservedGeneration, u.Status.Conditions)
		})
	},
	"in-place-upgrade-machine": func(t *testing.T, w *world) {
		t.Helper()
		await(t, w, &clusterv1.MachineList{}, func(o *clusterv1.Machine) string {
			return answered(o, o.Status.Conditions)
		}, client.InNamespace(w.namespace))
	},
	"in-place-upgrade-group": func(t *testing.T, w *world) {
		t.Helper()
		await(t, w, &clusterv1.MachineDeploymentList{}, func(o *clusterv1.MachineDeployment) string {
			return answered(o, o.Status.Conditions)
		}, client.InNamespace(w.namespace))
	},
	// It looks at Clusters, whose annotations are large, and writes nothing.
	"in-place-upgrade-kinds": func(t *testing.T, w *world) {
		t.Helper()
		served := wire.Scrape(t, http.DefaultClient, "http://"+w.extension.Diagnostics)
		if n, _ := served.Value("controller_runtime_reconcile_total", map[string]string{
			"controller": "in-place-upgrade-kinds", "result": "success",
		}); n == 0 {
			t.Error("the reconciler of kinds has looked at nothing")
		}
	},
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
