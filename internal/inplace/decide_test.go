package inplace_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
)

// atRest is a control plane Machine of which Cluster API asks for an update that has not begun.
func atRest() inplace.Facts {
	return inplace.Facts{
		Now: epoch, FreshID: "u2", Desired: newer,
		Decision: &inplace.Decision{ID: "now", Steps: steps("kubelet")},
		Node:     inplace.Node{Exists: true, Ready: true, ReadySince: epoch, Kubelet: older},
		Policy:   policy.Policy{MaxAttempts: 1, AttemptTimeout: time.Minute},
	}
}

// underWay is a control plane Machine whose update has begun.
func underWay(phase inplace.Phase) inplace.Facts {
	f := atRest()
	f.Progress = &inplace.Progress{
		ID: "u1", Decision: "now", From: older, To: newer, Steps: steps("kubelet"),
		Phase: phase, Attempt: 1, Operations: 1, Operation: "u1-1",
		Began: epoch, StepBegan: epoch, Started: epoch,
	}
	return f
}

// outcome names what a verdict leads to: its Refuse's reason, or else its action.
func outcome(v inplace.Verdict) string {
	switch a := v.Action.(type) {
	case inplace.Refuse:
		return string(a.Reason)
	case inplace.Complete:
		return "complete"
	case inplace.Call:
		return "call " + a.Step.Updater
	case inplace.Wait:
		return "wait"
	case inplace.CanBegin, inplace.Drain, inplace.Uncordon, inplace.Finish, inplace.AbandonUpdate:
	}
	return "something else"
}

// TestRetryIsRecorded: a retry keeps when the update began, and records when a person asked for it.
func TestRetryIsRecorded(t *testing.T) {
	t.Parallel()
	for name, remaining := range map[string][]inplace.Step{
		"with a step": steps("kubelet"), "all updaters are done": nil,
	} {
		f := underWay(inplace.Failed)
		f.Progress.Steps = remaining
		f.Retry, f.Now = true, epoch.Add(time.Hour)
		p := inplace.Decide(f).Progress
		if p == nil || p.Retried == nil || !p.Retried.Equal(f.Now) || !p.Began.Equal(epoch) {
			t.Errorf("%s: the progress is %+v", name, p)
		}
	}
}

