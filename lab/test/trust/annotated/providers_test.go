package annotated_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

// provider is a control plane provider: how its kind differs from KubeadmControlPlane. Of both, the
// list of conditions has no keys, so whoever applies it replaces it.
type provider struct {
	kind, plural string
	// contract is the version of Cluster API's contract that the kind keeps.
	contract string
	// build ends the provider's versions of Kubernetes.
	build string
}

var providers = []provider{
	{kind: "RKE2ControlPlane", plural: "rke2controlplanes", contract: "v1beta2", build: "+rke2r1"},
	{kind: "CK8sControlPlane", plural: "ck8scontrolplanes", contract: "v1beta1"},
}

func (p provider) gvk() schema.GroupVersionKind {
	return schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2"}.WithKind(p.kind)
}

// crdsVariable names a folder with the providers' own CustomResourceDefinitions, as their
// repositories have them in controlplane/config/crd/bases. They take the place of ours.
const crdsVariable = "WINDLASS_PROVIDER_CRDS"

// definition is the CustomResourceDefinition: the provider's own if there is one, otherwise what
// matters of it here.
func (p provider) definition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	folder := os.Getenv(crdsVariable)
	if folder == "" {
		return p.shape()
	}
	data, err := os.ReadFile(filepath.Join(folder, p.gvk().Group+"_"+p.plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	own := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(data, own); err != nil {
		t.Fatal(err)
	}
	own.Labels = p.shape().Labels // Providers add them when they build their manifests.
	return own
}

func (p provider) shape() *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	anything := new(true)
	condition := apiextensionsv1.JSONSchemaProps{
		Type: "object", Required: []string{"lastTransitionTime", "status", "type"},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"type": text, "status": text, "severity": text, "reason": text, "message": text,
			"lastTransitionTime": {Type: "string", Format: "date-time"},
		},
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:   p.plural + "." + p.gvk().Group,
			Labels: map[string]string{"cluster.x-k8s.io/" + p.contract: "v1beta1_v1beta2"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: p.gvk().Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: p.kind, Plural: p.plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: p.gvk().Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", XPreserveUnknownFields: anything},
						"status": {Type: "object", XPreserveUnknownFields: anything, Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"conditions": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &condition}},
						}},
					},
				}},
			}},
		},
	}
}

// object is a control plane with the condition that its provider has written.
func (p provider) object(namespace string, replicas int) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"replicas": int64(replicas), "version": wire.From + p.build,
			"rolloutStrategy": map[string]any{"type": "RollingUpdate"},
		},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": "Available", "status": "True", "reason": "Available", "message": "it answers",
			"lastTransitionTime": "2026-01-01T00:00:00Z",
		}}},
	}}
	object.SetGroupVersionKind(p.gvk())
	object.SetNamespace(namespace)
	object.SetName("cp")
	object.SetLabels(map[string]string{clusterv1.ClusterNameLabel: wire.ClusterName})
	return object
}

// newControlPlane makes a pool whose machines are those of a provider's control plane.
func (p provider) newControlPlane(
	t *testing.T, plane *wire.Plane, machines ...string,
) (*wire.Pool, *unstructured.Unstructured) {
	t.Helper()
	pool := plane.NewPool(t, machines...)
	object := p.object(pool.Namespace, len(machines))
	plane.Create(t, object)
	plane.Get(t, object)
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: wire.ClusterName},
	}
	plane.Get(t, cluster)
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: p.gvk().Group, Kind: p.kind, Name: object.GetName(),
	}
	if err := plane.Client.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	for _, name := range machines {
		m := pool.Machine(t, name)
		m.Labels = map[string]string{
			clusterv1.ClusterNameLabel: wire.ClusterName, clusterv1.MachineControlPlaneLabel: "",
		}
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(object, p.gvk())}
		m.Spec.Version = wire.From + p.build
		if err := plane.Client.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: wire.From + p.build}
		meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
			Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "NodeReady",
		})
		if err := plane.Client.Status().Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		pool.Workload.SetNode(name, wire.From+p.build)
	}
	return pool, object
}

// upgrade asks for another version of a control plane, and waits until all of it has that. Windlass
// writes nothing in the provider's status meanwhile.
func upgrade(t *testing.T, plane *wire.Plane, object *unstructured.Unstructured, option string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(object.GroupVersionKind())
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, toAnnotation, option)
	ask := client.RawPatch("application/merge-patch+json", patch)
	if err := plane.Client.Patch(ctx, object.DeepCopy(), ask); err != nil {
		t.Fatal(err)
	}
	last := object
	err := wire.Await(ctx, plane.Client, list, func(seen *unstructured.Unstructured) bool {
		last = seen
		if diff := cmp.Diff(object.Object["status"], seen.Object["status"]); diff != "" {
			t.Errorf("the provider's status was changed (-before +after):\n%s", diff)
		}
		annotations := seen.GetAnnotations()
		return annotations[statusAnnotation] == "done" && annotations[releaseAnnotation] == option
	}, client.InNamespace(object.GetNamespace()))
	if err != nil {
		t.Fatalf("waiting for the end of the upgrade: %v: annotations %v", err, last.GetAnnotations())
	}
}

