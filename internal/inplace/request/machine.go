package request

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
)

// poll is when something is looked at again that no event tells of.
const poll = 5 * time.Second

// DecideMachine says what happens next to a machine. It is a function of the facts: after a crash at any point, reading the facts again and deciding again
// leads to the same end.
func DecideMachine(f Machine) MachineVerdict {
	if !f.Deleting {
		f.Upgrade = f.Upgrade.at(f.Now)
	}
	switch {
	case f.Deleting:
		// Who holds the lock and does not exist any longer loses it to the next machine that wants it.
		return f.rest(State{})
	case f.Unreadable != "":
		return f.rest(State{Reason: ReasonRecordUnreadable, Message: "cannot read the record of the upgrade: " + f.Unreadable +
			". Fix: check how far the machine is, uncordon its node, then remove the annotation windlass.dev/in-place-upgrade"})
	case f.Upgrade.unknown() != "":
		return f.wait(ReasonUnknownRecord, unknownRecord, f.Upgrade.unknown())
	case f.Upgrade == nil && f.Marks.To != "":
		return begin(f)
	case f.Upgrade == nil:
		return decideIdle(f)
	case f.Upgrade.IsFinal():
		return decideFinal(f)
	default:
		return decideRunning(f)
	}
}

// decideIdle tidies up a machine that nobody asks to upgrade.
func decideIdle(f Machine) MachineVerdict {
	if f.Marks.Status == InProgress && f.Marks.ChangeID != "" {
		// Another controller began it, and nobody knows any longer with which option. Its lock stays, so that nothing else begins beside it.
		return f.rest(State{Reason: ReasonRecordUnreadable, Message: fmt.Sprintf(
			"change %s may run on the node, but the annotation with its target is gone. Fix: set the annotation again to have the change followed, or remove the status after the change has ended", f.Marks.ChangeID)})
	}
	v := f.rest(State{})
	if f.Marks.Status == InProgress {
		v.After.Marks.Status = ""
		v.Event = Event{Kind: Cancelled, Message: "cancelled before anything was done"}
	}
	if f.Holder == f.Name {
		v.Action = ReleaseLock{}
	}
	return v
}

// decideFinal decides about an upgrade that was refused or has failed finally.
func decideFinal(f Machine) MachineVerdict {
	u := f.Upgrade
	switch {
	case f.Marks.To == "" && u.isUnended():
		return follow(f)
	case f.Marks.To == "":
		return forget(f)
	case f.Marks.To != u.Option, f.Retry:
		return begin(f)
	case (u.Cordoned || u.Protected) && f.Node.Unknown != "":
		v := f.rest(f.finalState())
		v.Action = Wait{After: poll}
		return v
	case u.Cordoned || u.Protected:
		return takeBackRefused(f)
	}
	// One that was refused has done nothing, so it has no need of the lock.
	return f.standBy(f.rest(f.finalState()))
}

// finalState is what people see of an upgrade that was refused or has failed finally.
func (f Machine) finalState() State {
	return State{
		Reason:  cmp.Or(f.Upgrade.Reason, ReasonFailed),
		Message: f.Upgrade.Why() + ". Fix: set windlass.dev/update-retry to try again, set the annotation to another option, or remove the annotation (and its group's) to give up",
	}
}

