package machinedeployment

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
)

type (
	setRequest  = runtimehooksv1.CanUpdateMachineSetRequest
	setResponse = runtimehooksv1.CanUpdateMachineSetResponse
)

func kept(then func(*world)) func(*world) {
	return func(w *world) {
		w.policy = policy.Policy{Guarded: true, Name: "p"}
		then(w)
	}
}

// blocked returns the reason of the condition UpdateBlocked; empty if there is none.
func (w *world) blocked() string {
	w.t.Helper()
	c := conditions.Get(w.md(), v1alpha1.UpdateBlockedCondition)
	if c == nil {
		return ""
	}
	return c.Reason
}

func blockedBy(reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue,
		Reason: reason, Message: message,
	}
}

func revert(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.33.0" }

// TestPolicyIsNotInTheCacheYet checks that the API server is asked for the policy before Machines
// are replaced, once.
func TestPolicyIsNotInTheCacheYet(t *testing.T) {
	t.Parallel()
	w := scenario{begin: nothing, change: (*world).upgrade}.run(t)
	w.policyNow = &policy.Policy{Guarded: true, Name: "p"}
	w.mustReconcile()
	w.policy, w.policyNow = *w.policyNow, nil
	w.settle()
	if w.created+w.deleted > 0 {
		t.Errorf("%d Machines were created, %d deleted:\n%s", w.created, w.deleted, w.picture())
	}
	replaced := scenario{begin: nothing, change: (*world).upgrade}.run(t)
	replaced.settle()
	if replaced.created != 3 || replaced.asked != 1 {
		t.Errorf("%d Machines were created after %d questions", replaced.created, replaced.asked)
	}
}

// TestPolicyAndStrategy checks that the API server is asked for the policy, once, before a change
// of the strategy replaces Machines, although the new MachineSet exists already.
func TestPolicyAndStrategy(t *testing.T) {
	t.Parallel()
	for name, live := range map[string]*policy.Policy{"a policy": {Guarded: true, Name: "p"}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scenario{begin: onDelete, change: (*world).upgrade}.run(t)
			w.settle()
			if n := len(w.sets()); n != 2 || w.created > 0 {
				t.Fatalf("%d MachineSets exist:\n%s", n, w.picture())
			}
			w.asked, w.policyNow = 0, live
			w.edit(func(md *clusterv1.MachineDeployment) {
				md.Spec.Rollout.Strategy.Type = clusterv1.RollingUpdateMachineDeploymentStrategyType
			})
			withBudget(1, 0, nothing)(w)
			w.mustReconcile()
			if live != nil {
				w.policy, w.policyNow = *live, nil
			}
			w.settle()
			want := 3
			if live != nil {
				want = 0
			}
			if w.created != want || w.deleted != want || w.asked != 1 {
				t.Errorf("%d Machines were created, %d deleted after %d questions:\n%s", w.created, w.deleted,
					w.asked, w.picture())
			}
		})
	}
}

// TestKept checks that a change of a group whose Machines are kept creates and deletes none,
// whatever the extension answers, and that the condition says why nothing happens.
func TestKept(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		extension func(*setRequest, *setResponse) error
		moved     int
		blocked   string
	}{
		"covered": {extension: coverAll, moved: 3},
		"not covered": {
			extension: func(*setRequest, *setResponse) error { return nil }, blocked: "NotCovered",
		},
		"no extension": {blocked: "NotCovered"},
		"failed": {
			extension: func(*setRequest, *setResponse) error { return errors.New("refused") },
			blocked:   "CoverageUnknown",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scenario{begin: kept(nothing), change: (*world).upgrade}.run(t)
			w.extension = tt.extension
			w.settle()
			if got, want := [...]int{w.created, w.deleted, w.moved}, [...]int{0, 0, tt.moved}; got != want {
				t.Errorf("created, deleted and moved are %v, want %v:\n%s", got, want, w.picture())
			}
			if got := w.blocked(); got != tt.blocked {
				t.Errorf("the condition has the reason %q, want %q", got, tt.blocked)
			}
		})
	}
}

