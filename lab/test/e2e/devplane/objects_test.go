package devplane_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readObjects reads the manifests of a file in testdata.
func readObjects(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // only read from
	var out []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		object.SetNamespace(metav1.NamespaceDefault)
		out = append(out, object)
	}
}

func create(t *testing.T, c client.Client, objects ...*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	out.SetNamespace(namespace)
	out.SetName(name)
	return out
}

// condition returns the status of a condition of an object, empty when it is not set.
func condition(t *testing.T, c client.Client, of *unstructured.Unstructured, name string) (string, error) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(of), of); err != nil {
		return "", err
	}
	conditions, _, err := unstructured.NestedSlice(of.Object, "status", "conditions")
	if err != nil {
		return "", err
	}
	for _, item := range conditions {
		if fields, ok := item.(map[string]any); ok && fields["type"] == name {
			return fmt.Sprint(fields["status"]), nil
		}
	}
	return "", nil
}

// testWebhooks sees that the core manager's webhooks default and refuse.
func testWebhooks(t *testing.T, c client.Client) {
	t.Helper()
	deployment := object("cluster.x-k8s.io/v1beta2", "MachineDeployment", metav1.NamespaceDefault, "webhooks")
	deployment.Object["spec"] = map[string]any{
		"clusterName": "none",
		"selector":    map[string]any{},
		"template": map[string]any{"spec": map[string]any{
			"clusterName":       "none",
			"bootstrap":         map[string]any{"dataSecretName": "none"},
			"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "none"},
		}},
	}
	if err := c.Create(t.Context(), deployment.DeepCopy(), client.DryRunAll); err != nil {
		t.Fatalf("a valid MachineDeployment: %v", err)
	}
	defaulted := deployment.DeepCopy()
	if err := c.Create(t.Context(), defaulted, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if got := defaulted.GetLabels()["cluster.x-k8s.io/cluster-name"]; got != "none" {
		t.Errorf("the cluster's label is %q: the mutating webhook was not called", got)
	}
	if err := unstructured.SetNestedField(deployment.Object, "other", "spec", "template", "spec", "clusterName"); err != nil {
		t.Fatal(err)
	}
	err := c.Create(t.Context(), deployment, client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "admission webhook") {
		t.Errorf("a MachineDeployment of two clusters: %v, want a refusal by a webhook", err)
	}
}

// testGarbage sees that what is owned goes with its owner, for built-in types and CRDs, and that namespaces can be deleted.
func testGarbage(t *testing.T, c client.Client) {
	t.Helper()
	namespace := object("v1", "Namespace", "", "garbage")
	create(t, c, namespace)
	owner := object("v1", "ConfigMap", "garbage", "owner")
	create(t, c, owner)
	rule := object("cluster.x-k8s.io/v1beta2", "MachineDrainRule", "garbage", "owned")
	rule.Object["spec"] = map[string]any{"drain": map[string]any{"behavior": "Skip"}}
	owned := []*unstructured.Unstructured{object("v1", "ConfigMap", "garbage", "owned"), rule}
	for _, o := range owned {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.GetName(), UID: owner.GetUID()}})
		create(t, c, o)
	}
	if err := c.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	gone := func(o *unstructured.Unstructured) func() (bool, error) {
		return func() (bool, error) {
			err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopy())
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
	}
	for _, o := range owned {
		eventually(t, 30*time.Second, "the end of the owned "+o.GetKind(), gone(o))
	}
	left := object("v1", "ConfigMap", "garbage", "left")
	create(t, c, left)
	if err := c.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the end of the namespace", gone(namespace))
	if ok, err := gone(left)(); !ok || err != nil {
		t.Errorf("an object is left of a namespace: %v", err)
	}
}

// testCluster creates a cluster and waits for its control plane and its worker.
func testCluster(t *testing.T, c client.Client) {
	t.Helper()
	objects := readObjects(t, "clusterclass.yaml")
	create(t, c, objects...)
	// Before that, the Cluster's first reconciliation fails and the next comes late.
	eventually(t, 30*time.Second, "the ClusterClass", func() (bool, error) {
		status, err := condition(t, c, objects[0], "VariablesReady")
		return status == string(metav1.ConditionTrue), err
	})
	began := time.Now()
	cluster := readObjects(t, "cluster.yaml")[0]
	create(t, c, cluster)
	eventually(t, 3*time.Minute, "the cluster", func() (bool, error) {
		status, err := condition(t, c, cluster, "Available")
		return status == string(metav1.ConditionTrue), err
	})
	t.Logf("the cluster was available after %.0f s", time.Since(began).Seconds())

	machines := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineList"}}
	if err := c.List(t.Context(), machines, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		t.Fatal(err)
	}
	if len(machines.Items) != 2 {
		t.Errorf("there are %d machines, want a control plane and a worker", len(machines.Items))
	}
	for _, machine := range machines.Items {
		version, _, _ := unstructured.NestedString(machine.Object, "status", "nodeInfo", "kubeletVersion")
		if version != "v1.29.0" {
			t.Errorf("kubelet of %s is at %q", machine.GetName(), version)
		}
	}
}
