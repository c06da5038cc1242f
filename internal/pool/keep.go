package pool

import (
	"cmp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/record"
)

// The rules for groups whose Machines no rollout may create or delete.
//
//   - Machines are created only while fewer exist than spec.replicas: by the new MachineSet, or,
//     while there is none, by the newest old one.
//   - Machines are deleted only while more exist than spec.replicas, in the order of spread.
//     Meanwhile no Machine begins to move.
//   - A MachineSet controller creates no Machine while the group has spec.replicas: the plan that
//     asked for it did not know of a Machine that has just moved away.
//   - Other old MachineSets create no Machines. Until one is known to have read that, it may still
//     create what it has been missing: nothing is created elsewhere, and no more Machines leave it
//     than an earlier plan chose.
//   - An old MachineSet with Machines that nobody planned deletes none: it is parked, and the next
//     plan counts them.
//   - A Machine moves to the new MachineSet only if an update in place covers the difference, and
//     within maxUnavailable, but at least one at a time: no spare Machine makes room.
//   - Where no update leads to the template, unhealthy Machines are remediated: nothing repairs
//     them. The new MachineSet then creates others.
//   - Unavailable Machines move first: the update may repair them, and they cost no availability.
//   - A Machine that is marked for an update does not move, even if the template changes: its
//     update ends first. But if the template is reverted to the one that the Machine had, and its
//     update has not begun, it goes back first. That costs nothing: it is unavailable already.
//     Neither a pause nor Machines that are too many delay it; its MachineSet deletes none
//     meanwhile.
//   - No Machine moves to a template with an older Kubernetes version than its kubelet's.
//   - No Machine begins to move while another MachineSet may still move some by an earlier plan.
//   - A pause stops moves. It never turns them into deletions.
//
// All numbers come from one list of Machines, in which each Machine has one owner. So a Machine is
// counted once, even in the middle of a move.

// headcount is what a MachineSet of a kept group has.
type headcount struct {
	// all is how many Machines there are, alive how many are not being deleted.
	all, alive int32
	// asked are those of alive that somebody asked to delete, broken others that need remediation.
	asked, broken int32
	// idle are others that have no Node, or whose update failed. updating are others that are being
	// updated. serving are the remaining ones that are available.
	idle, updating, serving int32
	// sick and well are how many may move: unavailable and available.
	sick, well int32
}

// keepQuestions returns the old MachineSets with Machines that an update could bring to the
// template, whether or not they are next: an obstacle is to be known before the first Machine
// moves.
func (d *draft) keepQuestions() []string {
	if d.paused() || d.rollout.OnDelete || !d.rollout.InPlaceUpdates {
		return nil
	}
	var names []string
	for _, s := range oldestFirst(d.rollout.Old) {
		if s.Eligible && d.headcount(s.Name).alive > 0 {
			names = append(names, s.Name)
		}
	}
	return names
}

// keep plans for a group whose Machines no rollout may create or delete.
func (d *draft) keep(coverage map[string]Coverage) Plan {
	d.rollout.Old = d.movingFirst(oldestFirst(d.rollout.Old))
	var fresh headcount
	if d.newest != nil {
		d.rollout = d.rollout.AcknowledgeMoves()
		fresh = d.headcount(d.newest.Desired.Name)
	}
	d.surplus = fresh.alive - d.rollout.Replicas
	var old int32
	heads := make([]headcount, len(d.rollout.Old))
	for i, s := range d.rollout.Old {
		heads[i] = d.headcount(s.Name)
		d.surplus += heads[i].alive
		old += max(heads[i].all, d.mayCreate(s))
		d.unsettled = d.unsettled || !d.settled(s, heads[i])
	}
	room := d.room(fresh)
	least := d.rollout.Replicas - max(d.rollout.Unavailable, 1)
	fromOld, fromNew := spread(d.surplus, heads, fresh, least)
	room.limit = d.limitMoves()
	for i, s := range d.rollout.Old {
		room = d.keepOld(i, heads[i], fromOld[i], room, coverage[s.Name])
	}
	d.keepNewest(fresh, old, fromNew)
	d.awaitNodes()
	p := d.plan(coverage)
	for i, set := range p.Old {
		disable := "true"
		if set.Desired.Name == d.grows {
			disable = "false"
		}
		annotate(set.Desired, map[string]string{clusterv1.DisableMachineCreateAnnotation: disable})
		if reason := d.noUpdate(d.rollout.Old[i], heads[i], coverage[set.Desired.Name]); reason != "" {
			mark(set.Desired, v1alpha1.NoUpdateAnnotation, []string{string(reason)})
		}
		if *set.Desired.Spec.Replicas >= heads[i].alive {
			mark(set.Desired, clusterv1.MachineSetMoveMachinesToMachineSetAnnotation,
				[]string{set.Desired.Name})
		}
	}
	return p
}

