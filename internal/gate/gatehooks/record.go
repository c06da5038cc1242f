package gatehooks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
)

// asked is a question that is due, and its answer.
type asked struct {
	cluster gate.Cluster
	step    gate.Step
	verdict gate.Verdict
}

// record keeps the status of the gates of a namespace: two writes per gate and step, one when what is waited for changes, and one at
// the end of an upgrade with approvals.
func (e *Engine) record(ctx context.Context, gates []v1alpha1.UpgradeGate, a asked) error {
	var exists func(name, uid string) bool
	var problems []error
	for i := range gates {
		g := &gates[i]
		message := a.verdict.Of(g.Name)
		if len(g.Status.Waiting) == 0 && len(g.Status.Approvals) == 0 && message == "" {
			continue
		}
		if exists == nil {
			var err error
			if exists, err = e.readClusters(ctx, a.cluster.Namespace); err != nil {
				return err
			}
		}
		now := e.Now()
		problems = append(problems, e.recordAt(ctx, g, func(g *v1alpha1.UpgradeGate) (v1alpha1.UpgradeGateStatus, bool) {
			status := g.Status
			if message == "" {
				status.Passed = gate.ComputePassed(g, a.cluster, a.step, ends(a.step, a.verdict), exists, now)
			}
			status.Approvals = gate.ComputeExisting(status.Approvals, exists, now)
			if ends(a.step, a.verdict) {
				status.Approvals = gate.ComputeEnded(status.Approvals, a.cluster, a.step)
			}
			status, changed := gate.ComputeWaiting(status, a.cluster, a.step, message, exists, now)
			changed = changed || len(status.Approvals) != len(g.Status.Approvals) || !slices.Equal(status.Passed, g.Status.Passed)
			return status, changed
		}))
	}
	return errors.Join(problems...)
}

// ends reports whether an upgrade ends with a verdict: its approvals then hold no more.
func ends(step gate.Step, verdict gate.Verdict) bool {
	return step.Hook == gate.AfterClusterUpgrade && len(verdict.Findings) == 0
}

// readClusters returns which Clusters there are. A request names one that need not exist.
func (e *Engine) readClusters(ctx context.Context, namespace string) (func(name, uid string) bool, error) {
	var list clusterv1.ClusterList
	if err := e.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Clusters of namespace %q: %w", namespace, err)
	}
	uids := make(map[string]string, len(list.Items))
	for i := range list.Items {
		uids[list.Items[i].Name] = string(list.Items[i].UID)
	}
	return func(name, uid string) bool { return uid != "" && uids[name] == uid }, nil
}

// recordAt writes the status of one gate, if it is not so already. Approvals are written by others at the same time, so a write is
// made for the status that was read only.
func (e *Engine) recordAt(ctx context.Context, g *v1alpha1.UpgradeGate, compute func(*v1alpha1.UpgradeGate) (v1alpha1.UpgradeGateStatus, bool)) error {
	if _, changed := compute(g); !changed {
		return nil
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var current v1alpha1.UpgradeGate
		err := e.Live.Get(ctx, client.ObjectKeyFromObject(g), &current)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading UpgradeGate %s: %w", g.Name, err)
		}
		status, changed := compute(&current)
		if !changed {
			return nil
		}
		wanted := current.DeepCopy()
		wanted.Status = status
		wanted.Status = gate.ComputeStatus(wanted, gate.WasIdle(wanted), metav1.NewTime(e.Now()))
		if err := e.Client.Status().Patch(ctx, wanted, client.MergeFromWithOptions(&current, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("writing the status of UpgradeGate %s: %w", g.Name, err)
		}
		return nil
	})
}
