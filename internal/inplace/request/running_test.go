package request_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// underWay is a machine that is being upgraded, in a phase.
func underWay(phase inplace.Phase, edit func(*request.Machine, *request.Upgrade)) request.Machine {
	f := well()
	f.Marks.Status = request.InProgress
	if phase == inplace.Draining {
		f.Marks.Release = "old" // No updater has been asked.
	}
	f.Upgrade = &request.Upgrade{Option: f.Marks.To, Progress: &inplace.Progress{
		ID: "u", Phase: phase, Attempt: 1, Operation: "u-1", Started: start0, To: at("v1.31.2"),
		Steps: []inplace.Step{{Updater: "u", SetsVersion: true}}, LastError: "no",
	}}
	if edit != nil {
		edit(&f, f.Upgrade)
	}
	return f
}

// TestRunning carries an upgrade on, follows it or gives it up, by what is asked for and by what may run on the node.
func TestRunning(t *testing.T) {
	t.Parallel()
	const other = "revision=9"
	edit := func(to string, unended, cancelled bool) func(*request.Machine, *request.Upgrade) {
		return func(f *request.Machine, u *request.Upgrade) {
			f.Marks.To, u.Progress.Unended, u.Cancelled = to, unended, cancelled
		}
	}
	unasked := func(to string) func(*request.Machine, *request.Upgrade) {
		return func(f *request.Machine, _ *request.Upgrade) { f.Marks.To, f.Marks.Release = to, "old" }
	}
	there := func(to string, cancelled bool) func(*request.Machine, *request.Upgrade) {
		return func(f *request.Machine, u *request.Upgrade) {
			f.Marks.To, u.Cancelled, f.Node.Kubelet = to, cancelled, at("v1.31.2")
		}
	}
	holds := func(f *request.Machine, _ *request.Upgrade) { f.Marks.To, f.ControlPlane, f.Holder = "", true, f.Name }
	wanted := well().Marks.To
	for name, tt := range map[string]struct {
		facts request.Machine
		want  request.Action
		event request.EventKind
		// gone says that nothing stays on record, cancelled that the record says that it was cancelled.
		gone, cancelled bool
	}{
		"wanted":                           {facts: underWay(inplace.Updating, nil), want: request.Run{}},
		"another, at work":                 {facts: underWay(inplace.Updating, edit(other, false, false)), want: request.Run{}},
		"at work, an earlier one unended":  {facts: underWay(inplace.Updating, edit("", true, true)), want: request.Run{}, cancelled: true},
		"withdrawn, at work":               {facts: underWay(inplace.Updating, edit("", false, false)), want: request.Wait{}, event: request.Cancelled, cancelled: true},
		"withdrawn, followed":              {facts: underWay(inplace.Updating, edit("", false, true)), want: request.Run{}, cancelled: true},
		"withdrawn, nothing asked":         {facts: underWay(inplace.Updating, unasked("")), want: request.Rest{}, event: request.Cancelled, gone: true},
		"another, nothing asked":           {facts: underWay(inplace.Updating, unasked(other)), want: request.Ask{}},
		"withdrawn, backing off":           {facts: underWay(inplace.BackingOff, edit("", false, false)), want: request.Rest{}, event: request.Cancelled, gone: true},
		"withdrawn before, backing off":    {facts: underWay(inplace.BackingOff, edit("", false, true)), want: request.Rest{}, gone: true},
		"withdrawn, unended":               {facts: underWay(inplace.BackingOff, edit("", true, false)), want: request.Wait{}, event: request.Cancelled, cancelled: true},
		"withdrawn before, unended":        {facts: underWay(inplace.BackingOff, edit("", true, true)), want: request.Follow{}, cancelled: true},
		"withdrawn before, unended, drain": {facts: underWay(inplace.Draining, edit("", true, true)), want: request.Follow{}, cancelled: true},
		"another, unended":                 {facts: underWay(inplace.BackingOff, edit(other, true, false)), want: request.Ask{}},
		"another, draining":                {facts: underWay(inplace.Draining, edit(other, false, false)), want: request.Ask{}},
		"another, done and not seen":       {facts: underWay(inplace.Verifying, edit(other, false, false)), want: request.Ask{}},
		"another, done and seen":           {facts: underWay(inplace.Soaking, there(other, false)), want: request.Run{}},
		"withdrawn, done and not seen":     {facts: underWay(inplace.Verifying, edit("", false, true)), want: request.Run{}, cancelled: true},
		"failed, wanted":                   {facts: underWay(inplace.Failed, edit(wanted, false, false)), want: request.Rest{}},
		"failed, wanted, unended":          {facts: underWay(inplace.Failed, edit(wanted, true, false)), want: request.Rest{}},
		"failed, withdrawn":                {facts: underWay(inplace.Failed, edit("", false, false)), want: request.Rest{}, gone: true},
		"failed, withdrawn, unended":       {facts: underWay(inplace.Failed, edit("", true, false)), want: request.Follow{}},
		"failed, withdrawn, with the lock": {facts: underWay(inplace.Failed, holds), want: request.ReleaseLock{}, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := request.DecideMachine(tt.facts)
			if reflect.TypeOf(v.Action) != reflect.TypeOf(tt.want) || v.Event.Kind != tt.event {
				t.Errorf("%T, event %+v", v.Action, v.Event)
			}
			if u := v.After.Record; (u == nil) != tt.gone || u != nil && u.Cancelled != tt.cancelled {
				t.Errorf("recorded is %+v", u)
			}
		})
	}
}

