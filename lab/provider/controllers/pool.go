package controllers

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/labels/format"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
)

const poolFinalizer = "infrastructure.cluster.x-k8s.io/hostmachinepool"

// poolReconciler reconciles HostMachinePools.
type poolReconciler struct {
	client client.Client
	// reader does not cache: a member that was just made must not be made twice.
	reader client.Reader
}

// poolScope is what one reconciliation works with.
type poolScope struct {
	pool        *v1alpha1.HostMachinePool
	machinePool *clusterv1.MachinePool
	// hostMachines are the pool's, and machines theirs by the names of the HostMachines.
	hostMachines []v1alpha1.HostMachine
	machines     map[string]*clusterv1.Machine
}

// Reconcile implements reconcile.Reconciler.
func (r *poolReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s := &poolScope{pool: &v1alpha1.HostMachinePool{}}
	if err := r.client.Get(ctx, request.NamespacedName, s.pool); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cluster, err := r.readOwners(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	deleted := !s.pool.DeletionTimestamp.IsZero()
	if !deleted && s.machinePool == nil {
		return ctrl.Result{}, nil // Cluster API sets the owner.
	}
	if ok, err := admit(ctx, r.client, cluster, s.pool, poolFinalizer); !ok || err != nil {
		return ctrl.Result{}, err
	}
	if err := r.readMembers(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	if !deleted {
		return ctrl.Result{}, record(ctx, r.client, s.pool, func() error { return r.provide(ctx, s) })
	}
	err = record(ctx, r.client, s.pool, func() error { return r.delete(ctx, s) })
	if err != nil || len(s.hostMachines) > 0 {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, release(ctx, r.client, s.pool, poolFinalizer)
}

// readOwners reads the MachinePool, and returns the Cluster. Each is nil where there is none.
func (r *poolReconciler) readOwners(ctx context.Context, s *poolScope) (*clusterv1.Cluster, error) {
	machinePool, err := util.GetOwnerMachinePool(ctx, r.client, s.pool.ObjectMeta)
	if err != nil || machinePool == nil {
		return nil, client.IgnoreNotFound(err)
	}
	s.machinePool = machinePool
	cluster, err := util.GetClusterByName(ctx, r.client, s.pool.Namespace, machinePool.Spec.ClusterName)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return cluster, nil
}

// readMembers reads the HostMachines that the pool owns, and their Machines.
func (r *poolReconciler) readMembers(ctx context.Context, s *poolScope) error {
	s.machines = map[string]*clusterv1.Machine{}
	all := &v1alpha1.HostMachineList{}
	if err := r.reader.List(ctx, all, client.InNamespace(s.pool.Namespace), client.HasLabels{clusterv1.MachinePoolNameLabel}); err != nil {
		return err
	}
	for _, m := range all.Items {
		if util.IsOwnedByObject(&m, s.pool, v1alpha1.GroupVersion.WithKind("HostMachinePool").GroupKind()) {
			s.hostMachines = append(s.hostMachines, m)
		}
	}
	machines := &clusterv1.MachineList{}
	if err := r.reader.List(ctx, machines, client.InNamespace(s.pool.Namespace), client.HasLabels{clusterv1.MachinePoolNameLabel}); err != nil {
		return err
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		if m.Spec.InfrastructureRef.Kind == "HostMachine" {
			s.machines[m.Spec.InfrastructureRef.Name] = m
		}
	}
	return nil
}

// provide makes and removes machines, and records which there are.
func (r *poolReconciler) provide(ctx context.Context, s *poolScope) error {
	s.pool.Status.InfrastructureMachineKind = "HostMachine"
	s.record()
	desired, known := s.desired()
	if !known {
		setReady(s.pool, metav1.ConditionFalse, v1alpha1.WaitingForBootstrapDataReason, "The MachinePool has no bootstrap data")
		return nil
	}
	replicas := 1
	if s.machinePool.Spec.Replicas != nil {
		replicas = int(*s.machinePool.Spec.Replicas)
	}
	d := decidePool(replicas, desired, s.members())
	if d.message != "" {
		setReady(s.pool, metav1.ConditionFalse, v1alpha1.ScalingReason, d.message)
	} else {
		setReady(s.pool, metav1.ConditionTrue, v1alpha1.ProvisionedReason, "")
	}
	if int(s.pool.Status.Replicas) >= replicas && len(s.pool.Spec.ProviderIDList) >= replicas {
		s.pool.Status.Initialization.Provisioned, s.pool.Status.Ready = new(true), true
	}
	var errs []error
	for range d.create {
		errs = append(errs, r.client.Create(ctx, s.newMember(desired)))
	}
	for _, name := range d.remove {
		errs = append(errs, r.remove(ctx, s, name))
	}
	return errors.Join(errs...)
}

// record writes what Cluster API asks of every pool.
func (s *poolScope) record() {
	s.pool.Status.Replicas = 0
	s.pool.Spec.ProviderIDList = nil
	for _, m := range s.hostMachines {
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		s.pool.Status.Replicas++
		if m.Spec.ProviderID != "" {
			s.pool.Spec.ProviderIDList = append(s.pool.Spec.ProviderIDList, m.Spec.ProviderID)
		}
	}
	slices.Sort(s.pool.Spec.ProviderIDList)
}

// desired returns what members are made from; false until Cluster API has seen the MachinePool's latest spec, and its
// user data is there.
func (s *poolScope) desired() (memberSpec, bool) {
	mp := s.machinePool
	created := mp.Status.Initialization.BootstrapDataSecretCreated
	name := mp.Spec.Template.Spec.Bootstrap.DataSecretName
	if created == nil || !*created || name == nil || *name == "" || mp.Status.ObservedGeneration != mp.Generation {
		return memberSpec{}, false
	}
	desired := memberSpec{version: mp.Spec.Template.Spec.Version, dataSecretName: *name}
	if size := s.pool.Spec.DiskSize; size != nil {
		desired.diskSize = size.String()
	}
	return desired, true
}

func (s *poolScope) members() []member {
	result := make([]member, 0, len(s.hostMachines))
	for _, m := range s.hostMachines {
		entry := member{name: m.Name, deleting: !m.DeletionTimestamp.IsZero()}
		if m.Spec.Pool != nil {
			entry.spec = memberSpec{version: m.Spec.Pool.Version, dataSecretName: m.Spec.Pool.DataSecretName}
		}
		if size := m.Spec.DiskSize; size != nil {
			entry.spec.diskSize = size.String()
		}
		if machine := s.machines[m.Name]; machine != nil {
			entry.deleting = entry.deleting || !machine.DeletionTimestamp.IsZero()
			entry.available = conditions.IsTrue(machine, clusterv1.MachineAvailableCondition)
			_, entry.preferred = machine.Annotations[clusterv1.DeleteMachineAnnotation]
		}
		result = append(result, entry)
	}
	return result
}

func (s *poolScope) newMember(desired memberSpec) *v1alpha1.HostMachine {
	return &v1alpha1.HostMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.pool.Namespace, GenerateName: s.pool.Name + "-",
			Labels: map[string]string{
				clusterv1.ClusterNameLabel:     s.machinePool.Spec.ClusterName,
				clusterv1.MachinePoolNameLabel: format.MustFormatValue(s.machinePool.Name),
			},
			// Cluster API makes the Machine the controller.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "HostMachinePool", Name: s.pool.Name, UID: s.pool.UID,
			}},
		},
		Spec: v1alpha1.HostMachineSpec{
			DiskSize: s.pool.Spec.DiskSize,
			Pool:     &v1alpha1.PoolMember{Version: desired.version, DataSecretName: desired.dataSecretName},
		},
	}
}

// remove deletes a member's Machine, so that its Node is drained, or the HostMachine where there is no Machine yet.
func (r *poolReconciler) remove(ctx context.Context, s *poolScope, name string) error {
	var object client.Object = &v1alpha1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: s.pool.Namespace, Name: name}}
	if machine := s.machines[name]; machine != nil {
		object = machine
	}
	return client.IgnoreNotFound(r.client.Delete(ctx, object))
}

// delete removes all members.
func (r *poolReconciler) delete(ctx context.Context, s *poolScope) error {
	setReady(s.pool, metav1.ConditionFalse, v1alpha1.DeletingReason, "")
	s.record()
	var errs []error
	for _, m := range s.members() {
		if !m.deleting {
			errs = append(errs, r.remove(ctx, s, m.name))
		}
	}
	return errors.Join(errs...)
}
