package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/metrics"
)

// unknownUpdater is the kind of an Updater that cannot be read: it may be gone.
const unknownUpdater = "Unknown"

// measureProgress counts the attempts that ended between two records of a machine's update, and its
// final failure. Records are written once, so nothing is counted twice.
func (e *Engine) measureProgress(
	ctx context.Context, m *clusterv1.Machine, before, after *inplace.Progress,
) {
	if e.Metrics == nil || after == nil {
		return
	}
	was := inplace.Progress{}
	if before != nil {
		was = *before
	}
	for _, f := range after.Done[min(len(was.Done), len(after.Done)):] {
		e.Metrics.Attempt(clusterOf(m), e.updaterKind(ctx, f.Updater), metrics.Success)
	}
	ended := after.Phase == inplace.BackingOff || after.Phase == inplace.Failed
	counted := was.Phase == after.Phase && was.Operation == after.Operation
	if !ended || counted || len(after.Steps) == 0 {
		return
	}
	kind := e.updaterKind(ctx, after.Steps[0].Updater)
	e.Metrics.Attempt(clusterOf(m), kind, metrics.Failure)
	if after.Phase == inplace.Failed {
		e.Metrics.Ended(clusterOf(m), kind, metrics.Failure, after.Started.Sub(after.Began))
	}
}

// measureFinished counts an update that ended well.
func (e *Engine) measureFinished(
	ctx context.Context, m *clusterv1.Machine, before *inplace.Progress, s inplace.Summary,
) {
	if e.Metrics == nil {
		return
	}
	e.measureProgress(ctx, m, before, &inplace.Progress{Done: s.Done})
	kind := unknownUpdater
	if n := len(s.Done); n > 0 {
		kind = e.updaterKind(ctx, s.Done[n-1].Updater)
	}
	e.Metrics.Ended(clusterOf(m), kind, metrics.Success, s.Ended.Sub(s.Began))
}

// measureAbandoned counts an update that a person gave up.
func (e *Engine) measureAbandoned(ctx context.Context, m *clusterv1.Machine, p *inplace.Progress) {
	if e.Metrics == nil || p == nil {
		return
	}
	kind := unknownUpdater
	if len(p.Steps) > 0 {
		kind = e.updaterKind(ctx, p.Steps[0].Updater)
	}
	e.Metrics.Ended(clusterOf(m), kind, metrics.Abandoned, e.Now().Sub(p.Began))
}

// updaterKind is a value of a bounded set: a kind of updater in Windlass, or the protocol of one
// outside.
func (e *Engine) updaterKind(ctx context.Context, name string) string {
	u := &v1alpha1.Updater{}
	switch err := e.Client.Get(ctx, client.ObjectKey{Name: name}, u); {
	case err != nil:
		return unknownUpdater
	case u.Spec.InProcess != nil:
		return string(u.Spec.InProcess.Kind)
	case u.Spec.Remote != nil && u.Spec.Remote.Protocol != "":
		return string(u.Spec.Remote.Protocol)
	case u.Spec.Remote != nil:
		return string(v1alpha1.RuntimeHooksProtocol)
	}
	return unknownUpdater
}

func clusterOf(m *clusterv1.Machine) types.NamespacedName {
	return types.NamespacedName{Namespace: m.Namespace, Name: capi.ClusterName(m)}
}
