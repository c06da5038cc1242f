package status

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// ComputeInPlace reports on the upgrades that annotations ask for, and says what of them could not be read. It returns nil where there are none. now decides
// nothing but whether one is late.
func ComputeInPlace(f Facts, now time.Time) (*InPlaceUpgrades, []Problem) {
	prefix := cmp.Or(f.Prefix, v1alpha1.DefaultInPlaceUpgradePrefix)
	groups := listGroups(f)
	records := make(map[string]machineRecord, len(f.Machines))
	members := map[*groupFacts][]memberFacts{}
	var loose []memberFacts
	for _, m := range slices.SortedFunc(slices.Values(f.Machines), func(a, b *clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) }) {
		records[m.Name] = readRecord(m)
		member := memberFacts{machine: m, asked: readAsked("Machine", m, m.Status.Conditions, prefix, checkUpgrade)}
		if g := groups.of(m); g.Name != "" {
			members[g] = append(members[g], member)
		} else {
			loose = append(loose, member)
		}
	}
	c := inPlaceComputation{durations: measureDurations(records), now: now}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		c.addGroup(g, readAsked(g.Kind, g.owner, g.conditions, prefix, checkRecord), members[g])
	}
	for _, m := range loose {
		c.addMachine(&groupFacts{}, asked[request.Record]{}, m)
	}
	c.found.Lock = readLock(f.Lock)
	if len(c.found.Groups) == 0 && len(c.found.Machines) == 0 && c.found.Lock == nil {
		return nil, c.problems
	}
	return &c.found, c.problems
}

type memberFacts struct {
	machine *clusterv1.Machine
	asked   asked[request.Upgrade]
}

func (m memberFacts) deleting() bool { return !m.machine.DeletionTimestamp.IsZero() }

type inPlaceComputation struct {
	durations map[string]Duration
	now       time.Time
	found     InPlaceUpgrades
	problems  []Problem
}

func (c *inPlaceComputation) addGroup(g *groupFacts, a asked[request.Record], members []memberFacts) {
	for _, m := range members {
		c.addMachine(g, a, m)
	}
	if a.problem != nil {
		c.problems = append(c.problems, *a.problem)
	}
	if a.isEmpty() {
		return
	}
	u := GroupUpgrade{Name: g.Name, Kind: g.Kind, Object: g.Object, Asking: a.told()}
	if r := a.record; r != nil {
		u.Began = r.Began.UTC()
		if r.Ended != nil {
			u.Ended = r.Ended.UTC()
		}
	}
	u.Option = groupOption(a)
	u = countMembers(u, members, g.replicas)
	u.State = groupState(a, u.InFlight)
	if r := a.record; u.State == UpgradeFailed && r != nil && r.Message != "" {
		u.Reason, u.Message = r.Reason, r.Message
	}
	u.Asking = forget(u.Asking)
	c.found.Groups = append(c.found.Groups, u)
}

// groupOption is what a group is brought to, or was.
func groupOption(a asked[request.Record]) string {
	switch {
	case a.record == nil:
		return cmp.Or(a.marks.To, a.marks.Release)
	case a.record.Ended != nil:
		return cmp.Or(a.marks.To, a.record.Option)
	default:
		return a.record.Option
	}
}

// countMembers counts machines as annotated.DecideGroup does.
func countMembers(u GroupUpgrade, members []memberFacts, replicas int) GroupUpgrade {
	for _, m := range members {
		switch {
		case m.deleting():
			continue
		case m.failed() && m.asked.marks.To == u.Option:
			u.Failed++
		case m.inFlight():
			u.InFlight++
		case m.asked.marks.Release == u.Option:
			u.Done++
		}
		u.Machines++
	}
	u.Machines = max(u.Machines, replicas)
	return u
}

func (m memberFacts) failed() bool {
	return m.asked.record.IsFinal() && m.asked.record.Option == m.asked.marks.To
}

func (m memberFacts) inFlight() bool {
	a := m.asked
	if a.record != nil {
		return a.record.IsRunning() || a.marks.To != "" && a.marks.To != a.record.Option
	}
	return a.marks.To != "" || a.marks.Status == request.InProgress && a.marks.ChangeID != ""
}

// groupState follows annotated.DecideGroup.
func groupState(a asked[request.Record], inFlight int) UpgradeState {
	r := a.record
	waits := a.going() && a.condition.Reason != string(request.ReasonMachines)
	switch {
	case a.problem != nil:
		return UpgradeUnreadable
	case a.marks.To == "":
		return unaskedGroupState(a)
	case r == nil || r.Ended != nil || r.Option != a.marks.To:
		// What the condition says of an end is about an earlier upgrade.
		return unlessHeld(waits)
	case r.Message != "" && a.retry:
		return unlessHeld(waits)
	case r.Message != "":
		return UpgradeFailed
	case inFlight == 0 && waits:
		return UpgradeHeld
	}
	return UpgradeRunning
}

