package management

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// TestAround: what tells why an upgrade does not continue is read only for a Cluster with a sign of that.
func TestAround(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme, clusterv1.AddToScheme, runtimev1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	core := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name: "core", Labels: map[string]string{clusterv1.ProviderNameLabel: "cluster-api"},
	}}
	other := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name: "other", Labels: map[string]string{clusterv1.ProviderNameLabel: "control-plane-rke2"},
	}}
	ours, others := &clusterv1.MachineHealthCheck{}, &clusterv1.MachineHealthCheck{}
	ours.Namespace, ours.Name, ours.Spec.ClusterName = "ns", "ours", "c"
	others.Namespace, others.Name, others.Spec.ClusterName = "ns", "others", "d"
	for name, tt := range map[string]struct {
		message, asked, reported string
		reads                    []string
		extensions, core, checks int
	}{
		"healthy": {"", "v1.33.1", "v1.33.1", nil, 0, 0, 0},
		"a hook": {
			"upgrading\n  * Following hooks are blocking upgrade: BeforeClusterUpgrade", "v1.33.1", "v1.33.1",
			[]string{"ExtensionConfigList", "Namespace"}, 1, 0, 0,
		},
		"a suffix":     {"", "v1.33.1", "v1.33.1-k0s.0", []string{"DeploymentList", "LeaseList"}, 0, 1, 0},
		"workers roll": {"roll", "v1.33.1", "v1.33.1", []string{"MachineHealthCheckList", "UpdatePolicyList"}, 0, 0, 1},
	} {
		var reads []string
		kind := func(o any) string {
			_, name, _ := strings.Cut(fmt.Sprintf("%T", o), ".")
			return name
		}
		reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(core, other, ours, others,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"a": "b"}}},
			&runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "cso"}}).
			WithIndex(&coordinationv1.Lease{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
			WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					reads = append(reads, kind(o))
					return c.Get(ctx, key, o, opts...) //nolint:wrapcheck // It is this method.
				},
				List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					reads = append(reads, kind(l))
					return c.List(ctx, l, opts...) //nolint:wrapcheck // It is this method.
				},
			}).Build()
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
		if tt.message != "" {
			cluster.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionFalse, Message: tt.message,
			}}
		}
		o := snapshot.Objects{Cluster: cluster, ControlPlane: &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"version": tt.asked}, "status": map[string]any{"version": tt.reported},
		}}}
		if tt.message == "roll" {
			md := &clusterv1.MachineDeployment{}
			md.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineDeploymentRollingOutCondition, Status: metav1.ConditionTrue,
			}}
			o.MachineDeployments = []*clusterv1.MachineDeployment{md}
		}
		a, err := Cluster{Reader: reader, Scheme: scheme}.Around(t.Context(), o)
		if err != nil || len(a.Extensions) != tt.extensions || len(a.Core) != tt.core || len(a.HealthChecks) != tt.checks ||
			(a.NamespaceLabels["a"] == "b") != (tt.extensions > 0) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		slices.Sort(reads)
		if diff := cmp.Diff(tt.reads, reads); diff != "" {
			t.Errorf("%s: reads (-want +got):\n%s", name, diff)
		}
	}
}