// decideRunning carries an upgrade on, or gives it up where a person wants something else and no change runs on the node.
func decideRunning(f Machine) MachineVerdict {
	u := *f.Upgrade
	switch {
	case f.Paused && (!f.ClusterPaused || u.Progress.Phase != inplace.Updating):
		// `clusterctl move` pauses the Cluster and waits for the change that runs on the node.
		return f.wait(ReasonPaused, "the machine or its Cluster is paused; the upgrade continues when it is unpaused")
	case f.Remediation != "":
		return f.wait(ReasonRemediating, "the upgrade waits for the machine's remediation:  %s", f.Remediation)
	}
	switch {
	case f.Marks.To == "" && u.Cancelled && u.isUnended():
		return follow(f)
	case f.Marks.To != u.Option && idle(f):
		return giveUp(f)
	case f.Marks.To != "" || u.Cancelled:
		return carryOn(f)
	}
	u.Cancelled = true
	f.Upgrade = &u
	v := f.rest(State{Going: true, Reason: ReasonCancelled, Message: fmt.Sprintf("cancelled; the running change to %s on the node is followed to its end", u.Option)})
	v.Event = Event{Kind: Cancelled, Message: v.State.Message}
	v.Action = Wait{After: 0}
	return v
}

// idle reports whether no change runs on the node, so that the upgrade can be given up. One that has
// ended, on a node that shows it, is not given up: its release can be recorded. Where the node does
// not show it, a person may be about to fix just that.
func idle(f Machine) bool {
	p := f.Upgrade.Progress
	switch p.Phase {
	case inplace.Draining, inplace.BackingOff, inplace.Failed:
		return f.Marks.To != "" || !p.Unended
	case inplace.Verifying, inplace.Soaking:
		return f.Marks.To != "" && inplace.NodeProblem(f.Facts()) != ""
	case inplace.Updating:
		return f.Marks.Release != "" // See Asked.
	}
	return false
}

// giveUp ends an upgrade that somebody has withdrawn, or replaced by another option.
func giveUp(f Machine) MachineVerdict {
	if f.Marks.To != "" {
		return begin(f)
	}
	v := forget(f)
	switch v.Action.(type) {
	case Uncordon, EnableScaleDown:
		return v
	case Ask, Follow, ReleaseLock, Rest, Run, TakeLock, Wait:
	}
	v.After.Marks.ChangeID = ""
	if !f.Upgrade.Cancelled {
		v.Event = Event{Kind: Cancelled, Message: fmt.Sprintf("the upgrade to %s was cancelled while no change ran on the node", f.Upgrade.Option)}
	}
	return v
}

// forget ends an upgrade that nobody wants any longer, and that has nothing to follow. That it has cordoned a node which cannot be asked stays on record.
func forget(f Machine) MachineVerdict {
	if v, ok := takeBack(f); ok {
		return v
	}
	v := f.rest(State{})
	v.After.Retry, v.After.Marks.Status, v.After.Marks.LastFailed = false, "", ""
	cordoned, protected := f.Upgrade.hasCordoned(), f.Upgrade.hasProtected()
	if !cordoned && !protected || f.Node.Unknown == "" {
		v.After.Record = nil
		if f.Holder == f.Name {
			v.Action = ReleaseLock{}
		}
		return v
	}
	if f.Upgrade.Progress != nil {
		v.After.Record = &Upgrade{
			Option: f.Upgrade.Option, Reason: ReasonCancelled, Message: "it was given up", At: f.Now,
			Cordoned: cordoned, Protected: protected,
		}
		return v
	}
	stays := "cordoned"
	if !cordoned {
		stays = "protected from the cluster autoscaler"
	}
	return f.standBy(f.wait(ReasonCancelled, "given up; the node stays %s until the workload cluster answers: %s",
		stays, f.Node.Unknown))
}

// follow asks how a change goes on that nobody wants any longer and that was not seen to end.
func follow(f Machine) MachineVerdict {
	p := f.Upgrade.Progress
	v := f.wait(ReasonCancelled, "given up, but updater %q has not reported the end of its change. Fix: if the change no longer runs, remove the annotation windlass.dev/in-place-upgrade", p.Steps[0].Updater)
	v.Action = Follow{Call: inplace.Call{Step: p.Steps[0], Operation: p.Operation}, Unheard: p.Unanswered}
	return v
}

