package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/refusal"
)

// UpgradeMachine takes the upgrade of a Machine as far as it goes without waiting. It is idempotent, and may be cut short at any point.
func (e *Engine) UpgradeMachine(ctx context.Context, key types.NamespacedName) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	concerned, err := e.isConcerned(ctx, key)
	if err != nil || !concerned {
		return Result{}, err
	}
	release, ok := e.tenants.machines.TryAcquire(key.Namespace)
	if !ok {
		return Result{After: turnedAwayFor}, nil
	}
	defer release()
	r, err := e.readMachine(ctx, key)
	if err != nil || r == nil {
		return Result{}, err
	}
	result, err := r.carryOn(ctx)
	if isStale(err) {
		return Result{Now: true}, nil
	}
	if _, refused := refusal.ReasonOf(err); refused {
		s := request.State{Reason: request.ReasonWriteRefused, Message: fmt.Sprintf(
			"the API server refuses a write, which is tried again: %v. Fix: remove what refuses it", err)}
		err = errors.Join(err, r.showNow(ctx, s))
	}
	return result, err
}

// isConcerned tells without a live read whether there may be something to do. Only a control plane Machine is looked at farther: it may still hold the
// lock.
func (e *Engine) isConcerned(ctx context.Context, key types.NamespacedName) (bool, error) {
	m := capi.MetadataOf(clusterv1.GroupVersion.WithKind("Machine"))
	if err := e.Client.Get(ctx, key, m); err != nil {
		if apierrors.IsNotFound(err) {
			e.shown.remove(machineKind.GroupKind(), key)
			return false, nil
		}
		return false, fmt.Errorf("reading the metadata of Machine %s: %w", key, err)
	}
	marks := e.keys.marks(m.Annotations)
	_, recorded := m.Annotations[v1alpha1.InPlaceUpgradeAnnotation]
	if recorded || marks.To != "" || marks.Status == request.InProgress || isOrphaned(m) || e.shown.has(machineKind.GroupKind(), key) {
		return true, nil
	}
	if !capi.IsControlPlane(m) {
		return false, nil
	}
	return e.locks.MayHold(ctx, types.NamespacedName{Namespace: key.Namespace, Name: m.Labels[clusterv1.ClusterNameLabel]}, key.Name)
}

// machineRun is one reconcile of a Machine.
type machineRun struct {
	Machine
	cluster *clusterv1.Cluster
	facts   request.Machine
}

var _ inplace.Effects = (*machineRun)(nil)

// carryOn decides, records and acts.
func (r *machineRun) carryOn(ctx context.Context) (Result, error) {
	v := request.DecideMachine(r.facts)
	asked, begins := v.Action.(request.Ask)
	if !begins {
		return r.act(ctx, v)
	}
	v, err := r.admit(ctx, asked.Option)
	if err != nil {
		return Result{}, err
	}
	if _, begins = v.Action.(request.Run); !begins {
		return r.act(ctx, v)
	}
	// The question what updaters cover may have taken most of the time there is.
	return Result{After: nextStep}, r.record(ctx, v, r.RecordBegin)
}

// admit decides whether an upgrade may begin. Reads that are expensive come last.
func (r *machineRun) admit(ctx context.Context, option request.Option) (request.MachineVerdict, error) {
	var none request.MachineVerdict
	if r.facts.ControlPlane {
		oldest, err := r.oldestWorker(ctx)
		if err != nil {
			return none, err
		}
		r.facts.OldestWorker = oldest
		if v := request.DecideMachine(r.facts); !isAsk(v) {
			return v, nil
		}
	}
	plan := r.plan(ctx, option)
	r.Look(ctx)
	v := request.Planned(r.facts, plan)
	if _, takes := v.Action.(request.TakeLock); !takes {
		return v, nil
	}
	if err := r.locks.Take(ctx, r.cluster, r.facts.Name); err != nil {
		return none, err
	}
	// Whoever held the lock a moment ago may have changed the control plane.
	for _, read := range []func(context.Context) error{r.readLock, r.readControlPlane} {
		if err := read(ctx); err != nil {
			return none, err
		}
	}
	r.Look(ctx)
	if v = request.DecideMachine(r.facts); isAsk(v) {
		v = request.Planned(r.facts, plan)
	}
	return v, nil
}

func isAsk(v request.MachineVerdict) bool {
	_, ok := v.Action.(request.Ask)
	return ok
}

// act records what was decided, and acts.
func (r *machineRun) act(ctx context.Context, v request.MachineVerdict) (Result, error) {
	if err := r.settle(ctx, v); err != nil {
		return Result{}, err
	}
	switch a := v.Action.(type) {
	case request.Rest:
		return Result{}, nil
	case request.Wait:
		return Result{After: a.After, Now: a.After <= 0}, nil
	case request.Run:
		return r.run(ctx)
	case request.Follow:
		answer, err := r.call(ctx, a.Call, &a)
		if err != nil {
			return Result{}, err
		}
		r.Look(ctx)
		return r.act(ctx, request.Followed(r.facts, answer))
	case request.Uncordon:
		return Result{Now: true}, r.Uncordon(ctx)
	case request.EnableScaleDown:
		return Result{Now: true}, r.EnableScaleDown(ctx)
	case request.ReleaseLock:
		// What a machine waits for may have been waiting for the lock.
		return Result{Now: v.State != request.State{}}, r.locks.Release(ctx, r.cluster, r.facts.Name)
	case request.Ask, request.TakeLock:
	}
	return Result{Now: true}, nil
}

