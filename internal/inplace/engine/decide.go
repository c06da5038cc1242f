package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// question is CanUpdateMachine or CanUpdateMachineSet in one form.
type question struct {
	scope            cover.Scope
	current, desired cover.Objects
	// subject is the live object that the decision is recorded on, target what machines move to,
	// as capi.TemplateOfSet returns it.
	subject client.Object
	target  string
	// labels select updaters.
	labels map[string]string
	// unasked are desired fields that no live object asks for, and have not for a while. They are not
	// covered, and no decision is recorded.
	unasked []cover.Pointer
	// unread says which right to read the live objects is missing; nil for none. current and desired are
	// empty then.
	unread *RefusedError
	// handOver says that only updaters count that take all machines over.
	handOver bool
	// quiet says that no live object shows that the question is due, so nothing is reported.
	quiet bool
}

// CanUpdateMachine decides whether a control plane Machine can be updated in place, and records a decision that says yes.
// The error is a *RefusedError where Cluster API must neither update nor replace, and an *UnaskedError where the objects in the management cluster do not ask
// for this.
func (e *Engine) CanUpdateMachine(ctx context.Context, request *runtimehooksv1.CanUpdateMachineRequest) (cover.Answer, error) {
	ctx, cancel := withBudget(ctx)
	defer cancel()
	q, err := e.machineQuestion(ctx, request)
	return e.answer(ctx, q, err)
}

// CanUpdateMachineSet is CanUpdateMachine for the Machines of a MachineSet that move to another one. The other one need not
// exist yet, so the decision is recorded on the one that they leave.
func (e *Engine) CanUpdateMachineSet(ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest) (cover.Answer, error) {
	ctx, cancel := withBudget(ctx)
	defer cancel()
	q, err := e.machineSetQuestion(ctx, request)
	return e.answer(ctx, q, err)
}

// reserved are the prefixes of annotations and labels that updaters are not shown.
func (e *Engine) reserved() []string { return ReservedKeys(e.Prefix) }

// answer decides, records and reports. unread is why the question could not be read; nil if it could.
func (e *Engine) answer(ctx context.Context, q question, unread error) (cover.Answer, error) {
	if r, ok := errors.AsType[*RefusedError](unread); ok {
		q.unread = r
	} else if unread != nil {
		return cover.Answer{}, unread
	}
	o, err := e.readOwner(ctx, q.subject)
	if err != nil {
		return cover.Answer{}, err
	}
	coverage, err := e.decide(ctx, q, o)
	if q.quiet {
		return coverage, err
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		// Whoever asked is gone. What failed because of that is no failure of an updater.
		return cover.Answer{}, err
	}
	if r, ok := errors.AsType[*RefusedError](err); ok {
		e.reportBlocked(ctx, o, q.subject, r)
		return cover.Answer{}, err
	}
	if err != nil {
		return cover.Answer{}, err
	}
	e.reportUnblocked(ctx, o, q.subject)
	return coverage, nil
}

func (e *Engine) decide(ctx context.Context, q question, o owner) (cover.Answer, error) {
	if q.unread != nil {
		return e.decideUnread(ctx, q, o)
	}
	nothing, err := cover.New(q.scope, q.current, q.desired, nil)
	if err != nil {
		return cover.Answer{}, fmt.Errorf("comparing the objects of %s: %w", client.ObjectKeyFromObject(q.subject), err)
	}
	if d := recorded(q, nothing.Result()); d != nil && len(q.unasked) == 0 {
		return cover.Answer{Patches: nothing.All(), Message: "updated in place, as decided before: " + stepNames(d.Steps)}, nil
	}
	policy, err := e.selectPolicy(ctx, o.group)
	if err != nil {
		return cover.Answer{}, err
	}
	if !policy.InPlace {
		return cover.Answer{Message: noPolicy(o)}, nil
	}
	if len(q.unasked) > 0 {
		return e.answerUncovered(q, o, policy, true, fmt.Sprintf("the %s and its template do not ask for %s. "+
			"Fix: set the field there, or remove what adds it to the desired Machine", o.group, cover.Describe(q.unasked)))
	}
	updaters, err := e.selectUpdaters(ctx, q.subject.GetNamespace(), q.labels)
	if err != nil {
		return cover.Answer{}, err
	}
	if q.handOver {
		if updaters = takers(updaters); len(updaters) == 0 {
			return e.answerUncovered(q, o, policy, true, noTaker)
		}
	}
	coverage, err := e.askAll(ctx, q, policy, updaters)
	if err != nil {
		return cover.Answer{}, err
	}
	return e.conclude(ctx, q, o, policy, updaters, coverage)
}

