package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// Action is what happens to a Machine.
type Action string

// Actions.
const (
	// Keep: the Machine stays unchanged.
	Keep Action = "keep"
	// Update: the Machine is updated in place.
	Update Action = "update"
	// Create: Machines that do not exist yet are created.
	Create Action = "create"
	// Delete: the Machine is deleted.
	Delete Action = "delete"
	// Wait: the Machine is not as desired, and nothing can happen to it now.
	Wait Action = "wait"
)

// Reason says in one word why something happens to a Machine, or nothing. Reasons are stable:
// conditions, logs and tests use them.
type Reason string

// Reasons for what happens to a Machine.
const (
	// ReasonUpToDate: the Machine is as the MachineDeployment's template asks.
	ReasonUpToDate Reason = "UpToDate"
	// ReasonUpdating: the update in place of the Machine is in progress.
	ReasonUpdating Reason = "Updating"
	// ReasonDeleting: the Machine is being deleted.
	ReasonDeleting Reason = "Deleting"
	// ReasonTurn: the Machine is next.
	ReasonTurn Reason = "Turn"
	// ReasonReturn: the template was reverted to the one that the Machine had before its last move,
	// and its update has not begun.
	ReasonReturn Reason = "Return"
	// ReasonArrived: an updater that was handed the Machine has updated it and written its objects.
	ReasonArrived Reason = "Arrived"
	// ReasonHandedOver: an updater has the Machine, or gets it later.
	ReasonHandedOver Reason = "HandedOver"
	// ReasonHandOverFailed: the updater that has the Machine reports that it could not update it.
	ReasonHandOverFailed Reason = "HandOverFailed"
	// ReasonBudget: maxUnavailable or maxSurge allows no more changes now.
	ReasonBudget Reason = "Budget"
	// ReasonOnDelete: the strategy is OnDelete; a person deletes the Machine.
	ReasonOnDelete Reason = "OnDelete"
	// ReasonPaused: the MachineDeployment is paused.
	ReasonPaused Reason = "Paused"
	// ReasonNotCovered: no update in place leads to the template, and the policy forbids
	// replacement.
	ReasonNotCovered Reason = "NotCovered"
	// ReasonCoverageUnknown: it is unknown whether an update in place leads to the template.
	ReasonCoverageUnknown Reason = "CoverageUnknown"
	// ReasonRecreateRequested: rollout.after asks for new Machines, and the policy forbids
	// replacement.
	ReasonRecreateRequested Reason = "RecreateRequested"
	// ReasonKubeletAhead: the kubelet of the Machine is newer than the template asks, or its
	// version is unknown, and no kubelet goes back a version.
	ReasonKubeletAhead Reason = "KubeletAhead"
	// ReasonMachinePaused: the Machine is paused. Its update could not begin, and would take the turn
	// of others.
	ReasonMachinePaused Reason = "MachinePaused"
	// ReasonNotProvisioned: the Machine has no Node yet.
	ReasonNotProvisioned Reason = "NotProvisioned"
	// ReasonNodeMissing: the Machine has no Node, and is too old to get one. No update begins on it.
	ReasonNodeMissing Reason = "NodeMissing"
	// ReasonMissing: fewer Machines exist than desired.
	ReasonMissing Reason = "Missing"
	// ReasonNotAdopted: a MachineSet that the MachineDeployment selects has Machines, and could not be
	// adopted. Without them the group would seem to lack some.
	ReasonNotAdopted Reason = "NotAdopted"
	// ReasonSurplus: more Machines exist than desired.
	ReasonSurplus Reason = "Surplus"
)

// Decision is what happens to one Machine, or to those that are created, and why.
type Decision struct {
	// Machine is its name; empty for Machines that are created.
	Machine string
	// MachineSet is its owner, or the one that creates it.
	MachineSet string
	Action     Action
	Reason     Reason
	Message    string
}

