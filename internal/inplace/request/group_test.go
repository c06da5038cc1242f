package request_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/pkg/version"
)

// going is a group on its way to optionA, of machines that have nothing of it yet.
func going(machines int) request.Group {
	w := newWorld(false, machines)
	g := w.group()
	g.Marks = request.Marks{To: optionA, Status: request.InProgress}
	g.Record = &request.Record{Option: optionA}
	return g
}

// refusedUpgrade is the record of an upgrade that was refused a minute after the start.
func refusedUpgrade(option string) *request.Upgrade {
	return &request.Upgrade{Option: option, Message: "no updater", At: start0.Add(time.Minute)}
}

// TestInFlight has the next machine wait for each that something happens to, whoever asked for it.
func TestInFlight(t *testing.T) {
	t.Parallel()
	const other = "revision=9"
	running := &request.Upgrade{Option: other, Progress: &inplace.Progress{Phase: inplace.Updating}}
	for name, tt := range map[string]struct {
		edit   func(*request.Member)
		flying bool
	}{
		"nothing":                     {func(*request.Member) {}, false},
		"asked for":                   {func(m *request.Member) { m.Marks.To = other }, true},
		"running":                     {func(m *request.Member) { m.Upgrade = running }, true},
		"refused":                     {func(m *request.Member) { m.Upgrade = refusedUpgrade(other) }, false},
		"refused and asked for still": {func(m *request.Member) { m.Upgrade, m.Marks.To = refusedUpgrade(other), other }, false},
		"refused, then another":       {func(m *request.Member) { m.Upgrade, m.Marks.To = refusedUpgrade(other), "revision=8" }, true},
		"begun by another":            {func(m *request.Member) { m.Marks.Status, m.Marks.ChangeID = request.InProgress, "7" }, true},
		"in progress, without change": {func(m *request.Member) { m.Marks.Status = request.InProgress }, false},
		"ended by another":            {func(m *request.Member) { m.Marks.Status, m.Marks.ChangeID = request.Done, "7" }, false},
		"updated by Cluster API":      {func(m *request.Member) { m.Updating = true }, true},
	} {
		g := going(2)
		g.Members[0].Held = "held"
		tt.edit(&g.Members[0])
		want := request.GroupAction(request.Mark{Member: "m1", To: optionA})
		count := ", 0 in flight"
		if tt.flying {
			want, count = request.Wait{After: 15 * time.Second}, ", 1 in flight"
		}
		v := request.DecideGroup(g)
		if diff := cmp.Diff(want, v.Action); diff != "" || v.State.Reason != request.ReasonMachines || !strings.Contains(v.State.Message, count) {
			t.Errorf("%s: %+v (-want +got)\n%s", name, v.State, diff)
		}
	}
}

// TestNext says for which reason the next machine of a group waits.
func TestNext(t *testing.T) {
	t.Parallel()
	flying := func(g *request.Group) { g.Members[0].Marks.To = optionA }
	for name, tt := range map[string]struct {
		edit   func(*request.Group)
		reason request.Reason
		marks  bool
	}{
		"as many as allowed":          {flying, request.ReasonMachines, false},
		"fewer than allowed":          {func(g *request.Group) { flying(g); g.MaxInFlight = 2 }, request.ReasonMachines, true},
		"a control plane has no more": {func(g *request.Group) { flying(g); g.MaxInFlight, g.ControlPlane = 2, true }, request.ReasonMachines, false},
		"all others held": {func(g *request.Group) {
			flying(g)
			g.MaxInFlight, g.Members[1].Held, g.Members[2].NoNode = 2, "paused", true
		}, request.ReasonMachines, false},
		"all held": {func(g *request.Group) {
			g.Members[0].Held, g.Members[1].Held, g.Members[2].NoNode = "paused", "paused", true
		}, request.ReasonMachinesHeld, false},
		"rolled out": {func(g *request.Group) { g.Members[2].Spec = at("v1.30.0") }, request.ReasonBusy, false},
		"rolled out, unreadable": {func(g *request.Group) {
			g.Members[2].Spec = version.Version{}
		}, request.ReasonMachines, true},
		"the control plane first": {func(g *request.Group) { g.ControlPlaneFirst = "first" }, request.ReasonControlPlaneFirst, false},
		"one that has it broke": {func(g *request.Group) {
			g.Members[2].Marks, g.Members[2].NotReady = request.Marks{Status: request.Done, Release: optionA}, "flap"
		}, request.ReasonMachinesHeld, false},
		"an option of a later release": {func(g *request.Group) {
			g.Marks.To = "image=v1.31.2"
			g.Record.Option = g.Marks.To
		}, request.ReasonUnknownRecord, false},
		"fewer than replicas": {func(g *request.Group) {
			g.Replicas = 4
			for i := range g.Members {
				g.Members[i].Marks = request.Marks{Status: request.Done, Release: optionA}
			}
		}, request.ReasonMachinesHeld, false},
	} {
		g := going(3)
		tt.edit(&g)
		v := request.DecideGroup(g)
		if _, marks := v.Action.(request.Mark); marks != tt.marks || v.State.Reason != tt.reason {
			t.Errorf("%s: %T %+v", name, v.Action, v.State)
		}
	}
}

