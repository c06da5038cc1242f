package topology_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/internal/topology"
)

// loseOwners does to an object what the API server may do.
func (w *world) loseOwners(object client.Object) {
	w.t.Helper()
	if err := w.Inner.Patch(w.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`))); err != nil {
		w.t.Fatal(err)
	}
	if owners := object.GetManagedFields(); len(owners) > 0 {
		w.t.Fatalf("%s has still managed fields: %v", object.GetName(), owners)
	}
}

// repair expects that so many objects have lost their managed fields.
func (w *world) repair(want int) {
	w.t.Helper()
	_, current := w.read()
	result, err := w.objects.RepairOwnership(w.t.Context(), current)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := w.Take(); len(got) != want || len(result.Changes) != want || slices.ContainsFunc(got, func(request string) bool { return !strings.HasPrefix(request, "patch ") }) {
		w.t.Fatalf("changes %v by %q, want %d", result.Changes, got, want)
	}
	for _, change := range result.Changes {
		if change.ResourceVersion == "" || change.Key.Name == "" || change.Kind.Kind == "" || change.Verb != topology.Updated {
			w.t.Errorf("incomplete change %+v", change)
		}
	}
}

// TestRepairOwnershipRemovesFields loses the managed fields of a control plane object, and expects that what leaves the class then leaves the object.
func TestRepairOwnershipRemovesFields(t *testing.T) {
	w := steady(t, fixture("full"))
	class := &clusterv1.ClusterClass{}
	if err := w.Inner.Get(t.Context(), w.Cluster().GetClassKey(), class); err != nil {
		t.Fatal(err)
	}
	blueprint, _ := w.read()
	template := blueprint.ControlPlane.Template
	config := []string{"spec", "template", "spec", "kubeadmConfigSpec"}
	arguments := []string{"clusterConfiguration", "apiServer", "extraArgs"}
	set := func(value any, path ...string) {
		w.update(template, func() {
			if err := unstructured.SetNestedField(template.Object, value, append(slices.Clone(config), path...)...); err != nil {
				t.Fatal(err)
			}
		})
	}
	unset := func(path ...string) {
		w.update(template, func() { unstructured.RemoveNestedField(template.Object, append(slices.Clone(config), path...)...) })
	}
	// An API server without a schema owns lists as a whole, so this is the form of v1beta1.
	set(map[string]any{"gone": "x", "kept": "y"}, arguments...)
	set("trace", "format")
	w.again("apply KubeadmControlPlane")
	w.again()

	_, current := w.read()
	w.loseOwners(current.ControlPlane.Object)
	unset(append(arguments, "gone")...)
	w.repair(1)
	w.again("dry-run KubeadmControlPlane", "dry-run KubeadmControlPlane", "apply KubeadmControlPlane")
	w.repair(0)
	unset("format")
	w.again("apply KubeadmControlPlane")
	w.again()

	_, current = w.read()
	spec, _, err := unstructured.NestedMap(current.ControlPlane.Object.Object, "spec", "kubeadmConfigSpec")
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := unstructured.NestedStringMap(spec, arguments...)
	if diff := cmp.Diff(map[string]string{"kept": "y"}, got); err != nil || diff != "" {
		t.Errorf("arguments (-want +got), %v:\n%s", err, diff)
	}
	if spec["format"] != nil {
		t.Errorf("format %v has left the class and stayed in the object", spec["format"])
	}
}

// TestRepairOwnershipOfAll loses the managed fields of every object.
func TestRepairOwnershipOfAll(t *testing.T) {
	w := steady(t, fixture("full"))
	w.repair(0)
	_, current := w.read()
	for _, object := range objectsOf(current) {
		w.loseOwners(object)
	}
	// What was read before is out of date.
	if result, err := w.objects.RepairOwnership(t.Context(), current); err != nil || len(result.Changes) != len(objectsOf(current)) {
		t.Fatalf("%v, %v", result, err)
	}
	w.Take()
	if result, err := w.objects.RepairOwnership(t.Context(), current); !apierrors.IsConflict(err) || len(result.Changes) > 0 {
		t.Errorf("stale objects: %v, %v", result, err)
	}
	w.Take()
	w.repair(0)
	if _, err := w.reconcile(everywhere(w.Cluster(), "v1.31.0"), topology.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Take()
	w.again()
	w.repair(0)
	_, current = w.read()
	for _, object := range objectsOf(current) {
		managers := managersOf(object)
		if slices.Contains(managers, "before-first-apply Update") {
			t.Errorf("%T %s is owned by %q", object, object.GetName(), managers)
		}
	}
}

func objectsOf(current *scope.ClusterState) []client.Object {
	objects := []client.Object{
		current.Cluster, current.InfrastructureCluster, current.ControlPlane.Object, current.ControlPlane.InfrastructureMachineTemplate, current.ControlPlane.MachineHealthCheck,
	}
	for _, md := range current.MachineDeployments {
		objects = append(objects, md.Object, md.InfrastructureMachineTemplate, md.BootstrapTemplate)
		if md.MachineHealthCheck != nil {
			objects = append(objects, md.MachineHealthCheck)
		}
	}
	for _, mp := range current.MachinePools {
		objects = append(objects, mp.Object, mp.InfrastructureMachinePoolObject, mp.BootstrapObject)
	}
	return objects
}

func managersOf(object client.Object) []string {
	var managers []string
	for _, entry := range object.GetManagedFields() {
		managers = append(managers, entry.Manager+" "+string(entry.Operation))
	}
	return managers
}

const (
	namedFields = `{"f:metadata":{"f:name":{}}}`
	listFields  = `{"f:spec":{"f:kubeadmConfigSpec":{` +
		`"f:clusterConfiguration":{"f:apiServer":{"f:extraArgs":{"k:{\"name\":\"v\",\"value\":\"1\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"v\",\"value\":\"2\"}":{".":{},"f:name":{},"f:value":{}}}},` +
		`"f:etcd":{"f:local":{"f:extraArgs":{"k:{\"name\":\"e\",\"value\":\"\"}":{".":{},"f:name":{},"f:value":{}}}}}},` +
		`"f:joinConfiguration":{"f:nodeRegistration":{"f:kubeletExtraArgs":{"k:{\"name\":\"k\",\"value\":\"a=b\"}":{".":{},"f:name":{},"f:value":{}}}}}}}}`
)

func controlPlane(kind string, config map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": kind,
		"metadata": map[string]any{"namespace": "default", "name": "cp", "resourceVersion": "7"}, "spec": map[string]any{"kubeadmConfigSpec": config},
	}}
}

func argument(name, value string) any { return map[string]any{"name": name, "value": value} }

// TestRepairOwnershipEntries compares the entries with those that the stock manager writes.
func TestRepairOwnershipEntries(t *testing.T) {
	arguments := map[string]any{
		"clusterConfiguration": map[string]any{
			"apiServer":         map[string]any{"extraArgs": []any{argument("v", "1"), argument("v", "2"), map[string]any{"name": "no value"}, "nonsense"}},
			"controllerManager": "nonsense",
			"scheduler":         map[string]any{"extraArgs": []any{}},
			"etcd":              map[string]any{"local": map[string]any{"extraArgs": []any{argument("e", "")}}},
		},
		"joinConfiguration": map[string]any{"nodeRegistration": map[string]any{"kubeletExtraArgs": []any{argument("k", "a=b")}}},
	}
	cluster := func() client.Object {
		return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cp", ResourceVersion: "7"}}
	}
	plain := func() client.Object { return controlPlane("OtherControlPlane", arguments) }
	for name, tt := range map[string]struct {
		object       client.Object
		owners, want []string
		// fields are those of the last entry.
		fields string
	}{
		"nothing to do":                  {object: plain(), owners: []string{"capi-topology Apply"}},
		"not ours, but there":            {object: plain(), owners: []string{"kubectl Update"}},
		"none":                           {object: plain(), want: []string{"capi-topology Apply"}, fields: namedFields},
		"invented":                       {object: plain(), owners: []string{"before-first-apply Update"}, want: []string{"capi-topology Apply"}, fields: namedFields},
		"invented, and others":           {object: plain(), owners: []string{"kubectl Apply", "before-first-apply Update"}, want: []string{"kubectl Apply", "capi-topology Apply"}, fields: namedFields},
		"invented, and ours":             {object: plain(), owners: []string{"before-first-apply Update", "capi-topology Apply", "kubectl Apply"}, want: []string{"capi-topology Apply", "kubectl Apply"}},
		"with arguments":                 {object: controlPlane("KubeadmControlPlane", arguments), want: []string{"capi-topology Apply"}, fields: listFields},
		"without arguments":              {object: controlPlane("KubeadmControlPlane", map[string]any{}), want: []string{"capi-topology Apply"}, fields: namedFields},
		"Cluster: nothing to do":         {object: cluster(), owners: []string{"kubectl Apply"}},
		"Cluster: none":                  {object: cluster(), want: []string{"manager Update"}, fields: namedFields},
		"Cluster: invented":              {object: cluster(), owners: []string{"before-first-apply Update"}, want: []string{"manager Update"}, fields: namedFields},
		"Cluster: applied long ago":      {object: cluster(), owners: []string{"capi-topology Apply"}, want: []string{"manager Update"}, fields: namedFields},
		"Cluster: invented, and others":  {object: cluster(), owners: []string{"before-first-apply Update", "capi-topology Apply", "kubectl Apply"}, want: []string{"kubectl Apply"}},
		"Cluster: long ago, and another": {object: cluster(), owners: []string{"kubectl Update", "capi-topology Apply"}, want: []string{"kubectl Update"}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.object.SetManagedFields(entries(tt.owners))
			before := tt.object.DeepCopyObject()
			var patches []string
			w := newWorld(t, fixture("full"))
			objects, err := topology.New(topology.ObjectOptions{APIReader: w.Client, Runtime: patcher{}, Recorder: w, Now: time.Now, Client: interceptor.NewClient(w.Inner, interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
					data, err := patch.Data(object)
					patches = append(patches, string(patch.Type())+" "+string(data))
					return err
				},
			})})
			if err != nil {
				t.Fatal(err)
			}
			current := &scope.ClusterState{Cluster: &clusterv1.Cluster{}, ControlPlane: &scope.ControlPlaneState{}}
			current.Cluster.SetManagedFields(entries([]string{"kubectl Apply"}))
			switch object := tt.object.(type) {
			case *clusterv1.Cluster:
				current.Cluster = object
			case *unstructured.Unstructured:
				current.ControlPlane.Object = object
			}
			if _, err := objects.RepairOwnership(t.Context(), current); err != nil {
				t.Fatal(err)
			}
			var want []string
			if tt.want != nil {
				want = []string{expectedPatch(t, tt.object, tt.want, tt.fields)}
			}
			if diff := cmp.Diff(want, patches); diff != "" {
				t.Errorf("patches (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tt.object.DeepCopyObject()); diff != "" {
				t.Errorf("what was read has changed:\n%s", diff)
			}
		})
	}
}

func entries(owners []string) []metav1.ManagedFieldsEntry {
	var all []metav1.ManagedFieldsEntry
	for _, owner := range owners {
		manager, operation, _ := strings.Cut(owner, " ")
		all = append(all, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`),
		})
	}
	return all
}

func expectedPatch(t *testing.T, object client.Object, owners []string, fields string) string {
	t.Helper()
	all := entries(owners)
	if fields != "" {
		last := &all[len(all)-1]
		last.FieldsV1 = metav1.NewFieldsV1(fields)
		last.APIVersion = "controlplane.cluster.x-k8s.io/v1beta2"
		if _, ok := object.(*clusterv1.Cluster); ok {
			last.APIVersion = clusterv1.GroupVersion.String()
		}
	}
	return "application/json-patch+json " + encode(t, []any{
		map[string]any{"op": "add", "path": "/metadata/managedFields", "value": all},
		map[string]any{"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
	})
}

func encode(t *testing.T, value any) string {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}
