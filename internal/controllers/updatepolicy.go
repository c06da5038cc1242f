package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/policystore"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// UpdatePolicyReconciler computes the status of UpdatePolicies and writes it where it changed. It reconciles all policies of a namespace
// together, because which one counts for a group depends on all of them: a request's name is empty.
// It is not safe for concurrent use.
type UpdatePolicyReconciler struct {
	// Client reads from a cache, and writes to the API server. Its scheme has the types of this project, of Cluster API's core
	// and of admissionregistration.k8s.io/v1. Of MachineDeployments, Namespaces and control plane objects it reads metadata.
	Client client.Client
	// Live reads the replicas of KubeadmControlPlanes from the API server.
	Live client.Reader
	// Mapper finds the preferred version of a control plane's kind: a Cluster names the kind without one.
	Mapper meta.RESTMapper
	// Kinds is asked before a control plane's kind is watched.
	Kinds *contract.Watchable
	// Now is the clock for conditions.
	Now func() time.Time
	// Process names this process in the guard's scope, in at most 50 letters, digits and hyphens.
	// No two processes have the same name.
	Process string
	// Propagation is how long every API server may take to use a scope after it was written. No status relies on it before.
	Propagation time.Duration
	// NarrowEvery is how often the scope becomes narrower at most, on average and for all namespaces
	// together. A wider scope is written at once. 0: at once as well.
	NarrowEvery time.Duration
	// Compiled keeps the UpdatePolicies of the process, parsed; nil keeps nothing.
	Compiled *policy.Store

	// watches are set by SetupWithManager; without them nothing is watched.
	watches *watches
	// replicas keeps what was read live, by the control plane object.
	replicas map[types.NamespacedName]replicas
	scope    scopeWriter
}

