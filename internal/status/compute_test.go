package status

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

var start = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

func machine(name string, change ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "team-a", Labels: map[string]string{clusterv1.MachineDeploymentNameLabel: "prod-md-0"}, Annotations: map[string]string{},
	}}
	m.Spec.Version = "v1.32.1"
	for _, c := range change {
		c(m)
	}
	return m
}

func controlPlaneMachine(m *clusterv1.Machine) {
	m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
}

func withAnnotation(t *testing.T, annotation string, value any) func(*clusterv1.Machine) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return func(m *clusterv1.Machine) { m.Annotations[annotation] = string(text) }
}

func raw(annotation, value string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { m.Annotations[annotation] = value }
}

func condition(kind string, state metav1.ConditionStatus, reason, message string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
			Type: kind, Status: state, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(start),
		})
	}
}

var (
	upToDate    = condition("UpToDate", metav1.ConditionTrue, "UpToDate", "")
	notUpToDate = condition("UpToDate", metav1.ConditionFalse, "NotUpToDate", "")
	marked      = raw(clusterv1.UpdateInProgressAnnotation, "")
	handed      = func(m *clusterv1.Machine) {
		marked(m)
		m.Annotations[runtimev1.PendingHooksAnnotation] = "UpdateMachine"
	}
	ofSet = func(m *clusterv1.Machine) {
		m.OwnerReferences = []metav1.OwnerReference{
			{Kind: "MachineSet", Name: "prod-md-0-new", Controller: new(true)},
		}
	}
	// ofTemplate is a Machine as Cluster API moves it to a MachineSet of a MachineDeployment.
	ofTemplate = func(m *clusterv1.Machine) {
		ofSet(m)
		m.Labels[clusterv1.MachineDeploymentUniqueLabel] = "54f6b8c9d-x2x7k"
	}
	deleting = func(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.NewTime(start)) }
)

// progress is an update that is at work on the second of two steps.
func progress(change ...func(*inplace.Progress)) inplace.Progress {
	p := inplace.Progress{
		ID: "u1", Decision: "d1", From: version.MustParse("v1.31.2"), To: version.MustParse("v1.32.1"),
		Steps: []inplace.Step{{Updater: "kubeadm", SetsVersion: true}}, Done: []inplace.Finished{{Updater: "os", Attempts: 1, Seconds: 50}},
		Phase: inplace.Updating, Attempt: 1, Operations: 2, Operation: "u1-2", Began: start, StepBegan: after(time.Minute), Started: after(time.Minute),
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func summary(done ...inplace.Finished) inplace.Summary {
	return inplace.Summary{ID: "u0", Decision: "d0", Done: done, Began: start, Ended: after(time.Hour)}
}

func facts(machines ...*clusterv1.Machine) Facts {
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Name: "prod-md-0", Namespace: "team-a", Labels: map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-0"},
	}}
	md.Spec.Template.Spec.Version = "v1.32.1"
	return Facts{
		Objects: snapshot.Objects{
			Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "team-a"}},
			ControlPlane: &unstructured.Unstructured{Object: map[string]any{
				"kind": "KubeadmControlPlane", "metadata": map[string]any{"name": "prod-cp", "namespace": "team-a"},
				"spec": map[string]any{"version": "v1.32.1"},
			}},
			MachineDeployments: []*clusterv1.MachineDeployment{md},
			Machines:           machines,
		},
		Policies: []v1alpha1.UpdatePolicy{{
			ObjectMeta: metav1.ObjectMeta{Name: "workers", Namespace: "team-a"},
			Spec: v1alpha1.UpdatePolicySpec{
				Targets: []v1alpha1.UpdateTarget{{MachineDeployments: []v1alpha1.MachineDeploymentName{"md-0"}}}, Strategy: v1alpha1.ExternalUpdate,
				MaxAttempts: 5, SoakSeconds: 30,
			},
		}},
	}
}

