package machineset

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

func (w *world) cluster() *clusterv1.Cluster { return get(w, "c", &clusterv1.Cluster{}) }

// TestPause: the condition is written once, at once, and nothing else happens.
func TestPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	edit(w, w.cluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	w.Put(set("a", "a", 1))
	if diff := cmp.Diff([]string{"patch MachineSet", "patch-status MachineSet"}, w.settle("a")); diff != "" {
		t.Errorf("writes while paused (-want +got):\n%s", diff)
	}
	if c := conditions.Get(w.set("a"), clusterv1.PausedCondition); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition %v", c)
	}
	edit(w, w.cluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	if err := w.reconcile("a"); err != nil {
		t.Fatal(err)
	}
	// Not paused is written before anything is done, or who pauses again might find the old
	// condition.
	if got := w.Take(); got[0] != "patch-status MachineSet" || len(w.machines()) != 1 {
		t.Errorf("writes after the pause: %s", got)
	}
}

// TestPolicyUnknown: without an answer about the policy, nothing happens to Machines.
func TestPolicyUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scalesDown(w)
	w.belongs()
	w.Take()
	w.r.Policies = policies(policy.Policy{}, errors.New("broken"))
	if err := w.reconcile("a"); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("error %v", err)
	}
	if got := w.Take(); slices.Contains(got, "delete Machine") {
		t.Errorf("writes: %s", got)
	}
}

// TestPolicyHoldsRemediation: a Machine that is being updated waits.
func TestPolicyHoldsRemediation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remediates(w)
	m := w.machines()[0]
	edit(w, &m, func(m *clusterv1.Machine) {
		m.Annotations = with(m.Annotations, clusterv1.UpdateInProgressAnnotation, "")
		m.Annotations = with(m.Annotations, "runtime.cluster.x-k8s.io/pending-hooks", capi.UpdateMachineHook)
	})
	w.belongs()
	w.Take()
	w.r.Policies = policies(policy.Policy{HandOver: true}, nil)
	if got := w.settle("a"); slices.Contains(got, "delete Machine") {
		t.Errorf("writes: %s", got)
	}
}

