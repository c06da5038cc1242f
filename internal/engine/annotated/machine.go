package annotated

import (
	"context"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	core "github.com/windlass-dev/windlass/internal/core/inplace/annotated"
	"github.com/windlass-dev/windlass/internal/engine/fence"
	"github.com/windlass-dev/windlass/internal/engine/remediation"
)

// Machine takes the upgrade of a Machine as far as it goes without waiting. It is idempotent, and may be cut short at any point.
func (e *Engine) Machine(ctx context.Context, key types.NamespacedName) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	concerned, err := e.isConcerned(ctx, key)
	if err != nil || !concerned {
		return Result{}, err
	}
	r, err := e.readMachine(ctx, key)
	if err != nil || r == nil {
		return Result{}, err
	}
	result, err := r.carryOn(ctx)
	if fence.IsStale(err) {
		return Result{Now: true}, nil
	}
	return result, err
}

// isConcerned tells without a live read whether there may be something to do. Only a control plane Machine is looked at farther: it may still hold the
// lock.
func (e *Engine) isConcerned(ctx context.Context, key types.NamespacedName) (bool, error) {
	m := metadataOf(clusterv1.GroupVersion.WithKind("Machine"))
	if err := e.Client.Get(ctx, key, m); err != nil {
		if apierrors.IsNotFound(err) {
			e.shown.remove(machineKind.GroupKind(), key)
			return false, nil
		}
		return false, fmt.Errorf("reading the metadata of Machine %s: %w", key, err)
	}
	marks := e.keys.marks(m.Annotations)
	_, recorded := m.Annotations[v1alpha1.InPlaceUpgradeAnnotation]
	if recorded || marks.To != "" || marks.Status == core.InProgress || isOrphaned(m) || e.shown.has(machineKind.GroupKind(), key) {
		return true, nil
	}
	if !isControlPlane(m) {
		return false, nil
	}
	return e.locks.MayHold(ctx, types.NamespacedName{Namespace: key.Namespace, Name: m.Labels[clusterv1.ClusterNameLabel]}, key.Name)
}

// machineRun is one reconcile of a Machine.
type machineRun struct {
	*Engine
	machine *clusterv1.Machine
	cluster *clusterv1.Cluster
	facts   core.Machine
	// policy is the name of the UpdatePolicy that counts; empty for none.
	policy string
	// workersRead says that the facts tell of the workers.
	workersRead bool
	// called says that an updater was asked to do something, spent that something else may have taken most of the time there is for that.
	called, spent bool
	// confirmed is when the Machine was last known to be what is decided on.
	confirmed fence.Confirmed
	// plans are what updaters have answered, by option.
	plans map[string]core.Plan
}

// carryOn decides, records and acts, until there is something to wait for.
func (r *machineRun) carryOn(ctx context.Context) (Result, error) {
	v, err := r.decide(ctx)
	for range maxActions {
		if err != nil {
			return Result{}, err
		}
		var changed bool
		if changed, err = r.settle(ctx, v); err != nil {
			return Result{}, err
		}
		var end *Result
		if v, end, err = r.carryOut(ctx, v.Action, changed); end != nil && err == nil {
			return *end, nil
		}
	}
	if err != nil {
		return Result{}, err
	}
	return Result{}, fmt.Errorf("the upgrade of Machine %s does not settle after %d actions", client.ObjectKeyFromObject(r.machine), maxActions)
}

// decide decides on the facts. The workers of a Cluster are many, so they are read only where nothing else keeps a control plane Machine from beginning.
func (r *machineRun) decide(ctx context.Context) (core.MachineVerdict, error) {
	v := core.DecideMachine(r.facts)
	switch v.Action.(type) {
	case core.TakeLock, core.Ask:
	case core.Rest, core.Wait, core.ReleaseLock, core.Drain, core.Call, core.Uncordon:
		return v, nil
	}
	if !r.facts.ControlPlane || r.workersRead {
		return v, nil
	}
	oldest, err := r.oldestWorker(ctx)
	if err != nil {
		return core.MachineVerdict{}, err
	}
	r.facts.OldestWorker, r.workersRead = oldest, true
	return core.DecideMachine(r.facts), nil
}