// TestState checks what each machine counts as.
func TestState(t *testing.T) {
	failedHook := condition("Updating", metav1.ConditionTrue, clusterv1.MachineInPlaceUpdateFailedReason, "please check controller logs")
	working := withAnnotation(t, v1alpha1.UpdateProgressAnnotation, progress())
	failed := withAnnotation(t, v1alpha1.UpdateProgressAnnotation, progress(func(p *inplace.Progress) { p.Phase = inplace.Failed }))
	old := func(m *clusterv1.Machine) { m.Spec.Version = "v1.31.2" }
	targeted := summary()
	targeted.Target, targeted.To = "prod-md-0-new", version.MustParse("v1.32.1")
	hashed := targeted
	hashed.Target = "54f6b8c9d"
	for _, test := range []struct {
		name string
		m    *clusterv1.Machine
		want State
	}{
		{"up to date", machine("m", upToDate), UpToDate},
		{"Cluster API says that it is not", machine("m", notUpToDate), Waiting},
		{"new, without conditions", machine("m"), UpToDate},
		{"old, without conditions", machine("m", old), Waiting},
		{"old, of unknown condition", machine("m", old, condition("UpToDate", metav1.ConditionUnknown, "", "")), Waiting},
		{"marked, its spec not changed", machine("m", marked, notUpToDate), Marked},
		{"handed over, not begun", machine("m", handed, notUpToDate), Queued},
		{"with another hook", machine("m", marked, raw(runtimev1.PendingHooksAnnotation, "Other,UpdateMachine")), Queued},
		{"refused before it began", machine("m", marked, failedHook), Failed},
		{"refused earlier, mark gone", machine("m", failedHook, upToDate), UpToDate},
		{"ended, and Cluster API does not know yet", machine("m", handed, notUpToDate, condition("Updating", metav1.ConditionTrue, "InPlaceUpdating", ""),
			withAnnotation(t, v1alpha1.LastUpdateAnnotation, summary())), Finished},
		{"ended, of a MachineSet", machine("m", handed, ofSet, withAnnotation(t, v1alpha1.LastUpdateAnnotation, targeted)), Finished},
		{"ended, of a MachineDeployment", machine("m", handed, ofTemplate,
			withAnnotation(t, v1alpha1.LastUpdateAnnotation, hashed)), Finished},
		{"ended at another template", machine("m", handed, ofTemplate,
			withAnnotation(t, v1alpha1.LastUpdateAnnotation, targeted)), Queued},
		{"ended at another version", machine("m", handed, ofSet, old, withAnnotation(t, v1alpha1.LastUpdateAnnotation, targeted)), Queued},
		{"ended in another MachineSet", machine("m", handed, withAnnotation(t, v1alpha1.LastUpdateAnnotation, targeted)), Queued},
		{"marked again after another update", machine("m", marked, ofSet, notUpToDate,
			condition("Updating", metav1.ConditionFalse, "NotUpdating", ""), withAnnotation(t, v1alpha1.LastUpdateAnnotation, targeted)), Marked},
		{"handed over again after another update", machine("m", handed, notUpToDate,
			condition("Updating", metav1.ConditionFalse, "NotUpdating", ""), withAnnotation(t, v1alpha1.LastUpdateAnnotation, summary())), Queued},
		{"ended, and its owner does not know yet", machine("m", condition("UpToDate", metav1.ConditionFalse, clusterv1.MachineUpToDateUpdatingReason, ""),
			withAnnotation(t, v1alpha1.LastUpdateAnnotation, summary())), Finished},
		{"under way, by another than Windlass", machine("m", condition("UpToDate", metav1.ConditionFalse, clusterv1.MachineUpToDateUpdatingReason, "")), Updating},
		{"under way", machine("m", marked, working, notUpToDate), Updating},
		{"under way, the mark not seen yet", machine("m", working, upToDate), Updating},
		{"the hook failed once", machine("m", marked, working, failedHook), Updating},
		{"failed finally", machine("m", marked, failed), Failed},
		{"goes away during its update", machine("m", marked, working, deleting), Deleting},
		{"garbage", machine("m", marked, raw(v1alpha1.UpdateProgressAnnotation, "{")), Unreadable},
		{"no phase", machine("m", marked, raw(v1alpha1.UpdateProgressAnnotation, "{}")), Unreadable},
		{"garbage elsewhere", machine("m", upToDate, raw(v1alpha1.LastUpdateAnnotation, "[]")), UpToDate},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Compute(facts(test.m), after(time.Minute))
			if len(r.Machines) != 1 || r.Machines[0].State != test.want {
				t.Errorf("machines are %+v, want the state %s", r.Machines, test.want)
			}
			if got := r.Groups[1].Count[test.want]; got != 1 || r.Groups[1].Machines != 1 {
				t.Errorf("the group counts %+v", r.Groups[1])
			}
		})
	}
}