// TestRemediatesWhatNoUpdateReaches: where no update leads to the template, an old MachineSet has an
// unhealthy Machine remediated, after those of other MachineSets of the group.
func TestRemediatesWhatNoUpdateReaches(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reason string
		busy   bool
		want   bool
	}{
		"an update may reach it":   {},
		"no update reaches it":     {reason: "NotCovered", want: true},
		"another one is in flight": {reason: "NotCovered", busy: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			remediates(w)
			w.belongs()
			md := get(w, "d", &clusterv1.MachineDeployment{})
			edit(w, md, func(md *clusterv1.MachineDeployment) {
				md.Annotations = map[string]string{clusterv1.RevisionAnnotation: "2"}
				md.Spec.Remediation.MaxInFlight = new(intstr.FromInt32(1))
				md.Spec.Replicas = new(int32(2))
			})
			other := set("b", "b", 0)
			other.Labels = with(other.Labels, clusterv1.MachineDeploymentNameLabel, "d")
			owner := *metav1.NewControllerRef(md, capi.MachineDeploymentKind)
			other.OwnerReferences = []metav1.OwnerReference{owner}
			w.Put(other)
			edit(w, w.set("a"), func(s *clusterv1.MachineSet) {
				s.Annotations = with(s.Annotations, v1alpha1.NoUpdateAnnotation, tt.reason)
				s.OwnerReferences = other.OwnerReferences
			})
			if tt.busy {
				owner := *metav1.NewControllerRef(w.set("b"), capi.MachineSetKind)
				busy := w.machines()[0]
				labels := with(busy.Labels, clusterv1.MachineDeploymentUniqueLabel, "b")
				busy.ObjectMeta = metav1.ObjectMeta{
					Name: "busy", Namespace: namespace, OwnerReferences: []metav1.OwnerReference{owner},
					Labels: with(labels, clusterv1.MachineDeploymentNameLabel, "d"),
				}
				busy.Status.Conditions = nil
				for _, kind := range []string{
					clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineHealthCheckSucceededCondition,
				} {
					conditions.Set(&busy, metav1.Condition{
						Type: kind, Status: metav1.ConditionFalse,
						Reason: clusterv1.MachineSetMachineRemediationMachineDeletingReason,
					})
				}
				w.Put(&busy)
			}
			w.Take()
			w.r.Policies = policies(policy.Policy{Guarded: true}, nil)
			if got := slices.Contains(w.settle("a"), "delete Machine"); got != tt.want {
				t.Errorf("the Machine is deleted: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestUnhealthyAgainHealthy: the condition of a Machine that has recovered goes, with one write.
func TestUnhealthyAgainHealthy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	existing(w)
	m := w.machines()[0]
	editStatus(w, &m, func(m *clusterv1.Machine) {
		m.Status.Conditions = []metav1.Condition{
			{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionTrue, Reason: "R"},
			{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: "R"},
		}
	})
	w.Take()
	if diff := cmp.Diff([]string{"patch-status Machine"}, w.settle("a")); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if conditions.Has(get(w, m.Name, &clusterv1.Machine{}), clusterv1.MachineOwnerRemediatedCondition) {
		t.Error("the condition is there still")
	}
}

// TestCreationFails: a failed step deletes what was created before it, and the condition says why.
// If the answer to the creation of the Machine is lost, nothing is deleted.
func TestCreationFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind   string
		lost   bool
		reason string
		want   []string
	}{
		"bootstrap": {kind: "TestConfig", reason: clusterv1.BootstrapTemplateCloningFailedV1Beta1Reason,
			want: []string{"apply TestConfig"}},
		"infrastructure": {kind: "TestMachine", reason: clusterv1.InfrastructureTemplateCloningFailedV1Beta1Reason,
			want: []string{"apply TestConfig", "patch TestConfig", "apply TestMachine", "delete TestConfig"}},
		"machine": {kind: "Machine", reason: clusterv1.MachineCreationFailedV1Beta1Reason, want: []string{
			"apply TestConfig", "patch TestConfig", "apply TestMachine", "patch TestMachine", "apply Machine",
			"delete TestMachine", "delete TestConfig",
		}},
		"machine, answer lost": {kind: "Machine", lost: true, reason: clusterv1.MachineCreationFailedV1Beta1Reason, want: []string{
			"apply TestConfig", "patch TestConfig", "apply TestMachine", "patch TestMachine", "apply Machine",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Put(set("a", "a", 0))
			w.settle("a")
			edit(w, w.set("a"), func(s *clusterv1.MachineSet) { *s.Spec.Replicas = 1 })
			w.Take()
			w.Fail = func(verb, kind string) (error, bool) {
				if verb == "apply" && kind == tt.kind {
					return errKilled, tt.lost
				}
				return nil, false
			}
			if err := w.reconcile("a"); !errors.Is(err, errKilled) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(append(tt.want, "patch-status MachineSet"), w.Take()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if got := v1beta1conditions.GetReason(w.set("a"), clusterv1.MachinesCreatedV1Beta1Condition); got != tt.reason {
				t.Errorf("reason %q", got)
			}
			w.Fail = nil
			w.settle("a")
			if got := len(w.machines()); got != 1 {
				t.Errorf("%d Machines in the end", got)
			}
		})
	}
}

// TestMissingTemplate: a MachineSet that may create Machines fails without its template; an old one
// of a MachineDeployment says so in a condition.
func TestMissingTemplate(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		w := newWorld(t)
		w.Put(&clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
			Name: "d", Namespace: namespace, Annotations: map[string]string{clusterv1.RevisionAnnotation: "2"},
		}})
		s := set("a", "absent", 0)
		s.Labels = with(s.Labels, clusterv1.MachineDeploymentNameLabel, "d")
		s.Annotations = map[string]string{clusterv1.RevisionAnnotation: map[bool]string{false: "2", true: "1"}[old]}
		w.Put(s)
		if err := w.reconcile("a"); apierrors.IsNotFound(err) == old || old && err != nil {
			t.Errorf("old %t: error %v", old, err)
		}
		want := "Scaling up would be blocked because TestConfigTemplate and TestMachineTemplate do not exist"
		if got := conditions.GetMessage(w.set("a"), clusterv1.MachineSetScalingUpCondition); got != want {
			t.Errorf("old %t: message %q", old, got)
		}
		if len(w.set("a").OwnerReferences) != 0 {
			t.Error("a MachineSet of a MachineDeployment got another owner")
		}
	}
}

