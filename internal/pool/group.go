package pool

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/record"
)

// Group is what the rules read of a MachineDeployment and its MachineSets.
type Group struct {
	MachineDeployment *clusterv1.MachineDeployment
	// MachineSets are those that the MachineDeployment controls, in any order.
	MachineSets []*clusterv1.MachineSet
	// Machines are those that the selector of the MachineDeployment matches, in any order.
	Machines []*clusterv1.Machine
	Now      time.Time
	// Clock reads the times that others have recorded; nil remembers none.
	Clock *record.Clock
	// Suffix ends the name of a MachineSet that the plan creates: SuffixLength random characters.
	Suffix string
	// TemplatesExist says that the bootstrap and infrastructure templates of the MachineDeployment
	// were found.
	TemplatesExist bool
	// InPlaceUpdates is Cluster API's feature gate of that name.
	InPlaceUpdates bool
	// Count returns the counters of a MachineSet; nil means SafeCounts.
	Count func(*clusterv1.MachineSet, []*clusterv1.Machine) Counts
	// Keep says that no rollout may create or delete a Machine (UpdatePolicy with fallback None).
	Keep bool
	// UpdateOnDelete says that a change updates the Machines in place although the strategy is
	// OnDelete. It requires Keep.
	UpdateOnDelete bool
	// Limits are those of the UpdatePolicy; nil for none.
	Limits *Limits
}

// Question asks whether the Machines of Old can be updated in place to what New desires. Both are
// desired states.
type Question struct{ Old, New *clusterv1.MachineSet }

// Answer is what is known about a Question.
type Answer int

// Answers. The zero value is the safe one.
const (
	// AnswerUnknown: nobody answered. No Machine is created, moved or deleted on this account.
	AnswerUnknown Answer = iota
	// AnswerYes: updaters cover all differences.
	AnswerYes
	// AnswerNo: updaters do not cover all differences.
	AnswerNo
	// AnswerHandedOver: an updater has all Machines of Old, or gets them. It requires Group.Keep.
	AnswerHandedOver
)

// Coverage is the answer to a Question.
type Coverage struct {
	Answer Answer
	// Reason explains AnswerNo and AnswerUnknown to a person. With AnswerHandedOver it says why the
	// Machines are not handed over now; empty if they are.
	Reason string
	// Refused says that AnswerNo is that of an extension which keeps the Machines itself. Reason is
	// its message; it may show that on the MachineDeployment, too.
	Refused bool
	// Updater is the name of the updater that has the Machines, and Arrived are those that are as New
	// asks, by the Machine and its objects. Gaps says what the others lack. They count for
	// AnswerHandedOver only.
	Updater string
	Arrived []string
	Gaps    map[string]string
}

// SetPlan is what a MachineSet is to become.
type SetPlan struct {
	// Current is the MachineSet as stored; nil if it must be created.
	Current *clusterv1.MachineSet
	// Desired is the whole intent for a server-side apply, spec.replicas included. It carries
	// status and creationTimestamp of Current for later computations; an apply must leave those
	// out.
	Desired *clusterv1.MachineSet
	// Counts are the counters that the plan used.
	Counts Counts
	// Notes are the reasons of the changes.
	Notes []Note
}

// Plan is what a controller writes for a MachineDeployment.
type Plan struct {
	// New is the MachineSet of the current template. It is nil only while the MachineDeployment is
	// paused and has no such MachineSet.
	New *SetPlan
	// Old are the other MachineSets, in the order in which they are written.
	Old []SetPlan
	// Missing says why New is created; empty if it exists.
	Missing string
	// Revision is the value of the annotation machinedeployment.clusters.x-k8s.io/revision of the
	// MachineDeployment. It is empty if New is nil, as in stock.
	Revision string
	// Acknowledged are the Machines whose move is counted for the first time, Updating are those
	// being updated in place, both sorted. Stock logs them.
	Acknowledged, Updating []string
	// Decisions has one entry per Machine, and one for all that are created, sorted by name.
	Decisions []Decision
	// Allowance is what the limits of the UpdatePolicy leave. Its Reason is empty if they hold no
	// Machine back.
	Allowance Allowance
	// Moving says that a MachineSet may still move Machines by an earlier plan. Then no MachineSet may
	// be deleted: the Machines that move to it would be deleted with it.
	Moving bool
	// Wake is when time alone changes the plan: Machines have soaked, a deadline ends, or a Machine
	// must have a Node. It is zero for never.
	Wake time.Time
}