// TestComputeUpdate checks what is said about a machine under update.
func TestComputeUpdate(t *testing.T) {
	inProgress := condition("Updating", metav1.ConditionTrue, "InPlaceUpdating", `In-place update in progress: updater "kubeadm" (2 of 2), attempt 1: kubelet restarts`)
	measured := machine("measured", upToDate, withAnnotation(t, v1alpha1.LastUpdateAnnotation,
		summary(inplace.Finished{Updater: "kubeadm", Seconds: 100}, inplace.Finished{Updater: "os", Seconds: 60})))
	common := Update{
		Machine: "m", Group: "md-0", State: Updating, Phase: inplace.Updating, Updater: "kubeadm", Step: 2, Steps: 2, Attempt: 1, MaxAttempts: 5,
		From: version.MustParse("v1.31.2"), To: version.MustParse("v1.32.1"), Began: start, Since: after(time.Minute), Operation: "u1-2",
		Message: "kubelet restarts",
	}
	want := func(change func(*Update)) Update {
		u := common
		change(&u)
		return u
	}
	with := func(change func(*inplace.Progress)) *clusterv1.Machine {
		return machine("m", marked, inProgress, withAnnotation(t, v1alpha1.UpdateProgressAnnotation, progress(change)))
	}
	for _, test := range []struct {
		name     string
		machines []*clusterv1.Machine
		want     Update
	}{
		{"nothing measured", []*clusterv1.Machine{with(func(*inplace.Progress) {})}, common},
		{"measured: step, then soak", []*clusterv1.Machine{with(func(*inplace.Progress) {}), measured},
			want(func(u *Update) { u.ETA = ETA{At: after(time.Minute + 100*time.Second + 30*time.Second)} })},
		{"late", []*clusterv1.Machine{with(func(p *inplace.Progress) { p.StepBegan = after(-time.Hour) }), measured},
			want(func(u *Update) { u.ETA = ETA{At: after(-time.Hour + 130*time.Second), Late: true} })},
		{"both steps ahead", []*clusterv1.Machine{with(func(p *inplace.Progress) {
			p.Steps, p.Done = []inplace.Step{{Updater: "os"}, {Updater: "kubeadm"}}, nil
		}), measured}, want(func(u *Update) {
			u.Updater, u.Step, u.Message = "os", 1, ""
			u.ETA = ETA{At: after(time.Minute + 190*time.Second)}
		})},
		{"a step ahead is not measured", []*clusterv1.Machine{with(func(p *inplace.Progress) {
			p.Steps = append(p.Steps, inplace.Step{Updater: "new"})
		}), measured}, want(func(u *Update) { u.Steps, u.Message = 3, "" })},
		{"second attempt", []*clusterv1.Machine{with(func(p *inplace.Progress) {
			p.Attempt, p.Started, p.LastError = 2, after(2*time.Minute), "apt is locked"
		}), measured}, want(func(u *Update) {
			u.Attempt, u.Since, u.LastError, u.Message = 2, after(2*time.Minute), "apt is locked", ""
			u.ETA = ETA{At: after(2*time.Minute + 130*time.Second)}
		})},
		{"backing off", []*clusterv1.Machine{with(func(p *inplace.Progress) {
			p.Phase, p.NotBefore = inplace.BackingOff, new(after(5*time.Minute))
		}), measured}, want(func(u *Update) {
			u.Phase, u.NotBefore, u.Message = inplace.BackingOff, after(5*time.Minute), ""
			u.ETA = ETA{At: after(5*time.Minute + 130*time.Second)}
		})},
		{"soaking", []*clusterv1.Machine{with(func(p *inplace.Progress) {
			p.Phase, p.Steps, p.Verified, p.Operation, p.Attempt = inplace.Soaking, nil, new(after(3*time.Minute)), "", 0
			p.Done = append(p.Done, inplace.Finished{Updater: "kubeadm"})
		})}, want(func(u *Update) {
			u.Phase, u.Updater, u.Operation, u.Attempt, u.Message = inplace.Soaking, "", "", 0, ""
			u.ETA = ETA{At: after(3*time.Minute + 30*time.Second)}
		})},
		{"failed finally", []*clusterv1.Machine{with(func(p *inplace.Progress) {
			p.Phase, p.LastError = inplace.Failed, "updater \"kubeadm\" failed"
		}), measured}, want(func(u *Update) {
			u.State, u.Phase, u.LastError, u.Message = Failed, inplace.Failed, "updater \"kubeadm\" failed", ""
		})},
		{"a phase of a newer release", []*clusterv1.Machine{with(func(p *inplace.Progress) { p.Phase = "Dancing" }), measured},
			want(func(u *Update) { u.Phase, u.Message = "Dancing", "" })},
		{"queued", []*clusterv1.Machine{machine("m", handed, condition("Updating", metav1.ConditionTrue, "InPlaceUpdating", "In-place update in progress: not started"))}, Update{
			Machine: "m", Group: "md-0", State: Queued, MaxAttempts: 5, To: common.To, Message: "not started",
		}},
		{"queued behind the updater's choice", []*clusterv1.Machine{machine("m", handed,
			condition("Updating", metav1.ConditionTrue, "InPlaceUpdating", `In-place update in progress: not started: updater "x" lets no machine begin: night`),
		)}, Update{
			Machine: "m", Group: "md-0", State: Queued, MaxAttempts: 5, To: common.To,
			Message: `not started: updater "x" lets no machine begin: night`,
		}},
		{"queued, with the message of the last update", []*clusterv1.Machine{machine("m", handed, inProgress)},
			Update{Machine: "m", Group: "md-0", State: Queued, MaxAttempts: 5, To: common.To}},
		{"marked, the owner knows where to", []*clusterv1.Machine{machine("m", marked, func(m *clusterv1.Machine) { m.Spec.Version = "v1.31.2" })}, Update{
			Machine: "m", Group: "md-0", State: Marked, MaxAttempts: 5, To: common.To, Message: "Cluster API has not changed its spec yet",
		}},
		{"marked, nobody knows where to", []*clusterv1.Machine{machine("m", marked)}, Update{
			Machine: "m", Group: "md-0", State: Marked, MaxAttempts: 5, Message: "Cluster API has not changed its spec yet",
		}},
		{"finished", []*clusterv1.Machine{machine("m", handed, inProgress, withAnnotation(t, v1alpha1.LastUpdateAnnotation, summary()))}, Update{
			Machine: "m", Group: "md-0", State: Finished, To: common.To, Message: "Cluster API has not noticed yet",
		}},
		{"a decision's condition is left", []*clusterv1.Machine{machine("m", handed, inProgress, withAnnotation(t, v1alpha1.UpdateProgressAnnotation, progress()),
			condition(v1alpha1.UpdateBlockedCondition, metav1.ConditionTrue, v1alpha1.NotCoveredReason, "not covered: x"))}, common},
		{"refused, with the reason on the Machine", []*clusterv1.Machine{machine("m", marked,
			condition("Updating", metav1.ConditionTrue, clusterv1.MachineInPlaceUpdateFailedReason, "please check controller logs"),
			condition(v1alpha1.UpdateBlockedCondition, metav1.ConditionTrue, v1alpha1.NoDecisionReason, "no decision is recorded"),
		)}, Update{Machine: "m", Group: "md-0", State: Failed, MaxAttempts: 5, To: common.To, Message: "no decision is recorded"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Compute(facts(test.machines...), after(time.Minute))
			if len(r.Updates) != 1 {
				t.Fatalf("updates are %+v, want one", r.Updates)
			}
			if diff := cmp.Diff(test.want, r.Updates[0]); diff != "" {
				t.Errorf("update (-want +got):\n%s", diff)
			}
		})
	}
}

