package machinedeployment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/collections"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	"github.com/windlass-dev/windlass/internal/pool"
)

func (r *Reconciler) rolloutRollingUpdate(
	ctx context.Context, md *deployment, list setList, m collections.Machines, templatesExist bool,
) error {
	return r.rollOut(ctx, md, list, m, templatesExist, (*rolloutPlanner).planRollingUpdate)
}

func (r *Reconciler) rolloutOnDelete(
	ctx context.Context, md *deployment, list setList, m collections.Machines, templatesExist bool,
) error {
	return r.rollOut(ctx, md, list, m, templatesExist, (*rolloutPlanner).planOnDelete)
}

func (r *Reconciler) rollOut(
	ctx context.Context, md *deployment, list setList, m collections.Machines, templatesExist bool,
	plan func(*rolloutPlanner, context.Context) error,
) error {
	p := newRolloutPlanner(r.Client, r.RuntimeClient, nil)
	if err := p.init(ctx, md, list, m.UnsortedList(), true, templatesExist); err != nil {
		return err
	}
	if err := plan(p, ctx); err != nil {
		return err
	}
	if err := r.createOrUpdateMachineSetsAndSyncMachineDeploymentRevision(ctx, p); err != nil {
		return err
	}
	if err := r.syncDeploymentStatus(append(p.oldMSs, p.newMS), p.newMS, md); err != nil {
		return err
	}
	if pool.Complete(md, md.Status) {
		return r.cleanupDeployment(ctx, p.oldMSs, md)
	}
	return nil
}

func (r *Reconciler) sync(
	ctx context.Context, md *deployment, list setList, m collections.Machines, templatesExist bool,
) error {
	p := newRolloutPlanner(r.Client, r.RuntimeClient, nil)
	if err := p.init(ctx, md, list, m.UnsortedList(), false, templatesExist); err != nil {
		return err
	}
	if err := r.createOrUpdateMachineSetsAndSyncMachineDeploymentRevision(ctx, p); err != nil {
		return err
	}
	if err := r.scale(ctx, md, p.newMS, p.oldMSs); err != nil {
		return err
	}
	return r.syncDeploymentStatus(append(p.oldMSs, p.newMS), p.newMS, md)
}

func (r *Reconciler) scale(
	ctx context.Context, md *deployment, newest *clusterv1.MachineSet, old setList,
) error {
	budget, err := pool.BudgetOf(md)
	if err != nil {
		return err
	}
	targets := pool.Proportional(md, budget, newest, old)
	for _, set := range append(old, newest) {
		target, ok := targets[nameOf(set)]
		if !ok {
			continue
		}
		if err := r.scaleMachineSet(ctx, set, target, md); err != nil {
			return err
		}
	}
	return nil
}

func nameOf(set *clusterv1.MachineSet) string {
	if set == nil {
		return ""
	}
	return set.Name
}

func (r *Reconciler) scaleMachineSet(
	ctx context.Context, set *clusterv1.MachineSet, target int32, md *deployment,
) error {
	for _, o := range []struct {
		kind     string
		object   client.Object
		replicas *int32
	}{{"MachineSet", set, set.Spec.Replicas}, {"MachineDeployment", md, md.Spec.Replicas}} {
		if o.replicas == nil {
			return fmt.Errorf("spec.replicas for %s %v is nil, this is unexpected", o.kind,
				client.ObjectKeyFromObject(o.object))
		}
	}
	before := set.DeepCopy()
	set.Spec.Replicas = ptr.To(target)
	if err := r.Client.Patch(ctx, set, client.MergeFrom(before)); err != nil {
		return err
	}
	r.recorder.Eventf(
		md,
		corev1.EventTypeNormal,
		"SuccessfulScale",
		"Scaled MachineSet %v: %d -> %d",
		client.ObjectKeyFromObject(set),
		*before.Spec.Replicas,
		target,
	)
	return nil
}

func (r *Reconciler) cleanupDeployment(ctx context.Context, old setList, md *deployment) error {
	for _, set := range pool.Cleanable(old, nil) {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, set)); err != nil {
			return err
		}
		r.recorder.Eventf(
			md,
			corev1.EventTypeNormal,
			"SuccessfulDelete",
			"Deleted MachineSet %q",
			set.Name,
		)
	}
	return nil
}

func (r *Reconciler) syncDeploymentStatus(
	all setList,
	newest *clusterv1.MachineSet,
	md *deployment,
) error {
	setReplicas(md, all)
	calculateV1Beta1Status(all, newest, md)
	for _, c := range pool.LegacyConditions(md, newest) {
		v1beta1conditions.Set(md, &c)
	}
	return nil
}

func calculateV1Beta1Status(all setList, newest *clusterv1.MachineSet, md *deployment) {
	pool.CountLegacy(all, newest).Into(&md.Status)
}
