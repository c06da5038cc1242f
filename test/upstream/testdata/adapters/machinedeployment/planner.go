// Package machinedeployment: adapters that let upstream's tests drive internal/pool. They only
// convert between upstream's planner and pool's values.
package machinedeployment

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment/mdutil"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/feature"

	"github.com/windlass-dev/windlass/internal/pool"
)

const (
	maxNameLength = 63
	randomLength  = pool.SuffixLength
)

type (
	desireFunc func(context.Context, *clusterv1.MachineDeployment, *clusterv1.MachineSet) (
		*clusterv1.MachineSet, error)
	coverFunc func(ctx context.Context, oldMS, newMS *clusterv1.MachineSet) (bool, error)
)

// rolloutPlanner has the fields that upstream's tests set and read.
type rolloutPlanner struct {
	Client        client.Client
	RuntimeClient runtimeclient.Client

	md                       *clusterv1.MachineDeployment
	revision                 string
	originalMSs              map[string]*clusterv1.MachineSet
	machines                 []*clusterv1.Machine
	acknowledgedMachineNames []string
	updatingMachineNames     []string
	newMS                    *clusterv1.MachineSet
	createReason             string
	oldMSs                   []*clusterv1.MachineSet
	upToDateResults          map[string]mdutil.UpToDateResult
	scaleIntents             map[string]int32
	notes                    map[string][]string

	overrideComputeDesiredMS           desireFunc
	overrideCanUpdateMachineSetInPlace coverFunc
}

// newRolloutPlanner takes no cache of answers: our controller remembers them by the question.
func newRolloutPlanner(c client.Client, rc runtimeclient.Client, _ any) *rolloutPlanner {
	return &rolloutPlanner{
		Client: c, RuntimeClient: rc,
		scaleIntents: map[string]int32{}, notes: map[string][]string{},
	}
}

func (p *rolloutPlanner) init(
	ctx context.Context, md *clusterv1.MachineDeployment, sets []*clusterv1.MachineSet,
	machines []*clusterv1.Machine, mayCreate, templatesExist bool,
) error {
	if _, err := pool.BudgetOf(md); err != nil {
		return err
	}
	p.md, p.machines = md, machines
	p.originalMSs = map[string]*clusterv1.MachineSet{}
	for _, set := range sets {
		p.originalMSs[set.Name] = set.DeepCopy()
	}
	a := pool.Assign(md, sets, time.Now())
	p.createReason = a.Missing
	p.upToDateResults = map[string]mdutil.UpToDateResult{}
	for name, eligible := range a.Eligible {
		p.upToDateResults[name] = mdutil.UpToDateResult{EligibleForInPlaceUpdate: eligible}
	}
	for _, set := range a.Old {
		desired, err := p.computeDesiredOldMS(ctx, set)
		if err != nil {
			return err
		}
		p.oldMSs = append(p.oldMSs, desired)
	}
	create, err := pool.MustCreate(a, !mayCreate, templatesExist)
	if err != nil {
		return err
	}
	if a.New == nil && !create {
		return nil
	}
	newest, notes, err := p.desireNewest(ctx, a.New)
	if err != nil {
		return err
	}
	p.newMS = newest
	p.addNotes(newest.Name, notes)
	return nil
}

func (p *rolloutPlanner) desire() desireFunc {
	if p.overrideComputeDesiredMS != nil {
		return p.overrideComputeDesiredMS
	}
	return computeDesiredMS
}

func (p *rolloutPlanner) computeDesiredNewMS(
	ctx context.Context, current *clusterv1.MachineSet,
) (*clusterv1.MachineSet, error) {
	desired, _, err := p.desireNewest(ctx, current)
	return desired, err
}

func (p *rolloutPlanner) desireNewest(
	ctx context.Context, current *clusterv1.MachineSet,
) (*clusterv1.MachineSet, []pool.Note, error) {
	desired, err := p.desire()(ctx, p.md, current)
	if err != nil {
		return nil, nil, err
	}
	revision, notes, err := pool.MarkNewest(desired, current, p.oldMSs)
	p.revision = revision
	return desired, notes, err
}