func counts(states ...State) map[State]int {
	count := make(map[State]int)
	for _, s := range states {
		count[s]++
	}
	return count
}

// TestBlockedMachines checks which conditions count on a Machine whose update has begun: it goes on, whatever was said before.
func TestBlockedMachines(t *testing.T) {
	begun := func(phase inplace.Phase, started time.Time) func(*clusterv1.Machine) {
		return withAnnotation(t, v1alpha1.UpdateProgressAnnotation, progress(func(p *inplace.Progress) { p.Phase, p.Started = phase, started }))
	}
	for _, test := range []struct {
		name, reason string
		progress     func(*clusterv1.Machine)
		want         bool
	}{
		{"nothing has begun", v1alpha1.NotCoveredReason, func(*clusterv1.Machine) {}, true},
		{"backing off", v1alpha1.NotCoveredReason, begun(inplace.BackingOff, after(-time.Minute)), false},
		{"failed", v1alpha1.UpdateFailedReason, begun(inplace.Failed, after(-time.Minute)), true},
		{"refused since", v1alpha1.DesiredChangedReason, begun(inplace.Updating, start.Add(time.Millisecond)), true},
		{"refused before", v1alpha1.DesiredChangedReason, begun(inplace.Updating, after(time.Minute)), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Compute(facts(machine("m", handed, test.progress, condition(v1alpha1.UpdateBlockedCondition, metav1.ConditionTrue, test.reason, "because"))), start)
			if got := len(r.Blocked) == 1; got != test.want {
				t.Errorf("blocked are %+v, want one: %t", r.Blocked, test.want)
			}
		})
	}
}

