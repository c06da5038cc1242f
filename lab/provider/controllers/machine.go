package controllers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/provider/cloudconfig"
	"github.com/windlass-dev/windlass/lab/provider/site"
)

const machineFinalizer = "infrastructure.cluster.x-k8s.io/hostmachine"

// machineReconciler reconciles HostMachines.
type machineReconciler struct {
	client client.Client
	site   *site.Client
}

// machineScope is what one reconciliation works with. The Machine is there; the Cluster is, unless the HostMachine is deleted.
type machineScope struct {
	hostMachine *v1alpha1.HostMachine
	machine     *clusterv1.Machine
	cluster     *clusterv1.Cluster
}

func (s *machineScope) id() string { return string(s.hostMachine.UID) }

// Reconcile implements reconcile.Reconciler.
func (r *machineReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s := &machineScope{hostMachine: &v1alpha1.HostMachine{}}
	if err := r.client.Get(ctx, request.NamespacedName, s.hostMachine); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.readOwners(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	deleted := !s.hostMachine.DeletionTimestamp.IsZero()
	if !deleted && (s.machine == nil || s.cluster == nil) {
		return ctrl.Result{}, nil // Cluster API sets the owner and the label.
	}
	if ok, err := admit(ctx, r.client, s.cluster, s.hostMachine, machineFinalizer); !ok || err != nil {
		return ctrl.Result{}, err
	}
	if deleted {
		return ctrl.Result{}, r.delete(ctx, s)
	}
	return ctrl.Result{}, record(ctx, r.client, s.hostMachine, func() error { return r.provide(ctx, s) })
}

// readOwners reads the Machine and the Cluster. Each is nil where there is none.
func (r *machineReconciler) readOwners(ctx context.Context, s *machineScope) error {
	machine, err := util.GetOwnerMachine(ctx, r.client, s.hostMachine.ObjectMeta)
	if err == nil {
		s.machine = machine
	} else if !apierrors.IsNotFound(err) {
		return err
	}
	cluster, err := util.GetClusterFromMetadata(ctx, r.client, s.hostMachine.ObjectMeta)
	if err == nil {
		s.cluster = cluster
	} else if !apierrors.IsNotFound(err) && !errors.Is(err, util.ErrNoCluster) {
		return err
	}
	return nil
}

func (s *machineScope) notReady(reason, format string, args ...any) {
	conditions.Set(s.hostMachine, metav1.Condition{
		Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}

// provide makes the host, unless it is there, and records how it is.
func (r *machineReconciler) provide(ctx context.Context, s *machineScope) error {
	host, err := r.site.Host(ctx, s.id())
	if errors.Is(err, fs.ErrNotExist) {
		if s.hostMachine.Spec.ProviderID != "" {
			s.notReady(v1alpha1.HostLostReason, "The host is gone, with its disk. Fix: delete the Machine")
			return nil
		}
		var made bool
		if host, made, err = r.make(ctx, s); !made {
			if err != nil {
				s.notReady(v1alpha1.HostNotMadeReason, "%v. The provider tries again", err)
			}
			return err
		}
	}
	if err != nil {
		return err
	}
	desired, err := computeCondition(s.hostMachine.Annotations)
	if err != nil {
		s.notReady(v1alpha1.HostFaultReason, "%v", err)
		return nil
	}
	if desired != host.Condition {
		if host, err = r.site.SetCondition(ctx, s.id(), desired); err != nil {
			s.notReady(v1alpha1.HostFaultReason, "%v. The provider tries again", err)
			return err
		}
	}
	s.record(host)
	return r.recordBootstrap(ctx, s, host)
}

// record writes what Cluster API asks of every machine.
func (s *machineScope) record(host site.HostStatus) {
	m := s.hostMachine
	m.Spec.ProviderID = "host:///" + host.ID
	m.Status.Initialization.Provisioned = new(true)
	m.Status.Version = host.Version
	m.Status.FailureDomain = s.machine.Spec.FailureDomain
	m.Status.Addresses = []clusterv1.MachineAddress{
		{Type: clusterv1.MachineInternalIP, Address: host.Address},
		{Type: clusterv1.MachineHostName, Address: host.Name},
	}
}

// recordBootstrap reads what the host has recorded about its user data.
func (r *machineReconciler) recordBootstrap(ctx context.Context, s *machineScope, host site.HostStatus) error {
	state := hostState{host: host, bootstrapped: s.hostMachine.Status.Bootstrapped}
	if !state.bootstrapped {
		content, err := r.site.Read(ctx, s.id(), cloudconfig.ResultPath)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		state.result, state.message = cloudconfig.ParseResult(string(content))
		s.hostMachine.Status.Bootstrapped = state.result == cloudconfig.Succeeded
	}
	conditions.Set(s.hostMachine, computeReady(state))
	return nil
}

// make makes the host once there is what it needs. Until then it returns false.
func (r *machineReconciler) make(ctx context.Context, s *machineScope) (site.HostStatus, bool, error) {
	if provisioned := s.cluster.Status.Initialization.InfrastructureProvisioned; provisioned == nil || !*provisioned {
		s.notReady(v1alpha1.WaitingForClusterReason, "The Cluster's infrastructure is not provisioned")
		return site.HostStatus{}, false, nil
	}
	source := s.source()
	if source.DataSecretName == "" {
		s.notReady(v1alpha1.WaitingForBootstrapDataReason, "The Machine has no bootstrap data")
		return site.HostStatus{}, false, nil
	}
	secret := &corev1.Secret{}
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: s.hostMachine.Namespace, Name: source.DataSecretName}, secret); err != nil {
		return site.HostStatus{}, false, fmt.Errorf("reading the bootstrap data: %w", err)
	}
	config, err := cloudconfig.Parse(secret.Data["value"], cloudconfig.Instance{Hostname: s.hostMachine.Name, ID: s.id()})
	if err != nil {
		s.notReady(v1alpha1.UserDataRefusedReason, "Secret %s: %v", secret.Name, err)
		return site.HostStatus{}, false, nil
	}
	files := config.Bundle()
	// The kubelet tells its Node's provider ID, because no cloud controller manager does.
	files["/etc/default/kubelet"] = fmt.Appendf(nil, "KUBELET_EXTRA_ARGS=--provider-id=host:///%s\n", s.id())
	spec := site.Host{Name: s.hostMachine.Name, Version: source.Version, Files: files, Unit: cloudconfig.Unit}
	if size := s.hostMachine.Spec.DiskSize; size != nil {
		spec.DiskSize = size.Value()
	}
	host, err := r.site.Ensure(ctx, s.id(), spec)
	return host, err == nil, err
}

// source returns where the version and the user data of the host come from. What a HostMachine says
// of its pool counts only if a pool owns it: otherwise it would name any Secret to be read.
func (s *machineScope) source() v1alpha1.PoolMember {
	if pool := s.hostMachine.Spec.Pool; pool != nil && s.isPooled() {
		return *pool
	}
	source := v1alpha1.PoolMember{Version: s.machine.Spec.Version}
	if name := s.machine.Spec.Bootstrap.DataSecretName; name != nil {
		source.DataSecretName = *name
	}
	return source
}

// isPooled reports whether a HostMachinePool owns the HostMachine.
func (s *machineScope) isPooled() bool {
	return util.HasOwner(
		s.hostMachine.OwnerReferences, v1alpha1.GroupVersion.String(), []string{"HostMachinePool"},
	)
}

// delete shuts the host down, and lets the HostMachine go.
func (r *machineReconciler) delete(ctx context.Context, s *machineScope) error {
	err := record(ctx, r.client, s.hostMachine, func() error {
		s.notReady(v1alpha1.DeletingReason, "The host is shutting down")
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.site.Delete(ctx, s.id()); err != nil {
		return err
	}
	return release(ctx, r.client, s.hostMachine, machineFinalizer)
}
