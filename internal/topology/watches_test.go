package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// TestRelevant holds what wakes a Cluster. Statuses change all the time; what they say must not, but for what a decision depends on.
func TestRelevant(t *testing.T) {
	cluster, class, machine, pool := objects.Changes(clusterFacts), objects.Changes(classFacts), objects.Changes(machineFacts), objects.Changes(poolFacts)
	gate := objects.Changes(gateFacts)
	object, referenced := objects.Changes(objectFacts), objects.Changes(referencedFacts)
	condition := func(kind string, status metav1.ConditionStatus) func(conditions.Setter) {
		return func(o conditions.Setter) {
			conditions.Set(o, metav1.Condition{Type: kind, Status: status, Reason: "Test"})
		}
	}
	for _, tt := range []struct {
		name   string
		watch  predicate.Predicate
		object client.Object
		change func(client.Object)
		want   bool
	}{
		{name: "a Cluster's spec", watch: cluster, object: &clusterv1.Cluster{}, change: generation, want: true},
		{name: "a Cluster's annotation", watch: cluster, object: &clusterv1.Cluster{}, change: annotation, want: true},
		{name: "a Cluster's label", watch: cluster, object: &clusterv1.Cluster{}, change: label, want: true},
		{name: "a Cluster's deletion", watch: cluster, object: &clusterv1.Cluster{}, change: deletion, want: true},
		{name: "a Cluster's finalizer", watch: cluster, object: &clusterv1.Cluster{}, change: func(o client.Object) { o.SetFinalizers([]string{"f"}) }},
		{name: "a Cluster's phase", watch: cluster, object: &clusterv1.Cluster{}, change: of(func(c *clusterv1.Cluster) { c.Status.Phase = "Provisioned" })},
		{name: "a Cluster's plan", watch: cluster, object: &clusterv1.Cluster{}, change: of(func(c *clusterv1.Cluster) { c.Status.Workers = &clusterv1.WorkersStatus{} })},
		{
			name: "our own condition", watch: cluster, object: &clusterv1.Cluster{},
			change: of(func(c *clusterv1.Cluster) {
				condition(clusterv1.ClusterTopologyReconciledCondition, metav1.ConditionTrue)(c)
			}),
		},
		{
			name: "that the control plane is not initialized", watch: cluster, object: &clusterv1.Cluster{},
			change: of(func(c *clusterv1.Cluster) {
				condition(clusterv1.ClusterControlPlaneInitializedCondition, metav1.ConditionFalse)(c)
			}),
		},
		{
			name: "that the control plane is initialized", watch: cluster, object: &clusterv1.Cluster{},
			change: of(func(c *clusterv1.Cluster) {
				condition(clusterv1.ClusterControlPlaneInitializedCondition, metav1.ConditionTrue)(c)
			}), want: true,
		},
		{name: "a look at everything", watch: cluster, object: &clusterv1.Cluster{}, change: func(o client.Object) { o.SetResourceVersion("1") }, want: true},

		{name: "a gate's spec", watch: gate, object: &v1alpha1.UpgradeGate{}, change: generation, want: true},
		{name: "an approval", watch: gate, object: &v1alpha1.UpgradeGate{}, change: of(func(g *v1alpha1.UpgradeGate) { g.Status.Approvals = make([]v1alpha1.GateApprovalRecord, 1) }), want: true},
		{name: "who waits at a gate", watch: gate, object: &v1alpha1.UpgradeGate{}, change: of(func(g *v1alpha1.UpgradeGate) { g.Status.Waiting = make([]v1alpha1.GateWaiting, 1) })},

		{name: "a class's spec", watch: class, object: &clusterv1.ClusterClass{}, change: generation, want: true},
		{name: "that a class was looked at", watch: class, object: &clusterv1.ClusterClass{}, change: of(func(c *clusterv1.ClusterClass) { c.Status.ObservedGeneration = 1 }), want: true},
		{
			name: "that a class's variables are ready", watch: class, object: &clusterv1.ClusterClass{},
			change: of(func(c *clusterv1.ClusterClass) {
				condition(clusterv1.ClusterClassVariablesReadyCondition, metav1.ConditionTrue)(c)
			}), want: true,
		},
		{
			name: "another condition of a class", watch: class, object: &clusterv1.ClusterClass{},
			change: of(func(c *clusterv1.ClusterClass) {
				condition(clusterv1.ClusterClassRefVersionsUpToDateCondition, metav1.ConditionTrue)(c)
			}),
		},

		{name: "a MachineDeployment's spec", watch: object, object: &clusterv1.MachineDeployment{}, change: generation, want: true},
		{name: "a MachineDeployment's replicas", watch: object, object: &clusterv1.MachineDeployment{}, change: of(func(md *clusterv1.MachineDeployment) { md.Status.Replicas = new(int32(3)) })},
		{name: "a MachineDeployment's owners", watch: object, object: &clusterv1.MachineDeployment{}, change: owner, want: true},

		{
			name: "a Machine's Node", watch: machine, object: &clusterv1.Machine{},
			change: of(func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n" }), want: true,
		},
		{name: "a Machine's kubelet", watch: machine, object: &clusterv1.Machine{}, change: of(func(m *clusterv1.Machine) {
			m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: "v1.31.0"}
		}), want: true},
		{name: "a Machine's node in other ways", watch: machine, object: &clusterv1.Machine{}, change: of(func(m *clusterv1.Machine) {
			m.Status.NodeInfo = &corev1.NodeSystemInfo{KernelVersion: "6.1"}
		})},
		{name: "a Machine's version", watch: machine, object: &clusterv1.Machine{}, change: of(func(m *clusterv1.Machine) { m.Spec.Version = "v1.31.0" }), want: true},
		{name: "a Machine's group", watch: machine, object: &clusterv1.Machine{}, change: label, want: true},
		{name: "a Machine's phase", watch: machine, object: &clusterv1.Machine{}, change: of(func(m *clusterv1.Machine) { m.Status.Phase = "Running" })},
		{name: "a Machine's annotation", watch: machine, object: &clusterv1.Machine{}, change: annotation},

		{name: "a MachinePool's spec", watch: pool, object: &clusterv1.MachinePool{}, change: generation, want: true},
		{name: "a MachinePool's versions", watch: pool, object: &clusterv1.MachinePool{}, change: of(func(mp *clusterv1.MachinePool) {
			mp.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.31.0"}}
		}), want: true},
		{name: "that a MachinePool was looked at", watch: pool, object: &clusterv1.MachinePool{}, change: of(func(mp *clusterv1.MachinePool) { mp.Status.ObservedGeneration = 1 }), want: true},
		{name: "a MachinePool's first node", watch: pool, object: &clusterv1.MachinePool{}, change: of(func(mp *clusterv1.MachinePool) {
			mp.Status.NodeRefs = []corev1.ObjectReference{{Name: "n"}}
		}), want: true},
		{name: "a MachinePool's phase", watch: pool, object: &clusterv1.MachinePool{}, change: of(func(mp *clusterv1.MachinePool) { mp.Status.Phase = "Running" })},

		{name: "a control plane's spec", watch: referenced, object: &unstructured.Unstructured{}, change: generation, want: true},
		{name: "a control plane's version", watch: referenced, object: &unstructured.Unstructured{}, change: status("version", "v1.31.0"), want: true},
		{name: "a control plane's versions", watch: referenced, object: &unstructured.Unstructured{}, change: status("versions", []any{map[string]any{"version": "v1.31.0"}}), want: true},
		{name: "a control plane's replicas", watch: referenced, object: &unstructured.Unstructured{}, change: status("replicas", int64(3))},
		{name: "a control plane's owners", watch: referenced, object: &unstructured.Unstructured{}, change: owner, want: true},
	} {
		if u, ok := tt.object.(*unstructured.Unstructured); ok {
			u.Object = map[string]any{}
		}
		tt.object.SetResourceVersion("1")
		before, ok := tt.object.DeepCopyObject().(client.Object)
		if !ok {
			t.Fatal("a copy is no object")
		}
		after := tt.object
		after.SetResourceVersion("2")
		tt.change(after)
		if got := tt.watch.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
			t.Errorf("%s wakes the Cluster: %t, want %t", tt.name, got, tt.want)
		}
		if !tt.watch.Create(event.CreateEvent{Object: after}) || !tt.watch.Delete(event.DeleteEvent{Object: after}) {
			t.Errorf("%T: coming and going must wake the Cluster", after)
		}
	}
}

