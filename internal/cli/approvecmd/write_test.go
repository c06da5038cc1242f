package approvecmd

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/refusal"
)

// TestDroppedApproval holds that an approval which an older CRD drops does not count as written.
func TestDroppedApproval(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	gate := &v1alpha1.UpgradeGate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}
	kept := true
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(gate).WithStatusSubresource(gate).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if kept {
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			}
			return c.Get(ctx, client.ObjectKeyFromObject(o), o)
		},
	}).Build()
	a := approver{client: c, held: held{cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}}}
	for _, kept = range []bool{true, false} {
		err := a.changeApprovals(t.Context(), "g", func(g *v1alpha1.UpgradeGate) ([]v1alpha1.GateApprovalRecord, error) {
			return append(g.Status.Approvals, v1alpha1.GateApprovalRecord{Cluster: "c", At: "BeforeClusterUpgrade"}), nil
		})
		if _, dropped := errors.AsType[*refusal.DroppedError](err); dropped == kept {
			t.Errorf("where the field is stored (%t) the error is %v", kept, err)
		}
	}
}