// decisions says for each Machine what the plan means for it. The MachineSet controller chooses
// which Machines of an old MachineSet go first; until it has, the Machines count as chosen in the
// order of their names.
func (d *draft) decisions(coverage map[string]Coverage) []Decision {
	var all []Decision
	if d.newest != nil {
		all = append(all, d.decideNewest()...)
	}
	for _, s := range d.rollout.Old {
		all = append(all, d.decideOld(s, coverage[s.Name])...)
	}
	slices.SortStableFunc(all, func(a, b Decision) int {
		return cmp.Or(
			strings.Compare(a.Machine, b.Machine), strings.Compare(a.MachineSet, b.MachineSet))
	})
	return all
}

// owned returns the Machines of a MachineSet, sorted by name.
func (d *draft) owned(set *clusterv1.MachineSet) []*clusterv1.Machine {
	return d.machinesOf(set.Name)
}

func (d *draft) machinesOf(set string) []*clusterv1.Machine {
	d.index()
	return d.byOwner[set]
}

// owner returns the name of the MachineSet of the group that owns a Machine; empty if none does.
// Where two MachineDeployments have one selector, it matches the Machines of both.
func (d *draft) owner(m *clusterv1.Machine) string {
	d.index()
	if name := setOf(m); d.names.Has(name) {
		return name
	}
	return ""
}

// index sorts the Machines by MachineSet, once: a look at all Machines for each MachineSet would
// take a time that grows with both.
func (d *draft) index() {
	if d.byOwner != nil {
		return
	}
	d.byOwner, d.names = map[string][]*clusterv1.Machine{}, sets.New[string]()
	for _, set := range d.group.MachineSets {
		d.names.Insert(set.Name)
	}
	for _, m := range d.group.Machines {
		name := setOf(m)
		d.byOwner[name] = append(d.byOwner[name], m)
	}
	for _, list := range d.byOwner {
		slices.SortFunc(list, byMachineName)
	}
}

func (d *draft) decideNewest() []Decision {
	s, set := d.rollout.New, d.newest.Desired
	list := d.owned(set)
	surplus := len(list) - int(s.Target)
	deletes := s.Target < s.Replicas
	for _, m := range list {
		if isDeleting(m) {
			surplus-- // The MachineSet controller counts it as deleted first.
		}
	}
	var all []Decision
	for _, m := range d.byDeletion(set, list) {
		next := d.decideFresh(m, set)
		switch {
		case isDeleting(m):
			next = decide(m, set, Delete, ReasonDeleting, "the Machine is being deleted")
		case surplus > 0 && deletes:
			surplus--
			next = decide(m, set, Delete, ReasonSurplus, "the MachineDeployment asks for fewer replicas")
		}
		all = append(all, next)
	}
	if int(s.Target) > len(list) {
		all = append(all, Decision{
			MachineSet: set.Name, Action: Create, Reason: ReasonMissing,
			Message: fmt.Sprintf("MachineSet %s has %d of %d Machines", set.Name, len(list), s.Target),
		})
	}
	return all
}

// decideFresh says what happens to a Machine of the new MachineSet that stays.
func (d *draft) decideFresh(m *clusterv1.Machine, set *clusterv1.MachineSet) Decision {
	switch {
	case IsUpdating(m):
		return decide(m, set, Update, ReasonUpdating, "the Machine is being updated in place")
	case WasHandedOver(d.newest.Current) && d.group.Keep && d.kubeletAhead(m):
		return decide(m, set, Wait, ReasonKubeletAhead, neverMessage(m, ReasonKubeletAhead))
	}
	return decide(m, set, Keep, ReasonUpToDate, "the Machine matches the template")
}

