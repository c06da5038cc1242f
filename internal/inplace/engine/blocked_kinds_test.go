package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
)

// TestBlockedKinds holds on which kinds of groups a condition says that an update is blocked. The
// list of another provider's kind may have no keys, so that a condition would remove the provider's own;
// there an Event says so.
func TestBlockedKinds(t *testing.T) {
	t.Parallel()
	controlPlaneOf := func(kind string) schema.GroupVersionKind {
		return kubeadmControlPlaneKind.GroupVersion().WithKind(kind)
	}
	for _, tt := range []struct {
		kind   schema.GroupVersionKind
		writes int64
	}{
		{clusterv1.GroupVersion.WithKind("MachineDeployment"), 1},
		{clusterv1.GroupVersion.WithKind("MachineSet"), 1},
		{controlPlaneOf("KubeadmControlPlane"), 1},
		{controlPlaneOf("RKE2ControlPlane"), 0},
		{controlPlaneOf("CK8sControlPlane"), 0},
	} {
		t.Run(tt.kind.Kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, external(nil))
			object := capi.MetadataOf(tt.kind)
			object.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "group", UID: "group"}
			o := owner{object: object}
			subject := machine("a", "new", to)
			why := refused(v1alpha1.UpdateFailedReason, "it failed")
			w.engine.reportBlocked(t.Context(), o, subject, why)
			w.engine.reportUnblocked(t.Context(), o, subject)
			if got := w.writes.Load(); got != 2*tt.writes {
				t.Errorf("%d writes of conditions, want %d", got, 2*tt.writes)
			}
			if len(w.events.Events) != 1 {
				t.Errorf("%d Events, want 1", len(w.events.Events))
			}
		})
	}
}

// TestTwoThatAreBlocked asks about two MachineSets in turn, which are refused for different
// reasons. Each reason is said once. When one is no longer refused, the condition has the other
// one's words.
func TestTwoThatAreBlocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(nil), deployment())
	o := owner{object: capi.MetadataOf(clusterv1.GroupVersion.WithKind("MachineDeployment"))}
	o.object.ObjectMeta = deployment().ObjectMeta
	first, second := machineSet("first", from), machineSet("second", from)
	ask := func(set *clusterv1.MachineSet) {
		w.engine.reportBlocked(t.Context(), o, set, refused(v1alpha1.NotCoveredReason, "%s", set.Name))
	}
	for range 3 {
		ask(first)
		ask(second)
	}
	if n := len(w.events.Events); n != 2 {
		t.Errorf("%d Events, want 2", n)
	}
	w.engine.reportUnblocked(t.Context(), o, second)
	ask(first)
	md := &clusterv1.MachineDeployment{}
	w.must(w.client.Get(t.Context(), client.ObjectKeyFromObject(deployment()), md))
	c := meta.FindStatusCondition(md.Status.Conditions, v1alpha1.UpdateBlockedCondition)
	if c == nil || c.Message != first.Name {
		t.Errorf("condition %+v, want the words of %s", c, first.Name)
	}
}

// TestLostConditionsAreShownAgain removes the conditions of a blocked Machine and of its owner, as a
// restore of etcd does while the process lives. The Events are not repeated.
func TestLostConditionsAreShownAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(nil), deployment(), machine("a", "new", to))
	o := owner{object: capi.MetadataOf(clusterv1.GroupVersion.WithKind("MachineDeployment"))}
	o.object.ObjectMeta = deployment().ObjectMeta
	set := machineSet("set", from)
	show := func() {
		w.engine.reportBlocked(t.Context(), o, set, refused(v1alpha1.NotCoveredReason, "no"))
		r := &run{Machine: w.engine.NewMachine(w.machine("a"), w.now)}
		r.showBlocked(t.Context(), v1alpha1.NotCoveredReason, "no")
	}
	shown := func() (machine, owner bool) {
		md := &clusterv1.MachineDeployment{}
		w.must(w.client.Get(t.Context(), client.ObjectKeyFromObject(deployment()), md))
		return w.conditionOf("a") != nil,
			meta.FindStatusCondition(md.Status.Conditions, v1alpha1.UpdateBlockedCondition) != nil
	}
	lose := func() {
		md, m := &clusterv1.MachineDeployment{}, w.machine("a")
		w.must(w.client.Get(t.Context(), client.ObjectKeyFromObject(deployment()), md))
		md.Status.Conditions, m.Status.Conditions = nil, nil
		w.must(w.client.Status().Update(t.Context(), md))
		w.must(w.client.Status().Update(t.Context(), m))
	}
	show()
	if machine, owner := shown(); !machine || !owner {
		t.Fatalf("the Machine has its condition: %t, the owner: %t", machine, owner)
	}
	lose()
	show()
	if machine, _ := shown(); !machine {
		t.Error("the Machine's condition is lost for good")
	}
	for range 3 {
		w.now = w.now.Add(showAgainAfter / 2)
		show()
	}
	if _, owner := shown(); !owner {
		t.Error("the owner's condition is lost for good")
	}
	if n := len(w.events.Events); n != 2 {
		t.Errorf("%d Events, want one of each object", n)
	}
}

// TestSharedCondition: a condition that windlass manager has written, too, goes when nothing blocks any more,
// although the API server refuses what would be left of it. Other conditions stay.
func TestSharedCondition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(nil), deployment())
	md := &clusterv1.MachineDeployment{}
	get := func() []string {
		w.must(w.client.Get(t.Context(), client.ObjectKeyFromObject(deployment()), md))
		var types []string
		for _, c := range md.Status.Conditions {
			types = append(types, c.Type)
		}
		return types
	}
	w.engine.Client = interceptor.NewClient(w.client, interceptor.Funcs{
		SubResourceApply: func(
			ctx context.Context, c client.Client, name string, a runtime.ApplyConfiguration, options ...client.SubResourceApplyOption,
		) error {
			data, err := json.Marshal(a)
			if err != nil || !bytes.Contains(data, []byte("conditions")) {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "MachineDeployment"}, "md", nil)
			}
			return c.SubResource(name).Apply(ctx, a, options...)
		},
	})
	w.engine.fence.Client = w.engine.Client
	o := owner{object: capi.MetadataOf(clusterv1.GroupVersion.WithKind("MachineDeployment"))}
	get()
	o.object.ObjectMeta = md.ObjectMeta
	set := machineSet("set", from)
	w.engine.reportBlocked(t.Context(), o, set, refused(v1alpha1.NotCoveredReason, "no"))
	// A client in memory knows no keys of conditions: the others come afterwards.
	get()
	md.Status.Conditions = append(md.Status.Conditions, metav1.Condition{
		Type: clusterv1.AvailableCondition, Status: metav1.ConditionTrue, Reason: "A", LastTransitionTime: metav1.NewTime(w.now),
	})
	w.must(w.client.Status().Update(t.Context(), md))
	if diff := cmp.Diff([]string{v1alpha1.UpdateBlockedCondition, clusterv1.AvailableCondition}, get()); diff != "" {
		t.Fatalf("blocked (-want +got):\n%s", diff)
	}
	o.object.ObjectMeta = md.ObjectMeta
	w.engine.reportUnblocked(t.Context(), o, set)
	if diff := cmp.Diff([]string{clusterv1.AvailableCondition}, get()); diff != "" {
		t.Errorf("no longer blocked (-want +got):\n%s", diff)
	}
}
