package topology_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/topology"
)

// world is an API server that counts requests, can fail them, and knows dry runs, with the objects of one file in it.
type world struct {
	t      *testing.T
	scheme *runtime.Scheme
	inner  client.WithWatch
	client client.WithWatch
	// dry is where dry runs happen.
	dry     client.WithWatch
	objects *topology.Objects
	now     time.Time
	key     client.ObjectKey

	mu       sync.Mutex
	requests []string
	events   []string
	// fail fails a write after it was counted; lost writes are carried out first.
	fail func(verb, kind string) (err error, lost bool)
	// lastName is that of the object written last.
	lastName string
	uids     int
}

func (w *world) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	w.events = append(w.events, reason+" "+fmt.Sprintf(note, args...))
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func newWorld(t *testing.T, path string) *world {
	t.Helper()
	w := &world{t: t, scheme: runtime.NewScheme(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(w.scheme); err != nil {
			t.Fatal(err)
		}
	}
	w.inner, w.dry = w.fake().Build(), w.fake().Build()
	w.client = interceptor.NewClient(w.inner, interceptor.Funcs{
		Apply: w.apply,
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			return w.write("create", object, func() error { object.SetUID(w.uid()); return c.Create(ctx, object, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			return w.write("delete", object, func() error { return c.Delete(ctx, object, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return w.write("patch", object, func() error { return c.Patch(ctx, object, patch, opts...) })
		},
	})
	w.load(path)
	w.restart()
	return w
}

func (w *world) fake() *fake.ClientBuilder {
	return fake.NewClientBuilder().WithScheme(w.scheme).WithReturnManagedFields().WithStatusSubresource(&clusterv1.Cluster{})
}

// restart forgets everything that a process remembers.
func (w *world) restart() {
	w.t.Helper()
	objects, err := topology.New(topology.Options{
		Client: w.client, APIReader: w.client, Runtime: patcher{}, Recorder: w, Now: func() time.Time { return w.now },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.objects = objects
}

func (w *world) uid() types.UID {
	w.uids++
	return types.UID(fmt.Sprintf("uid-%d", w.uids))
}

// load creates the objects of a file, and a CustomResourceDefinition for each kind that is not a Cluster API type.
func (w *world) load(path string) {
	w.t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	defined := map[schema.GroupKind]bool{}
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			w.t.Fatal(err)
		}
		object.SetUID(w.uid())
		if object.GetNamespace() == "" {
			object.SetNamespace("default")
		}
		if object.GetKind() == "Cluster" {
			w.key = client.ObjectKeyFromObject(object)
		}
		if err := w.inner.Create(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
		kind := object.GroupVersionKind()
		for _, name := range []string{kind.Kind, strings.TrimSuffix(kind.Kind, "Template")} {
			gk := schema.GroupKind{Group: kind.Group, Kind: name}
			if kind.Group == clusterv1.GroupVersion.Group || defined[gk] {
				continue
			}
			defined[gk] = true
			definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
				Name: contract.CalculateCRDName(gk.Group, gk.Kind), Labels: map[string]string{"cluster.x-k8s.io/" + kind.Version: kind.Version},
			}}
			if err := w.inner.Create(w.t.Context(), definition); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// write counts a write, and fails it if the test says so.
func (w *world) write(verb string, object client.Object, do func() error) error {
	w.mu.Lock()
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1beta2.")
	}
	w.requests = append(w.requests, verb+" "+kind)
	w.lastName = object.GetName()
	fail := w.fail
	w.mu.Unlock()
	if fail != nil {
		if err, lost := fail(verb, kind); err != nil {
			if lost {
				if err := do(); err != nil {
					return err
				}
			}
			return err
		}
	}
	return do()
}

// apply is server-side apply with what the fake client lacks: dry runs, UIDs, and the check of a UID.
func (w *world) apply(ctx context.Context, c client.WithWatch, configuration runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	encoded, err := json.Marshal(configuration)
	if err != nil {
		return err
	}
	intent := &unstructured.Unstructured{}
	if err := json.Unmarshal(encoded, &intent.Object); err != nil {
		return err
	}
	options := (&client.ApplyOptions{}).ApplyOptions(opts)
	dry := len(options.DryRun) > 0
	options.DryRun = nil
	verb := "apply"
	if dry {
		verb = "dry-run"
	}
	return w.write(verb, intent, func() error {
		existing := &unstructured.Unstructured{}
		existing.SetGroupVersionKind(intent.GroupVersionKind())
		err := c.Get(ctx, client.ObjectKeyFromObject(intent), existing)
		found := err == nil
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if want := intent.GetUID(); want != "" && (!found || existing.GetUID() != want) {
			return apierrors.NewConflict(schema.GroupResource{Resource: intent.GetKind()}, intent.GetName(), fmt.Errorf("uid mismatch"))
		}
		target := client.Client(c)
		if dry {
			target = w.dry
			if found {
				copied := existing.DeepCopy()
				copied.SetResourceVersion("")
				copied.SetFinalizers(nil) // the copy must go when it was looked at
				if err := target.Create(ctx, copied); err != nil {
					return err
				}
			}
			defer func() { _ = target.Delete(ctx, existing) }() // it may not exist
		}
		err = target.Apply(ctx, configuration, options)
		if err == nil && dry {
			return withoutDots(configuration)
		}
		if err != nil || found {
			return err
		}
		// The fake client takes a given UID for a precondition, also when it creates.
		object, ok := configuration.(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", configuration)
		}
		created := &unstructured.Unstructured{}
		created.SetGroupVersionKind(intent.GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(intent), created); err != nil {
			return err
		}
		created.SetUID(w.uid())
		if err := c.Update(ctx, created); err != nil {
			return err
		}
		object.SetUID(created.GetUID())
		object.SetResourceVersion(created.GetResourceVersion())
		return nil
	})
}

// withoutDots removes from managed fields that a map of annotations is owned besides its entries: the fake client says so for lack of a
// schema, and the patch helper, which adds an annotation to dry runs, takes it for a change of an object that had none.
func withoutDots(configuration runtime.ApplyConfiguration) error {
	object, ok := configuration.(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", configuration)
	}
	entries := object.GetManagedFields()
	for i := range entries {
		raw := strings.ReplaceAll(string(entries[i].FieldsV1.GetRawBytes()), `"f:annotations":{".":{},"f:topology.cluster.x-k8s.io/dry-run":{}}`, `"f:annotations":{"f:topology.cluster.x-k8s.io/dry-run":{}}`)
		entries[i].FieldsV1.SetRawBytes([]byte(raw))
	}
	object.SetManagedFields(entries)
	return nil
}

// take returns the writes since the last call.
func (w *world) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.requests
	w.requests = nil
	return taken
}

func (w *world) cluster() *clusterv1.Cluster {
	w.t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := w.inner.Get(w.t.Context(), w.key, cluster); err != nil {
		w.t.Fatal(err)
	}
	return cluster
}

// read reads what a reconciliation reads.
func (w *world) read() (*scope.ClusterBlueprint, *scope.ClusterState) {
	w.t.Helper()
	cluster, class := w.cluster(), &clusterv1.ClusterClass{}
	if err := w.inner.Get(w.t.Context(), cluster.GetClassKey(), class); err != nil {
		w.t.Fatal(err)
	}
	blueprint, err := w.objects.ReadBlueprint(w.t.Context(), cluster, class)
	if err != nil {
		w.t.Fatal(err)
	}
	current, err := w.objects.ReadCurrent(w.t.Context(), cluster, blueprint)
	if err != nil {
		w.t.Fatal(err)
	}
	return blueprint, current
}

// everywhere is one version for all objects.
func everywhere(cluster *clusterv1.Cluster, version string) topology.Versions {
	versions := topology.Versions{ControlPlane: version, MachineDeployments: map[string]topology.Worker{}, MachinePools: map[string]topology.Worker{}}
	for _, group := range cluster.Spec.Topology.Workers.MachineDeployments {
		versions.MachineDeployments[group.Name] = topology.Worker{Version: version}
	}
	for _, group := range cluster.Spec.Topology.Workers.MachinePools {
		versions.MachinePools[group.Name] = topology.Worker{Version: version}
	}
	return versions
}

// reconcile reads, computes and applies once.
func (w *world) reconcile(versions topology.Versions, options topology.ApplyOptions) (topology.Result, error) {
	w.t.Helper()
	blueprint, current := w.read()
	desired, err := w.objects.ComputeDesired(w.t.Context(), blueprint, current, versions)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.objects.Apply(w.t.Context(), blueprint, current, desired, versions, options)
}

// settle reconciles at the topology's version, until nothing is written.
func (w *world) settle() {
	w.t.Helper()
	var last []string
	for range 5 {
		if _, err := w.reconcile(everywhere(w.cluster(), w.cluster().Spec.Topology.Version), topology.ApplyOptions{}); err != nil {
			w.t.Fatal(err)
		}
		if last = w.take(); len(last) == 0 {
			return
		}
		w.adopt()
	}
	w.t.Fatalf("there is always something to write: %s", last)
}

// adopt makes the Cluster the owner of its infrastructure and control plane, as the Cluster's own controller does, and forgets owners that are
// gone, as the garbage collector does.
func (w *world) adopt() {
	w.t.Helper()
	_, current := w.read()
	for _, object := range []*unstructured.Unstructured{current.InfrastructureCluster, current.ControlPlane.Object} {
		owners := object.GetOwnerReferences()
		if err := w.inner.Get(w.t.Context(), client.ObjectKey{Namespace: w.key.Namespace, Name: w.key.Name + "-shim"}, &corev1.Secret{}); err != nil {
			owners = slices.DeleteFunc(owners, func(owner metav1.OwnerReference) bool { return owner.Kind == "Secret" })
		}
		if len(owners) == len(object.GetOwnerReferences()) && slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool { return owner.Kind == "Cluster" }) {
			continue
		}
		object.SetOwnerReferences(util.EnsureOwnerRef(owners, metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: current.Cluster.Name, UID: current.Cluster.UID,
		}))
		if err := w.inner.Update(w.t.Context(), object, client.FieldOwner("manager")); err != nil {
			w.t.Fatal(err)
		}
	}
}

// patcher is an extension of an external patch: it puts the versions that it was told into infrastructure templates.
type patcher struct{ runtimeclient.Client }

func (patcher) CallExtension(_ context.Context, _ runtimecatalog.Hook, _ client.Object, _ string, request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject, _ ...runtimeclient.CallExtensionOption) error {
	generate, ok := request.(*runtimehooksv1.GeneratePatchesRequest)
	if !ok {
		return fmt.Errorf("unexpected %T", request)
	}
	for _, item := range generate.Items {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(item.Object.Raw, object); err != nil {
			return err
		}
		if object.GetKind() != "DevMachineTemplate" {
			continue
		}
		builtin := runtimehooksv1.Builtins{}
		for _, variable := range item.Variables {
			if variable.Name == "builtin" {
				if err := json.Unmarshal(variable.Value.Raw, &builtin); err != nil {
					return err
				}
			}
		}
		version := ""
		if builtin.ControlPlane != nil {
			version = builtin.ControlPlane.Version
		}
		if builtin.MachineDeployment != nil {
			version = builtin.MachineDeployment.Version
		}
		answer, ok := response.(*runtimehooksv1.GeneratePatchesResponse)
		if !ok {
			return fmt.Errorf("unexpected %T", response)
		}
		answer.Items = append(answer.Items, runtimehooksv1.GeneratePatchesResponseItem{
			UID: item.UID, PatchType: runtimehooksv1.JSONPatchType,
			Patch: fmt.Appendf(nil, `[{"op":"add","path":"/spec/template/spec/external","value":%q}]`, version),
		})
	}
	return nil
}

func fixture(name string) string { return filepath.Join("testdata", name+".yaml") }