func unaskedGroupState(a asked[request.Record]) UpgradeState {
	switch {
	case a.record != nil && a.record.Ended == nil:
		return UpgradeCancelling
	case a.marks.Status == request.Done:
		return UpgradeDone
	}
	return UpgradeIdle
}

func unlessHeld(held bool) UpgradeState {
	if held {
		return UpgradeHeld
	}
	return UpgradeAsked
}

func (c *inPlaceComputation) addMachine(g *groupFacts, of asked[request.Record], m memberFacts) {
	a := m.asked
	if a.problem != nil {
		c.problems = append(c.problems, *a.problem)
	}
	if a.isEmpty() {
		return
	}
	u := MachineUpgrade{Machine: m.machine.Name, Group: g.Name, ChangeID: a.marks.ChangeID, ByHand: byHand(a, of), Asking: a.told()}
	u.State, u.Option = machineState(a), cmp.Or(a.marks.To, a.marks.Release)
	switch {
	case a.isAbandoned():
		u.Option = ""
		said := request.DecideMachine(request.Machine{Name: u.Machine, Marks: a.marks}).State
		u.Reason, u.Message = said.Reason, said.Message
	case u.State == UpgradeAsked || u.State == UpgradeHeld:
		// What is recorded is of an earlier upgrade.
	case a.record != nil:
		u.Option = a.record.Option
		u.Work = c.computeWork(a.record.Progress, g)
		if u.Work.Phase == inplace.Draining {
			u.Work.Fix = drainFix(m.machine, u.Message)
		}
	}
	if u.State == UpgradeFailed && a.record != nil {
		u.Reason, u.Message = cmp.Or(a.record.Reason, request.ReasonFailed), a.record.Why()
	}
	u.Asking = forget(u.Asking)
	c.found.Machines = append(c.found.Machines, u)
}

func (c *inPlaceComputation) computeWork(p *inplace.Progress, g *groupFacts) Update {
	if p == nil {
		return Update{}
	}
	u := withProgress(Update{State: Updating}, p)
	if p.Phase == inplace.Failed {
		u.State = Failed
	}
	u.ETA = computeETA(p, c.durations, g.Policy.Soak.Duration, c.now)
	return u
}

// forget drops what the condition says where it is about an earlier upgrade.
func forget(a Asking) Asking {
	if a.State == UpgradeAsked {
		a.Reason, a.Message, a.Told = "", "", time.Time{}
	}
	return a
}

// machineState follows annotated.DecideMachine.
func machineState(a asked[request.Upgrade]) UpgradeState {
	u, to := a.record, a.marks.To
	switch {
	case a.problem != nil:
		return UpgradeUnreadable
	case u == nil && to != "":
		return unlessHeld(a.going())
	case u == nil:
		return unaskedMachineState(a)
	case to == "":
		return UpgradeCancelling
	case !u.IsFinal():
		return UpgradeRunning
	case to != u.Option || a.retry:
		return unlessHeld(a.going())
	}
	return UpgradeFailed
}

// unaskedMachineState is for a Machine that nobody asks to upgrade, and of which nothing is recorded.
func unaskedMachineState(a asked[request.Upgrade]) UpgradeState {
	switch {
	case a.isAbandoned():
		return UpgradeHeld
	case a.stopped():
		return UpgradeFailed
	case a.marks.Status == request.Done:
		return UpgradeDone
	}
	return UpgradeIdle
}

// byHand reports whether a Machine's option is not its group's.
func byHand(a asked[request.Upgrade], of asked[request.Record]) bool {
	option := a.marks.To
	if a.record != nil {
		option = a.record.Option
	}
	if option == "" {
		return false
	}
	r := of.record
	return option != of.marks.To && option != of.marks.Release && (r == nil || option != r.Option && !slices.Contains(r.Superseded, option))
}

// withProgress returns an update with what is recorded as progress.
func withProgress(u Update, p *inplace.Progress) Update {
	u.Phase, u.Attempt, u.Operation, u.LastError = p.Phase, p.Attempt, p.Operation, p.LastError
	u.From, u.To = p.From, p.To
	u.Began, u.Since = p.Began.UTC(), p.Started.UTC()
	u.Steps = len(p.Done) + len(p.Steps)
	u.Step = u.Steps
	if len(p.Steps) > 0 {
		u.Updater, u.Step = p.Steps[0].Updater, len(p.Done)+1
	}
	if p.NotBefore != nil {
		u.NotBefore = p.NotBefore.UTC()
	}
	return u
}
