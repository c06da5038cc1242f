package request

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// groupPoll is when a group is looked at again though none of its machines is farther: what it waits for may be elsewhere.
const groupPoll = 15 * time.Second

// DecideGroup returns what happens next to a group: at most one thing. Like DecideMachine it is a
// function of the facts. The facts must show all that this process has written, and what processes
// before it have written: a machine that it marked, or that it began to update, a moment ago and that
// does not show it would not count. What others write meanwhile may be missing; a Mark, Unmark or
// RetryMember must be written under the resourceVersion that the facts were read with.
func DecideGroup(f Group) GroupVerdict {
	f.Members, f.Record = sorted(f.Members), f.recorded()
	running := f.Record != nil && f.Record.Ended == nil
	switch {
	case f.Deleting:
		return f.rest(State{})
	case f.Unreadable != "":
		return f.rest(State{Reason: ReasonRecordUnreadable, Message: "cannot read the record of the upgrade: " + f.Unreadable + "; remove the annotation windlass.dev/in-place-upgrade"})
	case f.Marks.To == "" && running:
		return cancel(f)
	case f.Marks.To == "":
		return decideJoined(f)
	case !running || f.Record.Option != f.Marks.To || f.Record.Refused && f.Retry:
		return beginGroup(f)
	case f.Record.Refused:
		return f.rest(State{Reason: f.Record.Reason, Message: f.Record.Message})
	}
	return decideMembers(f)
}

// sorted returns the machines in the order in which they are upgraded: what is not Ready first, because its upgrade may be what fixes it; then the oldest.
func sorted(members []Member) []Member {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	return members
}

func rank(m Member) int {
	if m.NotReady != "" {
		return 0
	}
	return 1
}

// beginGroup records that the group is brought to what its annotation asks for, or refuses that.
func beginGroup(f Group) GroupVerdict {
	if h := checkGroup(f); h != nil {
		return f.refuse(h.reason, h.message)
	}
	if f.Paused {
		return f.wait(ReasonPaused, "not started: the group or its Cluster is paused")
	}
	v := f.rest(State{Going: true, Reason: ReasonMachines, Message: "upgrading machines to " + f.Marks.To})
	v.After = Recorded[Record]{Marks: Marks{To: f.Marks.To, Status: InProgress}, Record: f.newRecord()}
	v.Event = Event{Kind: Started, Message: fmt.Sprintf("upgrading %s in place to %s", machines(len(counted(f.Members))), f.Marks.To)}
	v.Action = Wait{}
	return v
}

// checkGroup says why the group cannot be brought to what its annotation asks for.
func checkGroup(f Group) *hold {
	option, err := ParseOption(f.Marks.To)
	if err != nil {
		return refuses(ReasonBadOption, "%v", err)
	}
	minor, known := option.Minor()
	switch {
	case !known || f.Spec.IsZero():
		return nil
	case f.Topology.Cluster != "" && minor != f.Spec.Minor():
		return refuseMinor(f.Topology, f.Spec, option)
	case minor.Before(f.Spec.Minor()):
		return refuses(ReasonDowngrade, "the group's spec says %s, and %s is an older minor; Kubernetes cannot be downgraded", f.Spec, option)
	}
	return nil
}

// newRecord is the record of an upgrade that begins, or is refused, in place of the one that may run.
func (f Group) newRecord() *Record {
	record := &Record{Option: f.Marks.To, Began: f.Now}
	if old := f.Record; old != nil && old.Ended == nil && old.Option != f.Marks.To {
		record.Superseded = supersede(old.Superseded, old.Option, f.Marks.To)
	}
	return record
}

// lastEnded is the record of the last upgrade that ended well, unless another has begun since.
func (f Group) lastEnded() *Record {
	switch {
	case f.Record == nil:
		return nil
	case f.Record.Ended != nil:
		return f.Record
	}
	return f.Record.Previous
}

// maxSuperseded bounds the options that are remembered.
const maxSuperseded = 8

// supersede remembers an option that machines may have been given.
func supersede(before []string, old, current string) []string {
	after := slices.DeleteFunc(slices.Clone(before), func(o string) bool { return o == old || o == current })
	after = append(after, old)
	return after[max(0, len(after)-maxSuperseded):]
}

// counted are the machines that an upgrade of the group is about.
func counted(members []Member) []Member {
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Deleting })
}

// inFlight reports whether something happens to a machine, or is asked for, whoever asked.
func inFlight(m Member) bool {
	switch {
	case m.Upgrade != nil:
		return m.Upgrade.IsRunning() || m.Marks.To != "" && m.Marks.To != m.Upgrade.Option
	case m.Marks.Status == InProgress && m.Marks.ChangeID != "":
		return true
	}
	return m.Marks.To != ""
}