// Followed takes the answer to the Follow that was decided on f.
func Followed(f Machine, a inplace.Answer) MachineVerdict {
	u, p := *f.Upgrade, *f.Upgrade.Progress
	switch a.Outcome {
	case inplace.Finishes:
		p.Phase, p.Started, p.Unended, p.LastError = inplace.Verifying, f.Now, false, ""
		u.Cancelled = u.Cancelled || f.Marks.To == ""
	case inplace.Fails:
		p.Unended = false
	case inplace.InProgress, inplace.Unknown:
		v := follow(f)
		v.Action = Wait{After: poll}
		v.State.Message += ": " + cmp.Or(a.Message, "no answer")
		return v
	}
	u.Progress = &p
	f.Upgrade = &u
	return DecideMachine(f)
}

// takeBack undoes what an upgrade has done to a node, before nobody knows that any longer: it makes the node
// schedulable, and lets the cluster autoscaler remove it.
func takeBack(f Machine) (MachineVerdict, bool) {
	if f.Node.Unknown != "" || !f.Node.Exists {
		return MachineVerdict{}, false
	}
	v := f.rest(State{Going: true, Reason: ReasonCancelled, Message: "making the node schedulable again"})
	switch {
	case f.Upgrade.hasCordoned() && f.Node.Unschedulable:
		v.Action = Uncordon{}
	case f.Upgrade.hasProtected() && f.Node.ScaleDown == inplace.ScaleDownByUs:
		v.State.Message = "letting the cluster autoscaler remove the node again"
		v.Action = EnableScaleDown{}
	default:
		return MachineVerdict{}, false
	}
	return v, true
}

// takeBackRefused is takeBack for a node that could not be asked when an upgrade was refused.
func takeBackRefused(f Machine) MachineVerdict {
	if v, ok := takeBack(f); ok {
		return v
	}
	u := *f.Upgrade
	u.Cordoned, u.Protected = false, false
	v := f.rest(f.finalState())
	v.After.Record = &u
	return v
}

// carryOn has the engine carry the upgrade on.
func carryOn(f Machine) MachineVerdict {
	v := Carried(f, f.Upgrade.Progress)
	v.Action = Run{}
	return v
}

// Facts are what package inplace decides on.
func (f Machine) Facts() inplace.Facts {
	facts := inplace.Facts{
		Now: f.Now, FreshID: f.FreshID, Policy: f.Policy, PolicyName: f.PolicyName, Node: f.Node,
		Unhealthy: f.OwnEtcd, Bounded: true, Paused: f.Paused,
	}
	if f.Upgrade != nil && f.Upgrade.Progress != nil {
		facts.Progress, facts.Desired = f.Upgrade.Progress, f.Upgrade.Progress.To
	}
	return facts
}

// Carried returns what must be recorded of an upgrade that has come as far as p.
func Carried(f Machine, p *inplace.Progress) MachineVerdict {
	u := *f.Upgrade
	before := u.Progress
	u.Progress = p
	v := f.rest(State{})
	v.After.Record, v.After.Marks.Status = &u, InProgress
	if p.Phase == inplace.BackingOff {
		v.After.Marks.Status = Failed // The next attempt sets InProgress again.
	}
	if p.Phase == inplace.Verifying || p.Phase == inplace.Soaking {
		// From the first request on nobody knows what is installed; see Asked. An attempt that failed
		// before it, such as one that could not begin, has installed nothing.
		v.After.Marks.Release = ""
	}
	begun := p.Phase != before.Phase
	if begun && p.Phase == inplace.BackingOff {
		v.After.Marks.LastFailed = stamp(f.Now)
		v.Event = Event{Kind: AttemptFailed, Message: fmt.Sprintf("attempt %d by updater %q to reach %s failed: %s", p.Attempt, p.Steps[0].Updater, u.Option, p.LastError)}
	}
	if begun && p.Phase == inplace.Failed {
		v.After.Marks.Status, v.After.Marks.LastFailed, v.After.Marks.ChangeID = Failed, stamp(f.Now), ""
		v.Event = Event{Kind: FailedFinally, Message: fmt.Sprintf("the upgrade to %s failed: %s", u.Option, p.LastError)}
	}
	return v
}