// TestScaleWhileBlocked scales a group that is blocked, and then lets a person resolve the
// obstacle.
func TestScaleWhileBlocked(t *testing.T) {
	t.Parallel()
	for name, resolve := range map[string]func(*world){
		"the change is covered":     inPlace,
		"the policy lets it happen": func(w *world) { w.policy = policy.Policy{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scenario{begin: kept(nothing), change: (*world).upgrade}.run(t)
			w.settle()
			result, err := w.reconcile()
			if err != nil || result.RequeueAfter != answerLifetime {
				t.Errorf("a blocked group is asked about again after %s, %v", result.RequeueAfter, err)
			}
			scale(5)(w)
			w.settle()
			if got, want := [...]int{w.created, w.deleted, w.moved}, [...]int{2, 0, 0}; got != want {
				t.Fatalf("created, deleted and moved are %v, want %v:\n%s", got, want, w.picture())
			}
			scale(2)(w)
			w.settle()
			if n := len(w.machines()); n != 2 {
				t.Fatalf("%d Machines are left:\n%s", n, w.picture())
			}
			resolve(w)
			w.now = w.now.Add(time.Minute)
			w.settle()
			if got := w.blocked(); got != "" {
				t.Errorf("the condition still has the reason %q:\n%s", got, w.picture())
			}
			if n := len(w.sets()); n != 1 {
				t.Errorf("%d MachineSets are left:\n%s", n, w.picture())
			}
		})
	}
}

// TestRevertWhileBlocked takes back a change that is blocked.
func TestRevertWhileBlocked(t *testing.T) {
	t.Parallel()
	w := scenario{begin: kept(nothing), change: (*world).upgrade}.run(t)
	w.settle()
	w.edit(revert)
	w.settle()
	if diff := cmp.Diff("v1.33.0 small: 3 of 3, map[v1.33.0:3], revision 3", w.picture()); diff != "" {
		t.Errorf("MachineSets (-want +got):\n%s", diff)
	}
	if got := w.blocked(); got != "" {
		t.Errorf("the condition still has the reason %q", got)
	}
}

// TestAnotherObstacle: the condition names what blocks the group now.
func TestAnotherObstacle(t *testing.T) {
	t.Parallel()
	w := scenario{begin: kept(nothing), change: (*world).upgrade}.run(t)
	w.settle()
	if got := w.blocked(); got != "NotCovered" {
		t.Fatalf("the condition has the reason %q", got)
	}
	w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.32.0" })
	w.settle()
	if got := w.blocked(); got != "KubeletAhead" {
		t.Errorf("after another change the condition has the reason %q", got)
	}
}

// TestEngineCondition checks that the condition of the engine of updates in place stays.
func TestEngineCondition(t *testing.T) {
	t.Parallel()
	w := scenario{begin: kept(nothing), change: (*world).upgrade}.run(t)
	w.extension = func(*setRequest, *setResponse) error {
		md := w.md()
		conditions.Set(md, blockedBy("PolicyConflict", "two policies select the group"))
		if err := w.Inner.Status().Update(t.Context(), md); err != nil {
			t.Fatal(err)
		}
		return errors.New("refused")
	}
	for range 3 {
		w.mustReconcile()
		w.playSets()
	}
	if got := w.blocked(); got != "PolicyConflict" {
		t.Errorf("the condition has the reason %q", got)
	}
}

// setPatch is an extension that answers with one patch of the MachineSet.
func setPatch(kind runtimehooksv1.PatchType, text string) func(*setRequest, *setResponse) error {
	return func(_ *setRequest, out *setResponse) error {
		out.MachineSetPatch = runtimehooksv1.Patch{PatchType: kind, Patch: []byte(text)}
		return nil
	}
}

func silent(*setRequest, *setResponse) error { return nil }

