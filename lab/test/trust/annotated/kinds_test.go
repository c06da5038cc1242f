package annotated_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// acceptable is how much longer an upgrade may take on a busy machine. A worker that is blocked is
// blocked for 25 s.
const acceptable = 15 * time.Second

// hiddenGroup is an API group that the extension's roles do not name.
const hiddenGroup = "trust.example.com"

// createHiddenKind creates the CustomResourceDefinition of a control plane's kind that the extension
// may not list.
func createHiddenKind(t *testing.T, p *wire.Plane, kind, plural string) {
	t.Helper()
	anything := true
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: plural + "." + hiddenGroup, Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: hiddenGroup, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &anything,
				}},
			}},
		},
	}
	define(t, p, definition)
}

// define creates a CustomResourceDefinition that ends with the test, and waits until it is served.
func define(t *testing.T, p *wire.Plane, definition *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	p.CreateForTest(t, definition)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := wire.Await(ctx, p.Client, &apiextensionsv1.CustomResourceDefinitionList{},
		func(seen *apiextensionsv1.CustomResourceDefinition) bool {
			if seen.Name != definition.Name {
				return false
			}
			for _, c := range seen.Status.Conditions {
				if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
					return true
				}
			}
			return false
		})
	if err != nil {
		t.Fatalf("waiting for %s: %v", definition.Name, err)
	}
}

// createHidden creates a tenant whose Cluster and Machines name a control plane of a kind, and who
// asks for upgrades of all Machines.
func createHidden(t *testing.T, p *wire.Plane, kind string, spec clusterv1.MachineSpec, machines int) {
	t.Helper()
	namespace := p.Namespace(t)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: wire.ClusterName}}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: hiddenGroup, Kind: kind, Name: "cp"}
	p.Create(t, cluster, &v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hidden"},
		Spec: v1alpha1.UpdatePolicySpec{
			Targets:  []v1alpha1.UpdateTarget{{ClusterName: wire.ClusterName}},
			Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone,
		},
	})
	controller := true
	for i := range machines {
		p.Create(t, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprint("m", i), Annotations: map[string]string{toAnnotation: option},
			Labels: map[string]string{clusterv1.ClusterNameLabel: wire.ClusterName, clusterv1.MachineControlPlaneLabel: ""},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: hiddenGroup + "/v1", Kind: kind, Name: "cp", UID: "cp", Controller: &controller,
			}},
		}, Spec: spec})
	}
}

// TestKindThatMayNotBeListed: tenants name control planes of a kind that exists and may not be
// listed, and of one that does not exist. They delay neither the upgrade of another tenant's Machine
// nor the status of another tenant's UpdatePolicy.
func TestKindThatMayNotBeListed(t *testing.T) {
	plane := wire.Start(t)
	createHiddenKind(t, plane, "HiddenControlPlane", "hiddencontrolplanes")
	pool := plane.NewPool(t, "a", "b")
	register(t, plane, pool, "trust-hidden", nil)
	plane.Restricted(t).Run(t)
	upgrade := func(name string) time.Duration {
		pool.Annotate(t, name, map[string]any{toAnnotation: option})
		began := time.Now()
		awaitMachine(t, plane, pool.Namespace, name, "is upgraded", isDone)
		return time.Since(began)
	}
	alone := upgrade("a")
	spec := pool.Machine(t, "a").Spec
	for range 3 {
		createHidden(t, plane, "HiddenControlPlane", spec, 20)
		createHidden(t, plane, "MissingControlPlane", spec, 20)
	}
	if beside := upgrade("b"); beside > alone+acceptable {
		t.Errorf("the upgrade took %s beside the other tenants, and %s without them", beside, alone)
	}

	policy := &v1alpha1.UpdatePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: "later"},
		Spec: v1alpha1.UpdatePolicySpec{
			Targets:  []v1alpha1.UpdateTarget{{ClusterName: "another"}},
			Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone,
		},
	}
	plane.Create(t, policy)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := wire.Await(ctx, plane.Client, &v1alpha1.UpdatePolicyList{}, func(seen *v1alpha1.UpdatePolicy) bool {
		return seen.Name == policy.Name && len(seen.Status.Conditions) > 0
	}, client.InNamespace(pool.Namespace))
	if err != nil {
		t.Errorf("the UpdatePolicy has no status after %s: %v", patience, err)
	}
}