// decideUnread decides where live objects cannot be read. Cluster API may replace machines if no
// policy keeps them and nothing was decided about them, whatever the objects are.
func (e *Engine) decideUnread(ctx context.Context, q question, o owner) (cover.Answer, error) {
	policy, err := e.selectPolicy(ctx, o.group)
	switch {
	case err != nil:
		return cover.Answer{}, err
	case policy.InPlace || len(record.DecisionsOf(q.subject.GetAnnotations())) > 0:
		return cover.Answer{}, q.unread
	}
	return cover.Answer{Message: noPolicy(o)}, nil
}

func noPolicy(o owner) string {
	return "no UpdatePolicy with the strategy ExternalUpdate selects the " + o.group.String()
}

// conclude turns what the updaters cover into an answer. A decision is recorded before the answer that it stands for.
func (e *Engine) conclude(ctx context.Context, q question, o owner, policy policy.Policy, updaters []v1alpha1.Updater, coverage *cover.Coverage) (cover.Answer, error) {
	result := coverage.Result()
	if len(result.Uncovered) > 0 {
		answer, err := e.answerUncovered(q, o, policy, allAnswered(result),
			"no updater covers "+result.DescribeUncovered(cover.PartMachine))
		answer.Patches = coverage.Patches()
		return answer, err
	}
	d, err := newDecision(q, result, updaters)
	if err != nil {
		return cover.Answer{}, err
	}
	d.Decided = e.Now().UTC()
	if err := e.recordDecision(ctx, q.subject, d); err != nil {
		return cover.Answer{}, err
	}
	e.reportDecided(ctx, o, q.subject, d)
	e.reportUnchecked(ctx, o.object, q.subject, result.Warnings)
	message := append([]string{"updated in place by " + stepNames(d.Steps)}, result.Warnings...)
	return cover.Answer{Patches: coverage.Patches(), Message: strings.Join(message, "; ")}, nil
}

// notCoveredFix tells what a person can do about a change that no updater covers.
const notCoveredFix = "Fix: register an updater that covers it, add it to ignorePaths of the " +
	"UpdatePolicy, set its fallback to RollingUpdate, or revert the change"

// answerUncovered answers that something is not covered, as the policy's fallback says. certain says
// that it stays so until a person acts.
func (e *Engine) answerUncovered(
	q question, o owner, policy policy.Policy, certain bool, message string,
) (cover.Answer, error) {
	if !policy.FallbackReplace {
		if !strings.Contains(message, "Fix: ") {
			message += ". " + notCoveredFix
		}
		r := refused(v1alpha1.NotCoveredReason, "%s of the %s cannot be updated in place, and "+
			"UpdatePolicy %q forbids to replace machines (fallback None): %s",
			client.ObjectKeyFromObject(q.subject), o.group, policy.Name, message)
		r.NotCovered = certain
		return cover.Answer{}, r
	}
	if !q.quiet {
		e.reportReplaced(o, q.subject, message)
	}
	return cover.Answer{Message: "replaced: " + message}, nil
}

// allAnswered reports whether each updater has answered, or declined. One that has not, and one
// whose answer nobody can read, might cover the change later.
func allAnswered(r cover.Result) bool {
	return !slices.ContainsFunc(r.Errors, func(e *cover.UpdaterError) bool {
		return e.Pointer.Path == "" && !declines(e.Err)
	})
}

