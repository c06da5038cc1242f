package pool

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// Reasons for the scaling of a MachineSet, and for what happens to a Machine in a move.
const (
	// ReasonCreationDisabled: Machines are missing, and the annotation
	// cluster.x-k8s.io/disable-machine-create forbids to create them.
	ReasonCreationDisabled Reason = "CreationDisabled"
	// ReasonGroupComplete: the MachineSet lacks Machines, or has too many, and its group, whose
	// Machines are kept, does not. The next plan of the MachineDeployment counts them where they are.
	ReasonGroupComplete Reason = "GroupComplete"
	// ReasonMovesPending: the surplus consists of Machines that have moved here and that the
	// MachineDeployment has not counted so far.
	ReasonMovesPending Reason = "MovesPending"
	// ReasonParked: the surplus was not planned, and the policy keeps Machines. The MachineSet is told
	// to move Machines to itself, until the MachineDeployment counts them. Stock refuses that move.
	ReasonParked Reason = "Parked"
	// ReasonRemediation: a MachineHealthCheck asks for the remediation of the Machine.
	ReasonRemediation Reason = "Remediation"
)

// Scaling is what brings a MachineSet to spec.replicas.
type Scaling struct {
	// Action is Create, Delete, Update (the Machines move to Target), or Keep.
	Action Action
	// Count is the number of Machines to create, delete or move. It is 0 for Keep, and positive
	// otherwise.
	Count int
	// Target is the MachineSet to which Machines move; empty unless Action is Update.
	Target string
	// Reason is ReasonMissing, ReasonSurplus, Reason(ReasonMove), ReasonUpToDate,
	// ReasonCreationDisabled, ReasonGroupComplete, ReasonMovesPending or ReasonParked.
	Reason Reason
}

// Scale compares the number of Machines with spec.replicas. Machines in deletion count as Machines.
// Where Machines are kept, it creates no more than the group lacks, and deletes no more than the
// group has too many. It returns an error if spec.replicas is not set.
func (f SetFacts) Scale() (Scaling, error) {
	set := f.MachineSet
	if set.Spec.Replicas == nil {
		return Scaling{}, noReplicas(set)
	}
	surplus := len(f.Machines) - int(*set.Spec.Replicas)
	if surplus < 0 {
		if set.Annotations[clusterv1.DisableMachineCreateAnnotation] == "true" {
			return Scaling{Action: Keep, Reason: ReasonCreationDisabled}, nil
		}
		return f.create(-surplus), nil
	}
	counted := surplus - f.uncounted()
	target := moveTarget(set)
	switch {
	case surplus == 0:
		return Scaling{Action: Keep, Reason: ReasonUpToDate}, nil
	case counted <= 0:
		return Scaling{Action: Keep, Reason: ReasonMovesPending}, nil
	case target == set.Name:
		return Scaling{Action: Keep, Reason: ReasonParked}, nil
	case target != "":
		return Scaling{Action: Update, Count: counted, Target: target, Reason: Reason(ReasonMove)}, nil
	}
	return f.remove(counted), nil
}

// uncounted returns how many Machines have moved here that the MachineDeployment has not counted so
// far.
func (f SetFacts) uncounted() (n int) {
	if !Receives(f.MachineSet) {
		return 0
	}
	counted := AcknowledgedMoves(f.MachineSet)
	for _, m := range f.Machines {
		if IsMovePending(m) && !f.IsReturning(m) && !slices.Contains(counted, m.Name) {
			n++
		}
	}
	return n
}

// CountsGroup reports whether Scale depends on the Machines of the whole group: Machines are kept,
// and the MachineSet lacks some or has too many. The plan of the MachineDeployment may be older
// than a move, or than the policy.
func (f SetFacts) CountsGroup() bool {
	return f.keeps() &&
		len(f.Machines) != int(deref(f.MachineSet.Spec.Replicas))
}

// create is the Scaling for a MachineSet that lacks Machines.
func (f SetFacts) create(missing int) Scaling {
	if f.CountsGroup() {
		missing = min(missing, int(deref(f.Deployment.Spec.Replicas))-len(f.Group))
	}
	if missing <= 0 {
		return Scaling{Action: Keep, Reason: ReasonGroupComplete}
	}
	return Scaling{Action: Create, Count: missing, Reason: ReasonMissing}
}