// LeavesMachines reports whether Machines were still to leave old MachineSets when the plan began.
func (p Plan) LeavesMachines() bool {
	return slices.ContainsFunc(p.Old, func(s SetPlan) bool { return *s.Current.Spec.Replicas > 0 })
}

// Sets returns the MachineSets in the order in which they must be written: New first, so that its
// mark to receive Machines exists before an old MachineSet is told to move them.
func (p Plan) Sets() []SetPlan {
	if p.New == nil {
		return p.Old
	}
	return append([]SetPlan{*p.New}, p.Old...)
}

// Needs returns the questions whose answers Decide needs, in stock's order. The error is an
// InvalidGroupError, as that of Decide may be.
func Needs(g Group) ([]Question, error) {
	d, err := begin(g)
	if err != nil {
		return nil, err
	}
	var questions []Question
	for _, name := range d.questions() {
		before := d.rollout
		if !g.Keep {
			before = before.AcknowledgeMoves()
		}
		newest := d.newest
		newest.Desired = newest.Desired.DeepCopy()
		*newest.Desired.Spec.Replicas = before.New.Replicas
		mark(newest.Desired, clusterv1.AcknowledgedMoveAnnotation, before.New.Acknowledged)
		old := d.old[name].Desired.DeepCopy()
		questions = append(questions, Question{Old: old, New: newest.Desired})
	}
	return questions, nil
}

// Decide returns the plan. coverage has the answers to the questions of Needs by the name of
// Question.Old. It returns an error if an answer is missing or unknown, unless g.Keep: nothing may
// be written then, as in stock when a hook fails.
func Decide(g Group, coverage map[string]Coverage) (Plan, error) {
	d, err := begin(g)
	if err != nil {
		return Plan{}, err
	}
	if g.Keep {
		return d.keep(coverage), nil
	}
	if d.paused() {
		d.scaleProportionally()
		d.receiveLate()
		return d.plan(coverage), nil
	}
	coverage = d.withoutDowngrades(coverage)
	covered := map[string]bool{}
	for _, name := range d.questions() {
		c := coverage[name]
		if c.Answer == AnswerUnknown {
			return Plan{}, fmt.Errorf("planning the rollout of MachineDeployment %s: it is unknown "+
				"whether Machines of MachineSet %s can be updated in place: %s", d.name(), name, c.Reason)
		}
		covered[name] = c.Answer == AnswerYes
	}
	if d.rollout.OnDelete {
		d.rollout = d.rollout.DeleteOnly()
		d.receiveLate()
	} else {
		d.rollout = d.rollout.RollingUpdate(covered)
		d.limit()
	}
	return d.plan(coverage), nil
}

// draft is a plan in progress.
type draft struct {
	group    Group
	newest   *SetPlan
	old      map[string]*SetPlan
	missing  string
	revision string
	rollout  Rollout
	// counted are the Machines that countMoves counted.
	counted []string
	// unsettled says that an old MachineSet of a kept group may still create Machines.
	unsettled bool
	// surplus is how many Machines of a kept group exist beyond spec.replicas; negative if some are
	// missing.
	surplus int32
	// grows is the old MachineSet that creates Machines of a kept group; empty for none.
	grows string
	// allowance is what the limits leave, and wake becomes Plan.Wake.
	allowance Allowance
	wake      time.Time
	// queued is what queue has found.
	queued *queue
	// byOwner are the Machines by the name of their MachineSet, names those of the MachineSets of the
	// group, movers those of the ones that may still move Machines, sending those from which Machines
	// may come, and heads what headcount has counted. Nothing changes them.
	byOwner map[string][]*clusterv1.Machine
	names   sets.Set[string]
	movers  sets.Set[string]
	sending []string
	heads   map[string]headcount
}

// InvalidGroupError says that no plan is possible until somebody changes an object of the group.
type InvalidGroupError struct{ cause error }

func (e *InvalidGroupError) Error() string { return e.cause.Error() }

// Unwrap returns what is wrong.
func (e *InvalidGroupError) Unwrap() error { return e.cause }

// begin computes the desired MachineSets before any rule about replicas. The error is an
// InvalidGroupError.
func begin(g Group) (d *draft, err error) {
	defer func() {
		if err != nil {
			err = &InvalidGroupError{cause: err}
		}
	}()
	if err := g.check(); err != nil {
		return nil, err
	}
	budget, err := g.budget()
	if err != nil {
		return nil, err
	}
	a := Assign(g.MachineDeployment, g.MachineSets, g.Now)
	d = &draft{group: g, old: map[string]*SetPlan{}, missing: a.Missing, rollout: Rollout{
		Budget:         budget,
		InPlaceUpdates: g.InPlaceUpdates,
		Updating:       UpdatingMachines(g.Machines),
		OnDelete:       IsOnDelete(g.MachineDeployment) && !g.UpdateOnDelete,
		Progressing:    g.progressing(a.New),
	}}
	if err := d.desire(a); err != nil {
		return nil, fmt.Errorf("planning the rollout of MachineDeployment %s: %w", d.name(), err)
	}
	return d, nil
}