// TestReport checks the whole report of a cluster on which everything happens at once.
func TestReport(t *testing.T) {
	f := facts(
		machine("cp-1", controlPlaneMachine, upToDate),
		machine("b", upToDate, withAnnotation(t, v1alpha1.LastUpdateAnnotation, summary(inplace.Finished{Updater: "kubeadm", Seconds: 90}))),
		machine("a", upToDate, withAnnotation(t, v1alpha1.LastUpdateAnnotation, summary(inplace.Finished{Updater: "kubeadm", Seconds: 60}, inplace.Finished{Updater: "kubeadm", Seconds: -1})),
			withAnnotation(t, v1alpha1.DirtyFieldsAnnotation, []map[string]any{
				{"object": "Machine", "path": "/spec/b", "since": start}, {"object": "InfrastructureMachine", "path": "/spec/image", "since": start},
			})),
		machine("c", marked, raw(v1alpha1.UpdateProgressAnnotation, `{"phase": 7}`), raw(v1alpha1.DirtyFieldsAnnotation, "nonsense")),
		machine("pool", func(m *clusterv1.Machine) { m.Labels = map[string]string{clusterv1.MachinePoolNameLabel: "mp"} }, notUpToDate),
	)
	f.MachineDeployments[0].Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.NotCoveredReason,
		Message: "MachineSet /spec/template/spec/version", LastTransitionTime: metav1.NewTime(start),
	}}
	f.ControlPlane.Object["status"] = map[string]any{"conditions": []any{
		"nonsense",
		map[string]any{"type": v1alpha1.UpdateBlockedCondition, "status": "True", "reason": v1alpha1.UpdaterErrorReason, "message": "no answer", "lastTransitionTime": start.Format(time.RFC3339)},
	}}
	want := Report{
		Namespace: "team-a", Cluster: "prod",
		Groups: []Group{
			{Name: ControlPlaneGroup, Kind: "KubeadmControlPlane", Object: "prod-cp", Machines: 1, Count: counts(UpToDate),
				Policy: Policy{Strategy: v1alpha1.RollingUpdate, MaxInFlight: 1, MaxAttempts: 3}},
			{Name: "md-0", Kind: "MachineDeployment", Object: "prod-md-0", Machines: 3, Count: counts(UpToDate, UpToDate, Unreadable),
				Policy: Policy{
					Name: "workers", Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone,
					MaxInFlight: 1, MaxAttempts: 5, Soak: Seconds{Duration: 30 * time.Second},
				}},
		},
		Machines: []Machine{
			{Name: "cp-1", Group: ControlPlaneGroup, State: UpToDate, Version: "v1.32.1"},
			{Name: "a", Group: "md-0", State: UpToDate, Version: "v1.32.1"},
			{Name: "b", Group: "md-0", State: UpToDate, Version: "v1.32.1"},
			{Name: "c", Group: "md-0", State: Unreadable, Version: "v1.32.1"},
		},
		Updates: []Update{{Machine: "c", Group: "md-0", State: Unreadable, To: version.MustParse("v1.32.1")}},
		Blocked: []Blocked{
			{Kind: "KubeadmControlPlane", Name: "prod-cp", Group: ControlPlaneGroup, Reason: v1alpha1.UpdaterErrorReason, Message: "no answer", Since: start},
			{Kind: "MachineDeployment", Name: "prod-md-0", Group: "md-0", Reason: v1alpha1.NotCoveredReason, Message: "MachineSet /spec/template/spec/version", Since: start},
		},
		Dirty: []Dirty{
			{Machine: "a", Group: "md-0", Pointer: cover.Pointer{Part: cover.PartInfrastructure, Path: "/spec/image"}, Since: start},
			{Machine: "a", Group: "md-0", Pointer: cover.Pointer{Part: cover.PartMachine, Path: "/spec/b"}, Since: start},
		},
		Durations: []Duration{{Updater: "kubeadm", Median: Seconds{Duration: 75 * time.Second}, Measured: 2}},
	}
	got := Compute(f, start)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Report{}, "Problems"),
		cmpopts.IgnoreFields(Machine{}, "Runs", "Motion")); diff != "" {
		t.Errorf("Compute (-want +got):\n%s", diff)
	}
	var problems []string
	for _, p := range got.Problems {
		problems = append(problems, p.Name+" "+p.Annotation)
		if !strings.Contains(p.Message, "it cannot be read") {
			t.Errorf("the problem says %q", p.Message)
		}
	}
	if diff := cmp.Diff([]string{"c " + v1alpha1.UpdateProgressAnnotation, "c " + v1alpha1.DirtyFieldsAnnotation}, problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestPolicyProblems(t *testing.T) {
	f := facts()
	twin := *f.Policies[0].DeepCopy()
	twin.Name = "twin"
	f.Policies = append(f.Policies, twin)
	r := Compute(f, start)
	if p := r.Groups[1].Policy; !strings.Contains(p.Problem, `"twin", "workers"`) || p.Strategy != "" {
		t.Errorf("the policy is %+v, want a conflict", p)
	}
	if got := r.Groups[1].Policy.Describe(); !strings.HasPrefix(got, "blocked: ") {
		t.Errorf("Describe says %q", got)
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		in   []int64
		want int64
	}{
		{nil, 0}, {[]int64{5}, 5}, {[]int64{9, 1}, 5}, {[]int64{3, 1, 2}, 2}, {[]int64{1 << 62, 1<<62 + 2}, 1<<62 + 1},
	} {
		if got := median(test.in); got != test.want {
			t.Errorf("median(%v) is %d, want %d", test.in, got, test.want)
		}
	}
}

// TestComputeNeverPanics feeds annotations of any content, and asks that every machine is accounted for.
func TestComputeNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.StringMatching(`\{"phase":"(Updating|Soaking|BackingOff|Failed)"(,"steps":\[(\{"updater":"a"\})?\])?(,"done":null)?\}`))
		var machines []*clusterv1.Machine
		for i := range rapid.IntRange(0, 4).Draw(t, "machines") {
			m := machine(string(rune('a' + i)))
			for _, a := range []string{v1alpha1.UpdateProgressAnnotation, v1alpha1.LastUpdateAnnotation, v1alpha1.DirtyFieldsAnnotation} {
				if rapid.Bool().Draw(t, "has "+a) {
					m.Annotations[a] = value.Draw(t, a)
				}
			}
			machines = append(machines, m)
		}
		r := Compute(facts(machines...), start)
		total := 0
		for _, n := range r.Groups[1].Count {
			total += n
		}
		if total != len(machines) || len(r.Machines) != len(machines) {
			t.Fatalf("%d machines are counted as %d and listed as %d", len(machines), total, len(r.Machines))
		}
		if diff := cmp.Diff([]string(nil), Changes(r, Compute(facts(machines...), start))); diff != "" {
			t.Fatalf("the same facts differ:\n%s", diff)
		}
	})
}