// TestCoverage checks which differences an extension can cover. to is another version.
func TestCoverage(t *testing.T) {
	t.Parallel()
	const merge = runtimehooksv1.JSONMergePatchType
	const version = `{"spec":{"template":{"spec":{"version":"v1.34.0"}}}}`
	noConfig := func(set *clusterv1.MachineSet) { set.Spec.Template.Spec.Bootstrap = clusterv1.Bootstrap{} }
	for name, tt := range map[string]struct {
		extension func(*setRequest, *setResponse) error
		change    func(from, to *clusterv1.MachineSet)
		handlers  []string
		want      answer
		// fails is a part of the error, gone one of why no update can begin with a template that is gone.
		fails, gone string
	}{
		"nothing differs": {
			extension: silent,
			change: func(from, to *clusterv1.MachineSet) {
				to.Spec.Template.Spec.Version = from.Spec.Template.Spec.Version
			},
			want: answer{covered: true},
		},
		"covers": {extension: setPatch(merge, version), want: answer{covered: true}},
		"covers by operations": {
			extension: setPatch(runtimehooksv1.JSONPatchType,
				`[{"op":"replace","path":"/spec/template/spec/version","value":"v1.34.0"}]`),
			want: answer{covered: true},
		},
		"covers all objects": {
			extension: coverAll,
			change: func(_, to *clusterv1.MachineSet) {
				to.Spec.Template.Spec.InfrastructureRef.Name = "large"
			},
			want: answer{covered: true},
		},
		"covers a part": {
			extension: setPatch(merge, version),
			change: func(_, to *clusterv1.MachineSet) {
				to.Spec.Template.Spec.InfrastructureRef.Name = "large"
			},
			want: answer{reason: "nothing covers InfrastructureMachine /spec/template/spec/size"},
		},
		"covers nothing": {
			extension: func(_ *setRequest, out *setResponse) error {
				out.Message = "not me"
				return nil
			},
			want: answer{reason: "nothing covers MachineSet /spec/template/spec/version; " +
				"the extension reports: not me"},
		},
		"patches a status": {
			extension: setPatch(merge, `{"status":{"observedGeneration":10}}`),
			want:      answer{reason: "nothing covers MachineSet /spec/template/spec/version"},
		},
		"leads elsewhere": {
			extension: setPatch(merge, `{"spec":{"template":{"spec":{"version":"v1.35.0"}}}}`),
			want: answer{reason: `updater "can-update.test": Machine /spec/template/spec/version: ` +
				"it changes the field, but not to what is desired"},
		},
		"is no patch":                {extension: setPatch(merge, "["), fails: "can-update.test"},
		"a patch without a type":     {extension: setPatch("", version), fails: "can-update.test"},
		"a patch of an unknown type": {extension: setPatch("Text", version), fails: "can-update.test"},
		"cannot tell": {
			extension: func(*setRequest, *setResponse) error { return errors.New("cannot tell") },
			fails:     "cannot tell",
		},
		"is not there": {want: answer{reason: "no extension answers CanUpdateMachineSet"}},
		"several": {
			extension: silent, handlers: []string{"a", "b"},
			fails: "several extensions answer CanUpdateMachineSet (a, b)",
		},
		"the current MachineSet has no infrastructure": {
			extension: silent,
			change: func(from, _ *clusterv1.MachineSet) {
				from.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}
			},
			fails: "of MachineSet from",
		},
		"the current template of the infrastructure is gone": {
			extension: setPatch(merge, version),
			change: func(from, _ *clusterv1.MachineSet) {
				from.Spec.Template.Spec.InfrastructureRef.Name = "pruned"
			},
			gone: `"pruned" of MachineSet from`,
		},
		"the desired template of the infrastructure is missing": {
			extension: setPatch(merge, version),
			change: func(_, to *clusterv1.MachineSet) {
				to.Spec.Template.Spec.InfrastructureRef.Name = "late"
			},
			fails: `"late" of MachineSet to`,
		},
		"the desired MachineSet has no infrastructure": {
			extension: silent,
			change: func(_, to *clusterv1.MachineSet) {
				to.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}
			},
			fails: "of MachineSet to",
		},
		"only the current MachineSet has a bootstrap config": {
			extension: setPatch(merge, version),
			change:    func(_, to *clusterv1.MachineSet) { noConfig(to) },
			want: answer{
				reason: "the desired template has no bootstrap config, and the current one has",
			},
		},
		"only the desired MachineSet has a bootstrap config": {
			extension: setPatch(merge, version),
			change:    func(from, _ *clusterv1.MachineSet) { noConfig(from) },
			want: answer{
				reason: "the desired template has a bootstrap config, and the current one has none",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.settle()
			w.extension, w.handlers = tt.extension, tt.handlers
			from, to := w.sets()[0], w.sets()[0]
			from.Name, to.Name, to.Spec.Template.Spec.Version = "from", "to", "v1.34.0"
			if tt.change != nil {
				tt.change(from, to)
			}
			got, err := w.r.coverage.ask(t.Context(), from, to)
			if tt.gone != "" {
				if err != nil || got.covered || !strings.Contains(got.reason, tt.gone) {
					t.Errorf("the answer is %+v and %v, want that %s is gone", got, err, tt.gone)
				}
				// Where Machines are kept, somebody has to say what happens to them.
				if _, err := w.r.coverage.askKept(t.Context(), from, to, askingTime); err == nil {
					t.Error("there is an answer about Machines that are kept")
				}
				return
			}
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("the error is %v, want one with %q", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(answer{})); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnswers checks when an extension is asked again.
func TestAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settle()
	w.extension = coverAll
	from := w.sets()[0]
	to := from.DeepCopy()
	to.Name, to.Spec.Template.Spec.Version = "other", "v1.34.0"
	for _, step := range []struct {
		name   string
		change func()
		want   int
	}{
		{"at first", func() {}, 1},
		{"again", func() {}, 1},
		{"replicas and marks changed", func() {
			from.Spec.Replicas, to.Name = new(int32(1)), "another"
			from.Annotations["note"] = "1"
		}, 1},
		{"after a while", func() { w.now = w.now.Add(answerLifetime) }, 2},
		{"another target", func() { to.Spec.Template.Spec.Version = "v1.35.0" }, 3},
		{"another template", func() { to.Spec.Template.Spec.InfrastructureRef.Name = "large" }, 4},
	} {
		step.change()
		if _, err := w.r.coverage.ask(t.Context(), from, to); err != nil {
			t.Fatal(err)
		}
		if w.questions != step.want {
			t.Errorf("%s: the extension was asked %d times, want %d", step.name, w.questions, step.want)
		}
	}
}

// TestFailedQuestion checks that nothing is written but the status if the extension fails.
func TestFailedQuestion(t *testing.T) {
	t.Parallel()
	w := scenario{begin: nothing, change: (*world).upgrade}.run(t)
	w.extension = func(*setRequest, *setResponse) error { return errors.New("down") }
	_, err := w.reconcile()
	if err == nil || !strings.Contains(err.Error(), "down") {
		t.Errorf("the error is %v", err)
	}
	if n := len(w.sets()); n != 1 {
		t.Errorf("%d MachineSets exist", n)
	}
}

// TestJustMoved checks that a MachineSet to which a Machine has just moved is not deleted: its
// status does not have the Machine yet, so that the rollout looks complete.
func TestJustMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settle()
	old := w.sets()[0].DeepCopy()
	old.Name, old.UID, old.ResourceVersion = "old", "old", ""
	old.Labels[clusterv1.MachineDeploymentUniqueLabel] = "old"
	old.Spec.Template.Spec.Version, old.Spec.Replicas = "v1.32.0", new(int32(0))
	old.Status = clusterv1.MachineSetStatus{}
	old.CreationTimestamp = metav1.NewTime(w.now.Add(-time.Hour))
	if err := w.Inner.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	m := w.machines()[0]
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(old, machineSetKind)}
	w.update(m)
	for range 3 {
		w.mustReconcile()
		for _, set := range w.sets() {
			set.Status.ObservedGeneration = set.Generation
			if err := w.Inner.Status().Update(t.Context(), set); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !w.sets()[1].DeletionTimestamp.IsZero() {
		t.Fatalf("the MachineSet to which %s has just moved is deleted", m.Name)
	}
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.sets()[0], machineSetKind)}
	w.update(m)
	w.settle()
	if n := len(w.sets()); n != 1 {
		t.Errorf("%d MachineSets are left, and the old one has no Machines any more", n)
	}
}

var machineSetKind = clusterv1.GroupVersion.WithKind("MachineSet")
