package machineset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/pool"
)

// movesPerRun is how many Machines one run moves at most. The events of these begin the next run.
// Meanwhile the MachineDeployment counts them, and their updates begin.
const movesPerRun = 10

// MoveMachines gives up to count Machines to another MachineSet of the same MachineDeployment,
// which updates them in place. That MachineSet must expect Machines from this one. It deletes a
// Machine that a MachineHealthCheck wants remediated, because the other MachineSet creates a new
// one.
func (r *Run) MoveMachines(ctx context.Context, targetName string, count int) error {
	target := &clusterv1.MachineSet{}
	key := client.ObjectKey{Namespace: r.Set.Namespace, Name: targetName}
	if err := r.Client.Get(ctx, key, target); err != nil {
		return fmt.Errorf("failed to get MachineSet %s, to which Machines move: %w", targetName, err)
	}
	if !target.DeletionTimestamp.IsZero() {
		return fmt.Errorf("MachineSet %s is set to move replicas to %s, which is being deleted: "+
			"Machines that move there would be deleted with it", r.Set.Name, target.Name)
	}
	if !pool.ReceivesFrom(target, r.Set.Name) {
		return fmt.Errorf("MachineSet %s is set to move replicas to %s, "+
			"but %s only accepts Machines from %s", r.Set.Name, target.Name, target.Name,
			target.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation])
	}
	if err := r.mayGiveTo(target); err != nil {
		return err
	}
	log, facts := ctrl.LoggerFrom(ctx), r.facts()
	if !facts.FollowsTemplate(target) {
		log.Info("No Machine moves until the next plan, because the template of the MachineDeployment "+
			"has changed", "target", target.Name)
		return nil
	}
	departures, err := facts.Departures(count)
	if err != nil {
		return err
	}
	departures = departures[:min(len(departures), movesPerRun)]
	log.Info("Scaling down by moving Machines", "replicas", *r.Set.Spec.Replicas,
		"machineCount", len(r.Machines), "moving", count, "target", target.Name)
	var errs []error
	for _, d := range departures {
		if d.Action == pool.Delete {
			if err := r.deleteMachine(ctx, d.Machine); err != nil {
				errs = append(errs, fmt.Errorf("deleting Machine %s, which is marked for remediation, "+
					"instead of moving it to MachineSet %s: %w", d.Machine.Name, target.Name, err))
			}
			continue
		}
		unique, ok := target.Labels[clusterv1.MachineDeploymentUniqueLabel]
		if !ok {
			return errors.Join(append(errs, fmt.Errorf("MachineSet %s does not have the %s label",
				target.Name, clusterv1.MachineDeploymentUniqueLabel))...)
		}
		if err := r.startMove(ctx, d, target, unique); err != nil {
			errs = append(errs, fmt.Errorf("moving Machine %s to MachineSet %s: %w",
				d.Machine.Name, target.Name, err))
		}
	}
	return errors.Join(errs...)
}

// mayGiveTo returns an error if a MachineSet belongs to another MachineDeployment or Cluster: who
// may annotate two MachineSets must not be able to give the Machines of one group to another.
func (r *Run) mayGiveTo(target *clusterv1.MachineSet) error {
	own, other := metav1.GetControllerOf(r.Set), metav1.GetControllerOf(target)
	switch {
	case r.Set.Spec.ClusterName != target.Spec.ClusterName:
		return fmt.Errorf("MachineSet %s is set to move replicas to %s, which is of Cluster %s. Fix: "+
			"remove the annotation %s", r.Set.Name, target.Name, target.Spec.ClusterName,
			clusterv1.MachineSetMoveMachinesToMachineSetAnnotation)
	case own != nil && other != nil && own.UID != other.UID:
		return fmt.Errorf("MachineSet %s is set to move replicas to %s, which is of %s %s. Fix: "+
			"remove the annotation %s", r.Set.Name, target.Name, other.Kind, other.Name,
			clusterv1.MachineSetMoveMachinesToMachineSetAnnotation)
	}
	return nil
}

// startMove is the part of a move that the old MachineSet does, in one request: after it the
// Machine is one of the target, which waits for the MachineDeployment to count it. It is a patch,
// not an apply: the Machine controller removes the marks, and an apply of this controller must
// never put them back. A Machine that returns must not have begun its update: the patch requires
// the version that was read.
func (r *Run) startMove(
	ctx context.Context, d pool.Departure, target *clusterv1.MachineSet, unique string,
) error {
	m := d.Machine
	before, controller := m.DeepCopy(), true
	owners := slices.Clone(m.OwnerReferences)
	m.OwnerReferences = util.ReplaceOwnerRef(owners, r.Set, metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: capi.MachineSetKind.Kind,
		Name: target.Name, UID: target.UID, Controller: &controller,
	})
	m.Labels = with(m.Labels, clusterv1.MachineDeploymentUniqueLabel, unique)
	m.Annotations = r.facts().MoveAnnotations(d, target.Name)
	patch := client.MergeFrom(before)
	if d.Reason == pool.ReasonReturn {
		patch = client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	}
	if err := r.Client.Patch(ctx, m, patch); err != nil {
		return err
	}
	r.awaitMachine(m)
	if d.Reason == pool.ReasonReturn {
		ctrl.LoggerFrom(ctx).Info("Returning a Machine whose update has not begun",
			"Machine", client.ObjectKeyFromObject(m), "target", target.Name)
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Triggering in-place update by moving a Machine",
		"Machine", client.ObjectKeyFromObject(m), "target", target.Name)
	return nil
}

// with returns a copy of a map with one more entry.
func with(all map[string]string, key, value string) map[string]string {
	out := maps.Clone(all)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}