// TestAdopt: a Machine without a controller is adopted, one of another controller is not.
func TestAdopt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	existing(w)
	machines := w.machines()
	edit(w, &machines[0], func(m *clusterv1.Machine) { m.OwnerReferences = nil })
	edit(w, &machines[1], func(m *clusterv1.Machine) { m.OwnerReferences[0].UID = "other" })
	if got := w.r.SetsOfOrphan(t.Context(), get(w, machines[0].Name, &clusterv1.Machine{})); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("who may adopt the orphan: %v", got)
	}
	if got := w.r.SetsOfOrphan(t.Context(), get(w, machines[1].Name, &clusterv1.Machine{})); len(got) != 0 {
		t.Errorf("who may adopt another's Machine: %v", got)
	}
	w.Take()
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) { *s.Spec.Replicas = 1 })
	w.settle("a")
	if !metav1.IsControlledBy(get(w, machines[0].Name, &clusterv1.Machine{}), w.set("a")) ||
		metav1.IsControlledBy(get(w, machines[1].Name, &clusterv1.Machine{}), w.set("a")) {
		t.Errorf("owners: %v", w.machines())
	}
}

// TestUnused: objects of a Machine that was never created are deleted; those whose Machine exists
// stay, even if the cache does not show the Machine.
func TestUnused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	existing(w)
	s := w.set("a")
	unused := testTemplate("Test", "infrastructure", "Machine", "unused")
	unused.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentUniqueLabel: "a"})
	unused.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: s.Name, UID: s.UID,
	}})
	w.Put(unused)
	w.Take()
	hidden := &Run{Reconciler: w.r, Set: s}
	if err := hidden.DeleteUnused(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete TestMachine"}, w.Take()); diff != "" {
		t.Errorf("writes with a cache without Machines (-want +got):\n%s", diff)
	}
	if err := w.Inner.Get(t.Context(), client.ObjectKeyFromObject(unused), unused); !apierrors.IsNotFound(err) {
		t.Errorf("the object that no Machine uses: %v", err)
	}
}

// TestUnusedIsLookedForOnce: a MachineSet at rest does not list all objects of its namespace again
// and again. A new process, and one that creates a Machine, looks.
func TestUnusedIsLookedForOnce(t *testing.T) {
	t.Parallel()
	lists := 0
	w := newWorld(t)
	count := func() {
		inner := w.r.Client
		w.r.Client = interceptor.NewClient(w.Client, interceptor.Funcs{List: func(
			ctx context.Context, _ client.WithWatch, list client.ObjectList, o ...client.ListOption,
		) error {
			if _, ok := list.(*unstructured.UnstructuredList); ok {
				lists++
			}
			return inner.List(ctx, list, o...)
		}})
	}
	count()
	looked := func(what string, want bool) {
		t.Helper()
		lists = 0
		w.settle("a")
		if got := lists > 0; got != want {
			t.Errorf("%s: it looked: %t", what, got)
		}
	}
	w.Put(set("a", "a", 1))
	looked("a Machine is created", true)
	looked("a cache may lag", true)
	w.now = w.now.Add(creationShows)
	looked("a minute later", true)
	looked("at rest", false)
	w.restart()
	count()
	looked("a new process", true)
	looked("at rest again", false)
	edit(w, w.set("a"), func(s *clusterv1.MachineSet) { *s.Spec.Replicas = 2 })
	w.settle("a")
	looked("another Machine was created", true)
}

// TestConflict: status that was computed from an old MachineSet is not written, and that is no
// error.
func TestConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scalesDown(w)
	w.Take()
	w.Fail = func(verb, kind string) (error, bool) {
		if verb == "patch-status" && kind == "MachineSet" {
			return apierrors.NewConflict(schema.GroupResource{Resource: "machinesets"}, "a", errors.New("newer")), false
		}
		return nil, false
	}
	if err := w.reconcile("a"); err != nil || w.result.RequeueAfter != conflictRetry {
		t.Errorf("result %v, error %v", w.result, err)
	}
}

// TestNames checks the form of the names of Machines.
func TestNames(t *testing.T) {
	t.Parallel()
	random := func(n int) string { return strings.Repeat("r", n) }
	for naming, want := range map[string]string{
		"": "set-rrrrr",
		"{{ .cluster.name }}-{{ .machineSet.name }}-{{ .random }}": "c-set-rrrrr",
		strings.Repeat("x", 60) + "{{ .random }}":                  strings.Repeat("x", 58) + "rrrrr",
		"no-random":                   "",
		"{{ .random }}{{ .nothing }}": "",
		"{{ .random }}{{":             "",
	} {
		s := set("set", "a", 1)
		s.Spec.MachineNaming.Template = naming
		got, err := newName(s, random)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v, want %q", naming, got, err, want)
		}
	}
}