func (d *draft) decideOld(s Sizes, c Coverage) []Decision {
	set := d.old[s.Name].Desired
	list := d.owned(set)
	going := len(list) - int(s.Target)
	for _, m := range list {
		if !m.DeletionTimestamp.IsZero() {
			going--
		}
	}
	var all []Decision
	for _, m := range d.goFirst(s, list) {
		action, reason, message := d.leave(s)
		switch {
		case !m.DeletionTimestamp.IsZero():
			action, reason, message = Delete, ReasonDeleting, "the Machine is being deleted"
		case slices.Contains(s.Return, m.Name) && slices.Contains(c.Arrived, m.Name):
			going--
			action, reason = Update, ReasonArrived
			message = fmt.Sprintf("updater %s has updated the Machine, and it goes to MachineSet %s",
				c.Updater, s.MoveTo)
		case slices.Contains(s.Return, m.Name):
			going--
			action, reason = Update, ReasonReturn
			message = fmt.Sprintf("the Machine goes back to MachineSet %s without an update, because "+
				"its update has not begun", s.MoveTo)
		case going > 0 && d.mayLeave(s, m):
			going--
		default:
			action, reason, message = d.stay(s, c, m)
		}
		all = append(all, decide(m, set, action, reason, message))
	}
	return all
}

// stay says what happens to a Machine that does not leave its old MachineSet now.
func (d *draft) stay(
	s Sizes, c Coverage, m *clusterv1.Machine,
) (action Action, reason Reason, message string) {
	switch {
	case IsUpdating(m):
		return Update, ReasonUpdating, "the Machine is being updated in place"
	case d.group.Keep && d.hasTemplate(s):
		return Keep, ReasonUpToDate, "the Machine matches the template"
	}
	reason, message = d.whyWait(s, c, m)
	return Wait, reason, message
}

// hasTemplate reports whether an old MachineSet equals the template, and rollout.after asks for no
// new Machines in its place. One remains beside the new one if rollout.after is removed after a
// kept group has been scaled.
func (d *draft) hasTemplate(s Sizes) bool {
	md, set := d.group.MachineDeployment, d.old[s.Name].Current
	after := md.Spec.Rollout.After.Time
	waits := after.IsZero() || d.group.Now.Before(after)
	return !s.Eligible && (waits || !set.CreationTimestamp.Time.Before(after)) &&
		len(Differences(&set.Spec.Template, &md.Spec.Template).Fields) == 0
}

// equals returns the names of the old MachineSets of a kept group that have the template. Their
// Machines count as those of the new one.
func (d *draft) equals() sets.Set[string] {
	names := sets.New[string]()
	for _, s := range d.rollout.Old {
		if d.group.Keep && d.hasTemplate(s) {
			names.Insert(s.Name)
		}
	}
	return names
}

// goFirst sorts the Machines of an old MachineSet in the order in which they leave it.
func (d *draft) goFirst(s Sizes, list []*clusterv1.Machine) []*clusterv1.Machine {
	if s.MoveTo == "" {
		return d.byDeletion(d.old[s.Name].Desired, list)
	}
	if !d.group.Keep {
		return list
	}
	first := slices.DeleteFunc(slices.Clone(list), func(m *clusterv1.Machine) bool {
		return !slices.Contains(s.Return, m.Name)
	})
	chosen := sets.New(first...)
	for _, m := range MoveOrder(d.group, list) {
		if !chosen.Has(m) {
			chosen.Insert(m)
			first = append(first, m)
		}
	}
	return append(first, slices.DeleteFunc(slices.Clone(list), chosen.Has)...)
}

// mayLeave reports whether a Machine can be one of those that leave an old MachineSet.
func (d *draft) mayLeave(s Sizes, m *clusterv1.Machine) bool {
	if s.MoveTo == "" {
		return true
	}
	if !d.group.Keep {
		return !IsUpdating(m)
	}
	r, _ := d.rankOf(m)
	return r != rankNever
}

// leave says what happens to a Machine that leaves an old MachineSet.
func (d *draft) leave(s Sizes) (action Action, reason Reason, message string) {
	switch {
	case s.MoveTo != "":
		return Update, ReasonTurn,
			fmt.Sprintf("the Machine moves to MachineSet %s and is updated in place", s.MoveTo)
	case d.group.Keep:
		return Delete, ReasonSurplus, "the MachineDeployment asks for fewer replicas"
	}
	return Delete, ReasonTurn, "the Machine is replaced"
}

