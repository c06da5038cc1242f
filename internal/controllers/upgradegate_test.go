package controllers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestIdleGate: a gate that is for no Cluster says so, until there is one. Clusters of other namespaces
// do not count.
func TestIdleGate(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	newCluster := func(namespace, name string) *clusterv1.Cluster {
		return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	newGate := func(namespace, name string) *v1alpha1.UpgradeGate {
		return &v1alpha1.UpgradeGate{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1},
			Spec:       v1alpha1.UpgradeGateSpec{ClusterName: "prod", Steps: []v1alpha1.GateStep{{At: "BeforeWorkersUpgrade"}}},
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.UpgradeGate{}).
		WithObjects(newGate("ns", "gate"), newGate("other", "gate"), newCluster("ns", "pord"), newCluster("other", "prod")).Build()
	r := &UpgradeGateReconciler{Client: c, Now: func() time.Time { return time.Unix(1000, 0) }}
	reasons := func() map[string]string {
		t.Helper()
		found := map[string]string{}
		for _, namespace := range []string{"ns", "other"} {
			for _, request := range r.gatesBeside(t.Context(), newCluster(namespace, "any")) {
				if _, err := r.Reconcile(t.Context(), request); err != nil {
					t.Fatal(err)
				}
				g := &v1alpha1.UpgradeGate{}
				if err := c.Get(t.Context(), request.NamespacedName, g); err != nil {
					t.Fatal(err)
				}
				found[request.String()] = meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ReadyCondition).Reason
			}
		}
		return found
	}
	if diff := cmp.Diff(map[string]string{"ns/gate": "NoClusters", "other/gate": "Valid"}, reasons()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := c.Create(t.Context(), newCluster("ns", "prod")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"ns/gate": "Valid", "other/gate": "Valid"}, reasons()); diff != "" {
		t.Errorf("with the Cluster (-want +got):\n%s", diff)
	}
}
