package planinput

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// TestFindWorkers: the engine that drives a Cluster decides how workers stop.
func TestFindWorkers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		holder string
		want   plan.Workers
		note   string
	}{
		"windlass manager":  {capi.HolderPrefix("", "") + "a_b", plan.WorkersPerGroup, "windlass manager drives the Cluster"},
		"stock Cluster API": {"capi-controller-manager-7c_91aa", plan.WorkersShared, ""},
		"nobody":            {"", plan.WorkersShared, "cannot be seen here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := coordinationv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "capi-system", Name: capi.ManagerLease}}
			lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &tt.holder, new(int32(15))
			lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now()))
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(lease).
				WithIndex(lease, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build()
			cluster := &clusterv1.Cluster{}
			cluster.Spec.Topology.ClassRef.Name = "class"
			workers, note := findWorkers(t.Context(), management.Cluster{Reader: reader}, cluster)
			if workers != tt.want || !strings.Contains(note, tt.note) || tt.note == "" && note != "" {
				t.Errorf("%s, %q", workers, note)
			}
		})
	}
}
