package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// prepareInPlace registers the scenario's updaters.
func (r *runner) prepareInPlace(ctx context.Context) error {
	r.Show.Phase("Registering the updaters")
	for _, u := range r.scenario.InPlace.Updaters {
		if _, err := RegisterUpdater(ctx, r.Plane, r.Programs.Lab, u); err != nil {
			return err
		}
	}
	return nil
}

// noteUpdates shows the updates in place that have ended.
func (r *runner) noteUpdates(o Observation) {
	for _, u := range r.updates.observe(o) {
		r.Show.Noted("  " + u.String())
	}
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
func (r *runner) watchMachines(first Observation) *inPlaceRun {
	return &inPlaceRun{
		runner: r, before: r.watcher.machines.census(), earlier: len(r.updates.list),
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
	blocked, err := r.awaitBlocked(ctx, group, func(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionTrue })
	if err != nil {
		return &StuckError{Doing: "waiting until the change is refused", Reconciled: blocked.Reconciled, Err: err}
	}
	condition := blocked.part(group).Blocked
	r.result.Blocked = condition.Message
	r.Show.Noted(fmt.Sprintf("  The MachineDeployment says %s=%s, %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message))
	if condition.Reason != v1alpha1.NotCoveredReason || !strings.Contains(condition.Message, "startupDuration") {
		return fmt.Errorf("the change was refused for another reason than that no updater covers it: %s: %s", condition.Reason, condition.Message)
	}
	if err := r.deleteByHand(ctx, blocked.part(group)); err != nil {
		return err
	}
	what := "Taking the change back"
	r.Show.Phase(what)
	settled := stage{what: what, cluster: r.scenario.upgraded(), settled: r.scenario.versions(r.scenario.Target), finished: true}
	if err := r.reach(ctx, settled, nil); err != nil {
		return err
	}
	if last, err := r.awaitBlocked(ctx, group, func(c *metav1.Condition) bool { return c == nil || c.Status != metav1.ConditionTrue }); err != nil {
		return &StuckError{Doing: "waiting until " + group + " is not blocked any more", Reconciled: last.Reconciled, Err: err}
	}
	return nil
}

// awaitBlocked waits for the blocked condition of a group.
func (r *inPlaceRun) awaitBlocked(ctx context.Context, group string, check func(*metav1.Condition) bool) (Observation, error) {
	var last Observation
	err := r.watcher.until(ctx, func(o Observation) bool {
		last = o
		r.noteUpdates(o)
		r.Show.Observed(o, nil, 0)
		return check(o.part(group).Blocked)
	})
	return last, err
}

// part returns the group of that name; a zero one where there is none.
func (o Observation) part(name string) Part {
	for _, p := range o.Groups {
		if p.Name == name {
			return p
		}
	}
	return Part{}
}

// deleteByHand tries to delete a machine of a group, and expects the guard to refuse.
func (r *inPlaceRun) deleteByHand(ctx context.Context, group Part) error {
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
func (r *inPlaceRun) finish(ctx context.Context) error {
	last, err := r.watcher.observe(ctx)
	if err != nil {
		return err
	}
	r.result.After = identities(last)
	r.result.Created, r.result.Deleted = r.watcher.machines.census().since(r.before)
	return nil
}

// keep runs what follows the upgrade. What was seen so far is in the result whatever happens.
func (r *inPlaceRun) keep(ctx context.Context) error {
	r.upgraded()
	err := r.tryReplacement(ctx)
	return errors.Join(err, r.finish(context.WithoutCancel(ctx)))
}