// remove is the Scaling for a MachineSet that has too many Machines. Those in deletion count first.
func (f SetFacts) remove(surplus int) Scaling {
	if f.CountsGroup() {
		spare := countAlive(f.Group) - int(deref(f.Deployment.Spec.Replicas))
		surplus = min(surplus, len(f.Machines)-countAlive(f.Machines)+max(spare, 0))
	}
	if surplus <= 0 {
		return Scaling{Action: Keep, Reason: ReasonGroupComplete}
	}
	return Scaling{Action: Delete, Count: surplus, Reason: ReasonSurplus}
}

// countAlive returns how many Machines are not being deleted.
func countAlive(machines []*clusterv1.Machine) (n int) {
	for _, m := range machines {
		if !isDeleting(m) {
			n++
		}
	}
	return n
}

// Receives reports whether a MachineSet accepts Machines of others.
func Receives(set *clusterv1.MachineSet) bool {
	return set.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation] != ""
}

// moveTarget returns the name of the MachineSet that a MachineSet is told to move Machines to: its
// own if it is parked, and empty for none.
func moveTarget(set *clusterv1.MachineSet) string {
	return set.Annotations[clusterv1.MachineSetMoveMachinesToMachineSetAnnotation]
}

// movesAway reports whether a MachineSet is told to move Machines to another one.
func movesAway(set *clusterv1.MachineSet) bool {
	target := moveTarget(set)
	return target != "" && target != set.Name
}

// Sends reports whether a MachineSet is told to move Machines: to another one, or to itself if it
// is parked.
func Sends(set *clusterv1.MachineSet) bool { return moveTarget(set) != "" }

// ReceivesFrom reports whether a MachineSet accepts Machines of the MachineSet with the name
// source.
func ReceivesFrom(set *clusterv1.MachineSet, source string) bool {
	sources := set.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation]
	return slices.Contains(strings.Split(sources, ","), source)
}

// IsMovePending reports whether a Machine has moved to its MachineSet and waits until the
// MachineDeployment counts it there.
func IsMovePending(m *clusterv1.Machine) bool {
	_, pending := m.Annotations[clusterv1.PendingAcknowledgeMoveAnnotation]
	return pending
}

// AwaitsUpdate reports whether a Machine is marked for an update in place that its MachineSet has
// not started: the hook UpdateMachine is not pending.
func AwaitsUpdate(m *clusterv1.Machine) bool {
	_, marked := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	return marked && !isHookPending(m)
}

// MayBeginUpdate is the function of this name, for a Machine that the plan does not take back.
func (f SetFacts) MayBeginUpdate(m *clusterv1.Machine) bool {
	return MayBeginUpdate(f.MachineSet, m) && !f.IsReturning(m)
}

// MayBeginUpdate reports whether the MachineSet may begin the update in place of one of its
// Machines: the Machine is marked, the hook UpdateMachine is not pending, and the MachineDeployment
// has counted the Machine. If the MachineSet accepts no Machines any more, nobody will count it,
// and the update begins without.
func MayBeginUpdate(set *clusterv1.MachineSet, m *clusterv1.Machine) bool {
	if !AwaitsUpdate(m) {
		return false
	}
	if !IsMovePending(m) || !Receives(set) {
		return true
	}
	return slices.Contains(AcknowledgedMoves(set), m.Name)
}

// Deletions returns the first count Machines of DeletionOrder. Those in deletion already are among
// them; they need no request. It returns the error of OrderOf.
func (f SetFacts) Deletions(count int) ([]Candidate, error) {
	order, err := f.DeletionOrder()
	if err != nil {
		return nil, err
	}
	return First(order, count), nil
}

// First returns the first count candidates, or all if there are fewer.
func First(order []Candidate, count int) []Candidate {
	return order[:min(max(count, 0), len(order))]
}

// Departure is a Machine that leaves an old MachineSet during a rollout in place.
type Departure struct {
	Machine *clusterv1.Machine
	// Action is Update (the Machine moves) or Delete (the new MachineSet creates another one).
	Action Action
	// Reason is ReasonMove, ReasonReturn or ReasonRemediation.
	Reason Reason
}