// TestProvidersByAnnotation upgrades control planes of other providers, a machine at a time.
func TestProvidersByAnnotation(t *testing.T) {
	plane := wire.Start(t)
	for _, p := range providers {
		t.Run(p.kind, func(t *testing.T) {
			define(t, plane, p.definition(t))
			pool, object := p.newControlPlane(t, plane, "cp-0", "cp-1")
			updater := register(t, plane, pool, "trust-"+p.plural, nil)
			one := &turns{}
			updater.Update = func(r *runtimehooksv1.UpdateMachineRequest) wire.Answer {
				m := r.Desired.Machine
				if !one.worked(t, m.Name) {
					return wire.Answer{Status: runtimehooksv1.ResponseStatusSuccess, Message: "at work", RetryAfterSeconds: 1}
				}
				pool.Workload.SetNode(m.Name, m.Spec.Version)
				return wire.Answer{Status: runtimehooksv1.ResponseStatusSuccess}
			}
			plane.Restricted(t).Run(t)
			upgrade(t, plane, object, "version="+wire.To+p.build)
			one.check(t, "cp-0", "cp-1")
		})
	}
}

// TestProvidersByHandOver is TestProvidersByAnnotation with an updater that is given the machines.
func TestProvidersByHandOver(t *testing.T) {
	plane := wire.Start(t)
	for _, p := range providers {
		t.Run(p.kind, func(t *testing.T) {
			define(t, plane, p.definition(t))
			pool, object := p.newControlPlane(t, plane, "cp-0", "cp-1")
			one := &turns{}
			takeOver(t, plane, pool, "trust-over-"+p.plural, one)
			plane.Restricted(t).Run(t)
			upgrade(t, plane, object, "version="+wire.To+p.build)
			one.check(t, "cp-0", "cp-1")
		})
	}
}

// turns holds that machines are worked on one after the other.
type turns struct {
	mu   sync.Mutex
	busy string
	done []string
}

// worked begins the work on a machine, and ends it with the second call.
func (o *turns) worked(t *testing.T, machine string) bool {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy != "" && o.busy != machine {
		t.Errorf("%s is worked on beside %s", machine, o.busy)
	}
	if o.busy == "" {
		o.busy = machine
		return false
	}
	o.busy, o.done = "", append(o.done, machine)
	return true
}

func (o *turns) check(t *testing.T, machines ...string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := map[string]bool{}
	for _, name := range o.done {
		seen[name] = true
	}
	if len(o.done) != len(machines) || len(seen) != len(machines) {
		t.Errorf("worked on %q, want each of %q once", o.done, machines)
	}
}

// takeOver registers an updater that is given the machines of a pool, and marks each one itself.
func takeOver(t *testing.T, plane *wire.Plane, pool *wire.Pool, name string, one *turns) {
	t.Helper()
	authority := loopback.NewAuthority(t, "updater")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := updatesv1.HandOverRequest{}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if request.Phase == updatesv1.Start {
			machine, desired := request.Machines[0].Name, clusterv1.Machine{}
			if err := json.Unmarshal(request.Desired.Machine.Raw, &desired); err != nil {
				t.Error(err)
			}
			one.worked(t, machine)
			pool.Workload.SetNode(machine, desired.Spec.Version)
			one.worked(t, machine)
			pool.Annotate(t, machine, map[string]any{v1alpha1.UpdatedAnnotation: request.OperationID}) //nolint:contextcheck // The test bounds it.
		}
		_ = json.NewEncoder(w).Encode(updatesv1.HandOverResponse{ // The caller may be gone.
			APIVersion: updatesv1.APIVersion, Kind: updatesv1.HandOverResponseKind, Accepted: true,
		})
	}))
	server.TLS = authority.Server(t)
	server.StartTLS()
	t.Cleanup(server.Close)
	plane.Create(t, &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.UpdaterSpec{
		NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": pool.Namespace},
		},
		Remote: &v1alpha1.RemoteUpdater{
			Protocol: v1alpha1.HandOverProtocol, URL: server.URL, CABundle: authority.PEM,
			TimeoutSeconds: 20, FailurePolicy: v1alpha1.UpdaterFail,
		},
	}})
}