// failed reports whether a machine has failed on the way to an option.
func failed(m Member, to string) bool {
	return m.Upgrade.IsFinal() && m.Upgrade.Option == to && m.Marks.To == to
}

// given reports whether the group has given a machine its option.
func given(m Member, r *Record) bool {
	return m.Marks.To != "" && (m.Marks.To == r.Option || slices.Contains(r.Superseded, m.Marks.To))
}

// decideMembers takes the machines one step farther.
func decideMembers(f Group) GroupVerdict {
	if f.Paused {
		return f.wait(ReasonPaused, "the group or its Cluster is paused; no machine begins")
	}
	members := counted(f.Members)
	for _, m := range members {
		if given(m, f.Record) && m.Marks.To != f.Record.Option {
			return f.act(f.supersedeMember(members, m))
		}
	}
	if f.Retry {
		v := f.resume()
		// The note may be wrong, and not the machine.
		v.ForgetKubelets = f.oddOne(members) != ""
		return v
	}
	if i := slices.IndexFunc(f.Members, f.stops); i >= 0 {
		return f.decideFailed(members, f.Members[i])
	}
	if settled := !slices.ContainsFunc(members, f.isLeft) && len(members) >= f.Replicas; settled {
		if v, stop := f.compareKubelets(members); stop {
			return v
		}
	}
	switch {
	case f.Record.Remediated != "":
		return f.rest(f.failedState(members))
	case f.Record.Message != "":
		return f.resume()
	}
	return f.decideNext(members)
}

// stops reports whether a failed machine stops the group. One that is being deleted does if it is
// replaced for its failure, and no person has asked for another try since.
func (f Group) stops(m Member) bool {
	if !failed(m, f.Record.Option) || !m.Deleting {
		return failed(m, f.Record.Option)
	}
	asked := f.Record.RetryAsked
	return m.Remediation != "" && (asked == nil || !m.Upgrade.endedAt().Before(*asked))
}

// failedState is what people see of a group that a failed machine has stopped.
func (f Group) failedState(members []Member) State {
	fix := "set windlass.dev/update-retry on the group or the machine to try again, or change or remove the annotation"
	if f.Record.Remediated != "" {
		fix = "the machine was handed to remediation; set windlass.dev/update-retry on the group to continue, or change or remove the annotation"
	}
	return State{Reason: ReasonFailed, Message: fmt.Sprintf("%s. %s; %s", f.Record.Message, f.count(members), fix)}
}

// decideFailed decides about a group with a failed machine: nothing begins any more, unless a person has asked for another try since it failed.
func (f Group) decideFailed(members []Member, m Member) GroupVerdict {
	if asked := f.Record.RetryAsked; asked != nil && m.Upgrade.endedAt().Before(*asked) {
		return f.act(RetryMember{Member: m.Name})
	}
	record := *f.Record
	record.Reason, record.Message = ReasonFailed, fmt.Sprintf("Machine %s: %s", m.Name, m.Upgrade.Why())
	if m.Remediation != "" {
		record.Remediated = m.Name
	}
	f.Record = &record
	v := f.rest(f.failedState(members))
	v.After.Marks.Status = Failed
	if f.Marks.Status != Failed {
		v.Event = Event{Kind: FailedFinally, Message: "no further machine begins: " + record.Message}
	}
	return v
}

// resume goes on after a failure that is none any longer, or that is to be tried again.
func (f Group) resume() GroupVerdict {
	record := *f.Record
	record.Reason, record.Message, record.Remediated = "", "", ""
	if f.Retry {
		asked := f.Now
		record.RetryAsked = &asked
	}
	v := f.rest(State{Going: true, Reason: ReasonMachines, Message: "continuing with " + record.Option})
	v.After.Record, v.After.Retry = &record, false
	if f.Marks.Status != InProgress {
		v.After.Marks.Status = InProgress
		v.Event = Event{Kind: Started, Message: "continuing with " + record.Option}
	}
	v.Action = Wait{}
	return v
}