// TestCompleteOnce holds which updates count as the one that ended last.
func TestCompleteOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		last         inplace.Summary
		target, want string
		noDecision   bool
	}{
		"the same decision":    {last: inplace.Summary{To: newer, Decision: "now"}, want: "complete"},
		"another decision":     {last: inplace.Summary{To: newer, Decision: "before"}, want: "call kubelet"},
		"the decision is gone": {last: inplace.Summary{To: newer, Decision: "now"}, noDecision: true, want: "NoDecision"},
		"another version":      {last: inplace.Summary{To: older, Decision: "now"}, want: "call kubelet"},
		"the same MachineSet": {
			last: inplace.Summary{To: newer, Decision: "before", Target: "new"}, target: "new", want: "complete",
		},
		"the same MachineSet, the decision is gone": {
			last: inplace.Summary{To: newer, Decision: "before", Target: "new"}, target: "new", noDecision: true,
			want: "complete",
		},
		"another MachineSet": {
			last: inplace.Summary{To: newer, Decision: "now", Target: "old"}, target: "new", want: "call kubelet",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := atRest()
			f.Last, f.Target = &tt.last, tt.target
			if tt.noDecision {
				f.Decision = nil
			}
			if diff := cmp.Diff(tt.want, outcome(inplace.Decide(f))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestChangedMeanwhile refuses to call an updater once the live objects are others than at the
// beginning.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		phase                inplace.Phase
		recorded, live, want string
	}{
		"unchanged":               {inplace.Updating, "a", "a", "call kubelet"},
		"changed while updating":  {inplace.Updating, "a", "b", "DesiredChanged"},
		"changed while draining":  {inplace.Draining, "a", "b", "DesiredChanged"},
		"changed before a retry":  {inplace.BackingOff, "a", "b", "DesiredChanged"},
		"changed after the calls": {inplace.Verifying, "a", "b", "wait"},
		"nothing recorded":        {inplace.Updating, "", "b", "call kubelet"},
		"live objects unknown":    {inplace.Updating, "a", "", "call kubelet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := underWay(tt.phase)
			f.Fingerprint, f.Progress.Fingerprint = tt.live, tt.recorded
			if diff := cmp.Diff(tt.want, outcome(inplace.Decide(f))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestAttemptsAreCancelled holds when an updater is told that its attempt must end.
func TestAttemptsAreCancelled(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		after               time.Duration
		abandon, ownerMoved bool
		want                string
	}{
		"in time":                    {after: time.Minute},
		"too late":                   {after: time.Minute + time.Second, want: "there was no result after 1m0s"},
		"abandoned":                  {abandon: true, ownerMoved: true, want: "the annotation windlass.dev/update-abandon asks to give the update up"},
		"abandoned, the owner stays": {abandon: true},
		"the owner has moved on":     {ownerMoved: true},
		"abandoned when it is too late": {
			after: time.Hour, abandon: true, ownerMoved: true, want: "there was no result after 1m0s",
		},
	} {
		f := underWay(inplace.Updating)
		f.Now, f.Abandon, f.OwnerMovedOn = epoch.Add(tt.after), tt.abandon, tt.ownerMoved
		call, ok := inplace.Decide(f).Action.(inplace.Call)
		if !ok || call.Cancel != tt.want {
			t.Errorf("%s: the action is %+v, want to cancel because of %q", name, call, tt.want)
		}
	}
}

// TestAnswerEndsEarlierAttempts holds which answers show that no earlier attempt runs any longer.
func TestAnswerEndsEarlierAttempts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer  inplace.Outcome
		unended bool
	}{
		"no answer":   {inplace.Unknown, true},
		"in progress": {inplace.InProgress, true},
		"done":        {inplace.Finishes, false},
		"failed":      {inplace.Fails, false},
	} {
		f := underWay(inplace.Updating)
		f.Progress.Unended = true
		v := inplace.Answered(f, inplace.Answer{Outcome: tt.answer})
		if v.Progress.Unended != tt.unended {
			t.Errorf("%s: %+v", name, v.Progress)
		}
	}
}

// TestConnectingResetsNothing has an updater connect to a machine for longer than an attempt may take. The
// answers must neither begin another attempt nor move the deadline.
func TestConnectingResetsNothing(t *testing.T) {
	t.Parallel()
	f := underWay(inplace.Updating)
	before := *f.Progress
	connecting := inplace.Answer{Outcome: inplace.Unknown, Message: "connecting", RetryAfter: time.Second}
	asked := 0
	for f.Now = before.Started; !f.Now.After(before.Deadline(f.Policy.AttemptTimeout)); f.Now = f.Now.Add(time.Second) {
		if call, ok := inplace.Decide(f).Action.(inplace.Call); !ok || call.Operation != before.Operation || call.Cancel != "" {
			t.Fatalf("the action is %+v", inplace.Decide(f).Action)
		}
		v := inplace.Answered(f, connecting)
		if wait, ok := v.Action.(inplace.Wait); !ok || wait.After != connecting.RetryAfter {
			t.Fatalf("the action is %+v, want a wait of %s", v.Action, connecting.RetryAfter)
		}
		if diff := cmp.Diff(&before, v.Progress); diff != "" {
			t.Fatalf("the answer changed what is recorded (-before +after):\n%s", diff)
		}
		asked++
	}
	p := inplace.Answered(f, connecting).Progress
	if asked < 2 || p.Phase == inplace.Updating || !p.Unanswered || p.Operations != before.Operations {
		t.Errorf("after %d answers and the deadline, the record is %+v", asked, p)
	}
}

// TestAttemptOver holds what is recorded of an attempt whose time ends without a result.
func TestAttemptOver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer              inplace.Answer
		unanswered, unended bool
	}{
		"no answer":         {inplace.Answer{Outcome: inplace.Unknown}, true, true},
		"nothing has begun": {inplace.Answer{Outcome: inplace.Unknown, NotBegun: true}, true, false},
		"in progress":       {inplace.Answer{Outcome: inplace.InProgress}, false, true},
	} {
		f := underWay(inplace.Updating)
		f.Now = epoch.Add(f.Policy.AttemptTimeout + time.Second)
		p := inplace.Answered(f, tt.answer).Progress
		if p.Phase != inplace.Failed || p.Unanswered != tt.unanswered || p.Unended != tt.unended {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	one := inplace.Within{Oldest: newer.Minor(), Newest: newer.Minor()}
	two := inplace.Within{Oldest: older.Minor(), Newest: newer.Minor()}
	got := []string{one.String(), two.String()}
	if diff := cmp.Diff([]string{"a release of v1.31", "a release from v1.30 to v1.31"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if one.Has(older) || !one.Has(newer) || !two.Has(older) {
		t.Errorf("%s has %s: %t", one, older, one.Has(older))
	}
}
