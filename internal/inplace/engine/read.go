package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/pkg/version"
)

// readRun reads all that is decided on about the objects of a marked Machine.
func (e *Engine) readRun(ctx context.Context, live *liveObjects) (*run, error) {
	r, err := e.newRun(ctx, live)
	if err != nil {
		return nil, err
	}
	machine := r.Object
	if err := r.readRecords(ctx); err != nil {
		return nil, err
	}
	// Before an update has begun or been refused, Cluster API's finding whether the owner moved on may be from before the mark.
	r.facts.Abandon = has(machine, v1alpha1.UpdateAbandonAnnotation) && (r.saved != nil || r.isBlocked())
	if err := r.readPolicy(ctx); err != nil {
		return nil, err
	}
	// While an update is under way, only that it is still the one that is asked for matters. The
	// decision on a control plane Machine tells that, if all objects that it is about exist.
	isBegun := r.saved != nil && r.saved.Target == r.facts.Target
	if !isBegun || r.facts.Target == "" && !r.live.isBootstrapGone() {
		if err := r.readDecision(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.readSlotAndNode(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// readSlotAndNode reads no node of a machine that finds no slot: such machines are many, and ask again
// and again.
func (r *run) readSlotAndNode(ctx context.Context) error {
	if err := r.countOthers(ctx); err != nil {
		return err
	}
	r.facts.Now = r.now()
	if _, waits := inplace.Queued(r.facts.Policy, r.facts.Others); !waits {
		r.Look(ctx)
	}
	return nil
}

// newRun reads the group that a marked Machine belongs to.
func (e *Engine) newRun(ctx context.Context, live *liveObjects) (*run, error) {
	machine := live.machine
	key := client.ObjectKeyFromObject(machine)
	o, err := e.readOwner(ctx, machine)
	if err != nil {
		return nil, err
	}
	desired, err := version.Parse(machine.Spec.Version)
	if err != nil {
		return nil, fmt.Errorf("the desired version of Machine %s: %w", key, err)
	}
	r := &run{Machine: e.NewMachine(machine, live.read), live: live, owner: o}
	r.facts = inplace.Facts{
		FreshID: e.NewID(), Desired: desired, Target: capi.TemplateOf(machine), OwnerMovedOn: capi.OwnerMovedOn(machine), Retry: has(machine, v1alpha1.UpdateRetryAnnotation),
	}
	if o.group.ControlPlane {
		r.facts.Unhealthy = etcdProblem(machine)
	}
	if live.isBootstrapGone() {
		return r, nil // The fingerprint of the other objects is no decision's.
	}
	if r.facts.Fingerprint, err = cover.Fingerprint(live.objects); err != nil {
		return nil, fmt.Errorf("comparing the objects of Machine %s: %w", key, err)
	}
	return r, nil
}

// readRecords reads what is recorded on the Machine. What cannot be read is shown there, and nothing is done: it may be the
// record of an updater that is at work.
func (r *run) readRecords(ctx context.Context) error {
	var problems [3]error
	r.saved, problems[0] = readAnnotation[inplace.Progress](r.Object, v1alpha1.UpdateProgressAnnotation)
	r.facts.Last, problems[1] = readAnnotation[inplace.Summary](r.Object, v1alpha1.LastUpdateAnnotation)
	r.facts.Owed, problems[2] = readAnnotation[inplace.Owed](r.Object, v1alpha1.UpdateOwedAnnotation)
	if err := errors.Join(problems[:]...); err != nil {
		r.reportRefused(ctx, inplace.Refuse{Reason: inplace.ReasonNoDecision, Message: err.Error()})
		return refused(v1alpha1.NoDecisionReason, "%v", err)
	}
	r.facts.Progress = r.saved
	return nil
}

// readPolicy finds the policy that counts. Where that cannot be told, a running update goes on by the one that it began with, and
// nothing begins.
func (r *run) readPolicy(ctx context.Context) error {
	named := ""
	if r.saved != nil {
		named = r.saved.Policy
	}
	selected, problem, err := r.SelectPolicy(ctx, r.owner.group, named)
	if err != nil {
		return err
	}
	if problem != nil && (named == "" || selected.Name != named) {
		refusal := refused(v1alpha1.PolicyConflictReason, "%v", problem)
		r.showBlocked(ctx, refusal.Reason, cut(refusal.Message))
		return refusal
	}
	if selected.Name == "" {
		// The UpdatePolicy was deleted after the decision: nobody knows whether its nodes needed no drain.
		selected.Drain = true
	}
	r.policy, r.facts.Policy, r.facts.PolicyName = selected, selected, selected.Name
	return nil
}

// readDecision finds the decision that was made for what the Machine's live objects desire: on the Machine, or on the MachineSets of its MachineDeployment.
func (r *run) readDecision(ctx context.Context) error {
	if r.facts.Target == "" {
		r.chooseOwnDecision()
		return nil
	}
	templates, ok, err := r.readMovedTo(ctx)
	if err != nil || !ok {
		return err
	}
	desired, err := cover.New(cover.MachineSet, templates, templates, nil)
	if err != nil {
		return fmt.Errorf("comparing the objects of Machine %s: %w", r.name(), err)
	}
	found, err := r.readSetDecisions(ctx, desired.Result().DesiredDigest)
	if err != nil {
		return err
	}
	r.decision = mergeDecisions(found)
	r.facts.Decision = r.decision
	if r.decision == nil {
		return nil
	}
	if r.live.isBootstrapGone() {
		templates.Bootstrap = nil // A change of it is in the decision.
	}
	missing, err := cover.Missing(templates, r.live.objects)
	if err != nil {
		return fmt.Errorf("comparing the objects of Machine %s: %w", r.name(), err)
	}
	r.facts.Drifted = cover.BoundPointers(append(missing, cover.Drifted(r.decision.Changes, r.live.objects)...))
	return nil
}

// chooseOwnDecision chooses the newest decision on a control plane Machine that was made for its live objects. If none was, it chooses the newest one for an
// update that has not begun, so that the refusal names the fields that differ.
func (r *run) chooseOwnDecision() {
	list := record.DecisionsOf(r.Object.GetAnnotations())
	for i := range list {
		d := &list[i]
		drifted := cover.Drifted(d.Changes, r.live.objects)
		if len(drifted) == 0 && d.Fingerprint != "" && d.Fingerprint != r.facts.Fingerprint && !r.live.isBootstrapGone() {
			drifted = []cover.Pointer{{Part: cover.PartBootstrap, Path: "/spec"}}
		}
		if len(drifted) == 0 || r.saved == nil && r.decision == nil {
			r.decision, r.facts.Drifted = d, drifted
		}
		if len(drifted) == 0 {
			break
		}
	}
	r.facts.Decision = r.decision
}

// readSetDecisions returns the decisions on the MachineSets of the Machine's MachineDeployment that were made for desired objects with this digest, those of
// the oldest MachineSet first.
func (r *run) readSetDecisions(ctx context.Context, digest string) ([]inplace.Decision, error) {
	sets := &metav1.PartialObjectMetadataList{}
	sets.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineSetList"))
	err := r.Live.List(ctx, sets, client.InNamespace(r.Object.Namespace), client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: r.owner.group.Object})
	if err != nil {
		return nil, fmt.Errorf("listing the MachineSets of MachineDeployment %s/%s: %w", r.Object.Namespace, r.owner.group.Object, err)
	}
	slices.SortFunc(sets.Items, func(a, b metav1.PartialObjectMetadata) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	var found []inplace.Decision
	for i := range sets.Items {
		for _, d := range record.DecisionsOf(sets.Items[i].GetAnnotations()) {
			if d.DesiredDigest == digest {
				found = append(found, d)
			}
		}
	}
	return found, nil
}

func has(object metav1.Object, annotation string) bool {
	_, ok := object.GetAnnotations()[annotation]
	return ok
}