// movingFirst puts the MachineSets first that were told to move Machines and still have them. A
// plan may choose others meanwhile, because a Machine became available. If the new choice were
// written first and the old one were not withdrawn, both would move.
func (d *draft) movingFirst(old []Sizes) []Sizes {
	if !d.mayMove() {
		return old
	}
	moving := func(s Sizes) bool { return d.isMoving(s, d.headcount(s.Name)) }
	slices.SortStableFunc(old, func(a, b Sizes) int {
		switch x, y := moving(a), moving(b); {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	})
	return old
}

// isMoving reports whether an old MachineSet was told to move Machines that it still has.
func (d *draft) isMoving(s Sizes, h headcount) bool {
	return movesAway(d.old[s.Name].Current) && s.Replicas < h.alive
}

// continues reports whether an old MachineSet still moves Machines to the new one by an earlier
// plan.
func (d *draft) continues(s Sizes, h headcount) bool {
	return d.newest != nil && d.isMoving(s, h) &&
		moveTarget(d.old[s.Name].Current) == d.newest.Desired.Name
}

// settled reports whether an old MachineSet creates no more Machines: it asks for no more than it
// has, and its controller has read that. An apply that lowers spec.replicas forbids creation too,
// so that a controller which has read the one has read the other.
func (d *draft) settled(s Sizes, h headcount) bool {
	set := d.old[s.Name].Current
	return !set.DeletionTimestamp.IsZero() || s.Replicas <= h.all && !isUnread(set)
}

// mayCreate returns how many Machines an old MachineSet may have before it learns that it must not
// create any: spec.replicas, unless it is marked already. The new MachineSet is written first, and
// must leave room for them.
func (d *draft) mayCreate(s Sizes) int32 {
	marks := d.old[s.Name].Current.Annotations
	if d.newest == nil || marks[clusterv1.DisableMachineCreateAnnotation] == "true" {
		return 0
	}
	return s.Replicas
}

// keepOld sets the target of one old MachineSet: without Machines that are too many, or else
// without those that move. deleted are the Machines that are too many. It returns the room that is
// left.
func (d *draft) keepOld(i int, h headcount, deleted int32, r room, c Coverage) room {
	s := d.rollout.Old[i]
	s.Target = h.alive - deleted
	s.Acknowledged = d.finishing(s.Name)
	// A Machine may still arrive by an earlier plan. Without the mark another one is deleted for it.
	s.ReceiveFrom = d.senders(s.Name)
	var moves int32
	s.Return, moves, r = d.moves(s, h, r, c)
	switch {
	case moves > 0:
		s.MoveTo, s.Target = d.newest.Desired.Name, h.alive-moves
		s = s.note(Note{Reason: ReasonMove, MachineSet: s.MoveTo})
	case deleted > 0:
		s = s.note(Note{Reason: ReasonReplicasLowered})
	}
	s.Acknowledged = slices.DeleteFunc(s.Acknowledged, func(name string) bool {
		return slices.Contains(s.Return, name)
	})
	if s.Target < s.Replicas && deleted == 0 && s.MoveTo == "" {
		s = s.note(Note{Reason: ReasonMachinesGone})
	}
	d.rollout.Old[i] = s
	return r
}

// moves chooses the Machines that an old MachineSet moves: those that need no update, by name, and
// how many move in all. It returns the room that is left.
func (d *draft) moves(s Sizes, h headcount, r room, c Coverage) ([]string, int32, room) {
	settled := d.settled(s, h)
	if !settled && !d.continues(s, h) {
		return nil, 0, r
	}
	back := d.returning(s.Name)
	count := int32(len(back)) // #nosec G115 -- a number of Machines
	if !d.mayMove() || d.surplus > 0 {
		return back, count, r
	}
	most := d.mayBegin(s, h, count)
	if !settled {
		// The earlier plan, which found it settled, has chosen how many. More wait.
		most = min(most, max(h.alive-s.Replicas-count, 0))
	}
	begin, r := r.take(h.atMost(most), c.Answer == AnswerYes && s.Eligible)
	arriving, r := d.arriving(s.Name, c, r, most-begin)
	back = slices.Sorted(slices.Values(append(back, arriving...)))
	return back, begin + int32(len(back)), r // #nosec G115 -- a number of Machines
}

// finishing returns the Machines that moved to a MachineSet which is not the new one any more,
// before anybody counted them. They are counted there, so that their update begins and ends.
// Otherwise they would wait forever.
func (d *draft) finishing(name string) []string {
	return PendingMoves(&clusterv1.MachineSet{ObjectMeta: named(name)}, d.machinesOf(name))
}

func (d *draft) mayMove() bool { return d.mayReturn() && !d.paused() }

func (d *draft) mayReturn() bool {
	return d.newest != nil && !d.rollout.OnDelete && d.rollout.InPlaceUpdates
}

// keepNewest sets the target of the new MachineSet: what is missing is created, and deleted
// Machines are too many. If there is none, the newest old MachineSet creates what is missing.
func (d *draft) keepNewest(fresh headcount, old, deleted int32) {
	desired := d.rollout.Replicas
	if d.newest == nil {
		last := len(d.rollout.Old) - 1
		if missing := desired - old; missing > 0 && last >= 0 {
			s := d.rollout.Old[last]
			d.grows = s.Name
			all := d.headcount(s.Name).all
			d.rollout.Old[last] = s.scaleTo(all+missing,
				Note{Reason: ReasonMachinesMissing, Count: old, Limit: desired})
		}
		return
	}
	s := d.rollout.New
	// The mark stays as long as old MachineSets exist. Without it, a Machine that has just moved
	// counts as one too many before the plan knows of it.
	s.ReceiveFrom = d.senders(s.Name)
	s.Target = max(desired-old, fresh.alive)
	if d.unsettled {
		s.Target = min(s.Target, max(s.Replicas, fresh.alive))
	}
	why := Note{Reason: ReasonMachinesMissing, Count: old + fresh.all, Limit: desired}
	if deleted > 0 {
		s.Target = fresh.alive - deleted
	}
	if s.Target < s.Replicas {
		why = Note{Reason: ReasonReplicasLowered}
	}
	if s.Target != s.Replicas {
		s = s.note(why)
	}
	d.rollout.New = s
}

// headcount counts the Machines of a MachineSet of the group.
func (d *draft) headcount(name string) headcount {
	if h, known := d.heads[name]; known {
		return h
	}
	if d.heads == nil {
		d.heads = map[string]headcount{}
	}
	d.heads[name] = d.countHeads(name)
	return d.heads[name]
}

func (d *draft) countHeads(name string) headcount {
	var h headcount
	for _, m := range d.machinesOf(name) {
		h.all++
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		h.alive++
		switch {
		case deletionAsked(m):
			h.asked++
		case NeedsRemediation(m):
			h.broken++
		case isIdle(m):
			h.idle++
		case IsUpdating(m):
			h.updating++
		case conditions.IsTrue(m, clusterv1.MachineAvailableCondition):
			h.serving++
		}
		switch rank, _ := d.rankOf(m); {
		case rank == rankNever || !d.isNext(m):
		case rank == rankUnavailable:
			h.sick++
		case rank == rankAvailable:
			h.well++
		}
	}
	return h
}

// room is how many Machines may become unavailable by moving.
type room struct {
	// available bounds Machines that are available, unavailable those that are not.
	available, unavailable int32
	// limit bounds both, by the limits of the UpdatePolicy.
	limit int32
}

// room returns how many Machines may begin to move. Machines of the new MachineSet that are not
// available take it up, and so do Machines that do not exist yet; an available Machine needs room
// for those of old MachineSets too.
func (d *draft) room(fresh headcount) room {
	if d.newest == nil || d.rollout.Replicas == 0 {
		return room{}
	}
	limit := max(d.rollout.Unavailable, 1)
	availableNow := MachineCounts(d.newest.Desired, d.owned(d.newest.Desired)).Available
	busy := fresh.alive - availableNow
	total := availableNow
	for _, s := range d.rollout.Old {
		total += MachineCounts(d.old[s.Name].Desired, d.machinesOf(s.Name)).Available
	}
	return room{
		available:   max(limit-max(d.rollout.Replicas-total, 0), 0),
		unavailable: max(limit-busy, 0),
	}
}

// take returns how many Machines of a MachineSet move, and the room that is left. covered says that
// an update in place is possible.
func (r room) take(h headcount, covered bool) (int32, room) {
	if !covered {
		return 0, r
	}
	sick := min(h.sick, r.unavailable, r.limit)
	r.unavailable -= sick
	r.limit -= sick
	well := min(h.well, r.available, r.unavailable, r.limit)
	r.available -= well
	r.unavailable -= well
	r.limit -= well
	return sick + well, r
}

// rank is the order in which Machines of an old MachineSet move.
type rank int

const (
	// rankNever: the Machine must not move now.
	rankNever rank = iota
	// rankUnavailable: the Machine is not available, so its update costs nothing.
	rankUnavailable
	// rankAvailable: the Machine is available.
	rankAvailable
)

// rankOf returns the rank of a Machine of an old MachineSet, and for rankNever, why.
func (d *draft) rankOf(m *clusterv1.Machine) (rank, Reason) {
	switch {
	case IsUpdating(m):
		return rankNever, ReasonUpdating
	case !m.Status.NodeRef.IsDefined() && d.group.Now.Before(d.nodeDue(m)):
		return rankNever, ReasonNotProvisioned
	case !m.Status.NodeRef.IsDefined():
		return rankNever, ReasonNodeMissing
	case annotations.HasPaused(m):
		return rankNever, ReasonMachinePaused
	case d.kubeletAhead(m):
		return rankNever, ReasonKubeletAhead
	case conditions.IsTrue(m, clusterv1.MachineAvailableCondition):
		return rankAvailable, ""
	}
	return rankUnavailable, ""
}

// kubeletAhead reports whether the kubelet of a Machine is newer than the template asks, or may be.
// Status shows the kubelet some time after an update has ended. The record of the last update shows
// it at once.
func (d *draft) kubeletAhead(m *clusterv1.Machine) bool {
	is := kubeletOf(m)
	wanted := d.group.MachineDeployment.Spec.Template.Spec.Version
	age, known := compareKubelet(is, wanted)
	last, isRead := lastVersion(m)
	lastAge, lastKnown := 0, isRead
	if last != "" {
		lastAge, lastKnown = compareKubelet(last, wanted)
	}
	return !known || age > 0 || !lastKnown || lastAge > 0
}

// kubeletOf returns the version that the kubelet of a Machine reports, or else the one that the
// Machine was made for.
func kubeletOf(m *clusterv1.Machine) string { return cmp.Or(capi.Kubelet(m), m.Spec.Version) }

// lastVersion returns the version that the last update of a Machine ended with; empty for none. ok
// is false if the record cannot be read.
func lastVersion(m *clusterv1.Machine) (version string, ok bool) {
	last, err := record.SummaryOf(m.Annotations)
	if err != nil || last == nil || last.To.IsZero() {
		return "", err == nil
	}
	return last.To.String(), true
}

// compareKubelet compares the version of a kubelet with the wanted one. ok is false if it is
// unknown which is newer. If no version is wanted, none is newer.
func compareKubelet(is, wanted string) (order int, ok bool) {
	if wanted == "" {
		return 0, true
	}
	x, errX := semver.ParseTolerant(is)
	y, errY := semver.ParseTolerant(wanted)
	if errX != nil || errY != nil {
		return 0, false
	}
	return x.Compare(y), true
}

// MoveOrder sorts the Machines of an old MachineSet of a kept group in the order in which they
// move. It omits Machines that must not move; with a strict order of the UpdatePolicy those are
// also the Machines of the next places. g.MachineSets must contain their MachineSet. The MachineSet
// controller moves the first ones, as many as it has too many.
func MoveOrder(g Group, machines []*clusterv1.Machine) []*clusterv1.Machine {
	g.Machines, g.Keep = machines, true
	d, order := &draft{group: g}, g.order()
	byRank := make(map[rank][]*clusterv1.Machine)
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() && d.isNext(m) {
			r, _ := d.rankOf(m)
			byRank[r] = append(byRank[r], m)
		}
	}
	byPlace := func(a, b *clusterv1.Machine) int {
		return cmp.Or(comparePlaces(order, a, b), byMachineName(a, b))
	}
	var sorted []*clusterv1.Machine
	for _, r := range []rank{rankUnavailable, rankAvailable} {
		sorted = append(sorted, slices.SortedFunc(slices.Values(byRank[r]), byPlace)...)
	}
	return sorted
}

func byMachineName(a, b *clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) }

// Blocked returns the first decision on which a person or an extension must act before a kept group
// can continue; nil if nothing blocks the group.
func (p Plan) Blocked() *Decision {
	at := slices.IndexFunc(p.Decisions, func(d Decision) bool { return d.Reason.BlocksKept() })
	if at < 0 {
		return nil
	}
	return &p.Decisions[at]
}

// blocking are the reasons that need a person or an extension, in the order of their names.
var blocking = []Reason{
	ReasonCoverageUnknown, ReasonHandOverFailed, ReasonKubeletAhead, ReasonMachinePaused,
	ReasonNodeMissing, ReasonNotAdopted, ReasonNotCovered, ReasonRecreateRequested,
}

// BlocksKept reports whether a Machine of a kept group waits for this reason until a person or an
// extension acts.
func (r Reason) BlocksKept() bool { return slices.Contains(blocking, r) }
