// Package fakeapi is an API server for tests: controller-runtime's fake client with what it lacks, which is generations, UIDs, dry runs of
// server-side apply, and a record of the writes that can be made to fail.
package fakeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/cluster-api/util/index"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

// API is an API server. Clusters, and the kinds that New was told of, have a status subresource.
type API struct {
	tb     testing.TB
	Scheme *runtime.Scheme
	// Inner is for the test itself: its requests are neither recorded nor failed.
	Inner client.WithWatch
	// Client is for what is tested.
	Client client.WithWatch
	// Key is that of the Cluster that was loaded last.
	Key client.ObjectKey
	// Fail, if there is one, fails a write of Client after it was recorded; lost writes are carried out first.
	Fail func(verb, kind string) (err error, lost bool)
	// LastName is the name of the object that was written last.
	LastName string

	// statuses are objects of the kinds with a status subresource.
	statuses []client.Object
	// dry is where dry runs happen.
	dry        client.WithWatch
	dryTracker *tracker
	mu         sync.Mutex
	requests   []string
	versions   map[schema.GroupKind]string
}

// New returns an API server with the objects of a file. An empty path means no objects. The kinds of statuses have a status subresource.
func New(tb testing.TB, path string, statuses ...client.Object) *API {
	tb.Helper()
	a := &API{tb: tb, Scheme: runtime.NewScheme(), versions: map[schema.GroupKind]string{}, statuses: append(statuses, &clusterv1.Cluster{})}
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, corev1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(a.Scheme); err != nil {
			tb.Fatal(err)
		}
	}
	a.dryTracker = newTracker(a.Scheme)
	a.Inner, a.dry = a.build(newTracker(a.Scheme)), a.build(a.dryTracker)
	a.Client = interceptor.NewClient(a.Inner, interceptor.Funcs{
		Apply: a.apply,
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			return a.write("create", object, func() error { return c.Create(ctx, object, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.UpdateOption) error {
			return a.write("update", object, func() error { return c.Update(ctx, object, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			return a.write("delete", object, func() error { return c.Delete(ctx, object, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return a.write("patch", object, func() error { return c.Patch(ctx, object, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return a.write("patch-"+subresource, object, func() error { return c.SubResource(subresource).Patch(ctx, object, patch, opts...) })
		},
	})
	if path != "" {
		a.Load(path)
	}
	return a
}

func (a *API) build(t *tracker) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(a.Scheme).WithObjectTracker(t).WithReturnManagedFields().
		WithStatusSubresource(a.statuses...).WithIndex(&clusterv1.Cluster{}, index.ClusterClassRefPath, index.ClusterByClusterClassRef).Build()
}

// Load creates the objects of a file, and a CustomResourceDefinition for each kind that is not a Cluster API type.
func (a *API) Load(path string) {
	a.tb.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		a.tb.Fatal(err)
	}
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			a.tb.Fatal(err)
		}
		if object.GetNamespace() == "" {
			object.SetNamespace("default")
		}
		if object.GetKind() == "Cluster" {
			a.Key = client.ObjectKeyFromObject(object)
		}
		if err := a.Inner.Create(a.tb.Context(), object); err != nil {
			a.tb.Fatal(err)
		}
		a.define(object.GroupVersionKind())
	}
}

// Put creates an object as somebody else does, and the CustomResourceDefinition of its kind.
func (a *API) Put(object client.Object) {
	a.tb.Helper()
	kind, err := a.Inner.GroupVersionKindFor(object)
	if err != nil {
		a.tb.Fatal(err)
	}
	if err := a.Inner.Create(a.tb.Context(), object); err != nil {
		a.tb.Fatal(err)
	}
	a.define(kind)
}

// define creates the CustomResourceDefinition of a kind, and that of the kind for which it is a template.
func (a *API) define(kind schema.GroupVersionKind) {
	a.tb.Helper()
	for _, name := range []string{kind.Kind, strings.TrimSuffix(kind.Kind, "Template")} {
		gk := schema.GroupKind{Group: kind.Group, Kind: name}
		if kind.Group == clusterv1.GroupVersion.Group || a.versions[gk] != "" {
			continue
		}
		a.versions[gk] = kind.Version
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
			Name: contract.CalculateCRDName(gk.Group, gk.Kind), Labels: map[string]string{"cluster.x-k8s.io/" + kind.Version: kind.Version},
		}}
		if err := a.Inner.Create(a.tb.Context(), definition); err != nil {
			a.tb.Fatal(err)
		}
	}
}

// write records a write, and fails it if the test says so.
func (a *API) write(verb string, object client.Object, do func() error) error {
	a.mu.Lock()
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1beta2.")
	}
	a.requests = append(a.requests, verb+" "+kind)
	a.LastName = object.GetName()
	fail := a.Fail
	a.mu.Unlock()
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

// apply is server-side apply with what the fake client lacks: dry runs, and the check of a UID.
func (a *API) apply(ctx context.Context, c client.WithWatch, configuration runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
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
	return a.write(verb, intent, func() error {
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
		if !dry {
			return c.Apply(ctx, configuration, options)
		}
		if found {
			if err := a.copyToDry(existing); err != nil {
				return err
			}
		}
		existing.SetNamespace(intent.GetNamespace())
		existing.SetName(intent.GetName())
		defer func() { _ = a.dry.Delete(ctx, existing) }() // it may not exist
		if err := a.dry.Apply(ctx, configuration, options); err != nil {
			return err
		}
		return withoutDots(configuration)
	})
}

// copyToDry puts an object where dry runs happen, with just the owners of fields that it has: a request would make another one own them all.
func (a *API) copyToDry(existing *unstructured.Unstructured) error {
	var copied client.Object = existing.DeepCopy()
	if typed, err := a.Scheme.New(existing.GroupVersionKind()); err == nil {
		object, ok := typed.(client.Object)
		if _, untyped := typed.(*unstructured.Unstructured); ok && !untyped {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(existing.Object, object); err != nil {
				return err
			}
			copied = object
		}
	}
	copied.SetFinalizers(nil) // the copy must go when it was looked at
	return a.dryTracker.Add(copied)
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

// Take returns the writes of Client since the last call, each as verb and kind.
func (a *API) Take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.requests
	a.requests = nil
	return taken
}

// Cluster reads the Cluster.
func (a *API) Cluster() *clusterv1.Cluster {
	a.tb.Helper()
	cluster := &clusterv1.Cluster{}
	if err := a.Inner.Get(a.tb.Context(), a.Key, cluster); err != nil {
		a.tb.Fatal(err)
	}
	return cluster
}

// Referenced reads an object that the Cluster refers to.
func (a *API) Referenced(ref clusterv1.ContractVersionedObjectReference) *unstructured.Unstructured {
	a.tb.Helper()
	object := &unstructured.Unstructured{}
	gk := ref.GroupKind()
	object.SetGroupVersionKind(gk.WithVersion(a.versions[gk]))
	if err := a.Inner.Get(a.tb.Context(), client.ObjectKey{Namespace: a.Key.Namespace, Name: ref.Name}, object); err != nil {
		a.tb.Fatal(err)
	}
	return object
}

// Adopt makes the Cluster the owner of its infrastructure and control plane, as the Cluster's own controller does, and forgets owners that are
// gone, as the garbage collector does.
func (a *API) Adopt() {
	a.tb.Helper()
	cluster := a.Cluster()
	for _, object := range []*unstructured.Unstructured{a.Referenced(cluster.Spec.InfrastructureRef), a.Referenced(cluster.Spec.ControlPlaneRef)} {
		owners := object.GetOwnerReferences()
		if err := a.Inner.Get(a.tb.Context(), client.ObjectKey{Namespace: a.Key.Namespace, Name: a.Key.Name + "-shim"}, &corev1.Secret{}); err != nil {
			owners = slices.DeleteFunc(owners, func(owner metav1.OwnerReference) bool { return owner.Kind == "Secret" })
		}
		if len(owners) == len(object.GetOwnerReferences()) && slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool { return owner.Kind == "Cluster" }) {
			continue
		}
		object.SetOwnerReferences(util.EnsureOwnerRef(owners, metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
		}))
		if err := a.Inner.Update(a.tb.Context(), object, client.FieldOwner("manager")); err != nil {
			a.tb.Fatal(err)
		}
	}
}