func (p *rolloutPlanner) computeDesiredOldMS(
	ctx context.Context, current *clusterv1.MachineSet,
) (*clusterv1.MachineSet, error) {
	desired, err := p.desire()(ctx, p.md, current)
	if err != nil {
		return nil, err
	}
	pool.MarkOld(desired, p.md, current)
	return desired, nil
}

func computeDesiredMS(
	_ context.Context, md *clusterv1.MachineDeployment, current *clusterv1.MachineSet,
) (*clusterv1.MachineSet, error) {
	if current == nil {
		return pool.NewSet(md, rand.String(randomLength), metav1.Now())
	}
	return pool.DesiredSet(md, current)
}

func computeNewMachineSetName(base string) (name, suffix string) {
	suffix = rand.String(randomLength)
	return pool.NewSetName(base, suffix), suffix
}

func cloneStringMap(in map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range in {
		out[k] = v
	}
	return out
}

// orEmpty returns an object that some tests do not set.
func orEmpty[T any](object *T) *T {
	if object == nil {
		return new(T)
	}
	return object
}

// rollout converts the planner's objects to numbers.
func (p *rolloutPlanner) rollout() (pool.Rollout, error) {
	md, newest := orEmpty(p.md), orEmpty(p.newMS)
	strategy := md.Spec.Rollout.Strategy.Type
	budget, err := pool.BudgetOf(md)
	r := pool.Rollout{
		Budget:         budget,
		OnDelete:       strategy == clusterv1.OnDeleteMachineDeploymentStrategyType,
		InPlaceUpdates: feature.Gates.Enabled(feature.InPlaceUpdates),
		New:            p.sizes(newest),
		Pending:        pool.PendingMoves(newest, p.machines),
		Counted:        pool.AcknowledgedMoves(p.originalMSs[newest.Name]),
		Updating:       pool.UpdatingMachines(p.machines),
	}
	for _, set := range p.oldMSs {
		r.Old = append(r.Old, p.sizes(set))
	}
	return r, err
}

func (p *rolloutPlanner) sizes(set *clusterv1.MachineSet) pool.Sizes {
	s := pool.Sizes{
		Name: set.Name, Created: set.CreationTimestamp.Time, Counts: pool.StatusCounts(set),
		Replicas: ptr.Deref(set.Spec.Replicas, 0), Target: ptr.Deref(set.Spec.Replicas, 0),
		Eligible: p.upToDateResults[set.Name].EligibleForInPlaceUpdate,
	}
	if intent, ok := p.scaleIntents[set.Name]; ok {
		s.Target = intent
	}
	return s
}

// take converts numbers back.
func (p *rolloutPlanner) take(r pool.Rollout) {
	byName := map[string]*clusterv1.MachineSet{r.New.Name: orEmpty(p.newMS)}
	for _, set := range p.oldMSs {
		byName[set.Name] = set
	}
	p.oldMSs = nil
	p.takeSizes(byName, r.New)
	for _, s := range r.Old {
		p.oldMSs = append(p.oldMSs, byName[s.Name])
		p.takeSizes(byName, s)
	}
	p.acknowledgedMachineNames, p.updatingMachineNames = r.NewlyAcknowledged, r.Updating
}

func (p *rolloutPlanner) takeSizes(byName map[string]*clusterv1.MachineSet, s pool.Sizes) {
	set := byName[s.Name]
	set.Spec.Replicas = ptr.To(s.Replicas)
	delete(p.scaleIntents, s.Name)
	if s.Target != s.Replicas {
		p.scaleIntents[s.Name] = s.Target
	}
	from, acknowledged := strings.Join(s.ReceiveFrom, ","), strings.Join(s.Acknowledged, ",")
	for key, value := range map[string]string{
		clusterv1.MachineSetMoveMachinesToMachineSetAnnotation:       s.MoveTo,
		clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation: from,
		clusterv1.AcknowledgedMoveAnnotation:                         acknowledged,
	} {
		if value != "" {
			metav1.SetMetaDataAnnotation(&set.ObjectMeta, key, value)
		}
	}
	p.addNotes(s.Name, s.Notes)
}

