package machinedeployment

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// deferring records for which versions of MachineSets reconciles wait.
type deferring struct {
	*capicontroller.FakeController
	versions []string
}

func (d *deferring) DeferNextReconcileUntilCacheUpToDate(
	_ metav1.Object, _ capicontroller.GroupVersionKindType, version string,
) {
	d.versions = append(d.versions, version)
}

// deleting deletes like an API server, which returns an object that has finalizers.
type deleting struct {
	client.Client
	deleted []string
}

func (d *deleting) Delete(
	ctx context.Context, o client.Object, options ...client.DeleteOption,
) (client.Object, error) {
	if err := d.Client.Delete(ctx, o, options...); err != nil {
		return nil, err
	}
	left := &clusterv1.MachineSet{}
	if err := d.Get(ctx, client.ObjectKeyFromObject(o), left); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	d.deleted = append(d.deleted, left.ResourceVersion)
	return left, nil
}

// TestWaitsForDeletion: the next reconcile waits until the cache shows that the controller has
// deleted an old MachineSet.
func TestWaitsForDeletion(t *testing.T) {
	t.Parallel()
	w := scenario{begin: nothing, change: (*world).upgrade}.run(t)
	waits, deletes := &deferring{FakeController: capicontroller.NewFakeController()}, &deleting{Client: w.Client}
	w.r.controller, w.r.deleter = waits, deletes
	w.settle()
	if len(deletes.deleted) != 1 {
		t.Fatalf("%d MachineSets were deleted, want one:\n%s", len(deletes.deleted), w.picture())
	}
	if !slices.Contains(waits.versions, deletes.deleted[0]) {
		t.Errorf("no reconcile waits for version %s, only for %v", deletes.deleted[0], waits.versions)
	}
}