// desire computes the desired MachineSets.
func (d *draft) desire(a Assignment) error {
	if err := d.desireOld(a); err != nil {
		return err
	}
	g := d.group
	create, err := MustCreate(a, g.paused() || g.Keep && !g.TemplatesExist, g.TemplatesExist)
	if err != nil || !create && a.New == nil {
		return err
	}
	return d.desireNewest(a)
}

// budget is that of the MachineDeployment. OnDelete has no maxUnavailable; if the policy has such
// groups updated in place, its maxInFlight takes the place.
func (g Group) budget() (Budget, error) {
	b, err := BudgetOf(g.MachineDeployment)
	if g.UpdateOnDelete && IsOnDelete(g.MachineDeployment) && g.Limits != nil {
		b.Unavailable = min(g.Limits.MaxInFlight, b.Replicas)
	}
	return b, err
}

// desireOld computes the old MachineSets.
func (d *draft) desireOld(a Assignment) error {
	for _, set := range a.Old {
		desired, err := DesiredOldSet(d.group.MachineDeployment, set)
		if err != nil {
			return err
		}
		d.countMoves(set, desired)
		d.keepDeparting(set, desired)
		d.old[set.Name] = &SetPlan{Current: set, Desired: desired, Counts: d.count(set)}
		s := d.sizes(d.old[set.Name], a.Eligible[set.Name])
		if movesAway(set) {
			s.Moving = max(d.alive(set)-s.Replicas, 0)
		}
		d.rollout.Old = append(d.rollout.Old, s)
	}
	return nil
}

// progressing reports whether an unavailable Machine of an old MachineSet may become available by
// itself: its update in place may still end, or it is ready and waits for minReadySeconds.
func (g Group) progressing(newest *clusterv1.MachineSet) bool {
	return slices.ContainsFunc(g.Machines, func(m *clusterv1.Machine) bool {
		switch {
		case newest != nil && Owns(newest, m) || IsUnhealthy(m):
			return false
		case IsUpdating(m):
			return conditions.GetReason(m, clusterv1.MachineUpdatingCondition) !=
				clusterv1.MachineInPlaceUpdateFailedReason
		}
		return !isDeleting(m) && conditions.IsTrue(m, clusterv1.MachineReadyCondition) &&
			!conditions.IsTrue(m, clusterv1.MachineAvailableCondition)
	})
}

// check returns an error if the rules do not apply to the group.
func (g Group) check() error {
	if g.MachineDeployment == nil {
		return errors.New("planning a rollout: there is no MachineDeployment")
	}
	for _, set := range g.MachineSets {
		if set.Spec.Replicas == nil {
			return noReplicas(set)
		}
	}
	switch kind := g.MachineDeployment.Spec.Rollout.Strategy.Type; kind {
	case clusterv1.RollingUpdateMachineDeploymentStrategyType,
		clusterv1.OnDeleteMachineDeploymentStrategyType:
		return nil
	default:
		if g.paused() {
			return nil
		}
		return fmt.Errorf("planning the rollout of MachineDeployment %s: unexpected strategy type %s. "+
			"Fix: set spec.rollout.strategy.type to RollingUpdate or OnDelete",
			objectName(g.MachineDeployment.Namespace, g.MachineDeployment.Name), kind)
	}
}

func (g Group) paused() bool {
	paused := g.MachineDeployment.Spec.Paused
	return paused != nil && *paused
}

func (d *draft) paused() bool { return d.group.paused() }

func (d *draft) name() string {
	return objectName(d.group.MachineDeployment.Namespace, d.group.MachineDeployment.Name)
}

func (d *draft) count(set *clusterv1.MachineSet) Counts {
	if d.group.Count != nil {
		return d.group.Count(set, d.owned(set))
	}
	return SafeCounts(set, d.owned(set))
}

