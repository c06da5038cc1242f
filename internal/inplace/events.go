package inplace

import (
	"fmt"
	"time"

	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Reason is why a machine waits, or why its update is refused.
type Reason string

// The reasons.
const (
	// ReasonQueued: as many machines as the policy allows are being updated.
	ReasonQueued Reason = "Queued"
	// ReasonDraining: the node is being drained.
	ReasonDraining Reason = "Draining"
	// ReasonUpdating: an updater is at work.
	ReasonUpdating Reason = "Updating"
	// ReasonUpdaterUnknown: an updater could not be asked, or its answer could not be used.
	ReasonUpdaterUnknown Reason = "UpdaterUnknown"
	// ReasonBackingOff: the last attempt failed, and the next one is not due yet.
	ReasonBackingOff Reason = "BackingOff"
	// ReasonVerifying: an updater says that it is done, and the node does not show it yet.
	ReasonVerifying Reason = "Verifying"
	// ReasonSoaking: the node must stay Ready at the desired version for a while.
	ReasonSoaking Reason = "Soaking"
	// ReasonNodeUnknown: the node could not be looked up.
	ReasonNodeUnknown Reason = "NodeUnknown"
	// ReasonNoDecision: no decision is recorded.
	ReasonNoDecision Reason = "NoDecision"
	// ReasonDesiredChanged: the desired state is not the one that was decided on.
	ReasonDesiredChanged Reason = "DesiredChanged"
	// ReasonTransition: the kubelet is farther from the desired version than an updater can move it at once.
	ReasonTransition Reason = "Transition"
	// ReasonUnknownPhase: this release does not know the recorded phase, which a newer one has written.
	ReasonUnknownPhase Reason = "UnknownPhase"
	// ReasonPaused: the Machine or its Cluster is paused.
	ReasonPaused Reason = "Paused"
	// ReasonFailed: all attempts failed.
	ReasonFailed Reason = "UpdateFailed"
)

const (
	// pollNode is when to look at a node again.
	pollNode = 2 * time.Second
	// pollUpdater is when an updater that was not reached, or named no time, is asked again.
	pollUpdater = 5 * time.Second
)

// Drained takes the end of a drain: the first step's updater is next.
func Drained(f Facts) Verdict {
	p := *f.Progress
	p.Phase, p.Started, p.Drained = Updating, f.Now, true
	if p.Attempt == 1 {
		// How long an updater takes is measured without the drain.
		p.StepBegan = f.Now
	}
	return Verdict{Progress: &p, Action: Call{Step: p.Steps[0], Operation: p.Operation}}
}

// StillDraining answers while a drain goes on.
func StillDraining(f Facts, message string) Verdict {
	return wait(f.Progress, pollUpdater, ReasonDraining, "draining node before %s: %s", position(f.Progress), message)
}

// Answered takes an updater's answer to the Call that was decided on f.
func Answered(f Facts, a Answer) Verdict {
	if a.Outcome == Finishes || a.Outcome == Fails {
		// An updater ends what it began earlier before it begins again, or finds it done.
		ended := *f.Progress
		ended.Unended = false
		f = withProgress(f, &ended)
	}
	p := f.Progress
	switch a.Outcome {
	case InProgress:
		if v, over := attemptOver(f, a); over {
			return v
		}
		return wait(p, orPoll(a.RetryAfter), ReasonUpdating, "%s: %s", position(p), orDefault(a.Message, "in progress"))
	case Unknown:
		// It may be at work, so this is no failed attempt; the attempt's time runs on.
		if v, over := attemptOver(f, a); over {
			return v
		}
	case Fails:
		return attemptFailed(f, orDefault(a.Message, "it gave no reason"))
	case Finishes:
		next := *p
		next.Phase, next.Started = Verifying, f.Now
		return Decide(withProgress(f, &next))
	}
	return wait(p, orPoll(a.RetryAfter), ReasonUpdaterUnknown, "%s: progress unknown: %s", position(p), orDefault(a.Message, "no answer"))
}

// orPoll is when an updater is asked again that has named a time, or none.
func orPoll(named time.Duration) time.Duration {
	if named <= 0 {
		return pollUpdater
	}
	return named
}

// attemptOver ends an attempt whose time is over without a result.
func attemptOver(f Facts, a Answer) (Verdict, bool) {
	if !f.Now.After(f.Progress.Deadline(f.Policy.AttemptTimeout)) {
		return Verdict{}, false
	}
	p := *f.Progress
	p.Unanswered, p.Unended = a.Outcome == Unknown, p.Unended || !a.NotBegun
	return attemptFailed(withProgress(f, &p), fmt.Sprintf("no result after %s; last answer: %s", f.Policy.AttemptTimeout, orDefault(a.Message, "in progress"))), true
}

// attemptFailed ends the current attempt: another one follows after a while, or the update has failed finally.
func attemptFailed(f Facts, why string) Verdict {
	if len(f.Progress.Steps) == 0 {
		return failed(f, why)
	}
	if f.Progress.Attempt >= f.Policy.MaxAttempts {
		return failed(f, fmt.Sprintf("%s failed, and no attempt is left: %s", position(f.Progress), why))
	}
	p := *f.Progress
	notBefore := f.Now.Add(record.Backoff(p.Attempt))
	p.Phase, p.Started, p.LastError, p.NotBefore = BackingOff, f.Now, boundError(why), &notBefore
	return decideBackingOff(withProgress(f, &p))
}

func failed(f Facts, why string) Verdict {
	p := *f.Progress
	p.Phase, p.Started, p.LastError, p.NotBefore = Failed, f.Now, boundError(why), nil
	f.Retry = false
	return decideFailed(withProgress(f, &p))
}

// maxLastError bounds Progress.LastError, in bytes: a record that is too large could not be written,
// and the attempt would not end.
const maxLastError = 4 << 10

func boundError(why string) string {
	if len(why) <= maxLastError {
		return why
	}
	return text.Bound(why, maxLastError)
}

// NodeProblem says why the node does not count as updated; empty if it does. Versions are compared as versions: a build that
// the desired version does not name does not matter.
func NodeProblem(f Facts) string {
	n := f.Node
	switch {
	case n.Unknown != "":
		return "cannot reach the workload cluster:  " + n.Unknown
	case !n.Exists:
		return "the node was not found in the workload cluster"
	case !f.Progress.Reached(n.Kubelet):
		return fmt.Sprintf("the node's kubelet reports %s, not %s", orDefault(n.Kubelet.String(), "no version"), f.Progress.Goal())
	case !n.Ready:
		return "the node is not Ready: " + orDefault(n.NotReady, "no reason given")
	}
	return f.Unhealthy
}

// tooFar says why an updater cannot move the kubelet to the desired version at once; empty if it can. The decision knew the
// Machine's version; the node's own is what counts when the update begins.
func tooFar(steps []Step, kubelet, desired version.Version) string {
	for _, s := range steps {
		if !s.SetsVersion || s.MaxMinors == 0 {
			continue
		}
		minors, ok := kubelet.Minor().Lag(desired.Minor())
		if ok && int64(minors) > int64(s.MaxMinors) {
			return fmt.Sprintf("updater %q moves a kubelet by at most %d minors at once; %s to %s is %d. Fix: set the owner to a version in between, and set the annotation windlass.dev/update-abandon on the Machine",
				s.Updater, s.MaxMinors, kubelet, desired, minors)
		}
	}
	return ""
}

// position names the current step for people, such as: updater "files" (1 of 2), attempt 2.
func position(p *Progress) string {
	if len(p.Steps) == 0 {
		return "the update"
	}
	return fmt.Sprintf("updater %q (%d of %d), attempt %d", p.Steps[0].Updater, len(p.Done)+1, len(p.Done)+len(p.Steps), p.Attempt)
}

func nextOperation(p *Progress) {
	p.Operations++
	p.Operation = fmt.Sprintf("%s-%d", p.ID, p.Operations)
}

func withProgress(f Facts, p *Progress) Facts {
	f.Progress, f.Abandon = p, false
	return f
}

// wait makes a Verdict to wait. Messages stay the same while nothing changes, without counters and elapsed times: each new one
// makes Cluster API write the conditions of the Machine and of its owners.
func wait(p *Progress, after time.Duration, reason Reason, format string, args ...any) Verdict {
	return Verdict{Progress: p, Action: Wait{After: after, Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

func refuse(p *Progress, reason Reason, format string, args ...any) Verdict {
	return Verdict{Progress: p, Action: Refuse{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