// TestFollowed keeps in mind that a change is not wanted any longer which has ended all the same.
func TestFollowed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		to                       string
		before, after, carriesOn bool
		outcome                  inplace.Outcome
	}{
		"done, withdrawn":                  {to: "", outcome: inplace.Finishes, after: true, carriesOn: true},
		"done, another asked for":          {to: "channel=1.31/stable", outcome: inplace.Finishes},
		"done, another after a withdrawal": {to: "channel=1.31/stable", before: true, outcome: inplace.Finishes, after: true},
	} {
		f := underWay(inplace.BackingOff, func(f *request.Machine, u *request.Upgrade) {
			f.Marks.To, u.Cancelled, u.Progress.Unended = tt.to, tt.before, true
		})
		v := request.Followed(f, inplace.Answer{Outcome: tt.outcome})
		if u := v.After.Record; u == nil || u.Cancelled != tt.after || u.Progress.Phase != inplace.Verifying || u.Progress.Unended {
			t.Errorf("%s: %+v", name, u)
		}
		if _, runs := v.Action.(request.Run); runs != tt.carriesOn {
			t.Errorf("%s: %T", name, v.Action)
		}
	}
}

// TestCarried keeps the release on record until the first request to an updater.
func TestCarried(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		phase inplace.Phase
		want  string
	}{
		{inplace.Draining, "old"}, {inplace.Updating, "old"}, {inplace.BackingOff, "old"}, {inplace.Failed, "old"},
		{inplace.Soaking, ""},
	} {
		f := underWay(tt.phase, func(f *request.Machine, _ *request.Upgrade) { f.Marks.Release = "old" })
		if v := request.Carried(f, f.Upgrade.Progress); v.After.Marks.Release != tt.want || v.Event.Kind != request.NoEvent {
			t.Errorf("%s: %+v %+v", tt.phase, v.After.Marks, v.Event)
		}
	}
	for _, tt := range []struct {
		phase inplace.Phase
		want  request.EventKind
	}{{inplace.BackingOff, request.AttemptFailed}, {inplace.Failed, request.FailedFinally}} {
		f := underWay(inplace.Updating, nil)
		p := *f.Upgrade.Progress
		p.Phase = tt.phase
		v := request.Carried(f, &p)
		if v.Event.Kind != tt.want || v.After.Marks.LastFailed == "" || v.After.Marks.Status != request.Failed {
			t.Errorf("%s: %+v %+v", tt.phase, v.After.Marks, v.Event)
		}
	}
}

// TestStatusBetweenAttempts holds what the status annotation contains from attempt to attempt.
func TestStatusBetweenAttempts(t *testing.T) {
	d := drive(t, false, 1)
	d.policy.Drain = false
	d.machines[0].marks.To = optionA
	for i, step := range []struct {
		answer string
		after  time.Duration
		want   request.Status
		failed bool
	}{
		{"works", 0, request.InProgress, false},
		{"fails", time.Second, request.Failed, true},
		// The next attempt is not due.
		{"works", time.Second, request.Failed, true},
		{"works", time.Minute, request.InProgress, true},
		{"fails", time.Second, request.Failed, true},
		// No attempt is left.
		{"works", time.Hour, request.Failed, true},
	} {
		d.now = d.now.Add(step.after)
		d.machineOnce(0, step.answer)
		if got := d.machines[0].marks; got.Status != step.want || (got.LastFailed != "") != step.failed {
			t.Errorf("step %d: %+v", i, got)
		}
	}
	if !d.machines[0].upgrade.IsFinal() {
		t.Errorf("recorded is %+v", d.machines[0].upgrade)
	}
}

// TestTimeOfFailure holds the form of the time of the last failed attempt, which other programs read.
func TestTimeOfFailure(t *testing.T) {
	t.Parallel()
	f := underWay(inplace.Updating, func(f *request.Machine, _ *request.Upgrade) {
		f.Now = time.Date(2024, 11, 7, 13, 30, 0, 0, time.FixedZone("", 4*60*60))
	})
	p := *f.Upgrade.Progress
	p.Phase = inplace.BackingOff
	if got := request.Carried(f, &p).After.Marks.LastFailed; got != "Thu, 07 Nov 2024 09:30:00 +0000" {
		t.Errorf("the time is %q", got)
	}
}
