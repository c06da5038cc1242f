package engine

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// TestMachineSetIsReadLive reads the MachineSet of a Machine that has lost its label without a cache of
// MachineSets: the extension has no right to watch them.
func TestMachineSetIsReadLive(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	set := machineSet("ms", from)
	e := New(Options{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(deployment()).Build(),
		Live:   fake.NewClientBuilder().WithScheme(scheme).WithObjects(set).Build(),
	})
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "ms", Controller: new(true)},
	}}}
	owner, isControlPlane, err := e.readGroupObject(t.Context(), machine)
	if err != nil || isControlPlane || owner == nil || owner.Name != "md" {
		t.Errorf("the owner is %+v, %t, %v", owner, isControlPlane, err)
	}
}

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