// decideNext marks the next machine, or ends the upgrade.
func (f Group) decideNext(members []Member) GroupVerdict {
	flying := countFlying(members)
	left := slices.ContainsFunc(members, f.isLeft)
	rolled := slices.IndexFunc(members, f.isRolled)
	switch {
	case isUnknown(f.Record.Option):
		return f.wait(ReasonUnknownRecord, unknownRecord, fmt.Sprintf("option %q", f.Record.Option))
	case !left && len(members) >= f.Replicas:
		return f.end(members)
	case !left:
		return f.wait(ReasonMachinesHeld, "%s; waiting for machines that do not exist yet", f.count(members))
	case rolled >= 0 && f.Topology.Stuck != "":
		return f.wait(ReasonBusy, "%s; Machine %s is not of version %s yet, and %s", f.count(members), members[rolled].Name, f.Spec, f.Topology.Stuck)
	case rolled >= 0:
		return f.wait(ReasonBusy, "%s; Cluster API rolls the group out: Machine %s is not of version %s yet", f.count(members), members[rolled].Name, f.Spec)
	case f.ControlPlaneFirst != "":
		return f.wait(ReasonControlPlaneFirst, "%s; %s", f.count(members), f.ControlPlaneFirst)
	case flying >= f.limit():
		return f.wait(ReasonMachines, "%s", f.count(members))
	case f.holdsBack(members, f.Record.Option, flying):
		return f.wait(ReasonMachines, "%s; the others begin when a machine has it (canary %d)", f.count(members), f.Canary)
	}
	return f.markNext(members, flying)
}

// supersedeMember returns what happens to a machine that runs, or waits, for what the group no longer
// wants. It is in flight already, so it gets the new option at once, unless the canary of that is
// another machine: then what runs is followed to its end first.
func (f Group) supersedeMember(members []Member, m Member) GroupAction {
	asked := 0
	for _, other := range members {
		if other.Marks.To == f.Record.Option {
			asked++
		}
	}
	if f.holdsBack(members, f.Record.Option, asked) {
		return Unmark{Member: m.Name, To: m.Marks.To}
	}
	return Mark{Member: m.Name, To: f.Record.Option}
}

// holdsBack reports whether no machine begins with an option, because so many are on the way to it and
// no updater has brought one there yet.
func (f Group) holdsBack(members []Member, option string, underway int) bool {
	return f.Canary > 0 && underway >= f.Canary && !slices.ContainsFunc(members, func(m Member) bool {
		return m.Marks.Release == option && !m.Unchanged && !inFlight(m)
	})
}

// isRolled reports whether Cluster API has yet to replace a machine by one of the group's version.
func (f Group) isRolled(m Member) bool {
	return !m.Spec.IsZero() && !f.Spec.IsZero() && m.Spec != f.Spec
}

// isLeft reports whether a machine does not have the release yet.
func (f Group) isLeft(m Member) bool { return m.Marks.Release != f.Record.Option || inFlight(m) }

func countFlying(members []Member) int {
	flying := 0
	for _, m := range members {
		if inFlight(m) || m.Updating {
			flying++
		}
	}
	return flying
}

// markNext marks the first machine that can begin. One that has the release and is not Ready any longer keeps the others from beginning.
func (f Group) markNext(members []Member, flying int) GroupVerdict {
	var held []string
	for _, m := range members {
		if m.Marks.Release == f.Record.Option && !inFlight(m) && m.NotReady != "" {
			return f.wait(ReasonMachinesHeld, "%s; Machine %s, which has the release, is not Ready: %s", f.count(members), m.Name, m.NotReady)
		}
	}
	for _, m := range members {
		switch {
		case inFlight(m), m.Marks.Release == f.Record.Option:
		case m.Held != "":
			held = append(held, fmt.Sprintf("Machine %s: %s", m.Name, m.Held))
		case m.NoNode:
			held = append(held, fmt.Sprintf("Machine %s: it has no node yet", m.Name))
		default:
			return f.act(Mark{Member: m.Name, To: f.Record.Option})
		}
	}
	if flying > 0 {
		return f.wait(ReasonMachines, "%s", f.count(members))
	}
	return f.wait(ReasonMachinesHeld, "%s; waiting: %s", f.count(members), text.JoinSome(held, 3, "; "))
}

func (f Group) limit() int {
	if f.ControlPlane {
		return 1
	}
	return max(1, f.MaxInFlight)
}

// end raises the version of the group's spec where that is due, and records that all machines have the release.
func (f Group) end(members []Member) GroupVerdict {
	reached, uniform := reachedVersion(members)
	note := ""
	if due := !reached.IsZero() && !f.Spec.IsZero() && f.Topology.Cluster == "" && version.Compare(f.Spec, reached) == version.Less; due {
		switch {
		case !uniform:
			note = fmt.Sprintf("; the version of the spec stays %s, because the machines run different versions", f.Spec)
		case f.CannotRaise != "":
			note = fmt.Sprintf("; the version of the spec stays %s: %s", f.Spec, f.CannotRaise)
		default:
			v := f.act(Raise{Version: reached})
			v.Kubelets = true
			return v
		}
	}
	record := *f.Record
	ended := f.Now
	record.Ended, record.Version, record.Spec, record.Superseded, record.Reason, record.Message = &ended, reached, f.Spec, nil, "", ""
	v := f.rest(State{})
	v.Kubelets = true
	v.After = Recorded[Record]{Marks: Marks{Status: Done, Release: record.Option}, Record: &record}
	v.Event = Event{Kind: Ended, Message: fmt.Sprintf("upgraded %s in place to %s%s", machines(len(members)), record.Option, note)}
	return v
}

