package management

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/status"
)

// TestSilentManager: a status reads when windlass manager last renewed its lease, if it has stopped.
func TestSilentManager(t *testing.T) {
	t.Parallel()
	renewed := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	for name, tt := range map[string]struct {
		holder    string
		age       time.Duration
		forbidden bool
		engine    string
		silent    bool
	}{
		"runs":          {holder: capi.HolderPrefix("", "") + "a_b", engine: v1alpha1.EngineManager},
		"does not run":  {holder: capi.HolderPrefix("", "") + "a_b", age: time.Hour, silent: true},
		"stock":         {holder: "capi-controller-manager_b"},
		"stock expired": {holder: "capi-controller-manager_b", age: time.Hour},
		"nobody may read leases": {
			holder: capi.HolderPrefix("", "") + "a_b", age: time.Hour, forbidden: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Namespace: "capi-system", Name: capi.ManagerLease,
			}}
			lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &tt.holder, new(int32(15))
			lease.Spec.RenewTime = new(metav1.NewMicroTime(renewed.Add(time.Hour - tt.age)))
			facts := status.Facts{Policies: make([]v1alpha1.UpdatePolicy, 1)}
			facts.Cluster = &clusterv1.Cluster{}
			facts.Rollouts.SilentSince = renewed.Add(-time.Hour)
			m := Cluster{Reader: leaseReader(t, lease, tt.forbidden)}
			if err := m.ReadUpgradeContext(t.Context(), &facts); err != nil {
				t.Fatal(err)
			}
			want := status.RolloutFacts{Engine: tt.engine}
			if !tt.forbidden {
				want.EngineSeen = renewed.Add(time.Hour - tt.age)
			}
			if tt.silent {
				want.SilentSince = renewed
			}
			if diff := cmp.Diff(want, facts.Rollouts); diff != "" {
				t.Errorf("the facts (-want +got):\n%s", diff)
			}
		})
	}
}

// leaseReader reads a lease, and no other object.
func leaseReader(t *testing.T, lease *coordinationv1.Lease, forbidden bool) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		coordinationv1.AddToScheme, clusterv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	name := func(o client.Object) []string { return []string{o.GetName()} }
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(lease).
		WithIndex(&coordinationv1.Lease{}, "metadata.name", name)
	return builder.WithInterceptorFuncs(interceptor.Funcs{List: func(
		ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption,
	) error {
		if _, leases := list.(*coordinationv1.LeaseList); leases && forbidden {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", nil)
		}
		return c.List(ctx, list, o...) //nolint:wrapcheck // It is this method.
	}}).Build()
}
