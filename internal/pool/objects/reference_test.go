package objects_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// recordingClient keeps the body of the last patch.
type recordingClient struct {
	client.Client
	patch []byte
}

func (c *recordingClient) Patch(
	ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	var err error
	if c.patch, err = patch.Data(object); err != nil {
		return err
	}
	return c.Client.Patch(ctx, object, patch, opts...)
}

func (c *recordingClient) patchedFields(t *testing.T) []metav1.ManagedFieldsEntry {
	t.Helper()
	var operations []struct {
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(c.patch, &operations); err != nil {
		t.Fatal(err)
	}
	var entries []metav1.ManagedFieldsEntry
	if err := json.Unmarshal(operations[0].Value, &entries); err != nil {
		t.Fatal(err)
	}
	return entries
}

func template(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "TestMachineTemplate",
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"of": "template"}},
			"spec":     map[string]any{"size": int64(3)},
		}},
	}}
}

func TestClone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Put(template("t"))
	ref := clusterv1.ContractVersionedObjectReference{
		APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "TestMachineTemplate", Name: "t",
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Owner", Name: "o", UID: "u"}
	in := objects.Copy{
		Ref: ref, Namespace: "default", Name: "m", Cluster: "c", Owner: &owner,
		Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"},
	}
	got, err := objects.Clone(t.Context(), w.Client, in)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "TestMachine",
		"metadata": map[string]any{
			"name": "m", "namespace": "default",
			"labels": map[string]any{"of": "template", "l": "1", clusterv1.ClusterNameLabel: "c"},
			"annotations": map[string]any{
				"a": "1", clusterv1.TemplateClonedFromNameAnnotation: "t",
				clusterv1.TemplateClonedFromGroupKindAnnotation: "TestMachineTemplate.infrastructure.cluster.x-k8s.io",
			},
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "u"}},
		},
		"spec": map[string]any{"size": int64(3)},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("clone (-want +got):\n%s", diff)
	}
	in.Ref.Name = "absent"
	if _, err := objects.Clone(t.Context(), w.Client, in); !apierrors.IsNotFound(err) {
		t.Errorf("a template that does not exist: %v", err)
	}
	in.Ref.Kind = "OtherTemplate"
	if _, err := objects.Clone(t.Context(), w.Client, in); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("a kind that does not exist: %v", err)
	}
	if got := w.Take(); got != nil {
		t.Errorf("writes: %s", got)
	}
}

func TestOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Put(template("t"))
	w.Put(intent())
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default", UID: "cu"}}
	for range 2 {
		held := template("t")
		if err := w.Inner.Get(t.Context(), client.ObjectKeyFromObject(held), held); err != nil {
			t.Fatal(err)
		}
		if err := objects.EnsureClusterOwner(t.Context(), w.Client, cluster, held); err != nil {
			t.Fatal(err)
		}
	}
	orphan := w.machine()
	controller := true
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Owner", Name: "o", UID: "u", Controller: &controller}
	if err := objects.Adopt(t.Context(), w.Client, owner, orphan); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{owner}, w.machine().OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"patch TestMachineTemplate", "patch Machine"}, w.Take()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}
