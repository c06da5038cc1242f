package gate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/pkg/version"
)

var (
	prod        = gate.Cluster{Namespace: "ns", Name: "prod", UID: "u1", Labels: map[string]string{"env": "prod"}}
	workersStep = gate.Step{Hook: gate.BeforeWorkersUpgrade, Version: version.MustParse("v1.32.4")}
	now         = time.Date(2026, 11, 23, 9, 0, 0, 500, time.UTC)
)

func newGate(edit func(*v1alpha1.UpgradeGate)) v1alpha1.UpgradeGate {
	g := v1alpha1.UpgradeGate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"},
		Spec: v1alpha1.UpgradeGateSpec{
			Steps:    []v1alpha1.GateStep{{At: "BeforeWorkersUpgrade"}},
			Requires: v1alpha1.GateRequirements{Approval: &v1alpha1.GateApproval{}},
		},
	}
	if edit != nil {
		edit(&g)
	}
	return g
}

func versions(items ...v1alpha1.GateVersion) func(*v1alpha1.UpgradeGate) {
	return func(g *v1alpha1.UpgradeGate) { g.Spec.Steps[0].Versions = items }
}

func window(edit func(*v1alpha1.GateWindow)) func(*v1alpha1.UpgradeGate) {
	return func(g *v1alpha1.UpgradeGate) {
		w := v1alpha1.GateWindow{TimeZone: "Europe/Berlin", Days: []string{"Saturday"}, From: "22:00", To: "04:00"}
		edit(&w)
		g.Spec.Requires.Windows = []v1alpha1.GateWindow{w}
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edit func(*v1alpha1.UpgradeGate)
		// want is "", "selected", or the beginning of the problem of a gate that is selected.
		want string
	}{
		"all Clusters of the namespace": {want: "selected"},
		"another namespace":             {edit: func(g *v1alpha1.UpgradeGate) { g.Namespace = "other" }},
		"by name":                       {edit: func(g *v1alpha1.UpgradeGate) { g.Spec.ClusterName = "prod" }, want: "selected"},
		"another name":                  {edit: func(g *v1alpha1.UpgradeGate) { g.Spec.ClusterName = "pro" }},
		"by labels": {edit: func(g *v1alpha1.UpgradeGate) {
			g.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
		}, want: "selected"},
		"other labels": {edit: func(g *v1alpha1.UpgradeGate) {
			g.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "test"}}
		}},
		"an empty selector": {edit: func(g *v1alpha1.UpgradeGate) { g.Spec.ClusterSelector = &metav1.LabelSelector{} }, want: "selected"},
		"a selector that cannot be read": {edit: func(g *v1alpha1.UpgradeGate) {
			g.Spec.ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
		}, want: "spec.clusterSelector: "},
		"another hook":                  {edit: func(g *v1alpha1.UpgradeGate) { g.Spec.Steps[0].At = "AfterWorkersUpgrade" }},
		"a minor":                       {edit: versions("v1.30", "v1.32"), want: "selected"},
		"another minor":                 {edit: versions("v1.31")},
		"a version that cannot be read": {edit: versions("v1.31", "latest"), want: "spec.steps[0].versions[1]: "},
		"a window":                      {edit: window(func(*v1alpha1.GateWindow) {}), want: "selected"},
		"no such zone":                  {edit: window(func(w *v1alpha1.GateWindow) { w.TimeZone = "Europe/Atlantis" }), want: `spec.requires.windows[0]: timeZone: "Europe/Atlantis"`},
		"the zone of this machine":      {edit: window(func(w *v1alpha1.GateWindow) { w.TimeZone = "Local" }), want: "spec.requires.windows[0]: timeZone: "},
		"no zone":                       {edit: window(func(w *v1alpha1.GateWindow) { w.TimeZone = "" }), want: "spec.requires.windows[0]: timeZone: "},
		"a file that is no zone":        {edit: window(func(w *v1alpha1.GateWindow) { w.TimeZone = "../../../etc/passwd" }), want: "spec.requires.windows[0]: timeZone: "},
		"no such day":                   {edit: window(func(w *v1alpha1.GateWindow) { w.Days = []string{"Caturday"} }), want: "spec.requires.windows[0]: days: "},
		"no such time":                  {edit: window(func(w *v1alpha1.GateWindow) { w.From = "25:00" }), want: "spec.requires.windows[0]: from: "},
		"no such end":                   {edit: window(func(w *v1alpha1.GateWindow) { w.To = "4" }), want: "spec.requires.windows[0]: to: "},
	} {
		got := gate.Select([]v1alpha1.UpgradeGate{newGate(test.edit)}, prod, workersStep)
		state := ""
		if len(got) == 1 {
			if state = got[0].Problem; state == "" {
				state = "selected"
			}
		}
		if (test.want == "") != (state == "") || !strings.HasPrefix(state, test.want) {
			t.Errorf("%s: got %q, want %q", name, state, test.want)
		}
	}
}