// cancel withdraws what machines were given; what runs on them is followed to its end.
func cancel(f Group) GroupVerdict {
	for _, m := range counted(f.Members) {
		if given(m, f.Record) {
			return f.act(Unmark{Member: m.Name, To: m.Marks.To})
		}
	}
	v := f.rest(State{})
	v.After = Recorded[Record]{Marks: Marks{Release: f.Marks.Release}, Record: f.Record.Previous}
	if !f.Record.Refused {
		v.Event = Event{Kind: Cancelled, Message: fmt.Sprintf("cancelled: no further machine begins to upgrade to %s", f.Record.Option)}
	}
	return v
}

// decideJoined gives a machine that has joined the release of its group. Machines that were upgraded by hand keep what they have.
// Precondition: the recorded upgrade, if there is one, has ended.
func decideJoined(f Group) GroupVerdict {
	v := f.rest(State{})
	switch {
	case f.Marks.Status == InProgress || f.Marks.Status == Failed:
		v.After.Marks.Status, v.After.Retry = "", false
		return v
	case f.Marks.Release == "" || f.Paused || f.ControlPlaneFirst != "":
		return v
	case stale(f):
		v.After = Recorded[Record]{}
		return v
	}
	members := counted(f.Members)
	flying := countFlying(members)
	if unplaced(f) || flying >= f.limit() || f.holdsBack(members, f.Marks.Release, flying) {
		return v
	}
	if i := slices.IndexFunc(members, f.hasJoined); i >= 0 {
		return f.act(Mark{Member: members[i].Name, To: f.Marks.Release})
	}
	return v
}

// hasJoined reports whether a machine came after the group's upgrade, and nobody has upgraded it.
func (f Group) hasJoined(m Member) bool {
	if m.Marks != (Marks{}) || m.Upgrade != nil || m.NoNode || m.Held != "" {
		return false
	}
	return f.Record == nil || m.Created.After(*f.Record.Ended)
}

// stale reports whether the group's release is about a version that its spec has left behind: a machine that joins comes with the newer one, and must not
// be brought back.
func stale(f Group) bool {
	if f.Record != nil {
		return f.Record.Spec != f.Spec
	}
	option, err := ParseOption(f.Marks.Release)
	if err != nil {
		return true
	}
	minor, known := option.Minor()
	return known && minor.Before(f.Spec.Minor())
}

// unplaced reports whether nobody knows to which version the group's release belongs: another controller has recorded it, and it names none.
func unplaced(f Group) bool {
	if f.Record != nil {
		return false
	}
	option, err := ParseOption(f.Marks.Release)
	if err != nil {
		return true
	}
	_, known := option.Minor()
	return !known
}

// count says how far the group is.
func (f Group) count(members []Member) string {
	done, flying, failures := 0, 0, 0
	for _, m := range members {
		switch {
		case failed(m, f.Record.Option):
			failures++
		case inFlight(m), m.Updating:
			flying++
		case m.Marks.Release == f.Record.Option:
			done++
		}
	}
	text := fmt.Sprintf("%d of %d machines have %s, %d in flight", done, max(len(members), f.Replicas), f.Record.Option, flying)
	if failures > 0 {
		text += fmt.Sprintf(", %d failed", failures)
	}
	return text
}

func (f Group) refuse(reason Reason, message string) GroupVerdict {
	v := f.rest(State{Reason: reason, Message: message})
	record := f.newRecord()
	record.Reason, record.Message, record.Refused, record.Previous = reason, message, true, f.lastEnded()
	v.After.Record, v.After.Retry, v.After.Marks.Status = record, false, Failed
	v.Event = Event{Kind: FailedFinally, Message: fmt.Sprintf("%s is refused: %s", f.Marks.To, message)}
	return v
}

func (f Group) act(a GroupAction) GroupVerdict {
	v := f.rest(State{Going: true, Reason: ReasonMachines, Message: f.summary()})
	v.Action = a
	return v
}

// summary is what people see while something is done.
func (f Group) summary() string {
	if f.Record == nil || f.Record.Ended != nil {
		return "giving machines that have joined the release of the group"
	}
	return f.count(counted(f.Members))
}

func (f Group) wait(reason Reason, format string, args ...any) GroupVerdict {
	v := f.rest(State{Going: true, Reason: reason, Message: fmt.Sprintf(format, args...)})
	v.Action = Wait{After: groupPoll}
	return v
}

// rest leaves everything as it is.
func (f Group) rest(s State) GroupVerdict {
	return GroupVerdict{After: f.Recorded(), State: s, Action: Rest{}}
}