// Departures chooses up to count Machines that move to another MachineSet, in deletion order:
//   - A Machine in deletion counts, and nothing happens to it.
//   - A Machine that needs remediation counts and is deleted, unless an update may repair it.
//   - A Machine that is being updated, or that has no Node, does not count and stays. With a strict
//     order of the UpdatePolicy, so do those of the next places. So does one whose kubelet is newer
//     than the template, if there is an UpdatePolicy: the plan was made before its update ended.
//
// Where updates may repair Machines, or if the plan names Machines that return, it chooses in the order of
// MoveOrder, as the plan does: a Machine whose kubelet is ahead stays, and none is deleted. It
// returns the error of OrderOf.
func (f SetFacts) Departures(count int) ([]Departure, error) {
	if f.movesKept() {
		return f.keptDepartures(count), nil
	}
	order, err := f.DeletionOrder()
	if err != nil {
		return nil, err
	}
	var leave []Departure
	for _, c := range f.inTurn(order) {
		switch m := c.Machine; {
		case count <= 0:
			return leave, nil
		case isDeleting(m):
			count--
		case NeedsRemediation(m) && !f.mayRepair(m):
			count--
			leave = append(leave, Departure{Machine: m, Action: Delete, Reason: ReasonRemediation})
		case IsUpdating(m) || !m.Status.NodeRef.IsDefined() || f.goesBack(m):
		default:
			count--
			leave = append(leave, Departure{Machine: m, Action: Update, Reason: Reason(ReasonMove)})
		}
	}
	return leave, nil
}

// goesBack reports whether a move would take the kubelet of a Machine back a version.
func (f SetFacts) goesBack(m *clusterv1.Machine) bool {
	return f.limits() != nil &&
		hasNewerKubelet(m, f.Deployment.Spec.Template.Spec.Version) && !f.isTarget()
}

// FollowsTemplate reports whether target has the template that the MachineDeployment has now. It is
// true for groups whose Machines are not kept. The Machines of a kept group move only there: the
// plan that chose another target compared their kubelets with an earlier template.
func (f SetFacts) FollowsTemplate(target *clusterv1.MachineSet) bool {
	if !f.movesKept() {
		return true
	}
	return len(Differences(&target.Spec.Template, &f.Deployment.Spec.Template).Fields) == 0
}

// movesKept reports whether Machines move by the rules for kept groups. A plan that names Machines
// which return is one of such a group. If the policy goes meanwhile, no Machine whose kubelet is
// ahead may go in their place.
func (f SetFacts) movesKept() bool {
	_, returns := f.MachineSet.Annotations[v1alpha1.ReturnMachinesAnnotation]
	return f.Deployment != nil && (f.repairs() || returns)
}

// inTurn omits the candidates that a strict order keeps from moving now. A Machine that is being
// deleted, or that somebody asked to delete, has no place in the order.
func (f SetFacts) inTurn(candidates []Candidate) []Candidate {
	o := f.policyOrder()
	if !o.Strict() {
		return candidates
	}
	var waiting []Member
	for _, m := range f.Machines {
		waiting = append(waiting, memberOf(m, nil, metav1.Time{}, o, f.past))
	}
	q := newQueue(o, waiting, int32(len(waiting))) // #nosec G115 -- a number of Machines
	return slices.DeleteFunc(candidates, func(c Candidate) bool {
		free := isDeleting(c.Machine) || deletionAsked(c.Machine)
		return !free && (!q.ok || placeOf(o, c.Machine) != q.next)
	})
}

func (f SetFacts) keptDepartures(count int) []Departure {
	var leave []Departure
	planned := f.planned()
	for _, m := range slices.SortedFunc(slices.Values(f.Machines), byMachineName) {
		switch {
		case isDeleting(m):
			count--
		case slices.Contains(planned, m.Name):
			// If its update has begun meanwhile, it stays, and no other one goes in its place.
			if count > 0 && f.IsReturning(m) {
				leave = append(leave, Departure{Machine: m, Action: Update, Reason: ReasonReturn})
			}
			count--
		}
	}
	g := Group{
		MachineDeployment: f.Deployment, MachineSets: []*clusterv1.MachineSet{f.MachineSet},
		Limits: &Limits{Order: f.Policy.Order},
	}
	for _, m := range MoveOrder(g, f.Machines) {
		// Of Machines that were handed over only those go that the plan names.
		if count <= 0 || len(planned) > 0 && WasHandedOver(f.MachineSet) {
			break
		}
		count--
		leave = append(leave, Departure{Machine: m, Action: Update, Reason: Reason(ReasonMove)})
	}
	return leave
}

// mayRepair reports whether an unhealthy Machine moves, because its update may repair it. A Machine
// without a Node has nothing to update.
func (f SetFacts) mayRepair(m *clusterv1.Machine) bool {
	return f.repairs() && m.Status.NodeRef.IsDefined()
}
