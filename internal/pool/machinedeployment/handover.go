package machinedeployment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/controllers/external"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/pool"
)

// HandOvers hands the Machines of old MachineSets over to updaters, which write the Machines'
// objects.
type HandOvers interface {
	// HandOver hands the Machines of a MachineSet over, if that has not happened. Repeated calls
	// repeat the same operation.
	HandOver(
		context.Context, *runtimehooksv1.CanUpdateMachineSetRequest, pool.HandOverBudget,
	) (pool.Coverage, error)
	// EndHandOver has the updater that has the Machines of a MachineSet stop. It returns an error as
	// long as the updater may be at work.
	EndHandOver(ctx context.Context, set *clusterv1.MachineSet, why string) error
}

// answers answers the questions of the rules, and returns the group for which they are the answers:
// one that is handed over is kept until its Machines have arrived, whatever its fallback is.
func (r *run) answers(
	ctx context.Context, group pool.Group,
) (pool.Group, map[string]pool.Coverage, error) {
	if !r.policy.HandOver && !slices.ContainsFunc(r.sets, pool.WasHandedOver) {
		coverage, err := r.askCoverage(ctx, group)
		return group, coverage, err
	}
	budget, held, err := group.HandOver()
	if err != nil {
		return group, nil, err
	}
	if err := r.endHandOvers(ctx, group, held); err != nil {
		return r.unknown(group, err)
	}
	if r.policy.HandOver {
		return r.handOver(ctx, group, budget, held)
	}
	coverage, err := r.askCoverage(ctx, group)
	return group, coverage, err
}

// waitsForTaker reports whether a Machine waits until the updater that has it has written its
// objects, of which nothing watches the infrastructure machine and the bootstrap config.
func (r *run) waitsForTaker() bool {
	return r.executed != nil && slices.ContainsFunc(r.executed.Decisions, func(d pool.Decision) bool {
		return d.Reason == pool.ReasonHandedOver
	})
}

// unknown answers all questions with an error. The group is kept, so that it can be scaled
// meanwhile.
func (r *run) unknown(group pool.Group, why error) (pool.Group, map[string]pool.Coverage, error) {
	group.Keep = true
	questions, err := pool.Needs(group)
	coverage := make(map[string]pool.Coverage, len(questions))
	for _, q := range questions {
		coverage[q.Old.Name] = pool.Coverage{Reason: why.Error()}
	}
	return group, coverage, err
}

// endHandOvers has updaters stop whose Machines must not change now: held says why for all of them,
// the policy does not hand over any more, or the template was reverted to what the Machines have.
func (r *run) endHandOvers(ctx context.Context, group pool.Group, held string) error {
	newest := pool.Assign(r.md, r.sets, group.Now).New
	var errs []error
	for _, set := range r.sets {
		h, err := pool.HandedOverOf(set)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		why := held
		switch {
		case !h.IsActive() || !set.DeletionTimestamp.IsZero():
			continue
		case !r.policy.HandOver:
			why = "no UpdatePolicy has the group handed over any more"
		case newest != nil && newest.Name == set.Name:
			why = "the template was reverted"
		case pool.IsOnDelete(r.md) && !r.policy.UpdateOnDelete:
			why = "the strategy is OnDelete"
		case why == "":
			continue
		}
		errs = append(errs, r.endHandOver(ctx, set, why))
	}
	return errors.Join(errs...)
}

func (r *run) endHandOver(ctx context.Context, set *clusterv1.MachineSet, why string) error {
	if r.HandOvers == nil {
		return errNoHandOvers
	}
	if err := r.HandOvers.EndHandOver(ctx, set, why); err != nil {
		return err //nolint:wrapcheck // It names the MachineSet and the updater.
	}
	ctrl.LoggerFrom(ctx).Info("The updater that had the Machines has stopped",
		"MachineSet", client.ObjectKeyFromObject(set), "reason", why)
	return nil
}

// endActive has the updater stop that has the Machines of a MachineSet, if there is one.
func (r *run) endActive(ctx context.Context, name, why string) error {
	set := r.setOf(name)
	if h, err := pool.HandedOverOf(set); err != nil || !h.IsActive() {
		return err
	}
	return r.endHandOver(ctx, set, why)
}

