package demo

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// prepareInPlace registers the scenario's updaters.
func (r *runner) prepareInPlace(ctx context.Context) error {
	r.Show.Phase("Registering the updaters")
	for _, u := range r.scenario.InPlace.Updaters {
		if _, err := setup.RegisterUpdater(ctx, r.Plane, r.Programs.Lab, u); err != nil {
			return err
		}
	}
	return nil
}

// inPlaceRun is the part of a run that keeps an eye on machines that are to stay.
type inPlaceRun struct {
	*runner
	before census
	// earlier is how many updates had ended before the upgrade.
	earlier int
	result  *InPlaceResult
}

// watchMachines begins to keep an eye on the machines.
func (r *runner) watchMachines(first history.Objects, before census) *inPlaceRun {
	return &inPlaceRun{
		runner: r, before: before, earlier: len(r.updates.list),
		result: &InPlaceResult{Before: identities(first)},
	}
}

// upgraded notes what the upgrade did.
func (r *inPlaceRun) upgraded() {
	r.result.Updates = append([]MachineUpdate(nil), r.updates.list[r.earlier:]...)
}

// tryReplacement asks for what would replace machines, sees that it is refused, and takes it back.
func (r *inPlaceRun) tryReplacement(ctx context.Context) error {
	group := r.scenario.InPlace.Group
	r.Show.Phase(fmt.Sprintf("Changing %s in a way that no updater covers", group))
	if err := r.applyCluster(ctx, r.scenario.withUncovered()); err != nil {
		return err
	}
	blocked, err := r.awaitBlocked(ctx, group, "waiting until the change is refused", true)
	if err != nil {
		return err
	}
	condition := blocked.Condition(v1alpha1.UpdateBlockedCondition)
	r.result.Blocked = condition.Message
	r.Show.Noted(fmt.Sprintf("  The MachineDeployment says %s=%s, %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message))
	if condition.Reason != v1alpha1.NotCoveredReason || !strings.Contains(condition.Message, "startupDuration") {
		return fmt.Errorf("the change was refused for another reason than that no updater covers it: %s: %s", condition.Reason, condition.Message)
	}
	if err := r.deleteByHand(ctx, blocked); err != nil {
		return err
	}
	what := "Taking the change back"
	r.Show.Phase(what)
	if err := r.reach(ctx, r.scenario.finalStage(what, false)); err != nil {
		return err
	}
	_, err = r.awaitBlocked(ctx, group, "waiting until "+group+" is not blocked any more", false)
	return err
}

// awaitBlocked waits until the blocked condition of a group is true, or is not, and returns the group.
func (r *inPlaceRun) awaitBlocked(ctx context.Context, group, what string, want bool) (history.Part, error) {
	var last history.Part
	err := r.await(ctx, what, func(o history.Objects) string {
		r.Show.Observed(o, nil, 0)
		last = o.Part(group)
		c := last.Condition(v1alpha1.UpdateBlockedCondition)
		if (c != nil && c.Status == metav1.ConditionTrue) != want {
			return fmt.Sprintf("the condition of %s is %+v", group, c)
		}
		return ""
	})
	return last, err
}

// deleteByHand tries to delete a machine of a group, and expects the guard to refuse.
func (r *inPlaceRun) deleteByHand(ctx context.Context, group history.Part) error {
	if len(group.Machines) == 0 {
		return fmt.Errorf("there is no machine of %s to delete", group.Name)
	}
	name := group.Machines[0].Name
	r.Show.Phase("Deleting " + name + " by hand")
	err := r.client.Delete(ctx, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: r.scenario.Namespace, Name: name}})
	switch {
	case err == nil:
		return fmt.Errorf("deleting Machine %s was not refused, though the guard should have done so", name)
	case !apierrors.IsForbidden(err):
		return fmt.Errorf("deleting Machine %s failed in another way than the guard's: %w", name, err)
	}
	r.result.Refused = err.Error()
	r.Show.Noted("  " + r.result.Refused)
	return nil
}

// finish looks at the machines once more.
func (r *inPlaceRun) finish() {
	r.result.After = identities(r.history.Now(r.key()))
	created, deleted := census(r.history.Machines(r.scenario.Namespace)).since(r.before)
	r.result.Created, r.result.Deleted = names(created), names(deleted)
}

// keep runs what follows the upgrade. What was seen so far is in the result whatever happens.
func (r *inPlaceRun) keep(ctx context.Context) error {
	r.upgraded()
	defer r.finish()
	return r.tryReplacement(ctx)
}