func generation(o client.Object) { o.SetGeneration(o.GetGeneration() + 1) }
func annotation(o client.Object) { o.SetAnnotations(map[string]string{"a": "b"}) }
func label(o client.Object)      { o.SetLabels(map[string]string{"a": "b"}) }
func deletion(o client.Object)   { o.SetDeletionTimestamp(new(metav1.Now())) }
func owner(o client.Object)      { o.SetOwnerReferences([]metav1.OwnerReference{{Name: "c"}}) }

func of[T client.Object](change func(T)) func(client.Object) {
	return func(o client.Object) {
		if typed, ok := o.(T); ok {
			change(typed)
		}
	}
}

func status(field string, value any) func(client.Object) {
	return of(func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, value, "status", field) })
}

func TestRequests(t *testing.T) {
	w := newWorld(t)
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}}
	want := []ctrl.Request{{NamespacedName: w.Key}}
	if diff := cmp.Diff(want, clusterOf(t.Context(), md)); diff != "" {
		t.Errorf("the Cluster of a MachineDeployment (-want +got):\n%s", diff)
	}
	if got := clusterOf(t.Context(), &clusterv1.Machine{}); len(got) > 0 {
		t.Errorf("the Cluster of a Machine without a label: %v", got)
	}
	class := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stable"}}
	if diff := cmp.Diff(want, w.r.clustersOfClass(t.Context(), class)); diff != "" {
		t.Errorf("the Clusters of a class (-want +got):\n%s", diff)
	}
	class.Name = "other"
	if got := w.r.clustersOfClass(t.Context(), class); len(got) > 0 {
		t.Errorf("the Clusters of another class: %v", got)
	}
}