// errNoHandOvers says why a group cannot be handed over.
var errNoHandOvers = errors.New("this program hands no groups over. Fix: set handOver of the " +
	"UpdatePolicy to Machine")

// handOver hands the Machines of old MachineSets over, unless held says why not: those of one
// MachineSet after another, because each hand-over has the whole budget.
func (r *run) handOver(
	ctx context.Context, group pool.Group, budget pool.HandOverBudget, held string,
) (pool.Group, map[string]pool.Coverage, error) {
	kept := group
	kept.Keep = true
	questions, err := pool.Needs(kept)
	if err != nil {
		return group, nil, err
	}
	questions = r.activeFirst(questions)
	coverage, taken := make(map[string]pool.Coverage, len(questions)), false
	for i, q := range questions {
		if taken && held == "" {
			held = fmt.Sprintf("the Machines of MachineSet %s come first", questions[i-1].Old.Name)
		}
		answer, err := r.askTaker(ctx, q, r.remaining(budget, questions[i+1:]), held)
		if err != nil {
			answer = pool.Coverage{Reason: err.Error()}
		}
		taken = taken || answer.Answer != pool.AnswerNo
		coverage[q.Old.Name] = answer
	}
	if taken || group.Keep {
		return kept, coverage, nil
	}
	if questions, err = pool.Needs(group); err != nil {
		return group, nil, err
	}
	for _, q := range questions {
		if _, ok := coverage[q.Old.Name]; !ok {
			coverage[q.Old.Name] = pool.Coverage{
				Answer: pool.AnswerNo, Reason: "there is no Machine to hand over",
			}
		}
	}
	return group, coverage, nil
}

// askTaker answers one question.
func (r *run) askTaker(
	ctx context.Context, q pool.Question, budget pool.HandOverBudget, held string,
) (pool.Coverage, error) {
	request, refusal, err := r.coverage.question(ctx, q.Old, q.New)
	switch {
	case err != nil:
		return pool.Coverage{}, err
	case refusal != "":
		err := r.endActive(ctx, q.Old.Name, refusal)
		return pool.Coverage{Answer: pool.AnswerNo, Reason: refusal}, err
	}
	answer := pool.Coverage{
		Answer: pool.AnswerHandedOver, Updater: r.updaterOf(q.Old.Name), Reason: held,
	}
	switch {
	case held == "":
		answer, err = r.askOnce(ctx, request, budget)
	case answer.Updater == "":
		return answer, nil // No Machine of it has arrived anywhere.
	default:
		err = r.endActive(ctx, q.Old.Name, held)
	}
	if err == nil && answer.Answer == pool.AnswerHandedOver {
		answer.Arrived, answer.Gaps, err = r.arrived(ctx, q.Old, request)
	}
	if err != nil {
		return pool.Coverage{}, err
	}
	return answer, nil
}

// activeFirst puts the MachineSet first whose Machines an updater has.
func (r *run) activeFirst(questions []pool.Question) []pool.Question {
	var active, others []pool.Question
	for _, q := range questions {
		if h, err := pool.HandedOverOf(r.setOf(q.Old.Name)); err == nil && h.IsActive() {
			active = append(active, q)
		} else {
			others = append(others, q)
		}
	}
	return append(active, others...)
}

// remaining returns the budget for a MachineSet: Machines of the later ones count as those that
// stay.
func (r *run) remaining(b pool.HandOverBudget, later []pool.Question) pool.HandOverBudget {
	for _, m := range r.machines {
		waits := slices.ContainsFunc(later, func(q pool.Question) bool { return pool.Owns(q.Old, m) })
		if waits && m.DeletionTimestamp.IsZero() {
			b.Stay = max(b.Stay-1, 0)
		}
	}
	return b
}

// setOf returns the MachineSet with a name as it was read; an empty one if there is none.
func (r *run) setOf(name string) *clusterv1.MachineSet {
	for _, s := range r.sets {
		if s.Name == name {
			return s
		}
	}
	return &clusterv1.MachineSet{}
}

