package engine

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// TestOwnerChangesMeanwhile has Cluster API write the status of a MachineDeployment just before a
// condition is written to it. The condition is about a failure that is reported once.
func TestOwnerChangesMeanwhile(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(func(p *v1alpha1.UpdatePolicySpec) { p.MaxAttempts = 1 }))
	get := func() *clusterv1.MachineDeployment {
		md := &clusterv1.MachineDeployment{}
		w.must(w.client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "md"}, md))
		return md
	}
	inner := w.client
	o, n := w.engine.Options, 0
	o.Client = interceptor.NewClient(inner, interceptor.Funcs{
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, object runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			if n == 0 {
				md := get()
				md.Status.Phase = "Running"
				w.must(w.client.Status().Update(ctx, md))
			}
			n++
			return c.SubResource(sub).Apply(ctx, object, opts...)
		},
	})
	w.engine = New(o)
	s.answers(inplace.Fails, "disk full")
	for range 3 {
		_, _ = w.update("a") // The refusals are in the condition.
	}
	if c := meta.FindStatusCondition(get().Status.Conditions, v1alpha1.UpdateBlockedCondition); c == nil {
		t.Errorf("no condition after %d applies", n)
	}
}