func TestSelectTranslates(t *testing.T) {
	t.Parallel()
	g := newGate(window(func(*v1alpha1.GateWindow) {}))
	g.Spec.Requires.Checks = []v1alpha1.GateCheck{"NodesReady", "EtcdHealthy"}
	g.Status.Approvals = nil
	g.Status.Approvals = gate.ComputeApproved(&g, prod, workersStep, "jane", now)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	want := []gate.Gate{{
		Name: "g", NeedsApproval: true, Approved: true, ApprovedBefore: true, HowToApprove: `windlass approve prod -n ns --gate g --step "before workers v1.32.4"`,
		Windows: []gate.Window{{Location: berlin, Days: []time.Weekday{time.Saturday}, From: 22 * 60, To: 4 * 60}},
		Checks:  []gate.Check{gate.EtcdHealthy, gate.NodesReady},
	}}
	got := gate.Select([]v1alpha1.UpgradeGate{g}, prod, workersStep)
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An approval holds for one Cluster, hook and version, and for nothing else.
func TestApprovalHoldsForOneStep(t *testing.T) {
	t.Parallel()
	g := newGate(nil)
	g.Status.Approvals = nil
	g.Status.Approvals = gate.ComputeApproved(&g, prod, workersStep, "jane", now)
	again := gate.ComputeApproved(&g, prod, workersStep, "joe", now.Add(time.Hour))
	if diff := cmp.Diff(g.Status.Approvals, again); diff != "" {
		t.Errorf("approved once more (-want +got):\n%s", diff)
	}
	reborn, other := prod, prod
	build := gate.Step{Hook: workersStep.Hook, Version: version.MustParse("v1.32.4+rke2r1")}
	reborn.UID, other.Name, other.UID = "u2", "other", "u3"
	for name, test := range map[string]struct {
		cluster gate.Cluster
		step    gate.Step
		want    bool
	}{
		"the step":                      {cluster: prod, step: workersStep, want: true},
		"another Cluster":               {cluster: other, step: workersStep},
		"another Cluster of that name":  {cluster: reborn, step: workersStep},
		"a build of it":                 {cluster: prod, step: build, want: true},
		"another release":               {cluster: prod, step: gate.Step{Hook: workersStep.Hook, Version: version.MustParse("v1.32.5+rke2r1")}},
		"another hook":                  {cluster: prod, step: gate.Step{Hook: gate.AfterWorkersUpgrade, Version: workersStep.Version}},
		"the same step of a later link": {cluster: prod, step: gate.Step{Hook: workersStep.Hook, Version: version.MustParse("v1.33.1")}},
	} {
		if _, got := gate.FindApproval(&g, test.cluster, test.step); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
	if left := gate.ComputeRevoked(g.Status.Approvals, prod, workersStep); len(left) != 0 {
		t.Errorf("revoked, and left: %v", left)
	}
	// That of a build is for no other one.
	g.Status.Approvals = nil
	g.Status.Approvals = gate.ComputeApproved(&g, prod, build, "jane", now)
	for v, want := range map[string]bool{"v1.32.4+rke2r1": true, "v1.32.4+rke2r2": false, "v1.32.4": false} {
		if _, got := gate.FindApproval(&g, prod, gate.Step{Hook: workersStep.Hook, Version: version.MustParse(v)}); got != want {
			t.Errorf("v1.32.4+rke2r1 was approved, and %s: %t", v, got)
		}
	}
	// What nobody can have approved approves nothing.
	for _, v := range []string{"v1.32", "", "latest"} {
		g.Status.Approvals[0].Version = v
		if _, got := gate.FindApproval(&g, prod, workersStep); got {
			t.Errorf("an approval of %q is one of %s", v, workersStep)
		}
	}
	g.Status.Approvals = nil
	g.Status.Approvals = gate.ComputeApproved(&g, prod, workersStep, "jane", now)
	taken := gate.ComputeApproved(&g, reborn, workersStep, "jane", now)
	if len(taken) != 1 || taken[0].ClusterUID != "u2" {
		t.Errorf("the approvals of a Cluster that is gone stay: %v", taken)
	}
}

// However many approvals there are: the newest is kept, and the bounds hold.
func TestApprovalsAreBounded(t *testing.T) {
	t.Parallel()
	for clusters, want := range map[int]int{1: 64, 30: 400} {
		g := newGate(nil)
		for i := range 2100 {
			c := gate.Cluster{Name: fmt.Sprint("c", i%clusters), UID: fmt.Sprint("u", i%clusters)}
			step := gate.Step{Hook: gate.BeforeWorkersUpgrade, Version: version.MustParse(fmt.Sprintf("v1.%d.%d", i%7, i))}
			// Some in the same second.
			g.Status.Approvals = gate.ComputeApproved(&g, c, step, strings.Repeat("é", 300), now.Add(time.Duration(i/2)*time.Second))
			approvals := g.Status.Approvals
			if newest := approvals[len(approvals)-1]; newest.ClusterUID != c.UID || newest.Version != step.Version.String() {
				t.Fatalf("approval %d is not there, but %v", i, newest)
			}
		}
		approvals := g.Status.Approvals
		if len(approvals) != want {
			t.Errorf("%d approvals of %d Clusters, want %d", len(approvals), clusters, want)
		}
		if len(approvals[0].By) > 128 {
			t.Errorf("by has %d bytes", len(approvals[0].By))
		}
	}
}

func TestComputeWaiting(t *testing.T) {
	t.Parallel()
	exists := func(name, uid string) bool { return slices.Contains([]string{"prod u1", "test u2"}, name+" "+uid) }
	since := metav1.NewTime(now.Truncate(time.Second))
	entry := func(edit func(*v1alpha1.GateWaiting)) v1alpha1.GateWaiting {
		w := v1alpha1.GateWaiting{Cluster: "prod", ClusterUID: "u1", At: "BeforeWorkersUpgrade", Version: "v1.32.4", Since: since, Message: "m"}
		if edit != nil {
			edit(&w)
		}
		return w
	}
	other := entry(func(w *v1alpha1.GateWaiting) { w.Cluster, w.ClusterUID = "test", "u2" })
	gone := entry(func(w *v1alpha1.GateWaiting) { w.Cluster, w.ClusterUID = "gone", "u3" })
	for name, test := range map[string]struct {
		before, want []v1alpha1.GateWaiting
		message      string
		at           time.Time
	}{
		"begins to wait":  {message: "m", at: now, want: []v1alpha1.GateWaiting{entry(nil)}},
		"goes on waiting": {before: []v1alpha1.GateWaiting{entry(nil)}, message: "m", at: now.Add(time.Hour), want: []v1alpha1.GateWaiting{entry(nil)}},
		"waits for another thing": {before: []v1alpha1.GateWaiting{entry(nil)}, message: "n", at: now.Add(time.Hour),
			want: []v1alpha1.GateWaiting{entry(func(w *v1alpha1.GateWaiting) { w.Message = "n" })}},
		"another step begins anew": {before: []v1alpha1.GateWaiting{entry(func(w *v1alpha1.GateWaiting) { w.At, w.Since = "BeforeControlPlaneUpgrade", metav1.Time{} })},
			message: "m", at: now, want: []v1alpha1.GateWaiting{entry(nil)}},
		"may go on":                {before: []v1alpha1.GateWaiting{entry(nil), other}, at: now, want: []v1alpha1.GateWaiting{other}},
		"who is gone is forgotten": {before: []v1alpha1.GateWaiting{gone, other}, message: "m", at: now, want: []v1alpha1.GateWaiting{entry(nil), other}},
	} {
		before := v1alpha1.UpgradeGateStatus{Waiting: slices.Clone(test.before), WaitingCount: int32(len(test.before))}
		got, changed := gate.ComputeWaiting(before, prod, workersStep, test.message, exists, test.at)
		if diff := cmp.Diff(test.want, got.Waiting); diff != "" || int(got.WaitingCount) != len(test.want) {
			t.Errorf("%s: %d (-want +got):\n%s", name, got.WaitingCount, diff)
		}
		if want := cmp.Diff(test.before, test.want) != ""; changed != want {
			t.Errorf("%s: changed is %t", name, changed)
		}
		if diff := cmp.Diff(test.before, before.Waiting); diff != "" {
			t.Errorf("%s: the status that was given has changed:\n%s", name, diff)
		}
	}
	unknown := gate.Cluster{Name: "made up", UID: "u9"}
	if got, changed := gate.ComputeWaiting(v1alpha1.UpgradeGateStatus{}, unknown, workersStep, "m", exists, now); changed {
		t.Errorf("a Cluster that does not exist is recorded: %v", got)
	}
}

// However many Clusters wait: the list is bounded, and those that are on it stay, so that questions of the others write nothing.
func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	exists := func(string, string) bool { return true }
	var status v1alpha1.UpgradeGateStatus
	for i := range 301 {
		c := gate.Cluster{Name: fmt.Sprintf("c%03d", i), UID: fmt.Sprint("u", i)}
		var changed bool
		status, changed = gate.ComputeWaiting(status, c, workersStep, strings.Repeat("é", 300), exists, now.Add(time.Duration(i)*time.Second))
		if want := i < 300; changed != want {
			t.Fatalf("Cluster %d: changed is %t", i, changed)
		}
	}
	if status.WaitingCount != 300 || len(status.Waiting[0].Message) > 256 {
		t.Errorf("%d wait, with messages of %d bytes", status.WaitingCount, len(status.Waiting[0].Message))
	}
}

// An approval is one of the gate as it was: when its spec changes, the step is asked for again.
func TestApprovalsOfAnotherGenerationDoNotCount(t *testing.T) {
	t.Parallel()
	g := newGate(func(g *v1alpha1.UpgradeGate) { g.Generation = 3 })
	g.Status.Approvals = gate.ComputeApproved(&g, prod, workersStep, "jane", now)
	g.Generation++
	selected := gate.Select([]v1alpha1.UpgradeGate{g}, prod, workersStep)
	want := `needs approval again, since the gate has changed: windlass approve prod -n ns --gate g --step "before workers v1.32.4"`
	if got := gate.Decide(workersStep, selected, gate.Facts{}, now).Of("g"); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	g.Status.Approvals = gate.ComputeApproved(&g, prod, workersStep, "joe", now)
	if a, ok := gate.FindApproval(&g, prod, workersStep); !ok || a.By != "joe" || len(g.Status.Approvals) != 1 {
		t.Errorf("approved again: %v", g.Status.Approvals)
	}
}

func TestApprovalsEnd(t *testing.T) {
	t.Parallel()
	g := newGate(nil)
	last := gate.Step{Hook: gate.AfterClusterUpgrade, Version: workersStep.Version}
	other := gate.Cluster{Namespace: "ns", Name: "other", UID: "u2"}
	for i, c := range []gate.Cluster{prod, other} {
		for _, step := range []gate.Step{workersStep, last} {
			g.Status.Approvals = gate.ComputeApproved(&g, c, step, "jane", now.Add(time.Duration(i)*time.Second))
		}
	}
	of := func(approvals []v1alpha1.GateApprovalRecord) []string {
		var got []string
		for _, a := range approvals {
			got = append(got, fmt.Sprintf("%s %s", a.Cluster, a.At))
		}
		return got
	}
	ended := of(gate.ComputeEnded(g.Status.Approvals, prod, last))
	if diff := cmp.Diff([]string{"prod AfterClusterUpgrade", "other BeforeWorkersUpgrade", "other AfterClusterUpgrade"}, ended); diff != "" {
		t.Errorf("after the end (-want +got):\n%s", diff)
	}
	exists := func(_, uid string) bool { return uid == "u2" }
	for seconds, want := range map[int]int{-3600: 2, 30: 4, 3600: 2} {
		if got := of(gate.ComputeExisting(g.Status.Approvals, exists, now.Add(time.Duration(seconds)*time.Second))); len(got) != want {
			t.Errorf("%d s after the approval, without prod: %v", seconds, got)
		}
	}
}
