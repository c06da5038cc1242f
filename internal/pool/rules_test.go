package pool_test

import (
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
)

// TestChangeOf: logs and Events show what a plan changes on a MachineSet, and nothing else.
func TestChangeOf(t *testing.T) {
	t.Parallel()
	const (
		revision = clusterv1.RevisionAnnotation
		moveTo   = clusterv1.MachineSetMoveMachinesToMachineSetAnnotation
		receive  = clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation
		disable  = clusterv1.DisableMachineCreateAnnotation
	)
	set := func(replicas int32, annotations map[string]string) *clusterv1.MachineSet {
		s := msSet(replicas)
		s.Annotations = annotations
		s.Status.Replicas, s.Status.AvailableReplicas = new(int32(3)), new(int32(2))
		s.Status.UpToDateReplicas = new(int32(1))
		return s
	}
	before := set(3, map[string]string{revision: "1", moveTo: "b", disable: "false", "other": "x"})
	for name, test := range map[string]struct {
		before, after *clusterv1.MachineSet
		want          pool.Change
	}{
		"created": {nil, set(3, before.Annotations), pool.Change{
			To: 3, Summary: "3/3 replicas, 2 available, 1 upToDate",
		}},
		"unchanged": {before, set(3, before.Annotations), pool.Change{
			From: 3, To: 3, Summary: "3/3 replicas, 2 available, 1 upToDate",
		}},
		"changed": {
			before, set(2, map[string]string{receive: "c", disable: "true"}),
			pool.Change{
				From: 3, To: 2, Summary: "from 3/3 to 3/2 replicas, 2 available, 1 upToDate",
				Details: "replicas 2," + moveTo + " removed," + receive + ": c," + disable + ": true",
			},
		},
	} {
		if diff := gocmp.Diff(test.want, pool.ChangeOf(test.before, test.after)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestDesiredReplicas: a MachineSet records the replicas of its group and maxSurge; a maxSurge that
// is no number counts as none.
func TestDesiredReplicas(t *testing.T) {
	t.Parallel()
	for surge, want := range map[string]string{"1": "4", "50%": "5", "x": "3"} {
		md := newWorld(3, 1, 0).md
		md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.Parse(surge))
		set, err := pool.NewSet(md, "abcde", metav1.Time{})
		if err != nil {
			t.Fatal(err)
		}
		got := []string{
			set.Annotations[clusterv1.DesiredReplicasAnnotation],
			set.Annotations[clusterv1.MaxReplicasAnnotation],
		}
		if diff := gocmp.Diff([]string{"3", want}, got); diff != "" {
			t.Errorf("maxSurge %s (-want +got):\n%s", surge, diff)
		}
	}
}

// TestMarkNewest: an old MachineSet that becomes the new one gets a higher revision, and its
// history keeps the earlier ones.
func TestMarkNewest(t *testing.T) {
	t.Parallel()
	const history = "machinedeployment.clusters.x-k8s.io/revision-history"
	set := func(revision, earlier string) *clusterv1.MachineSet {
		s := msSet(1, setMark(clusterv1.RevisionAnnotation, revision))
		if earlier != "" {
			s.Annotations[history] = earlier
		}
		return s
	}
	for name, test := range map[string]struct {
		current           *clusterv1.MachineSet
		old               []*clusterv1.MachineSet
		revision, history string
		notes             []pool.NoteReason
	}{
		"created":       {nil, []*clusterv1.MachineSet{set("2", "")}, "3", "", nil},
		"still the new": {set("3", "1"), []*clusterv1.MachineSet{set("2", "")}, "3", "1", nil},
		"again the new": {
			set("1", ""), []*clusterv1.MachineSet{set("2", "")}, "3", "1",
			[]pool.NoteReason{pool.ReasonCurrent},
		},
		"again and again": {
			set("3", "1"), []*clusterv1.MachineSet{set("4", "2")}, "5", "1,3",
			[]pool.NoteReason{pool.ReasonCurrent},
		},
	} {
		desired := msSet(1)
		revision, notes, err := pool.MarkNewest(desired, test.current, test.old)
		if err != nil {
			t.Fatal(err)
		}
		if revision != test.revision || desired.Annotations[history] != test.history {
			t.Errorf("%s: revision %s, history %q, want %s and %q", name, revision,
				desired.Annotations[history], test.revision, test.history)
		}
		if diff := gocmp.Diff(test.notes, reasonsOf(notes)); diff != "" {
			t.Errorf("%s: notes (-want +got):\n%s", name, diff)
		}
	}
}

// TestProportional: which MachineSets of a paused group change, and to what.
func TestProportional(t *testing.T) {
	t.Parallel()
	// set has replicas, of which some are available. desired is what it was told last.
	set := func(name string, replicas, available int32, desired string) *clusterv1.MachineSet {
		s := msSet(replicas, setMark(clusterv1.DesiredReplicasAnnotation, desired))
		s.Name, s.Status.AvailableReplicas = name, &available
		s.CreationTimestamp = metav1.NewTime(msNow.Add(time.Duration(name[0]) * time.Second))
		return s
	}
	for name, test := range map[string]struct {
		replicas int32
		newest   *clusterv1.MachineSet
		old      []*clusterv1.MachineSet
		want     map[string]int32
	}{
		"complete": {
			4, set("c", 4, 4, "4"), []*clusterv1.MachineSet{set("a", 1, 1, "4"), set("b", 1, 1, "4")},
			map[string]int32{"a": 0, "b": 0},
		},
		"complete, and larger since": {
			6, set("c", 4, 4, "4"), []*clusterv1.MachineSet{set("a", 2, 2, "4")}, nil,
		},
		"told nothing": {
			4, set("c", 4, 4, ""), []*clusterv1.MachineSet{set("a", 2, 2, "4")},
			map[string]int32{"a": 1, "c": 3},
		},
		"told another number": {
			4, set("c", 4, 4, "5"), []*clusterv1.MachineSet{set("a", 2, 2, "4")},
			map[string]int32{"a": 1, "c": 3},
		},
		"not available": {
			4, set("c", 4, 3, "4"), []*clusterv1.MachineSet{set("a", 2, 2, "4")},
			map[string]int32{"a": 1, "c": 3},
		},
		"no new MachineSet": {
			4, nil, []*clusterv1.MachineSet{set("a", 2, 2, "2"), set("b", 2, 2, "2")}, nil,
		},
		"rounding up gives too many": {
			5, set("c", 1, 1, "3"), []*clusterv1.MachineSet{set("a", 1, 1, "3"), set("b", 1, 1, "3")},
			map[string]int32{"b": 2, "c": 2},
		},
		"no new MachineSet, and larger": {
			8, nil, []*clusterv1.MachineSet{set("a", 2, 2, "4"), set("b", 2, 2, "4")},
			map[string]int32{"a": 4, "b": 4},
		},
	} {
		md := newWorld(test.replicas, 0, 1).md
		var before int32
		for _, s := range append([]*clusterv1.MachineSet{test.newest}, test.old...) {
			if s != nil {
				before += *s.Spec.Replicas
			}
		}
		md.Status.Replicas = &before
		if test.want == nil {
			test.want = map[string]int32{}
		}
		got := pool.Proportional(md, pool.NewBudget(test.replicas, 0, 1), test.newest, test.old)
		if diff := gocmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestScaleDownNotes: the note about old replicas tells whether they cost available Machines.
func TestScaleDownNotes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		counts pool.Counts
		want   pool.Note
	}{
		"available": {
			pool.Counts{Machines: 2, Available: 2},
			pool.Note{Reason: pool.ReasonAvailabilitySpare, Count: 4, Limit: 3},
		},
		"without a Machine": {
			pool.Counts{Machines: 1, Available: 1}, pool.Note{Reason: pool.ReasonNoAvailabilityLost},
		},
	} {
		r := pool.Rollout{
			Budget: pool.Budget{Replicas: 3, Surge: 1},
			New: pool.Sizes{
				Name: "new", Replicas: 2, Target: 2,
				Counts: pool.Counts{Machines: 2, Available: 4 - test.counts.Available},
			},
			Old: []pool.Sizes{{Name: "old", Replicas: 2, Target: 2, Counts: test.counts}},
		}
		after := r.RollingUpdate(nil)
		if diff := gocmp.Diff([]pool.Note{test.want}, after.Old[0].Notes); diff != "" {
			t.Errorf("%s (-want +got):\n%s%s", name, diff, strconv.Itoa(int(after.Old[0].Target)))
		}
	}
}

// TestNotesAreUnique: a rule that says the same twice is noted once.
func TestNotesAreUnique(t *testing.T) {
	t.Parallel()
	r := pool.Rollout{
		Budget: pool.Budget{Replicas: 3}, OnDelete: true,
		Old: []pool.Sizes{{Name: "old", Replicas: 3, Target: 3, Counts: pool.Counts{Machines: 2}}},
	}
	after := r.ScaleOldOnDelete().ScaleOldOnDelete()
	want := []pool.Note{{Reason: pool.ReasonMachinesGone}}
	if diff := gocmp.Diff(want, after.Old[0].Notes); diff != "" {
		t.Errorf("the notes differ (-want +got):\n%s", diff)
	}
}

// TestDifferences: a difference names the fields, also those that only one template has.
func TestDifferences(t *testing.T) {
	t.Parallel()
	is, wants := &clusterv1.MachineTemplateSpec{}, &clusterv1.MachineTemplateSpec{}
	is.Spec.Version, wants.Spec.Version = "v1.30.0", "v1.31.0"
	is.Spec.FailureDomain, wants.Spec.FailureDomain = "a", "b"
	wants.Spec.Bootstrap.DataSecretName = new("secret")
	want := pool.Difference{
		Fields: []string{
			"spec.version v1.30.0, v1.31.0 required", "spec.bootstrap.dataSecretName nil, secret required",
			"spec.failureDomain a, b required",
		},
		Messages: []string{
			"Version v1.30.0, v1.31.0 required", "spec.bootstrap.dataSecretName nil, secret required",
			"Failure domain a, b required",
		},
	}
	if diff := gocmp.Diff(want, pool.Differences(is, wants)); diff != "" {
		t.Errorf("the difference (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(pool.Difference{}, pool.Differences(is, is.DeepCopy())); diff != "" {
		t.Errorf("a template differs from itself:\n%s", diff)
	}
}

// TestPausedMoves: a Machine that moved to the new MachineSet before the group was paused is
// counted there.
func TestPausedMoves(t *testing.T) {
	t.Parallel()
	w := settledGroup(t, false)
	name := w.names()[0]
	movePending(w.machines[name])
	w.md.Spec.Paused = new(true)
	w.reconcile(t)
	if diff := gocmp.Diff([]string{name}, w.plan.Acknowledged); diff != "" {
		t.Errorf("counted Machines (-want +got):\n%s", diff)
	}
}

// TestKeepLeavesRoom: the new MachineSet of a kept group leaves room for Machines that an old one
// may still create, and for no others.
func TestKeepLeavesRoom(t *testing.T) {
	t.Parallel()
	for disabled, want := range map[string]int32{"true": 1, "false": 0} {
		w := settledGroup(t, true)
		w.covered["v1.31.0"] = pool.AnswerNo
		toVersion("v1.31.0")(w.md)
		w.settle(t)
		w.delete(w.machines[w.names()[0]])
		*w.setOf("v1.31.0").Spec.Replicas = 1
		w.setOf("v1.30.0").Annotations[clusterv1.DisableMachineCreateAnnotation] = disabled
		w.reconcile(t)
		if got := *w.plan.New.Desired.Spec.Replicas; got != want {
			t.Errorf("the old MachineSet is marked %s: %d replicas, want %d", disabled, got, want)
		}
	}
}

// TestAssign: which MachineSet is that of the template, and why none is.
func TestAssign(t *testing.T) {
	t.Parallel()
	set := func(name, version string, options ...setOption) *clusterv1.MachineSet {
		s := msSet(1, options...)
		s.Name, s.Spec.Template.Spec.Version = name, version
		s.CreationTimestamp = metav1.NewTime(msNow)
		return s
	}
	after := func(passed time.Duration) func(*clusterv1.MachineDeployment) {
		return func(md *clusterv1.MachineDeployment) {
			md.Spec.Rollout.After = metav1.NewTime(msNow.Add(-passed))
		}
	}
	other, match := set("other", "v1.29.0"), set("match", "v1.30.0")
	for name, test := range map[string]struct {
		sets                 []*clusterv1.MachineSet
		change               func(*clusterv1.MachineDeployment)
		newest, old, missing string
	}{
		"no MachineSets": {missing: "no MachineSets exist for the MachineDeployment"},
		"one matches":    {sets: []*clusterv1.MachineSet{other, match}, newest: "match", old: "other"},
		"the one is being deleted": {
			sets:    []*clusterv1.MachineSet{set("match", "v1.30.0", deletedSet)},
			missing: "the MachineSet matching MachineDeployment spec template is being deleted",
		},
		"rollout.after is to come": {
			sets: []*clusterv1.MachineSet{match}, change: after(-time.Hour), newest: "match",
		},
		"rollout.after has passed since": {
			sets: []*clusterv1.MachineSet{match}, change: after(-time.Second),
			missing: "spec.rollout.after on MachineDeployment set to 2026-03-01T12:00:01Z, " +
				"no MachineSet has been created afterwards",
		},
		"rollout.after has passed before": {
			sets: []*clusterv1.MachineSet{match}, change: after(time.Second), newest: "match",
		},
	} {
		md := newWorld(1, 0, 1).md
		if test.change != nil {
			test.change(md)
		}
		got := pool.Assign(md, test.sets, msNow.Add(time.Minute))
		newest := ""
		if got.New != nil {
			newest = got.New.Name
		}
		if newest != test.newest || got.Missing != test.missing {
			t.Errorf("%s: got %q because %q, want %q because %q", name, newest, got.Missing,
				test.newest, test.missing)
		}
		if test.old != "" && (len(got.Old) != 1 || got.Old[0].Name != test.old) {
			t.Errorf("%s: got the old MachineSets %v, want %s", name, got.Old, test.old)
		}
	}
}