// TestCanary holds when the machines of a group wait for the first one.
func TestCanary(t *testing.T) {
	t.Parallel()
	has := func(m *request.Member) { m.Marks = request.Marks{Status: request.Done, Release: optionA} }
	mark := func(name string) request.GroupAction { return request.Mark{Member: name, To: optionA} }
	waits := request.Wait{After: 15 * time.Second}
	superseded := func(g *request.Group) {
		g.Record.Superseded = []string{optionB}
		g.Members[1].Marks.To, g.Members[2].Marks.To = optionB, optionB
	}
	for name, tt := range map[string]struct {
		edit func(*request.Group)
		want request.GroupAction
	}{
		"the first":           {func(g *request.Group) { g.Members[0].Marks.To = "" }, mark("m0")},
		"beside the first":    {func(*request.Group) {}, waits},
		"turned off":          {func(g *request.Group) { g.Canary = 0 }, mark("m1")},
		"one has it":          {func(g *request.Group) { has(&g.Members[2]) }, mark("m1")},
		"one had it before":   {func(g *request.Group) { has(&g.Members[2]); g.Members[2].Unchanged = true }, waits},
		"one has it and goes": {func(g *request.Group) { has(&g.Members[2]); g.Members[2].Deleting = true }, waits},
		"one gives it up":     {func(g *request.Group) { has(&g.Members[2]); g.Members[2].Marks.To = optionB }, waits},
		"one has another":     {func(g *request.Group) { g.Members[2].Marks.Release = optionB }, waits},
		"updated by Cluster API": {func(g *request.Group) {
			g.Members[0].Marks.To, g.Members[0].Held, g.Members[0].Updating = "", "held", true
		}, waits},
		"superseded":              {superseded, request.Unmark{Member: "m1", To: optionB}},
		"superseded, one has it":  {func(g *request.Group) { superseded(g); has(&g.Members[0]) }, mark("m1")},
		"superseded, none asked":  {func(g *request.Group) { superseded(g); g.Members[0].Marks.To = "" }, mark("m1")},
		"superseded, turned off":  {func(g *request.Group) { superseded(g); g.Canary = 0 }, mark("m1")},
		"joined, with the others": {joining(true), mark("m1")},
		"joined, all of them":     {joining(false), request.Rest{}},
	} {
		g := going(3)
		g.MaxInFlight, g.Canary, g.Members[0].Marks.To = 3, 1, optionA
		tt.edit(&g)
		if diff := cmp.Diff(tt.want, request.DecideGroup(g).Action); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// joining has two machines join a group that has its release, one of which is on the way to it.
func joining(beside bool) func(*request.Group) {
	return func(g *request.Group) {
		*g = ended()
		g.MaxInFlight, g.Canary, g.Marks.Release, g.Record.Option = 3, 1, optionA, optionA
		joined := going(3).Members
		for i := range joined {
			joined[i].Created = start0.Add(2 * time.Hour)
		}
		joined[0].Marks.To = optionA
		if beside {
			joined[2].Marks = request.Marks{Status: request.Done, Release: optionA}
		}
		g.Members = joined
	}
}

// TestGroupFailure holds by which machine a group is stopped, and what people are told to do.
func TestGroupFailure(t *testing.T) {
	t.Parallel()
	asked := func(after time.Duration) *time.Time {
		at := start0.Add(after)
		return &at
	}
	const byRetry, byGroupRetry = "on the group or the machine to try again", "handed to remediation"
	for name, tt := range map[string]struct {
		edit       func(*request.Group, *request.Member)
		stopped    bool
		remediated string
		words      string
	}{
		"failed":                      {func(*request.Group, *request.Member) {}, true, "", byRetry},
		"failed with another option":  {func(_ *request.Group, m *request.Member) { m.Upgrade.Option = optionB }, false, "", ""},
		"failed, no longer asked for": {func(_ *request.Group, m *request.Member) { m.Marks.To = "" }, false, "", ""},
		"handed to remediation":       {func(_ *request.Group, m *request.Member) { m.Remediation = "asked" }, true, "m0", byGroupRetry},
		"deleted by a person":         {func(_ *request.Group, m *request.Member) { m.Deleting = true }, false, "", ""},
		"deleted, not failed": {func(_ *request.Group, m *request.Member) {
			m.Deleting, m.Remediation, m.Upgrade = true, "asked", nil
		}, false, "", ""},
		"replaced": {func(_ *request.Group, m *request.Member) { m.Deleting, m.Remediation = true, "asked" }, true, "m0", byGroupRetry},
		"replaced, retried before": {func(g *request.Group, m *request.Member) {
			m.Deleting, m.Remediation, g.Record.RetryAsked = true, "asked", asked(time.Second)
		}, true, "m0", byGroupRetry},
		"replaced, retried since": {func(g *request.Group, m *request.Member) {
			m.Deleting, m.Remediation, g.Record.RetryAsked = true, "asked", asked(time.Hour)
		}, false, "", ""},
	} {
		g := going(3)
		g.Now = start0.Add(2 * time.Hour)
		m := &g.Members[0]
		m.Marks.To, m.Upgrade = optionA, refusedUpgrade(optionA)
		tt.edit(&g, m)
		v := request.DecideGroup(g)
		stopped := v.After.Marks.Status == request.Failed
		if stopped != tt.stopped || stopped != (v.Event.Kind == request.FailedFinally) || !strings.Contains(v.State.Message, tt.words) {
			t.Errorf("%s: %+v %+v", name, v.After.Marks, v.State)
		}
		if v.After.Record.Remediated != tt.remediated {
			t.Errorf("%s: remediated %q", name, v.After.Record.Remediated)
		}
		if !stopped {
			continue
		}
		g.Marks, g.Record = v.After.Marks, v.After.Record
		again := request.DecideGroup(g)
		if again.Event.Kind != request.NoEvent || !cmp.Equal(again.After, v.After) {
			t.Errorf("%s: it is told again: %+v", name, again)
		}
		g.Members = g.Members[1:]
		if gone := request.DecideGroup(g); (gone.After.Marks.Status == request.Failed) != (tt.remediated != "") {
			t.Errorf("%s: once it is gone, %+v %T", name, gone.After.Marks, gone.Action)
		}
	}
}

// TestCount holds what people see of how far a group is.
func TestCount(t *testing.T) {
	t.Parallel()
	g := going(6)
	g.Members[0].Marks.To, g.Members[0].Upgrade = optionA, refusedUpgrade(optionA)
	g.Members[1].Marks.To = optionA
	g.Members[2].Updating = true
	g.Members[3].Marks = request.Marks{Status: request.Done, Release: optionA}
	if v := request.DecideGroup(g); !strings.Contains(v.State.Message, "1 of 6 machines have "+optionA+", 2 in flight, 1 failed;") {
		t.Errorf("%s", v.State.Message)
	}
	g.Members[0] = g.Members[1]
	if v := request.DecideGroup(g); v.State.Message != "1 of 6 machines have "+optionA+", 3 in flight" {
		t.Errorf("%s", v.State.Message)
	}
	if v := request.DecideGroup(ended()); v.State.Message != "giving machines that have joined the release of the group" {
		t.Errorf("%s", v.State.Message)
	}
}

// TestSuperseded remembers each option once that machines may still have, and not the current one.
func TestSuperseded(t *testing.T) {
	t.Parallel()
	g := going(1)
	g.Record = &request.Record{Option: optionB, Superseded: []string{"revision=1", optionA, optionB, "revision=2"}}
	v := request.DecideGroup(g)
	if diff := cmp.Diff([]string{"revision=1", "revision=2", optionB}, v.After.Record.Superseded); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestReachedVersion records the oldest version where machines run several.
func TestReachedVersion(t *testing.T) {
	t.Parallel()
	for _, kubelets := range [][]string{{"v1.31.8", "v1.31.7", "v1.31.9"}, {"v1.31.7", "v1.31.8", "v1.31.9"}, {"v1.31.9", "v1.31.8", "v1.31.7"}} {
		g := going(3)
		for i := range g.Members {
			g.Members[i].Marks, g.Members[i].Kubelet = request.Marks{Status: request.Done, Release: optionA}, at(kubelets[i])
		}
		if v := request.DecideGroup(g); v.Event.Kind != request.Ended || v.After.Record.Version != at("v1.31.7") {
			t.Errorf("%v: %+v", kubelets, v.After.Record)
		}
	}
}

// TestGroupBegins shows that an upgrade is in progress before the first machine is marked.
func TestGroupBegins(t *testing.T) {
	t.Parallel()
	g := going(2)
	g.Marks, g.Record = request.Marks{To: optionA, Status: request.Done, Release: optionB}, nil
	v := request.DecideGroup(g)
	if diff := cmp.Diff(request.Marks{To: optionA, Status: request.InProgress}, v.After.Marks); diff != "" || v.After.Record == nil {
		t.Errorf("recorded is %+v (-want +got)\n%s", v.After.Record, diff)
	}
}