func TestChanges(t *testing.T) {
	working := func(change ...func(*inplace.Progress)) *clusterv1.Machine {
		return machine("m", marked, withAnnotation(t, v1alpha1.UpdateProgressAnnotation, progress(change...)),
			condition("Updating", metav1.ConditionTrue, "InPlaceUpdating", `updater "kubeadm" (2 of 2), attempt 1: 12 s`))
	}
	finished := machine("m", handed, condition("Updating", metav1.ConditionTrue, "InPlaceUpdating", ""),
		withAnnotation(t, v1alpha1.LastUpdateAnnotation, summary()))
	held := condition(clusterv1.MachineDeletingCondition, metav1.ConditionTrue, "DrainingNode", "Drain not completed yet:\n* Pod default/web")
	otherMessage := working()
	otherMessage.Status.Conditions[0].Message = `updater "kubeadm" (2 of 2), attempt 1: 13 s`
	for _, test := range []struct {
		name          string
		before, after Facts
		want          []string
	}{
		{"begins", facts(machine("m", notUpToDate)), facts(working()),
			[]string{"Machine m (md-0): Updating, to v1.32.1, by kubeadm (2 of 2), attempt 1: 12 s"}},
		{"only the message", facts(working()), facts(otherMessage), nil},
		{"next attempt", facts(working()), facts(working(func(p *inplace.Progress) { p.Attempt = 2 })),
			[]string{"Machine m (md-0): Updating, to v1.32.1, by kubeadm (2 of 2), attempt 2"}},
		{"backs off", facts(working()), facts(working(func(p *inplace.Progress) { p.Phase, p.LastError = inplace.BackingOff, "apt is locked" })),
			[]string{"Machine m (md-0): Updating (BackingOff), to v1.32.1, by kubeadm (2 of 2), attempt 1: apt is locked"}},
		{"finishes, what Cluster API notices within a second", facts(working()), facts(finished), nil},
		{"has finished", facts(finished), facts(machine("m", upToDate)), []string{"Machine m (md-0): UpToDate, v1.32.1"}},
		{"fails", facts(working()), facts(working(func(p *inplace.Progress) { p.Phase, p.LastError = inplace.Failed, "disk full" })),
			[]string{"Machine m (md-0): Failed, to v1.32.1, by kubeadm (2 of 2), attempt 1: disk full"}},
		{"verifies", facts(working()), facts(working(func(p *inplace.Progress) { p.Phase = inplace.Verifying })),
			[]string{"Machine m (md-0): Updating (Verifying), to v1.32.1, by kubeadm (2 of 2), attempt 1"}},
		{"ends", facts(working()), facts(machine("m", upToDate)), []string{"Machine m (md-0): UpToDate, v1.32.1"}},
		{"goes away", facts(machine("m", upToDate)), facts(), []string{"Machine m (md-0): gone"}},
		{"its drain is held", facts(machine("m", upToDate, deleting)), facts(machine("m", upToDate, deleting, held)),
			[]string{"deletion of Machine m: DrainingNode: Drain not completed yet: * Pod default/web"}},
		{"its drain is done", facts(machine("m", upToDate, deleting, held)), facts(machine("m", upToDate, deleting)),
			[]string{"deletion of Machine m: no longer held"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Changes(Compute(test.before, start), Compute(test.after, start))); diff != "" {
				t.Errorf("Changes (-want +got):\n%s", diff)
			}
		})
	}
}