// TestRelevant: which changes of a Machine, MachineSet and MachineDeployment cause a reconcile.
func TestRelevant(t *testing.T) {
	t.Parallel()
	type change struct {
		name   string
		before client.Object
		change func() client.Object
		facts  func(client.Object) any
		want   bool
	}
	machine, owner := &clusterv1.Machine{}, &clusterv1.MachineDeployment{}
	changedMachine := func(change func(*clusterv1.Machine)) func() client.Object {
		return func() client.Object { m := machine.DeepCopy(); change(m); return m }
	}
	changedOwner := func(change func(*clusterv1.MachineDeployment)) func() client.Object {
		return func() client.Object { d := owner.DeepCopy(); change(d); return d }
	}
	for _, c := range []change{
		{"addresses", machine, changedMachine(func(m *clusterv1.Machine) {
			m.Status.Addresses = clusterv1.MachineAddresses{{Address: "192.0.2.1"}}
		}), machineFacts, false},
		{"phase", machine, changedMachine(func(m *clusterv1.Machine) { m.Status.Phase = "Running" }), machineFacts, false},
		{"another condition", machine, changedMachine(func(m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, Reason: "R"})
		}), machineFacts, false},
		{"ready", machine, changedMachine(func(m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue, Reason: "R"})
		}), machineFacts, true},
		{"node", machine, changedMachine(func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n" }), machineFacts, true},
		{"kubelet", machine, changedMachine(func(m *clusterv1.Machine) {
			m.Status.NodeInfo = nil
			m.Labels = map[string]string{"a": "b"}
		}), machineFacts, true},
		{"status of the owner", owner, changedOwner(func(d *clusterv1.MachineDeployment) { d.Status.ReadyReplicas = new(int32(1)) }),
			deploymentFacts, false},
		{"revision", owner, changedOwner(func(d *clusterv1.MachineDeployment) {
			d.Annotations = map[string]string{clusterv1.RevisionAnnotation: "2"}
		}), deploymentFacts, true},
		{"spec of the owner", owner, changedOwner(func(d *clusterv1.MachineDeployment) { d.Generation++ }), deploymentFacts, true},
	} {
		after := c.change()
		after.SetResourceVersion("2")
		if got := objects.Changes(c.facts).Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: after}); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
		if !objects.Changes(c.facts).Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.before}) {
			t.Errorf("%s: a resync does not pass", c.name)
		}
	}
}

// TestRecount checks when a MachineSet is reconciled again without an event.
func TestRecount(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ready, available int32
		minReady         *int32
		want             time.Duration
	}{
		"all available":   {ready: 2, available: 2, minReady: new(int32(30))},
		"not ready":       {ready: 1, want: notReadyRetry},
		"not available":   {ready: 2, available: 1, minReady: new(int32(30)), want: 30 * time.Second},
		"no minimum time": {ready: 2, available: 1},
	} {
		s := set("a", "a", 2)
		s.Spec.Template.Spec.MinReadySeconds = tt.minReady
		s.Status.ReadyReplicas, s.Status.AvailableReplicas = &tt.ready, &tt.available
		if got := (&Run{Set: s}).recount(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestMoveToDeleted: no Machine moves into a MachineSet that is being deleted, because it would be
// deleted with it.
func TestMoveToDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	moves(w)
	if err := w.Inner.Delete(t.Context(), w.set("b")); err != nil {
		t.Fatal(err)
	}
	w.Take()
	if err := w.reconcile("a"); err == nil || !strings.Contains(err.Error(), "which is being deleted") {
		t.Errorf("error %v", err)
	}
	for _, m := range w.machines() {
		if !metav1.IsControlledBy(&m, w.set("a")) {
			t.Errorf("Machine %s has moved", m.Name)
		}
	}
}

// TestMoveMeetsChange: a MachineSet that has read a change of the template before the plan for it gives no
// Machine of a kept group away. Here the earlier plan left out a Machine whose kubelet was ahead, and
// the new template would let it go: to the MachineSet of the earlier template, back a version.
func TestMoveMeetsChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keeps(w)
	ahead := w.machines()[0]
	editStatus(w, &ahead, func(m *clusterv1.Machine) {
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: "v1.35.0"}
	})
	edit(w, get(w, "d", &clusterv1.MachineDeployment{}), func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Spec.Version = "v1.35.0"
	})
	w.settle("a")
	for _, m := range w.machines() {
		if !metav1.IsControlledBy(&m, w.set("a")) {
			t.Errorf("Machine %s has moved after the template has changed", m.Name)
		}
	}
	w.template("b")
	w.settle("a")
	if got := w.moved().Name; got == ahead.Name {
		t.Errorf("Machine %s has moved, and its kubelet is ahead", got)
	}
}