// askAll asks each updater in turn what it covers; each sees what those before it cover.
func (e *Engine) askAll(ctx context.Context, q question, policy policy.Policy, updaters []v1alpha1.Updater) (*cover.Coverage, error) {
	coverage, err := cover.New(q.scope, q.current, q.desired, cover.IgnoreOf(policy.Ignore))
	if err != nil {
		return nil, fmt.Errorf("comparing the objects of %s: %w", client.ObjectKeyFromObject(q.subject), err)
	}
	if coverage, err = e.withPresent(ctx, q, coverage); err != nil {
		return nil, err
	}
	asked, err := AskAll(ctx, coverage, updaters, updatepolicy.FailsOpen, func(ctx context.Context, u *v1alpha1.Updater, current cover.Objects) (cover.Patches, error) {
		return e.callCanUpdate(ctx, q, u, current)
	})
	if problem, ok := errors.AsType[*QuestionError](err); ok {
		return nil, refused(v1alpha1.UpdaterErrorReason, "cannot ask updater %q what it covers, and its failure policy is Fail: %v", problem.Updater, problem.Err)
	}
	return asked, err
}

// recorded returns the decision that was made on the same objects before. A decision stands until the objects change, so
// that all machines of a MachineSet are updated alike, also when Cluster API has forgotten its answer in the middle; a policy or
// updater that was edited counts from the next change. The target does not count: a request names it, and no live object confirms the name.
func recorded(q question, r cover.Result) *inplace.Decision {
	for _, d := range record.DecisionsOf(q.subject.GetAnnotations()) {
		if d.CurrentDigest == r.CurrentDigest && d.DesiredDigest == r.DesiredDigest {
			return &d
		}
	}
	return nil
}

// stepsOf returns the steps of what updaters cover.
func stepsOf(r cover.Result, updaters []v1alpha1.Updater) []inplace.Step {
	steps := make([]inplace.Step, 0, len(r.Plan))
	for _, c := range r.Plan {
		u := &updaters[slices.IndexFunc(updaters, func(u v1alpha1.Updater) bool { return u.Name == c.Updater })]
		steps = append(steps, inplace.Step{
			Updater: c.Updater, SetsVersion: c.SetsVersion, NeedsDrain: u.Spec.Transitions.NeedsDrain, Asks: isInProcess(u),
			MaxMinors: updatepolicy.MaxMinors(u),
		})
	}
	return steps
}

// isInProcess reports whether an updater runs in this process. Cluster API's hooks and the protocol of
// hand-over have no question whether the updater can begin.
func isInProcess(u *v1alpha1.Updater) bool { return u.Spec.InProcess != nil }

func newDecision(q question, r cover.Result, updaters []v1alpha1.Updater) (inplace.Decision, error) {
	d := inplace.Decision{Target: q.target, CurrentDigest: r.CurrentDigest, DesiredDigest: r.DesiredDigest, Changes: r.Changes, Steps: stepsOf(r, updaters)}
	d.Dirty = r.Dirty
	if q.scope == cover.Machine {
		var err error
		if d.Fingerprint, err = cover.Fingerprint(q.desired); err != nil {
			return d, fmt.Errorf("comparing the objects of %s: %w", client.ObjectKeyFromObject(q.subject), err)
		}
	}
	d.ID = decisionID(d)
	return d, nil
}

