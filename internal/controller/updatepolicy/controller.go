// Package updatepolicy keeps the status of UpdatePolicies.
package updatepolicy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// Reconciler computes the status of UpdatePolicies and writes it where it changed. It reconciles all policies of a namespace
// together, because which one counts for a group depends on all of them: a request's name is empty.
// It is not safe for concurrent use.
type Reconciler struct {
	// Client reads from a cache, and writes to the API server. Its scheme has the types of this project, of Cluster API's core
	// and of admissionregistration.k8s.io/v1. Of MachineDeployments, Namespaces and control plane objects it reads metadata.
	Client client.Client
	// Live reads the replicas of KubeadmControlPlanes from the API server.
	Live client.Reader
	// Mapper finds the preferred version of a control plane's kind: a Cluster names the kind without one.
	Mapper meta.RESTMapper
	// Now is the clock for conditions.
	Now func() time.Time

	// watches are set by SetupWithManager; without them nothing is watched.
	watches *watches
	// replicas keeps what was read live, by the control plane object.
	replicas map[types.NamespacedName]replicas
}

const (
	// resyncInterval is when a namespace is looked at again though nothing changed: by then somebody may have overwritten
	// a status.
	resyncInterval = time.Hour
	// retryDelay gives the cache time to catch up with the write that came before ours.
	retryDelay = time.Second
	// timeout bounds one Reconcile: reading from a cache waits without end where its kind may not be listed.
	timeout = time.Minute
)

// Reconcile brings the statuses of all policies of one namespace up to date.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	namespace := request.Namespace
	var policies v1alpha1.UpdatePolicyList
	if err := r.Client.List(ctx, &policies, client.InNamespace(namespace)); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing UpdatePolicies in %s: %w", namespace, err)
	}
	if len(policies.Items) == 0 {
		return reconcile.Result{}, nil
	}
	groups, err := r.readGroups(ctx, namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	guard, err := r.readGuard(ctx, namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	statuses := updatepolicy.ComputeStatuses(policies.Items, groups, guard, metav1.NewTime(r.Now()))
	after := resyncInterval
	var problems []error
	for i := range policies.Items {
		err := r.applyStatus(ctx, &policies.Items[i], statuses[i])
		if apierrors.IsConflict(err) {
			// The cache is behind. The write that came first may be one of metadata or status, which reconciles nothing.
			after = retryDelay
			continue
		}
		problems = append(problems, client.IgnoreNotFound(err))
	}
	if err := errors.Join(problems...); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// applyStatus writes a policy's status if it changed.
func (r *Reconciler) applyStatus(ctx context.Context, policy *v1alpha1.UpdatePolicy, status v1alpha1.UpdatePolicyStatus) error {
	if equality.Semantic.DeepEqual(policy.Status, status) {
		return nil
	}
	changed := policy.DeepCopy()
	changed.Status = status
	if err := r.Client.Status().Patch(ctx, changed, client.MergeFromWithOptions(policy, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the status of UpdatePolicy %s: %w", client.ObjectKeyFromObject(policy), err)
	}
	logConditions(ctx, policy, status)
	return nil
}

// logConditions logs each condition that changed, once.
func logConditions(ctx context.Context, policy *v1alpha1.UpdatePolicy, after v1alpha1.UpdatePolicyStatus) {
	for _, c := range after.Conditions {
		old := meta.FindStatusCondition(policy.Status.Conditions, c.Type)
		if old != nil && old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("UpdatePolicy changed a condition", "updatePolicy", client.ObjectKeyFromObject(policy).String(),
			"condition", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
	}
}

// inNamespace is the request for all policies of a namespace.
func inNamespace(namespace string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace}}
}
