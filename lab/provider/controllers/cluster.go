package controllers

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/provider/loadbalancer"
	"github.com/windlass-dev/windlass/lab/provider/site"
)

const (
	clusterFinalizer = "infrastructure.cluster.x-k8s.io/hostcluster"
	// apiServerPort is where kubeadm's API servers listen.
	apiServerPort = 6443
)

// clusterReconciler reconciles HostClusters.
type clusterReconciler struct {
	client client.Client
	site   *site.Client
}

// Reconcile implements reconcile.Reconciler.
func (r *clusterReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	hostCluster := &v1alpha1.HostCluster{}
	if err := r.client.Get(ctx, request.NamespacedName, hostCluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if annotations.IsExternallyManaged(hostCluster) {
		return ctrl.Result{}, nil
	}
	cluster, err := util.GetOwnerCluster(ctx, r.client, hostCluster.ObjectMeta)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, err
	}
	deleted := !hostCluster.DeletionTimestamp.IsZero()
	if !deleted && cluster == nil {
		return ctrl.Result{}, nil // Cluster API sets the owner.
	}
	if ok, err := admit(ctx, r.client, cluster, hostCluster, clusterFinalizer); !ok || err != nil {
		return ctrl.Result{}, err
	}
	if deleted {
		return ctrl.Result{}, r.delete(ctx, hostCluster)
	}
	return ctrl.Result{}, record(ctx, r.client, hostCluster, func() error { return r.provide(ctx, hostCluster, cluster) })
}

func (r *clusterReconciler) delete(ctx context.Context, hostCluster *v1alpha1.HostCluster) error {
	if err := r.site.DeleteBalancer(ctx, string(hostCluster.UID)); err != nil {
		return err
	}
	return release(ctx, r.client, hostCluster, clusterFinalizer)
}

func setReady(to conditions.Setter, status metav1.ConditionStatus, reason, message string) {
	conditions.Set(to, metav1.Condition{Type: clusterv1.ReadyCondition, Status: status, Reason: reason, Message: message})
}

// provide makes the load balancer, unless there is another endpoint, and tells it the API servers.
func (r *clusterReconciler) provide(ctx context.Context, hostCluster *v1alpha1.HostCluster, cluster *clusterv1.Cluster) error {
	hostCluster.Status.FailureDomains = nil
	for _, name := range hostCluster.Spec.FailureDomains {
		hostCluster.Status.FailureDomains = append(hostCluster.Status.FailureDomains,
			clusterv1.FailureDomain{Name: name, ControlPlane: new(true)})
	}
	if hostCluster.Spec.ControlPlaneEndpoint.Host != "" {
		has, err := r.site.HasBalancer(ctx, string(hostCluster.UID))
		if err != nil {
			return err
		}
		if !has {
			recordForeign(hostCluster)
			return nil
		}
	}
	backends, err := r.backends(ctx, cluster)
	if err != nil {
		return err
	}
	balancer, err := r.site.EnsureBalancer(ctx, string(hostCluster.UID), backends)
	if err != nil {
		return err
	}
	hostCluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: balancer.Address, Port: site.BalancerPort}
	hostCluster.Status.LoadBalancer = balancer.Address
	hostCluster.Status.Initialization.Provisioned = new(true)
	setReady(hostCluster, metav1.ConditionTrue, v1alpha1.ProvisionedReason,
		fmt.Sprintf("%d of %d API servers are ready", len(balancer.Ready), len(backends.Addresses)))
	return nil
}

// recordForeign records that the endpoint is not a load balancer of the site.
func recordForeign(hostCluster *v1alpha1.HostCluster) {
	if hostCluster.Status.LoadBalancer != "" {
		setReady(hostCluster, metav1.ConditionFalse, v1alpha1.LoadBalancerLostReason,
			"The load balancer is gone, and so is its address. Fix: delete the Cluster")
		return
	}
	hostCluster.Status.Initialization.Provisioned = new(true)
	setReady(hostCluster, metav1.ConditionTrue, v1alpha1.ProvisionedReason, "The control plane endpoint was set by a user")
}

// backends returns the API servers of all control plane machines that are not being deleted. A machine is
// deleted after its etcd member was removed.
func (r *clusterReconciler) backends(ctx context.Context, cluster *clusterv1.Cluster) (loadbalancer.Backends, error) {
	var backends loadbalancer.Backends
	machines := &v1alpha1.HostMachineList{}
	err := r.client.List(ctx, machines, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}, client.HasLabels{clusterv1.MachineControlPlaneLabel})
	if err != nil {
		return backends, err
	}
	for _, machine := range machines.Items {
		if address := machine.InternalIP(); address != "" && machine.DeletionTimestamp.IsZero() {
			backends.Addresses = append(backends.Addresses, net.JoinHostPort(address, strconv.Itoa(apiServerPort)))
		}
	}
	slices.Sort(backends.Addresses)
	ca, err := secret.Get(ctx, r.client, client.ObjectKeyFromObject(cluster), secret.ClusterCA)
	if apierrors.IsNotFound(err) {
		return backends, nil // The control plane provider makes it before the first machine.
	}
	if err != nil {
		return backends, err
	}
	backends.CA = ca.Data[secret.TLSCrtDataName]
	return backends, nil
}
