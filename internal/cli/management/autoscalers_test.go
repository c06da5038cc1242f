package management

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestAutoscalers: the labels of the chart and of the example tell a cluster autoscaler.
func TestAutoscalers(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for name, labels := range map[string]map[string]string{
		"example": {"app": "cluster-autoscaler"},
		"chart":   {"app.kubernetes.io/name": "clusterapi-cluster-autoscaler"},
		"other":   {"app.kubernetes.io/name": "descheduler"},
	} {
		objects = append(objects, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: name, Labels: labels,
		}})
	}
	m := Cluster{Reader: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()}
	var got []string
	for _, d := range m.Autoscalers(t.Context()) {
		got = append(got, d.Name)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"chart", "example"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
