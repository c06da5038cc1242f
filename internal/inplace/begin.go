package inplace

import (
	"fmt"
	"time"
)

// CanBegin asks the updater of a step whether it can begin an operation, before the node is drained
// for it. It has no effect. AnsweredCanBegin takes the answer.
type CanBegin struct {
	Step      Step
	Operation string
}

func (CanBegin) action() {}

// Readiness is an updater's answer to the question whether it can begin. The zero value means yes.
type Readiness struct {
	// Refused says why the updater would refuse the update; Unknown why that cannot be told now;
	// Preparing what the updater brings to the machine first, while the node is as before. At most
	// one of the three is set.
	Refused, Unknown, Preparing string
	// RetryAfter is when to ask again, for Unknown and Preparing; 0 means after a while.
	RetryAfter time.Duration
}

// askCanBegin asks the current step's updater whether it can begin.
func askCanBegin(p *Progress) Verdict {
	return Verdict{Progress: p, Action: CanBegin{Step: p.Steps[0], Operation: p.Operation}}
}

// AnsweredCanBegin takes the answer to the CanBegin that was decided on f. A refusal ends the
// attempt, and the node has not been touched for it. The drain's time begins with the answer yes.
func AnsweredCanBegin(f Facts, r Readiness) Verdict {
	switch {
	case r.Refused != "":
		return attemptFailed(f, r.Refused)
	case r.Unknown != "" && f.Now.Sub(f.Progress.Started) > f.Policy.AttemptTimeout:
		return attemptFailed(f, fmt.Sprintf("it is unknown after %s whether the updater can begin: %s",
			f.Policy.AttemptTimeout, r.Unknown))
	case r.Preparing != "" && f.Now.Sub(f.Progress.Started) > f.Policy.AttemptTimeout:
		return attemptFailed(f, fmt.Sprintf("the machine is not prepared after %s: %s",
			f.Policy.AttemptTimeout, r.Preparing))
	case r.Preparing != "":
		return wait(f.Progress, orPoll(r.RetryAfter), ReasonUpdating,
			"preparing the machine before the drain and %s: %s", position(f.Progress), r.Preparing)
	case r.Unknown != "":
		return wait(f.Progress, orPoll(r.RetryAfter), ReasonUpdaterUnknown,
			"draining node before %s: not started, because it is unknown whether the updater can begin: %s",
			position(f.Progress), r.Unknown)
	}
	p := *f.Progress
	p.CanBegin, p.Started = p.Operation, f.Now
	return Decide(withProgress(f, &p))
}