// settle records what was decided, and shows it. It reports whether anything had to be recorded.
func (r *machineRun) settle(ctx context.Context, v core.MachineVerdict) (changed bool, err error) {
	v.After.Upgrade = r.withPolicy(v.After.Upgrade)
	before, err := r.keys.encodeMachine(core.MachineAfter{Marks: r.facts.Marks, Upgrade: r.facts.Upgrade, Retry: r.facts.Retry})
	if err != nil {
		return false, err
	}
	after, err := r.keys.encodeMachine(v.After)
	if err != nil {
		return false, err
	}
	patch := difference(before, after)
	maps.Copy(patch, r.protect(v.After.Upgrade))
	if v.State == (core.State{}) {
		// Once nothing is recorded nobody looks at the Machine any longer, so the condition goes first.
		if err := r.show(ctx, v.State); err != nil {
			return false, err
		}
	}
	if len(patch) > 0 {
		if err := r.record(ctx, patch, begins(r.facts.Upgrade, v.After.Upgrade)); err != nil {
			return false, err
		}
		r.report(ctx, v)
		r.facts = r.facts.With(v.After)
	}
	switch v.Action.(type) {
	case core.Rest, core.Wait:
		// What is done at once need not be shown: each change of a condition is a write.
		if err := r.show(ctx, v.State); fence.IsStale(err) {
			return false, err
		} else if err != nil {
			// Best effort: the next reconcile shows it.
			logFor(ctx).Error(err, "Writing the condition of a Machine", "machine", client.ObjectKeyFromObject(r.machine).String())
		}
	case core.Ask, core.TakeLock, core.ReleaseLock, core.Drain, core.Call, core.Uncordon:
	}
	return len(patch) > 0, nil
}

// protect returns the changes of the protection from remediation that belong to what is recorded next. An update that Cluster API
// asked for handles its protection itself. If it is unknown what runs on the machine, the protection stays unchanged.
func (r *machineRun) protect(after *core.Upgrade) annotationPatch {
	marks := r.facts.Marks
	unknown := r.facts.Unreadable != "" || r.facts.Upgrade == nil && after == nil && marks.Status == core.InProgress && marks.ChangeID != ""
	if has(r.machine, v1alpha1.UpdateProgressAnnotation) || unknown || r.facts.Deleting {
		return nil
	}
	change := remediation.Change(r.machine.Annotations, progressOf(r.facts.Upgrade), progressOf(after), r.facts.Policy, remediation.UnderWay(r.machine) != "")
	return annotationPatch(change)
}

// begins reports whether an upgrade is recorded that was not on record before.
func begins(before, after *core.Upgrade) bool {
	if after == nil || after.IsFinal() {
		return false
	}
	return before == nil || before.IsFinal() || before.Progress.ID != after.Progress.ID
}

// withPolicy notes in a new upgrade by which UpdatePolicy it goes.
func (r *machineRun) withPolicy(u *core.Upgrade) *core.Upgrade {
	if !begins(r.facts.Upgrade, u) || r.policy == "" {
		return u
	}
	changed, progress := *u, *u.Progress
	progress.Policy = r.policy
	changed.Progress = &progress
	return &changed
}

// carryOut carries out one action. It returns the next verdict, or the end of the reconcile.
func (r *machineRun) carryOut(ctx context.Context, a core.Action, changed bool) (core.MachineVerdict, *Result, error) {
	switch a := a.(type) {
	case core.Rest:
		if !changed {
			return core.MachineVerdict{}, &Result{}, nil
		}
		// What was recorded may be the end, after which the lock is given back.
		return r.again(ctx)
	case core.Wait:
		return core.MachineVerdict{}, &Result{After: a.After, Now: a.After <= 0}, nil
	case core.Ask:
		plan := r.planOnce(ctx, a.Option)
		r.readNode(ctx)
		return core.Planned(r.facts, plan), nil, nil
	case core.TakeLock:
		return r.takeLock(ctx)
	case core.ReleaseLock:
		if err := r.releaseLock(ctx); err != nil {
			return core.MachineVerdict{}, nil, err
		}
		return r.again(ctx)
	case core.Drain:
		return r.drain(ctx)
	case core.Call:
		return r.callInTime(ctx, a)
	case core.Uncordon:
		return r.uncordon(ctx)
	}
	return core.MachineVerdict{}, nil, fmt.Errorf("no way to carry out %T", a)
}