// decisionID is a digest of a decision, without its time and id.
func decisionID(d inplace.Decision) string {
	d.ID, d.Decided = "", metav1.Time{}.Time
	data, err := json.Marshal(d)
	if err != nil {
		panic(err) // Strings, numbers and times always encode.
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// mergeDecisions makes one decision of those of several MachineSets whose machines move to the same one: nobody can tell any
// longer which machine came from where. Each updater brings a machine to its desired state, so one that finds nothing to do
// is done at once. The order is the updaters' own, as far as the decisions agree on it.
func mergeDecisions(list []inplace.Decision) *inplace.Decision {
	if len(list) == 0 {
		return nil
	}
	merged := list[0]
	for _, d := range list[1:] {
		merged.Steps = inplace.MergeSteps(merged.Steps, d.Steps)
		merged.Changes = append(append([]cover.Change(nil), merged.Changes...), d.Changes...)
		merged.Dirty = append(append([]cover.Pointer(nil), merged.Dirty...), d.Dirty...)
	}
	merged.Dirty = cover.BoundPointers(merged.Dirty)
	if len(list) > 1 {
		merged.ID = decisionID(merged)
	}
	return &merged
}

func stepNames(steps []inplace.Step) string {
	if len(steps) == 0 {
		return "no updater: nothing has to be done on the machine"
	}
	names := make([]string, 0, len(steps))
	for _, s := range steps {
		names = append(names, s.Updater)
	}
	return strings.Join(names, ", then ")
}

func machineObjects(o runtimehooksv1.CanUpdateMachineRequestObjects) (cover.Objects, error) {
	machine, err := json.Marshal(o.Machine)
	if err != nil {
		return cover.Objects{}, fmt.Errorf("encoding the Machine: %w", err)
	}
	return cover.Objects{Machine: machine, Infrastructure: rawJSON(o.InfrastructureMachine), Bootstrap: rawJSON(o.BootstrapConfig)}, nil
}

func machineSetObjects(o runtimehooksv1.CanUpdateMachineSetRequestObjects) (cover.Objects, error) {
	machineSet, err := json.Marshal(o.MachineSet)
	if err != nil {
		return cover.Objects{}, fmt.Errorf("encoding the MachineSet: %w", err)
	}
	return cover.Objects{Machine: machineSet, Infrastructure: rawJSON(o.InfrastructureMachineTemplate), Bootstrap: rawJSON(o.BootstrapConfigTemplate)}, nil
}

// rawJSON returns the JSON of an object as it came. An absent object is null on the wire.
func rawJSON(r runtime.RawExtension) json.RawMessage {
	if len(r.Raw) == 0 || string(r.Raw) == "null" {
		return nil
	}
	return json.RawMessage(r.Raw)
}

// callCanUpdate asks one updater.
func (e *Engine) callCanUpdate(ctx context.Context, q question, u *v1alpha1.Updater, current cover.Objects) (cover.Patches, error) {
	opened, err := e.Open(ctx, u)
	if err != nil {
		return cover.Patches{}, fmt.Errorf("opening updater %q: %w", u.Name, err)
	}
	hook := "CanUpdateMachine"
	if q.scope == cover.MachineSet {
		hook = "CanUpdateMachineSet"
	}
	patches, err := CanUpdate(ctx, opened, q.scope, current, q.desired, e.reserved())
	e.noteRequest(ctx, u, hook, client.ObjectKeyFromObject(q.subject), "", err)
	return patches, err
}

// noteRequest keeps the Updater's status.lastRequest up to date, at most once a minute. That it cannot be written keeps nothing from happening.
func (e *Engine) noteRequest(ctx context.Context, u *v1alpha1.Updater, hook string, object types.NamespacedName, message string, err error) {
	request := v1alpha1.UpdaterRequest{Hook: hook, Object: object.String(), Time: metav1.NewTime(e.Now()), Outcome: v1alpha1.RequestAnswered, Message: message}
	if err != nil {
		request.Outcome, request.Message = v1alpha1.RequestFailed, err.Error()
	}
	request.Message = cut(request.Message)
	if _, recently := e.reported.GetOrPut(u.Name, struct{}{}, request.Time.Time, statusEvery); recently {
		return
	}
	changed := u.DeepCopy()
	changed.Status.LastRequest = &request
	// A process that was frozen meanwhile must not write over a newer request.
	patch := client.MergeFromWithOptions(u, client.MergeFromWithOptimisticLock{})
	switch err := e.Client.Status().Patch(ctx, changed, patch); {
	case apierrors.IsConflict(err):
		e.reported.Forget(u.Name)
	case err != nil:
		logFor(ctx).Error(err, "Writing the status of an Updater", "updater", u.Name)
	}
}