// Reconcile brings the statuses of all policies of one namespace up to date, and the part of the guard's scope that is about this
// namespace. See registration for the order of the writes.
func (r *UpdatePolicyReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	namespace := request.Namespace
	var policies policies
	if namespace != noNamespace {
		var err error
		policies.objects, policies.compiled, err = policystore.New(r.Client, r.Compiled).Objects(ctx, namespace)
		if err != nil {
			return reconcile.Result{}, err //nolint:wrapcheck // It says what could not be listed.
		}
	}
	config, err := r.readRegistration(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if r.scope.lags(config, r.Now()) {
		// The event of the write that is missing reconciles all namespaces.
		return reconcile.Result{RequeueAfter: retryDelay}, nil
	}
	if len(policies.objects) == 0 {
		wait, err := r.leaveNamespace(ctx, newRegistration(config), namespace)
		return r.finish(reconcile.Result{RequeueAfter: wait}, err)
	}
	groups, err := r.readGroups(ctx, namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.reconcilePolicies(ctx, namespace, policies, groups, config)
}

// policies are those of one namespace. Both are shared with the cache: nobody may change them.
type policies struct {
	objects  []v1alpha1.UpdatePolicy
	compiled policy.Set
}

// reconcilePolicies writes the scope and the statuses of a namespace that has policies.
func (r *UpdatePolicyReconciler) reconcilePolicies(
	ctx context.Context, namespace string, policies policies, groups []updatepolicy.State,
	config *admissionregistrationv1.ValidatingWebhookConfiguration,
) (reconcile.Result, error) {
	selection, err := updatepolicy.SelectAll(policies.compiled, groups, ctx.Err)
	if err != nil {
		return reconcile.Result{}, err //nolint:wrapcheck // It says what was not found out.
	}
	kept := selection.Kept()
	wide, err := r.widenScope(ctx, newRegistration(config), namespace, kept)
	if apierrors.IsConflict(err) {
		return r.finish(reconcile.Result{}, err)
	}
	if err == nil && wide.config != nil {
		config = wide.config
		if wait := r.awaitPropagation(namespace); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
	}
	// Where the scope could not be written, the statuses tell what the guard covers without that.
	// The process that the scope belongs to may know better what it keeps, so another one takes
	// promises back, and makes none.
	withdraw := errors.Is(err, errNotOurs)
	result, statusErr := r.applyStatuses(ctx, namespace, policies.objects, selection, config, withdraw)
	if err := errors.Join(err, statusErr); err != nil || result.RequeueAfter == retryDelay {
		return result, err
	}
	wait, err := r.narrowScope(ctx, wide, namespace, kept)
	if wait > 0 {
		result.RequeueAfter = min(result.RequeueAfter, wait)
	}
	return r.finish(result, err)
}

// awaitPropagation returns how long API servers may still use the configuration before the one that
// a status of the namespace relies on: from 0 to Propagation. A clock that was set back makes the
// wait begin anew.
func (r *UpdatePolicyReconciler) awaitPropagation(namespace string) time.Duration {
	wait, now := time.Duration(0), r.Now()
	for _, key := range []string{noNamespace, namespace} {
		if at, ok := r.scope.widened[key]; ok {
			at = record.Past(at, now)
			r.scope.widened[key] = at
			wait = max(wait, record.Left(at, r.Propagation, now))
		}
	}
	if wait == 0 {
		delete(r.scope.widened, namespace)
	}
	return wait
}

// leaveNamespace removes a namespace without policies from the scope, as narrowScope does. No status
// relies on its entries.
func (r *UpdatePolicyReconciler) leaveNamespace(
	ctx context.Context, reg registration, namespace string,
) (wait time.Duration, err error) {
	if namespace != noNamespace && len(reg.scope.In(namespace)) == 0 {
		return 0, nil
	}
	wide, err := r.widenScope(ctx, reg, namespace, nil)
	if err != nil {
		return 0, err
	}
	return r.narrowScope(ctx, wide, namespace, nil)
}

// finish returns the result, or asks for a retry where the cache is behind.
func (r *UpdatePolicyReconciler) finish(result reconcile.Result, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: retryDelay}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return result, nil
}

// applyStatuses writes the statuses that changed; with withdraw, only those that report no longer
// that they guard. The result asks for a retry after retryDelay where the cache is behind.
func (r *UpdatePolicyReconciler) applyStatuses(
	ctx context.Context, namespace string, policies []v1alpha1.UpdatePolicy, selection *updatepolicy.Selection,
	config *admissionregistrationv1.ValidatingWebhookConfiguration, withdraw bool,
) (reconcile.Result, error) {
	labels, err := r.readNamespaceLabels(ctx, namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	guard := updatepolicy.SelectGuard(config, namespace, labels)
	statuses := selection.Statuses(policies, guard, metav1.NewTime(r.Now()))
	after := resyncInterval
	var problems []error
	for i := range policies {
		policy := &policies[i]
		if withdraw && (!guards(policy.Status) || guards(statuses[i])) {
			continue
		}
		err := r.applyStatus(ctx, policy, statuses[i])
		if apierrors.IsConflict(err) {
			// The cache is behind. The write that came first may be one of metadata or status, which reconciles nothing.
			after = retryDelay
			continue
		}
		problems = append(problems, client.IgnoreNotFound(err))
	}
	err = errors.Join(problems...)
	if err != nil && after != retryDelay {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: after}, err
}

func guards(status v1alpha1.UpdatePolicyStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.GuardingCondition)
}

// applyStatus writes a policy's status if it changed.
func (r *UpdatePolicyReconciler) applyStatus(ctx context.Context, policy *v1alpha1.UpdatePolicy, status v1alpha1.UpdatePolicyStatus) error {
	if equality.Semantic.DeepEqual(policy.Status, status) {
		return nil
	}
	// The policy is the cache's own. The client writes into the copy.
	changed := policy.DeepCopy()
	changed.Status = status
	if err := patchStatus(ctx, r.Client, policy, changed, client.MergeFromWithOptimisticLock{}); err != nil {
		return fmt.Errorf("writing the status of UpdatePolicy %s: %w", client.ObjectKeyFromObject(policy), err)
	}
	for _, c := range status.Conditions {
		if isChanged(policy.Status.Conditions, c) {
			ctrl.LoggerFrom(ctx).Info("UpdatePolicy changed a condition", "updatePolicy", client.ObjectKeyFromObject(policy).String(),
				"condition", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
		}
	}
	return nil
}

// noNamespace is the namespace of the request about the guard's scope alone: an empty scope must be written as well, because a guard
// without one is asked about all Machines.
const noNamespace = ""

// inNamespace is the request for all policies of a namespace.
func inNamespace(namespace string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace}}
}