// callInTime asks the updater of a step, at most once in a reconcile, and only where there is time for that.
func (r *machineRun) callInTime(ctx context.Context, a core.Call) (core.MachineVerdict, *Result, error) {
	if r.called || r.spent {
		return core.MachineVerdict{}, &Result{After: nextStep}, nil
	}
	r.called = true
	answer, err := r.call(ctx, a)
	if err != nil {
		return core.MachineVerdict{}, nil, err
	}
	r.readNode(ctx)
	return core.Answered(r.facts, answer), nil, nil
}

// uncordon makes the node schedulable again.
func (r *machineRun) uncordon(ctx context.Context) (core.MachineVerdict, *Result, error) {
	if err := r.confirm(ctx); err != nil {
		return core.MachineVerdict{}, nil, err
	}
	bounded, cancel := r.confirmed.Bound(ctx)
	defer cancel()
	if err := r.Nodes.Uncordon(bounded, r.clusterKey(), r.machine.Status.NodeRef.Name); err != nil {
		return core.MachineVerdict{}, nil, fmt.Errorf("uncordoning the node of Machine %s: %w", client.ObjectKeyFromObject(r.machine), err)
	}
	r.readNode(ctx)
	return r.again(ctx)
}

// again decides anew.
func (r *machineRun) again(ctx context.Context) (core.MachineVerdict, *Result, error) {
	v, err := r.decide(ctx)
	return v, nil, err
}

// takeLock takes the lock, and looks at the control plane again: whoever held it a moment ago may have changed it.
func (r *machineRun) takeLock(ctx context.Context) (core.MachineVerdict, *Result, error) {
	if err := r.locks.Take(ctx, r.cluster, r.machine.Name); err != nil {
		return core.MachineVerdict{}, nil, err
	}
	for _, read := range []func(context.Context) error{r.readLock, r.readControlPlane} {
		if err := read(ctx); err != nil {
			return core.MachineVerdict{}, nil, err
		}
	}
	r.readNode(ctx)
	return r.again(ctx)
}

func (r *machineRun) releaseLock(ctx context.Context) error {
	if err := r.locks.Release(ctx, r.cluster, r.machine.Name); err != nil {
		return err
	}
	return r.readLock(ctx)
}

// drain drains the node as Cluster API does when it deletes a Machine: not where the Machine excludes its node, and no longer than the Machine says.
func (r *machineRun) drain(ctx context.Context) (core.MachineVerdict, *Result, error) {
	var limit time.Duration
	if seconds := r.machine.Spec.Deletion.NodeDrainTimeoutSeconds; seconds != nil {
		limit = time.Duration(*seconds) * time.Second
	}
	if has(r.machine, clusterv1.ExcludeNodeDrainingAnnotation) || limit > 0 && r.facts.Now.Sub(r.facts.Upgrade.Progress.Started) > limit {
		return core.Drained(r.facts), nil, nil
	}
	if err := r.confirm(ctx); err != nil {
		return core.MachineVerdict{}, nil, err
	}
	r.spent = true
	bounded, cancel := r.confirmed.Bound(ctx)
	defer cancel()
	status, err := r.Nodes.Drain(bounded, r.clusterKey(), client.ObjectKeyFromObject(r.machine), r.machine.Status.NodeRef.Name)
	if err != nil {
		status.Done, status.Message = false, err.Error() // What fails is tried again.
	}
	if !status.Done {
		return core.StillDraining(r.facts, r.draining.Settle(r.machine.UID, status.Message, r.facts.Now)), nil, nil
	}
	r.readNode(ctx)
	return core.Drained(r.facts), nil, nil
}

// confirm must be called right before an effect; see fence.Confirm.
func (r *machineRun) confirm(ctx context.Context) error {
	return r.fence.Confirm(ctx, r.machine, &r.confirmed)
}

func (r *machineRun) clusterKey() types.NamespacedName { return client.ObjectKeyFromObject(r.cluster) }