// apply runs one of pool's rules on the planner.
func (p *rolloutPlanner) apply(rule func(pool.Rollout) pool.Rollout) error {
	r, err := p.rollout()
	if err != nil {
		return err
	}
	p.take(rule(r))
	return nil
}

// applyAlways is apply for rules that need no budget, or whose callers take no error.
func (p *rolloutPlanner) applyAlways(rule func(pool.Rollout) pool.Rollout) {
	r, _ := p.rollout()
	p.take(rule(r))
}

// covered asks for the MachineSets that the rules have questions about. Tests give the answers.
func (p *rolloutPlanner) covered(
	ctx context.Context, questions func(pool.Rollout) []string,
) (map[string]bool, error) {
	r, err := p.rollout()
	if err != nil {
		return nil, err
	}
	answers := map[string]bool{}
	for _, name := range questions(r) {
		for _, set := range p.oldMSs {
			if set.Name != name {
				continue
			}
			answers[name], err = p.overrideCanUpdateMachineSetInPlace(ctx, set, p.newMS)
			if err != nil {
				return nil, err
			}
		}
	}
	return answers, nil
}

func (p *rolloutPlanner) planRollingUpdate(ctx context.Context) error {
	covered, err := p.covered(ctx, pool.Rollout.Questions)
	if err != nil {
		return err
	}
	return p.apply(func(r pool.Rollout) pool.Rollout { return r.RollingUpdate(covered) })
}

func (p *rolloutPlanner) planOnDelete(context.Context) error {
	return p.apply(pool.Rollout.DeleteOnly)
}

func (p *rolloutPlanner) reconcileReplicasPendingAcknowledgeMove(context.Context) {
	p.applyAlways(pool.Rollout.AcknowledgeMoves)
}

func (p *rolloutPlanner) reconcileNewMachineSet(context.Context) error {
	return p.apply(pool.Rollout.ScaleNew)
}

func (p *rolloutPlanner) reconcileOldMachineSetsRollingUpdate(context.Context) error {
	return p.apply(pool.Rollout.ScaleOld)
}

func (p *rolloutPlanner) reconcileOldMachineSetsOnDelete(context.Context) {
	p.applyAlways(pool.Rollout.ScaleOldOnDelete)
}

func (p *rolloutPlanner) reconcileInPlaceUpdateIntent(ctx context.Context) error {
	covered, err := p.covered(ctx, pool.Rollout.Candidates)
	if err != nil {
		return err
	}
	return p.apply(func(r pool.Rollout) pool.Rollout { return r.PreferInPlace(covered) })
}

func (p *rolloutPlanner) reconcileDeadlockBreaker(context.Context) {
	p.applyAlways(pool.Rollout.BreakDeadlock)
}

// machineSetDiff has the fields that upstream's controller logs.
type machineSetDiff struct {
	Type             string
	OriginalMS       *clusterv1.MachineSet
	OriginalReplicas int32
	DesiredReplicas  int32
	Summary          string
	OtherChanges     string
	Reason           string
}

func (p *rolloutPlanner) getMachineSetDiff(set *clusterv1.MachineSet) machineSetDiff {
	c := pool.ChangeOf(p.originalMSs[set.Name], set)
	kind := "old"
	if p.newMS != nil && set.Name == p.newMS.Name {
		kind = "current"
	}
	return machineSetDiff{
		Type:             kind,
		OriginalMS:       p.originalMSs[set.Name],
		OriginalReplicas: c.From,
		DesiredReplicas:  c.To,
		Summary:          c.Summary,
		OtherChanges:     c.Details,
		Reason:           strings.Join(p.notes[set.Name], ", "),
	}
}