// whyWait says why nothing happens to a Machine of an old MachineSet.
func (d *draft) whyWait(s Sizes, c Coverage, m *clusterv1.Machine) (reason Reason, message string) {
	switch {
	case d.paused():
		return ReasonPaused, "the MachineDeployment is paused. Fix: set spec.paused to false"
	case d.rollout.OnDelete:
		return ReasonOnDelete,
			"the strategy is OnDelete. Fix: " + d.deleteByHand() + " when it may be replaced"
	case !d.isNext(m) && !d.allowance.Reason.NeedsPerson():
		return ReasonOrder, "other Machines go first (order)"
	case !d.group.Keep && d.allowance.Reason != "":
		return d.allowance.Reason, d.allowance.Message
	case !d.group.Keep:
		return ReasonBudget, fmt.Sprintf("at least %d Machines must be available, and %d may exist",
			d.rollout.MinAvailable(), d.rollout.Replicas+d.rollout.Surge)
	}
	if r, why := d.rankOf(m); r == rankNever {
		return why, neverMessage(m, why)
	}
	if c.Answer == AnswerHandedOver {
		return d.whyHandedOver(s, c, m)
	}
	return d.whyKept(s, c)
}

// whyKept says why no Machine of an old MachineSet in a kept group is updated in place now.
func (d *draft) whyKept(s Sizes, c Coverage) (reason Reason, message string) {
	switch {
	case d.newest == nil || !d.rollout.InPlaceUpdates:
		return ReasonCoverageUnknown, "the group cannot be updated in place now. Fix: create the " +
			"templates of the MachineDeployment, and switch on the feature gate InPlaceUpdates"
	case !s.Eligible:
		return ReasonRecreateRequested, "spec.rollout.after or an equal MachineSet asks for new " +
			"Machines, and the policy keeps Machines. Fix: remove spec.rollout.after, or set " +
			"fallback: RollingUpdate in the UpdatePolicy"
	case c.Answer == AnswerUnknown:
		return ReasonCoverageUnknown,
			"it is unknown whether the Machine can be updated in place: " + c.Reason
	case c.Answer == AnswerNo && c.Refused:
		return ReasonNotCovered, c.Reason
	case c.Answer == AnswerNo:
		return ReasonNotCovered,
			"the Machine cannot be updated in place, and the policy keeps Machines: " + c.Reason
	case d.allowance.Reason != "":
		return d.allowance.Reason, d.allowance.Message
	}
	return ReasonBudget, fmt.Sprintf(
		"other Machines are updated first: at most %d may be unavailable",
		max(d.rollout.Unavailable, 1),
	)
}

// replaceByHand ends a fix: it lets a person replace a Machine, whatever the UpdatePolicy is. With
// fallback None the guard refuses a deletion without the annotation.
const replaceByHand = "set the annotation " + v1alpha1.AllowReplacementAnnotation +
	" on the Machine and delete it"

// deleteByHand says how a person deletes a Machine of the group.
func (d *draft) deleteByHand() string {
	if d.group.Keep {
		return replaceByHand
	}
	return "delete the Machine"
}

// neverMessage explains why a Machine must not move.
func neverMessage(m *clusterv1.Machine, reason Reason) string {
	switch reason { //nolint:exhaustive // The others have one message.
	case ReasonMachinePaused:
		return "the Machine is paused. Fix: remove the annotation " + clusterv1.PausedAnnotation
	case ReasonKubeletAhead:
		return "the kubelet of the Machine is newer than spec.template asks, or its version is " +
			"unknown, and no kubelet goes back a version. Fix: set the version in spec.template to " +
			"that of the kubelet, or " + replaceByHand
	case ReasonNodeMissing:
		return fmt.Sprintf("the Machine has no Node since its creation at %s, so it cannot be updated. "+
			"Fix: find out why, or %s",
			m.CreationTimestamp.UTC().Format(time.RFC3339), replaceByHand)
	}
	return "the Machine has no Node yet"
}

func decide(
	m *clusterv1.Machine, set *clusterv1.MachineSet, a Action, r Reason, message string,
) Decision {
	return Decision{Machine: m.Name, MachineSet: set.Name, Action: a, Reason: r, Message: message}
}
