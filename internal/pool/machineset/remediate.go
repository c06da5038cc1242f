package machineset

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/condition"
	"github.com/windlass-dev/windlass/internal/pool"
)

// Remediate deletes Machines that a MachineHealthCheck found unhealthy, as many as may be at once
// and only if the preflight checks pass: the MachineSet then creates new ones. The condition
// OwnerRemediated of each Machine says what happens to it. The condition of a Machine that is
// healthy again goes.
func (r *Run) Remediate(ctx context.Context) (Next, error) {
	plan, err := r.planRemediation(ctx)
	if err != nil {
		return Next{}, err
	}
	if err := r.forgetRemediation(ctx, plan.Recovered); err != nil {
		return Next{}, err
	}
	for _, d := range plan.Deferred {
		err := r.setRemediated(ctx, []*clusterv1.Machine{d.Machine}, d.Reason, d.Message, nil)
		if err != nil {
			return Next{}, err
		}
	}
	if len(plan.Delete) == 0 {
		return Next{After: plan.After}, nil
	}
	blocked, err := r.Preflight(ctx, "Machine remediation", r.successor())
	if err != nil {
		blocked = append(blocked, err.Error())
	}
	if len(blocked) > 0 {
		return r.holdRemediation(ctx, plan.Delete, blocked, err)
	}
	next, err := r.deleteUnhealthy(ctx, plan.Delete)
	if next.After == 0 {
		next.After = plan.After
	}
	return next, err
}

// deleteUnhealthy deletes Machines. What must be known when they are gone is written before.
func (r *Run) deleteUnhealthy(ctx context.Context, machines []*clusterv1.Machine) (Next, error) {
	switch err := r.recordFailedCanaries(ctx, machines); {
	case apierrors.IsConflict(err):
		return Next{After: conflictRetry}, nil
	case err != nil:
		return Next{}, err
	}
	// The condition precedes the deletion: a Machine that is being deleted is not looked at again.
	err := r.setRemediated(ctx, machines, clusterv1.MachineSetMachineRemediationMachineDeletingReason,
		"Machine is deleting", legacyRemediated)
	if err != nil {
		return Next{}, err
	}
	var errs []error
	for _, m := range machines {
		if err := r.Client.Delete(ctx, m); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("deleting Machine %s, which is unhealthy: %w", m.Name, err))
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Deleting Machine (remediating unhealthy Machine)",
			"Machine", client.ObjectKeyFromObject(m))
	}
	return Next{}, errors.Join(errs...)
}

func (r *Run) planRemediation(ctx context.Context) (pool.Remediation, error) {
	facts := r.facts()
	if facts.SharesRemediation() {
		var err error
		if facts.Group, err = r.readGroup(ctx); err != nil {
			return pool.Remediation{}, err
		}
	}
	return facts.Remediate() //nolint:wrapcheck // It names the MachineDeployment.
}

// holdRemediation says in the conditions of unhealthy Machines why nothing happens to them.
func (r *Run) holdRemediation(
	ctx context.Context, machines []*clusterv1.Machine, blocked []string, cause error,
) (Next, error) {
	items := make([]string, len(blocked))
	for i, message := range blocked {
		items[i] = "* " + message
	}
	err := r.setRemediated(ctx, machines, clusterv1.MachineSetMachineRemediationDeferredReason,
		strings.Join(items, "\n"), legacyWaiting(strings.Join(blocked, "; ")))
	if err := errors.Join(cause, err); err != nil {
		return Next{}, err
	}
	return Next{After: preflightRetry}, nil
}

// forgetRemediation removes the conditions of Machines that are healthy again.
func (r *Run) forgetRemediation(ctx context.Context, machines []*clusterv1.Machine) error {
	return r.patchConditions(ctx, machines, func(m *clusterv1.Machine) {
		if pool.RecoveredLegacy(m) {
			forgetLegacy(m)
		}
		if pool.Recovered(m) {
			conditions.Delete(m, clusterv1.MachineOwnerRemediatedCondition)
		}
	})
}

// setRemediated sets the condition OwnerRemediated of Machines. legacy, if there is one, sets the
// deprecated one.
func (r *Run) setRemediated(
	ctx context.Context, machines []*clusterv1.Machine, reason, message string,
	legacy func(*clusterv1.Machine),
) error {
	return r.patchConditions(ctx, machines, func(m *clusterv1.Machine) {
		if legacy != nil {
			legacy(m)
		}
		condition.SetOn(m, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: reason, Message: message,
		})
	})
}

// patchConditions changes conditions of Machines. Other controllers write other conditions of
// theirs at the same time, so it patches the latest version of each, as Cluster API does.
func (r *Run) patchConditions(
	ctx context.Context, machines []*clusterv1.Machine, change func(*clusterv1.Machine),
) error {
	var errs []error
	for _, m := range machines {
		helper, err := patch.NewHelper(m, r.Client)
		if err == nil {
			change(m)
			err = helper.Patch(ctx, m, ownedLegacy, patch.WithOwnedConditions{
				Conditions: []string{clusterv1.MachineOwnerRemediatedCondition},
			})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("patching the conditions of Machine %s: %w", m.Name, err))
		}
	}
	return errors.Join(errs...)
}