// Asked returns what must be recorded before a request to an updater: from the first one on nobody
// knows what is installed. A release that is on record shows that no updater has been asked.
func Asked(f Machine) MachineVerdict {
	v := f.rest(State{})
	v.After.Marks.Release = ""
	return v
}

// Finished records that the release is on the node. Where the annotation asks for another one by now, it stays.
func Finished(f Machine) MachineVerdict {
	option := f.Upgrade.Option
	v := f.rest(State{})
	v.After.Record, v.After.Marks = nil, Marks{To: f.Marks.To, Status: Done, Release: option}
	if f.Marks.To == option {
		v.After.Marks.To = ""
	}
	v.Unchanged = f.Upgrade.Progress.Operations == 0
	v.Event = Event{Kind: Ended, Message: fmt.Sprintf("upgraded in place to %s; the kubelet reports %s", option, f.Node.Kubelet)}
	if f.Topology.Cluster != "" && !f.ControlPlane && !f.Spec.RunBy(f.Node.Kubelet) {
		v.Event.Message += fmt.Sprintf(", and the spec says %s: Cluster API refuses another spec.topology.version of Cluster %s until the machine runs that again", f.Spec, f.Topology.Cluster)
	}
	return v
}

// Refused records that the engine refuses to carry the upgrade on. One that has failed finally stays unchanged.
func Refused(f Machine, why string) MachineVerdict {
	p := *f.Upgrade.Progress
	if p.Phase == inplace.Failed {
		return f.rest(f.finalState())
	}
	p.Phase, p.LastError, p.NotBefore = inplace.Failed, why, nil
	return Carried(f, &p)
}

// refuse records that an option is refused before anything is done for it. What is installed stays on record.
func (f Machine) refuse(reason Reason, message string) MachineVerdict {
	cordoned, protected := false, false
	if f.Upgrade != nil {
		if f.Upgrade.isUnended() {
			return follow(f)
		}
		if v, ok := takeBack(f); ok {
			return v
		}
		cordoned = f.Upgrade.hasCordoned() && f.Node.Unknown != ""
		protected = f.Upgrade.hasProtected() && f.Node.Unknown != ""
	}
	v := f.rest(State{Reason: reason, Message: message})
	v.After.Record = &Upgrade{Option: f.Marks.To, Reason: reason, Message: message, At: f.Now, Cordoned: cordoned, Protected: protected}
	v.After.Retry = false
	v.After.Marks.Status, v.After.Marks.LastFailed, v.After.Marks.ChangeID = Failed, stamp(f.Now), ""
	v.Event = Event{Kind: FailedFinally, Message: fmt.Sprintf("%s is refused: %s", f.Marks.To, message)}
	f.Upgrade = v.After.Record
	return f.standBy(v)
}

// Recorded returns what is recorded.
func (f Machine) Recorded() Recorded[Upgrade] {
	return Recorded[Upgrade]{Marks: f.Marks, Record: f.Upgrade, Retry: f.Retry}
}

// With returns the facts with what has been recorded since.
func (f Machine) With(after Recorded[Upgrade]) Machine {
	f.Marks, f.Upgrade, f.Retry = after.Marks, after.Record, after.Retry
	return f
}

// rest leaves everything as it is.
func (f Machine) rest(s State) MachineVerdict {
	return MachineVerdict{After: f.Recorded(), State: s, Action: Rest{}}
}

func (f Machine) wait(reason Reason, format string, args ...any) MachineVerdict {
	v := f.rest(State{Going: true, Reason: reason, Message: strings.TrimSpace(fmt.Sprintf(format, args...))})
	v.Action = Wait{After: poll}
	return v
}

// stamp writes a time as the wire format has it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC1123Z) }