// TestRequeueAfter: when a group is looked at again, although no object that is watched changes.
func TestRequeueAfter(t *testing.T) {
	t.Parallel()
	missing := func(w *world) {
		w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = "huge" })
	}
	after := func(d time.Duration) func(*world) {
		return func(w *world) {
			// The clock moves on by a second with each reconcile.
			w.edit(func(md *clusterv1.MachineDeployment) {
				md.Spec.Rollout.After = metav1.NewTime(w.now.Add(d + time.Second))
			})
		}
	}
	both := func(changes ...func(*world)) func(*world) {
		return func(w *world) {
			for _, change := range changes {
				change(w)
			}
		}
	}
	pause := func(w *world) {
		w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Paused = new(true) })
	}
	for name, tt := range map[string]struct {
		begin, change func(*world)
		want          time.Duration
	}{
		"nothing":       {nothing, nothing, 0},
		"rollout.after": {nothing, after(time.Hour), time.Hour + time.Millisecond},
		"kept, blocked": {kept(nothing), (*world).upgrade, answerLifetime},
		"kept, blocked, and after": {kept(nothing), both((*world).upgrade, after(time.Hour)),
			answerLifetime},
		"kept, blocked until after": {kept(nothing), both((*world).upgrade, after(time.Second)),
			time.Second + time.Millisecond},
		"kept, template missing":    {kept(inPlace), missing, answerLifetime},
		"kept, missing, and paused": {kept(inPlace), both(missing, pause), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scenario{begin: tt.begin, change: tt.change}.run(t)
			result, err := w.reconcile()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, result.RequeueAfter); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRestoredManagedFields: a run that restores managed fields of a MachineSet has not observed a
// change, and another run follows although no object that is watched changes.
func TestRestoredManagedFields(t *testing.T) {
	t.Parallel()
	w := scenario{begin: nothing, change: nothing}.run(t)
	w.settle()
	set := w.sets()[0]
	lose := client.RawPatch(types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`))
	if err := w.Inner.Patch(t.Context(), set, lose); err != nil {
		t.Fatal(err)
	}
	w.upgrade()
	result, err := w.reconcile()
	if err != nil || result.RequeueAfter != conflictRetry {
		t.Errorf("the next run follows after %s, %v", result.RequeueAfter, err)
	}
	md := w.md()
	if observed := md.Status.ObservedGeneration; observed != md.Generation-1 {
		t.Errorf("generation %d of %d is observed", observed, md.Generation)
	}
	if objects.IsOwnershipLost(w.sets()[0]) {
		t.Error("the managed fields are not restored")
	}
	w.settle()
	if n := len(w.sets()); w.created != 3 || n != 1 {
		t.Errorf("created %d:\n%s", w.created, w.picture())
	}
}

// TestTemplateAppears: a kept group whose template does not exist yet moves no Machine, can be
// scaled, and is updated when somebody has created the template.
func TestTemplateAppears(t *testing.T) {
	t.Parallel()
	w := scenario{begin: kept(inPlace), change: func(w *world) {
		w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = "huge" })
	}}.run(t)
	w.settle()
	scale(4)(w)
	w.settle()
	if got, want := [...]int{w.created, w.deleted, w.moved}, [...]int{1, 0, 0}; got != want {
		t.Fatalf("created, deleted and moved are %v, want %v:\n%s", got, want, w.picture())
	}
	template := &unstructured.Unstructured{}
	template.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta2")
	template.SetKind("DevMachineTemplate")
	template.SetNamespace(key.Namespace)
	template.SetName("large")
	if err := w.Inner.Get(t.Context(), client.ObjectKeyFromObject(template), template); err != nil {
		t.Fatal(err)
	}
	template.SetName("huge")
	template.SetResourceVersion("")
	if err := w.Inner.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(answerLifetime)
	w.settle()
	if got, want := [...]int{w.created, w.deleted, w.moved}, [...]int{1, 0, 4}; got != want {
		t.Errorf("created, deleted and moved are %v, want %v:\n%s", got, want, w.picture())
	}
	if n := len(w.sets()); n != 1 {
		t.Errorf("%d MachineSets are left:\n%s", n, w.picture())
	}
}

// TestRelevant: which changes of a MachineDeployment and of its MachineSets cause a reconcile.
func TestRelevant(t *testing.T) {
	t.Parallel()
	ofDeployment := func(change func(*clusterv1.MachineDeployment)) client.Object {
		md := &clusterv1.MachineDeployment{}
		change(md)
		return md
	}
	ofSet := func(change func(*clusterv1.MachineSet)) client.Object {
		set := &clusterv1.MachineSet{}
		change(set)
		return set
	}
	condition := func(kind string, status metav1.ConditionStatus, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "R", Message: message}
	}
	with := func(kind, message string) client.Object {
		return ofSet(func(s *clusterv1.MachineSet) {
			conditions.Set(s, condition(kind, metav1.ConditionFalse, message))
		})
	}
	paused := func(status metav1.ConditionStatus, message string) client.Object {
		return ofDeployment(func(md *clusterv1.MachineDeployment) {
			conditions.Set(md, condition(clusterv1.PausedCondition, status, message))
		})
	}
	md, set := &clusterv1.MachineDeployment{}, &clusterv1.MachineSet{}
	for name, tt := range map[string]struct {
		before, after client.Object
		facts         func(client.Object) any
		want          bool
	}{
		"spec": {md, ofDeployment(func(md *clusterv1.MachineDeployment) { md.Generation++ }),
			deploymentFacts, true},
		"annotation": {md, ofDeployment(func(md *clusterv1.MachineDeployment) {
			md.Annotations = map[string]string{"a": "b"}
		}), deploymentFacts, true},
		"own counters": {md, ofDeployment(func(md *clusterv1.MachineDeployment) {
			md.Status.Replicas = new(int32(1))
		}), deploymentFacts, false},
		"own condition": {md, ofDeployment(func(md *clusterv1.MachineDeployment) {
			conditions.Set(md,
				condition(clusterv1.MachineDeploymentAvailableCondition, metav1.ConditionTrue, ""))
		}), deploymentFacts, false},
		"Paused begins": {md, paused(metav1.ConditionFalse, ""), deploymentFacts, true},
		"Paused changes": {paused(metav1.ConditionTrue, ""), paused(metav1.ConditionFalse, ""),
			deploymentFacts, true},
		"Paused explains": {paused(metav1.ConditionTrue, "a"), paused(metav1.ConditionTrue, "b"),
			deploymentFacts, false},
		"replicas": {set,
			ofSet(func(s *clusterv1.MachineSet) { s.Status.Replicas = new(int32(1)) }), setFacts, true},
		"available": {set, ofSet(func(s *clusterv1.MachineSet) {
			s.Status.AvailableReplicas = new(int32(1))
		}), setFacts, true},
		"observed generation": {set,
			ofSet(func(s *clusterv1.MachineSet) { s.Status.ObservedGeneration++ }), setFacts, true},
		"generation that was read": {set, ofSet(func(s *clusterv1.MachineSet) {
			s.Status.Conditions = []metav1.Condition{{Type: clusterv1.PausedCondition, ObservedGeneration: 1}}
		}), setFacts, true},
		"versions": {set, ofSet(func(s *clusterv1.MachineSet) {
			s.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.33.0", Replicas: 1}}
		}), setFacts, true},
		"selector of the status": {set,
			ofSet(func(s *clusterv1.MachineSet) { s.Status.Selector = "a=b" }), setFacts, false},
		"owner": {set, ofSet(func(s *clusterv1.MachineSet) {
			s.OwnerReferences = []metav1.OwnerReference{{Name: "md"}}
		}), setFacts, true},
		"managed fields": {set, ofSet(func(s *clusterv1.MachineSet) {
			s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		}), setFacts, false},
		"a condition of its Machines": {set, with(clusterv1.MachineSetMachinesReadyCondition, "a"),
			setFacts, true},
		"its message": {
			with(clusterv1.MachineSetMachinesReadyCondition,
				"a"), with(clusterv1.MachineSetMachinesReadyCondition, "b"), setFacts, true,
		},
		"remediation":   {set, with(clusterv1.MachineSetRemediatingCondition, ""), setFacts, true},
		"its ScalingUp": {set, with(clusterv1.MachineSetScalingUpCondition, ""), setFacts, false},
		"its Paused":    {set, with(clusterv1.PausedCondition, ""), setFacts, false},
		"orphan, labels": {set,
			ofSet(func(s *clusterv1.MachineSet) { s.Labels = map[string]string{"pool": "md"} }), orphanFacts,
			true},
		"orphan, status": {set,
			ofSet(func(s *clusterv1.MachineSet) { s.Status.Replicas = new(int32(1)) }), orphanFacts, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, isObject := tt.before.DeepCopyObject().(client.Object)
			if !isObject {
				t.Fatalf("%T is no object", tt.before)
			}
			tt.after.SetResourceVersion("2")
			changes := objects.Changes(tt.facts)
			if got := changes.Update(event.UpdateEvent{ObjectOld: before,
				ObjectNew: tt.after}); got != tt.want {
				t.Errorf("passes: %t", got)
			}
			if !changes.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: before}) {
				t.Error("a resync does not pass")
			}
		})
	}
}

// TestKeepsTargets: an empty old MachineSet stays while another one may still move Machines to it,
// because it has not read the newest plan.
func TestKeepsTargets(t *testing.T) {
	t.Parallel()
	w := scenario{begin: nothing, change: nothing}.run(t)
	w.settle()
	newest := w.sets()[0]
	old := newest.DeepCopy()
	old.Name, old.UID, old.ResourceVersion = "md-old", "old", ""
	old.Spec.Template.Spec.Version, old.Spec.Replicas = "v1.32.0", new(int32(0))
	old.Status = clusterv1.MachineSetStatus{ObservedGeneration: old.Generation}
	w.Put(old)
	observe := func(generation int64) {
		set := w.sets()[0]
		set.Status.ObservedGeneration, set.Status.Conditions = generation, nil
		if err := w.Inner.Status().Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	for _, read := range []bool{false, true} {
		generation := newest.Generation - 1
		if read {
			generation++
		}
		observe(generation)
		w.mustReconcile()
		if deleted := !w.sets()[1].DeletionTimestamp.IsZero(); deleted != read {
			t.Errorf("the MachineSet has read the plan: %t, and the old one is deleted: %t", read, deleted)
		}
	}
}

// TestInvalidGroupIsNamed: a MachineSet that somebody has made by hand, and that the MachineDeployment
// adopts, stops it. An Event says why.
func TestInvalidGroupIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settle()
	made := w.sets()[0].DeepCopy()
	made.ObjectMeta = metav1.ObjectMeta{Name: "by-hand", Namespace: made.Namespace, Labels: made.Labels}
	delete(made.Labels, clusterv1.MachineDeploymentUniqueLabel)
	w.Put(made)
	w.events()
	if _, err := w.reconcile(); err == nil {
		t.Fatal("no error")
	}
	if got := strings.Join(w.events(), "\n"); !strings.Contains(got, "Warning FailedPlan") ||
		!strings.Contains(got, "by-hand") {
		t.Errorf("the Events are\n%s", got)
	}
}

// TestNextRun: a run costs more if there are more Machines, so the next one follows later, but for
// the first ones after a change.
func TestNextRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		replicas int32
		changed  bool
		want     time.Duration
	}{
		{replicas: 5, want: 100500 * time.Microsecond},
		{replicas: 1000, want: 200 * time.Millisecond},
		{replicas: 1000, changed: true, want: 100 * time.Millisecond},
		{replicas: 30_000, want: time.Second},
	} {
		w := scenario{begin: nothing, change: nothing}.run(t)
		waits := capicontroller.NewFakeController()
		w.r.controller, w.r.StatusInterval = waits, 5*time.Second
		md := w.md()
		md.Status.Replicas = &tt.replicas
		if tt.changed {
			md.Status.ObservedGeneration = md.Generation - 1
		}
		if err := w.Inner.Status().Update(t.Context(), md); err != nil {
			t.Fatal(err)
		}
		w.mustReconcile()
		got := waits.Deferrals[ctrl.Request{NamespacedName: key}].Sub(w.now)
		if got != tt.want {
			t.Errorf("%+v: the next run follows after %s", tt, got)
		}
	}
}