// desireNewest computes the new MachineSet, which a.New is if it exists.
func (d *draft) desireNewest(a Assignment) error {
	md := d.group.MachineDeployment
	p := &SetPlan{Current: a.New}
	var err error
	if a.New == nil {
		p.Desired, err = NewSet(md, d.group.Suffix, metav1.NewTime(d.group.Now))
	} else {
		p.Desired, err = DesiredSet(md, a.New)
		p.Counts = d.count(a.New)
		if err == nil && (d.paused() || d.rollout.OnDelete) {
			d.countMoves(a.New, p.Desired)
			d.keepDeparting(a.New, p.Desired)
		}
	}
	if err != nil {
		return err
	}
	revision, notes, err := MarkNewest(p.Desired, a.New, a.Old)
	if err != nil {
		return err
	}
	d.newest, d.revision = p, revision
	d.rollout.New = d.sizes(p, false)
	d.rollout.New.Notes = notes
	d.rollout.Counted = AcknowledgedMoves(a.New)
	d.rollout.Pending = PendingMoves(p.Desired, d.owned(p.Desired))
	return nil
}

func (d *draft) sizes(p *SetPlan, eligible bool) Sizes {
	n := *p.Desired.Spec.Replicas
	return Sizes{
		Name: p.Desired.Name, Created: p.Desired.CreationTimestamp.Time, Replicas: n, Target: n,
		Counts: p.Counts, Eligible: eligible, Acknowledged: d.stillPending(p.Current),
	}
}

// stillPending returns the Machines of set that an earlier plan or this one has counted, and whose
// mark the MachineSet controller has not removed yet, sorted. A MachineSet keeps their names while
// it is old or paused, so that they are not counted again when it receives Machines again. Stock
// drops the names, and counts them twice.
func (d *draft) stillPending(set *clusterv1.MachineSet) []string {
	if set == nil || !d.group.InPlaceUpdates {
		return nil
	}
	counted := append(AcknowledgedMoves(set), d.counted...)
	return slices.DeleteFunc(PendingMoves(set, d.owned(set)), func(name string) bool {
		return !slices.Contains(counted, name)
	})
}

// questions returns the names of the old MachineSets that must be asked about.
func (d *draft) questions() []string {
	switch {
	case d.newest == nil:
		return nil
	case d.group.Keep:
		return d.keepQuestions()
	case d.paused() || d.rollout.OnDelete:
		return nil
	}
	return d.rollout.Questions()
}

func (d *draft) scaleProportionally() {
	var newest *clusterv1.MachineSet
	if d.newest != nil {
		newest = d.newest.Desired
	}
	var old []*clusterv1.MachineSet
	for _, s := range d.rollout.Old {
		old = append(old, d.old[s.Name].Desired)
	}
	why := Note{Reason: ReasonProportional}
	targets := Proportional(d.group.MachineDeployment, d.rollout.Budget, newest, old)
	d.rollout.Old = slices.Clone(d.rollout.Old)
	for i, s := range d.rollout.Old {
		if n, ok := targets[s.Name]; ok {
			d.rollout.Old[i] = s.scaleTo(n, why)
		}
	}
	if n, ok := targets[d.rollout.New.Name]; ok {
		d.rollout.New = d.rollout.New.scaleTo(n, why)
	}
}

// plan turns the numbers of the rollout into desired MachineSets.
func (d *draft) plan(coverage map[string]Coverage) Plan {
	counted := slices.Concat(d.rollout.NewlyAcknowledged, d.counted)
	slices.Sort(counted)
	p := Plan{
		Missing: d.missing, Revision: d.revision,
		Acknowledged: counted, Updating: d.rollout.Updating,
		Allowance: d.allowance, Wake: d.wake, Moving: d.stillMoves(""),
	}
	if d.newest != nil {
		d.newest.apply(d.rollout.New)
		p.New = d.newest
	}
	for _, s := range d.rollout.Old {
		set := d.old[s.Name]
		set.apply(s)
		p.Old = append(p.Old, *set)
	}
	p.Decisions = d.decisions(coverage)
	return p
}

func (p *SetPlan) apply(s Sizes) {
	*p.Desired.Spec.Replicas = s.Target
	if s.MoveTo != "" {
		mark(p.Desired, clusterv1.MachineSetMoveMachinesToMachineSetAnnotation, []string{s.MoveTo})
	}
	mark(p.Desired, clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation, s.ReceiveFrom)
	mark(p.Desired, clusterv1.AcknowledgedMoveAnnotation, s.Acknowledged)
	mark(p.Desired, v1alpha1.ReturnMachinesAnnotation, s.Return)
	p.Notes = s.Notes
}

func sortedByAge(sets []*clusterv1.MachineSet) []*clusterv1.MachineSet {
	return slices.SortedFunc(slices.Values(sets), byAge)
}