// updaterOf returns the name of the updater that has the Machines of a MachineSet; empty for none.
func (r *run) updaterOf(set string) string {
	if h, err := pool.HandedOverOf(r.setOf(set)); err == nil && h != nil {
		return h.Updater
	}
	return ""
}

// askOnce hands over, unless the same question was answered a moment ago and the record of the
// hand-over is still the same.
func (r *run) askOnce(
	ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest,
	budget pool.HandOverBudget,
) (pool.Coverage, error) {
	if r.HandOvers == nil {
		return pool.Coverage{}, errNoHandOvers
	}
	record := r.setOf(request.Current.MachineSet.Name).Annotations[v1alpha1.HandedOverAnnotation]
	key, err := questionKey(fmt.Sprintf("%s %v", record, budget), request)
	if err != nil {
		return pool.Coverage{}, err
	}
	if known, ok := r.takers.Get(key, r.Now()); ok {
		return known, nil
	}
	began, reuse := r.Now(), answerLifetime
	answer, err := r.HandOvers.HandOver(ctx, request, budget)
	if err != nil {
		answer = r.failed(err)
	}
	if answer.Answer == pool.AnswerUnknown {
		reuse = lifetime(r.Now().Sub(began))
	}
	r.takers.Put(key, answer, r.Now(), reuse)
	ctrl.LoggerFrom(ctx).V(4).Info("Asked who takes the Machines over",
		"MachineSet", request.Current.MachineSet.Name, "updater", answer.Updater, "reason", answer.Reason)
	return answer, nil
}

// arrived returns the Machines of an old MachineSet that are as the desired objects of a request,
// sorted, and what the others lack.
func (r *run) arrived(
	ctx context.Context, old *clusterv1.MachineSet, request *runtimehooksv1.CanUpdateMachineSetRequest,
) (names []string, gaps map[string]string, err error) {
	desired, err := objectsOf(&request.Desired)
	if err != nil {
		return nil, nil, err
	}
	gaps = map[string]string{}
	for _, m := range r.machines { // They are sorted by name.
		if !pool.Owns(old, m) {
			continue
		}
		gap := pool.HandOverGap(r.md, m)
		if gap == "" {
			if gap, err = r.objectsGap(ctx, m, desired); err != nil {
				return nil, nil, err
			}
		}
		if gap == "" {
			names = append(names, m.Name)
		} else {
			gaps[m.Name] = gap
		}
	}
	return names, gaps, nil
}

// objectsGap says which fields of the desired templates the objects of a Machine do not have; empty
// if they have all.
func (r *run) objectsGap(
	ctx context.Context, m *clusterv1.Machine, desired cover.Objects,
) (string, error) {
	var have cover.Objects
	machine, err := json.Marshal(&clusterv1.Machine{Spec: m.Spec})
	if err != nil {
		return "", fmt.Errorf("encoding Machine %s: %w", m.Name, err)
	}
	have.Machine = machine
	if have.Infrastructure, err = r.readObject(ctx, m, m.Spec.InfrastructureRef); err != nil {
		return "", err
	}
	if ref := m.Spec.Bootstrap.ConfigRef; ref.IsDefined() {
		if have.Bootstrap, err = r.readObject(ctx, m, ref); err != nil {
			return "", err
		}
	}
	missing, err := cover.Missing(desired, have)
	if err != nil {
		return "", fmt.Errorf("comparing the objects of Machine %s: %w", m.Name, err)
	}
	if len(missing) > 0 {
		return "its objects lack the desired " + cover.Describe(missing), nil
	}
	return "", nil
}

func (r *run) readObject(
	ctx context.Context, m *clusterv1.Machine, ref clusterv1.ContractVersionedObjectReference,
) (json.RawMessage, error) {
	object, err := external.GetObjectFromContractVersionedRef(ctx, r.Client, ref, m.Namespace)
	if err != nil {
		return nil, fmt.Errorf("getting %s %s of Machine %s: %w", ref.Kind, ref.Name, m.Name, err)
	}
	raw, err := object.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s: %w", ref.Kind, ref.Name, err)
	}
	return bytes.TrimSpace(raw), nil
}
