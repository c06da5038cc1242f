package inplace

import (
	"fmt"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Facts are what Decide decides on.
type Facts struct {
	// Now is the time, and FreshID an id that nobody has used yet, for an update that begins now.
	Now     time.Time
	FreshID string
	// Desired is the Kubernetes version of the Machine's spec.
	Desired version.Version
	// Target is the name of the MachineSet that owns the Machine; empty for a control plane Machine.
	Target string
	// Decision is the recorded decision for this update; nil if there is none.
	Decision *Decision
	// Drifted are the fields that the Machine's objects do not carry as they were when the decision was made.
	Drifted []cover.Pointer
	// Fingerprint is that of the Machine's live objects; see cover.Fingerprint. Empty if it is not known.
	Fingerprint string
	// Progress, Last and Owed are what is recorded on the Machine; nil where nothing is.
	Progress *Progress
	Last     *Summary
	Owed     *Owed
	// Policy is what counts, and PolicyName the name under which that is recorded when the update begins.
	Policy     policy.Policy
	PolicyName string
	Node       Node
	// Others are the machines that may keep this one from beginning.
	Others Others
	// Unhealthy says what keeps the machine from counting as updated though its node is Ready, such as its etcd
	// member; empty for nothing.
	Unhealthy string
	// Bounded is set for an update that ends by itself, if need be as failed. Cluster API asks again as long as it
	// wants an update; nobody repeats what an annotation asks for.
	Bounded bool
	// Retry and Abandon say that a person asked for that.
	Retry, Abandon bool
	// OwnerMovedOn says that the Machine's owner desires something else by now than what the Machine's spec says.
	OwnerMovedOn bool
	// Paused is set while the Machine or its Cluster is paused.
	Paused bool
}

// Verdict is what happens next.
type Verdict struct {
	// Progress must be recorded on the Machine before Action is carried out, if it differs from Facts.Progress. The one
	// exception is Finish, which records the end and with it all that led there.
	Progress *Progress
	Action   Action
}

// Action is what to do next. CanBegin, Drain, Call and Uncordon are followed by another Decide; the others answer the caller.
//
//sumtype:decl
type Action interface{ action() }

// Drain cordons and drains the node. Drained takes its end.
type Drain struct{}

// Call asks the updater of a step to update the machine, under an operation id. Answered takes its answer.
type Call struct {
	Step      Step
	Operation string
	// Cancel says why the attempt must end, for people; empty while it may run. An updater that cannot stop may ignore it.
	Cancel string
}

// Uncordon makes the node schedulable again. Precondition: the node has been Ready at the desired version for the soak time.
type Uncordon struct{}

// Finish removes Progress from the Machine, leaves Summary there, and answers that the update is done. Dirty replaces what
// the Machine records of dirty fields.
type Finish struct {
	Summary Summary
	Dirty   []cover.Pointer
}

// AbandonUpdate removes Progress and Cluster API's mark from the Machine, leaves Owed there, and makes its node schedulable
// again if Uncordon.
type AbandonUpdate struct {
	Uncordon bool
	Owed     Owed
	Message  string
}

// Wait answers that the update is in progress, and when to ask again.
type Wait struct {
	After   time.Duration
	Reason  Reason
	Message string
}

// Refuse answers that the update has failed.
type Refuse struct {
	Reason  Reason
	Message string
}

// Complete answers that the update is done. It is recorded already.
type Complete struct{ Message string }

func (Drain) action()         {}
func (Call) action()          {}
func (Uncordon) action()      {}
func (Finish) action()        {}
func (AbandonUpdate) action() {}
func (Wait) action()          {}
func (Refuse) action()        {}
func (Complete) action()      {}

// Decide says what happens next to a machine that Cluster API has marked as updating. It is a function of the facts: after a
// crash at any point, reading the facts again and deciding again leads to the same end, and no step that is recorded as
// ended runs again.
func Decide(f Facts) Verdict {
	f.Progress = f.Progress.At(f.Now)
	if !f.Abandon {
		return decide(f)
	}
	if v, ok := decideAbandon(f); ok {
		return v
	}
	v := decide(f)
	if r, ok := v.Action.(Refuse); ok && !f.OwnerMovedOn {
		r.Message += " (windlass.dev/update-abandon is ignored while the owner's spec equals the Machine's spec, because the Machine would then count as up to date)"
		v.Action = r
	}
	return v
}

func decide(f Facts) Verdict {
	if f.Progress == nil {
		return decideBegin(f)
	}
	return decideRunning(f)
}

// decideRunning decides about an update that has begun.
func decideRunning(f Facts) Verdict {
	if v, ok := refuseRecord(f.Progress); ok {
		return v
	}
	if v, holds := heldByPause(f); holds {
		return v
	}
	if superseded(f) {
		// Nor is the Machine any longer what its last update made of it.
		f.Owed, f.Progress, f.Last = owed(f), nil, nil
		return decideBegin(f)
	}
	if f.Progress.To != f.Desired {
		return refuse(f.Progress, ReasonDesiredChanged,
			"the machine is being updated to %s, but its spec asks for %s now. Fix: set the spec back, or change the owner's spec and then set the annotation windlass.dev/update-abandon", f.Progress.To, f.Desired)
	}
	if isChangedMeanwhile(f) {
		return refuse(f.Progress, ReasonDesiredChanged, "the spec of the Machine or of its KubeadmConfig was changed during the update of the machine. "+
			"Fix: set it back, or change the owner's spec and then set the annotation windlass.dev/update-abandon")
	}
	switch f.Progress.Phase {
	case Draining:
		return decideDraining(f)
	case Updating:
		return decideUpdating(f)
	case BackingOff:
		return decideBackingOff(f)
	case Verifying:
		return decideVerifying(f)
	case Soaking:
		return decideSoaking(f)
	case Failed:
	}
	return decideFailed(f)
}

// isChangedMeanwhile reports whether an updater may still be called, but the live objects are not those that the update began with.
func isChangedMeanwhile(f Facts) bool {
	switch p := f.Progress; p.Phase {
	case Draining, Updating, BackingOff:
		return p.Fingerprint != "" && f.Fingerprint != "" && p.Fingerprint != f.Fingerprint
	case Verifying, Soaking, Failed:
	}
	return false
}

// decideBegin decides whether an update that Cluster API has asked for may begin. The order matters: what is over comes
// first, then what can never begin, then what has to wait. The node comes after the slot: machines that wait for a slot are
// many, and reading a node takes a request to the workload cluster.
func decideBegin(f Facts) Verdict {
	if ended(f) {
		return Verdict{Action: Complete{Message: "updated in place"}}
	}
	d := f.Decision
	if d == nil {
		return refuse(nil, ReasonNoDecision, "no decision to update this machine in place is recorded, so the updaters to run are unknown. "+
			"Fix: change the owner's spec and set the annotation windlass.dev/update-abandon on the Machine, or set windlass.dev/allow-replacement and delete it")
	}
	if len(f.Drifted) > 0 {
		return refuse(nil, ReasonDesiredChanged, "the machine's desired state differs from the one that was decided on: %s. "+
			"Fix: change the owner's spec, then set the annotation windlass.dev/update-abandon on the Machine, to request a new decision", cover.Describe(f.Drifted))
	}
	if queued, waits := Queued(f.Policy, f.Others); waits {
		return Verdict{Action: queued}
	}
	if f.Node.Unknown != "" {
		return wait(nil, pollNode, ReasonNodeUnknown, "waiting for the workload cluster: %s", f.Node.Unknown)
	}
	if !f.Node.Exists {
		return wait(nil, pollNode, ReasonNodeUnknown, "waiting for the machine's node, which was not found in the workload cluster")
	}
	steps, dirty := d.Steps, d.Dirty
	if f.Owed != nil {
		steps, dirty = MergeSteps(f.Owed.Steps, steps), mergePointers(f.Owed.Dirty, dirty)
	}
	if why := tooFar(steps, f.Node.Kubelet, f.Desired); why != "" {
		return refuse(nil, ReasonTransition, "%s", why)
	}
	return startStep(&Progress{
		ID: f.FreshID, Decision: d.ID, Target: f.Target, Policy: f.PolicyName, Fingerprint: f.Fingerprint,
		From: f.Node.Kubelet, To: f.Desired,
		Steps: append([]Step(nil), steps...),
		Dirty: append([]cover.Pointer(nil), dirty...),
		Began: f.Now,
	}, f)
}

// Start begins an update by these steps that needs no decision of Cluster API's, such as one that an annotation
// asks for. before is the record of an earlier update that this one replaces; nil if there was none.
func Start(f Facts, steps []Step, within *Within, before *Progress) Verdict {
	p := &Progress{
		ID: f.FreshID, Policy: f.PolicyName, From: f.Node.Kubelet, To: f.Desired, Within: within,
		Steps: append([]Step(nil), steps...), Began: f.Now,
	}
	if before != nil {
		p.Cordoned, p.Drained, p.Unended = before.Cordoned, before.Drained, before.Unended
	}
	return startStep(p, f)
}

// ended reports whether the update that Cluster API asks for is the one that is recorded as finished. Where the machine moved
// to a MachineSet, the decision may be gone by then with the MachineSet that held it, or another MachineSet may have added
// its own; a machine that left and came back has another record.
func ended(f Facts) bool {
	if f.Last == nil || f.Last.To != f.Desired {
		return false
	}
	if f.Target != "" {
		return f.Last.Target == f.Target
	}
	return f.Decision != nil && f.Last.Decision == f.Decision.ID
}

// startStep makes the first of the remaining steps the current one, and decides about it. It changes p, which is the
// caller's own.
func startStep(p *Progress, f Facts) Verdict {
	p.Phase, p.Attempt, p.NotBefore, p.LastError = Updating, 1, nil, ""
	p.StepBegan, p.Started = f.Now, f.Now
	if len(p.Steps) == 0 {
		p.Phase = Verifying
		p.Attempt, p.Operation = 0, ""
		return Decide(withProgress(f, p))
	}
	nextOperation(p)
	if mustDrain(p, f) {
		p.Phase = Draining
	}
	return Decide(withProgress(f, p))
}

// mustDrain reports whether the node is to be drained before the current step: once for an update, and again where
// somebody has made the node schedulable in between.
func mustDrain(p *Progress, f Facts) bool {
	if !f.Policy.Drain || !p.Steps[0].NeedsDrain || p.Drained && f.Node.Unschedulable {
		return false
	}
	return !f.Bounded || canDrain(p, f.Node)
}

// canDrain reports whether the drain of a bounded update can end. On a node that is not Ready no kubelet ends the
// pods, and the update may be what repairs it. A node that cannot be asked is waited for once; see decideDraining.
func canDrain(p *Progress, n Node) bool {
	if n.Unknown != "" {
		return !p.Drained
	}
	return n.Exists && n.Ready
}

// decideDraining drains the node. That this update cordons the node is recorded first; one that somebody else cordoned stays
// cordoned after the update, so nothing is done to a node of which that is not known.
func decideDraining(f Facts) Verdict {
	over := f.Bounded && f.Now.Sub(f.Progress.Started) > f.Policy.AttemptTimeout
	switch {
	case f.Progress.MustAsk():
		return askCanBegin(f.Progress)
	case over && f.Node.Unknown != "":
		// The update may be what makes the workload cluster answer again.
		return Drained(f)
	case over:
		return attemptFailed(f, fmt.Sprintf("the node was not drained within %s", f.Policy.AttemptTimeout))
	case f.Node.Unknown != "":
		return wait(f.Progress, pollNode, ReasonDraining, "draining node before %s: cannot reach the workload cluster:  %s", position(f.Progress), f.Node.Unknown)
	}
	p := *f.Progress
	p.Cordoned = p.Cordoned || f.Node.Exists && !f.Node.Unschedulable
	return Verdict{Progress: &p, Action: Drain{}}
}

// decideUpdating asks the updater, also when the attempt's time is over, so that the reason of the
// failure contains its last message.
func decideUpdating(f Facts) Verdict {
	call := Call{Step: f.Progress.Steps[0], Operation: f.Progress.Operation}
	switch {
	case f.Now.After(f.Progress.Deadline(f.Policy.AttemptTimeout)):
		call.Cancel = fmt.Sprintf("there was no result after %s", f.Policy.AttemptTimeout)
	case f.Abandon && f.OwnerMovedOn:
		call.Cancel = "the annotation windlass.dev/update-abandon asks to give the update up"
	}
	return Verdict{Progress: f.Progress, Action: call}
}

func decideBackingOff(f Facts) Verdict {
	p := *f.Progress
	if p.NotBefore != nil && f.Now.Before(*p.NotBefore) {
		return wait(f.Progress, p.NotBefore.Sub(f.Now), ReasonBackingOff, "%s failed: %s; the next attempt is at %s",
			position(&p), p.LastError, p.NotBefore.UTC().Format(time.RFC3339))
	}
	p.Phase, p.Started, p.NotBefore, p.Unanswered = Updating, f.Now, nil, false
	p.Attempt++
	nextOperation(&p)
	if mustDrain(&p, f) {
		p.Phase = Draining
	}
	return Decide(withProgress(f, &p))
}

// decideVerifying decides once the current step's updater says that it is done, or when there is no step left: done means
// that the node is Ready at the desired version, never that the updater said so.
func decideVerifying(f Facts) Verdict {
	p := f.Progress
	if isVerified(f) {
		return stepEnded(f)
	}
	problem := NodeProblem(f)
	over := f.Now.Sub(p.Started) > f.Policy.AttemptTimeout
	switch {
	case f.Node.Unknown != "":
		if f.Bounded && over {
			return unseen(f)
		}
	case p.Beyond(f.Node.Kubelet):
		return failed(f, problem)
	case over:
		who := "it says that it is done"
		if len(p.Steps) == 0 {
			who = "nothing had to be done on the machine"
		}
		return attemptFailed(f, fmt.Sprintf("%s, but after %s %s", who, f.Policy.AttemptTimeout, problem))
	}
	return wait(p, pollNode, ReasonVerifying, "%s is done; waiting because %s", position(p), problem)
}

// unseen ends an attempt of a bounded update whose node could not be asked for too long.
func unseen(f Facts) Verdict {
	return attemptFailed(f, fmt.Sprintf("the node was not seen for %s: %s", f.Policy.AttemptTimeout, f.Node.Unknown))
}

// stepEnded takes the current step off the plan and decides about the next, or about the end.
func stepEnded(f Facts) Verdict {
	p := *f.Progress
	if len(p.Steps) > 0 {
		step := p.Steps[0]
		p.Done = append(append([]Finished(nil), p.Done...), Finished{
			Updater: step.Updater, Attempts: p.Attempt, Seconds: int64(f.Now.Sub(p.StepBegan).Seconds()),
		})
		p.Steps = append([]Step(nil), p.Steps[1:]...)
		if len(p.Steps) > 0 {
			return startStep(&p, f)
		}
	}
	p.Phase, p.Started = Soaking, f.Now
	verified := f.Now
	p.Verified = &verified
	return Decide(withProgress(f, &p))
}

func decideSoaking(f Facts) Verdict {
	p := *f.Progress
	if problem := NodeProblem(f); problem != "" {
		over := f.Now.Sub(p.Started) > f.Policy.Soak+f.Policy.AttemptTimeout
		if f.Node.Unknown != "" && f.Bounded && over {
			return unseen(f)
		}
		if f.Node.Unknown == "" {
			if over {
				return failed(f, fmt.Sprintf("all updaters are done, but the node does not stay Ready at %s for %s: %s", p.Goal(), f.Policy.Soak, problem))
			}
			// A kubelet that falls back to another version leaves the node Ready; the soak begins again all the same.
			p.Verified = nil
		}
		return wait(&p, pollNode, ReasonSoaking, "all updaters are done; waiting because %s", problem)
	}
	if p.Verified == nil {
		verified := f.Now
		p.Verified = &verified
	}
	since := *p.Verified
	if ready := record.Past(f.Node.ReadySince, f.Now); ready.After(since) {
		since = ready
	}
	if left := record.Left(since, f.Policy.Soak, f.Now); left > 0 {
		return wait(&p, left, ReasonSoaking, "all updaters are done; the node must stay Ready at %s until %s", p.Goal(), since.Add(f.Policy.Soak).UTC().Format(time.RFC3339))
	}
	if p.Cordoned && f.Node.Unschedulable {
		return Verdict{Progress: &p, Action: Uncordon{}}
	}
	return Verdict{Progress: &p, Action: Finish{Dirty: p.Dirty, Summary: Summary{
		ID: p.ID, Decision: p.Decision, Target: p.Target, From: p.From, To: p.To, Done: p.Done, Began: p.Began, Ended: f.Now,
	}}}
}

func decideFailed(f Facts) Verdict {
	p := *f.Progress
	if !f.Retry {
		return refuse(f.Progress, ReasonFailed, "%s. Fix: set the annotation windlass.dev/update-retry on the Machine to try again; to give up, change its owner's spec and then set windlass.dev/update-abandon", p.LastError)
	}
	p.Retried = new(f.Now)
	if len(p.Steps) == 0 {
		p.Phase, p.Started, p.LastError, p.Verified = Soaking, f.Now, "", nil
		return Decide(withProgress(f, &p))
	}
	p.StepBegan, p.Unanswered = f.Now, false
	return startStep(&p, f)
}

// decideAbandon decides about a person's wish to give the update up. While an updater may be at work the wish waits for the
// end of the attempt; it is refused for good where the owner desires what the Machine's spec says, because the Machine
// would then count as up to date. An update whose desired version changed makes no more requests, so that no answer ends its
// attempt; the attempt then ends with its time.
func decideAbandon(f Facts) (Verdict, bool) {
	p := f.Progress
	if p != nil && unusable(p) == "" {
		timeLeft := f.Now.Sub(p.Started) <= f.Policy.AttemptTimeout
		working := (p.Phase == Updating || p.Phase == Verifying) && (p.To == f.Desired || timeLeft)
		if working || p.IsUnknown() && timeLeft {
			return Verdict{}, false
		}
	}
	if !f.OwnerMovedOn {
		return Verdict{}, false
	}
	v := Verdict{Progress: p, Action: AbandonUpdate{Owed: *owed(f), Message: "the update was abandoned because an annotation asked for it"}}
	if p != nil {
		v.Action = AbandonUpdate{Uncordon: p.Cordoned, Owed: *owed(f), Message: fmt.Sprintf("the update to %s was abandoned in phase %s because an annotation asked for it", p.To, p.Phase)}
	}
	return v, true
}