// run has the engine carry the upgrade on.
func (r *machineRun) run(ctx context.Context) (Result, error) {
	reply, err := inplace.Execute(ctx, r.facts.Facts(), r)
	switch {
	case err != nil:
		return Result{}, fmt.Errorf("upgrading Machine %s: %w", r.name(), err)
	case reply.Refused != nil:
		if err := r.record(ctx, request.Refused(r.facts, reply.Message), r.Record); err != nil {
			return Result{}, err
		}
	case reply.Wait.Reason != "":
		s := request.State{Going: true, Reason: request.Reason(reply.Wait.Reason), Message: reply.Message}
		return Result{After: reply.Wait.After}, r.showNow(ctx, s)
	case !reply.Done:
		return Result{After: reply.RetryAfter}, nil
	}
	return r.act(ctx, request.DecideMachine(r.facts))
}

// settle records what was decided, and shows it.
func (r *machineRun) settle(ctx context.Context, v request.MachineVerdict) error {
	if v.State == (request.State{}) && v.After.Record == nil {
		// Once nothing is recorded nobody looks at the Machine any longer, so the condition goes first.
		if err := r.show(ctx, v.State); err != nil {
			return err
		}
	}
	if err := r.record(ctx, v, r.Record); err != nil {
		return err
	}
	switch v.Action.(type) {
	case request.Rest, request.Wait, request.ReleaseLock:
		return r.showNow(ctx, v.State)
	case request.Ask, request.TakeLock, request.Run, request.Follow, request.Uncordon, request.EnableScaleDown:
		// What is done at once need not be shown: each change of a condition is a write.
	}
	return nil
}

// showNow is show, except that only a *staleError is returned: the next reconcile shows what this one did not.
func (r *machineRun) showNow(ctx context.Context, s request.State) error {
	err := r.show(ctx, s)
	if err != nil && !isStale(err) {
		logFor(ctx).Error(err, "Writing the condition of a Machine", "machine", r.name())
		return nil
	}
	return err
}

// record records what was decided, by Record or RecordBegin, and reports it.
func (r *machineRun) record(ctx context.Context, v request.MachineVerdict, write func(context.Context, Patch) error) error {
	patch, err := difference(r.keys, r.Object.Annotations, r.facts.Recorded(), v.After)
	if err != nil {
		return err
	}
	maps.Copy(patch, r.protect(v.After.Record))
	maps.Copy(patch, r.noteKubelet(v))
	if len(patch) == 0 {
		return nil
	}
	if err := write(ctx, patch); err != nil {
		return err
	}
	r.report(ctx, v)
	if u := v.After.Record; u != nil {
		r.measureProgress(ctx, r.Object, r.facts.Facts().Progress, u.Progress)
	}
	r.facts = r.facts.With(v.After)
	return nil
}

// protect returns the changes of the protection from remediation that belong to what is recorded next. An update that Cluster API
// asked for handles its protection itself. If it is unknown what runs on the machine, the protection stays unchanged.
func (r *machineRun) protect(after *request.Upgrade) Patch {
	marks := r.facts.Marks
	unknown := r.facts.Unreadable != "" || r.facts.Upgrade == nil && after == nil && marks.Status == request.InProgress && marks.ChangeID != ""
	if has(r.Object, v1alpha1.UpdateProgressAnnotation) || unknown || r.facts.Deleting {
		return nil
	}
	return r.Protection(progressOf(r.facts.Upgrade), progressOf(after), r.facts.Policy)
}

// Look notes the time and the node as facts.
func (r *machineRun) Look(ctx context.Context) (time.Time, inplace.Node) {
	r.facts.Now, r.facts.Node = r.Machine.Look(ctx)
	return r.facts.Now, r.facts.Node
}

// Save records how far the upgrade has come.
func (r *machineRun) Save(ctx context.Context, _, after *inplace.Progress) error {
	return r.record(ctx, request.Carried(r.facts, after), r.Record)
}

// CanBegin asks the updater of a step whether it can begin.
func (r *machineRun) CanBegin(ctx context.Context, a inplace.CanBegin) (inplace.Readiness, error) {
	u, err := r.serving(ctx, a.Step.Updater)
	if err != nil {
		return inplace.Readiness{Unknown: err.Error()}, nil //nolint:nilerr // The updater was not asked; the message says why.
	}
	objects, err := r.shown(ctx)
	if err != nil {
		return inplace.Readiness{Unknown: err.Error()}, nil //nolint:nilerr // The updater was not asked; the message says why.
	}
	return r.AskCanBegin(ctx, u, objects, Command{Operation: a.Operation, Option: r.facts.Upgrade.Option})
}

// Call records that the updater of a step is asked, and asks it.
func (r *machineRun) Call(ctx context.Context, a inplace.Call) (inplace.Answer, error) {
	if err := r.record(ctx, request.Asked(r.facts), r.Record); err != nil {
		return inplace.Answer{}, err
	}
	return r.call(ctx, a, nil)
}

// Finish records that the release is on the node.
func (r *machineRun) Finish(ctx context.Context, before *inplace.Progress, end inplace.Finish) error {
	err := r.settle(ctx, request.Finished(r.facts))
	recorded := r.facts.Upgrade == nil
	if recorded && before != nil && before.Operations > 0 {
		r.measureFinished(ctx, r.Object, before, end.Summary)
	}
	return err
}

// errOtherUpdate is for what happens to the updates that Cluster API asks for alone.
var errOtherUpdate = errors.New("no annotation asks for that")

// Begin is not called: the record of an upgrade exists before the engine carries it on.
func (r *machineRun) Begin(context.Context, func(inplace.Others) (bool, error)) (*inplace.Reply, error) {
	return nil, errOtherUpdate
}

// Abandon is not called.
func (r *machineRun) Abandon(context.Context, inplace.AbandonUpdate) error { return errOtherUpdate }

// Complete is not called.
func (r *machineRun) Complete(context.Context) {}
