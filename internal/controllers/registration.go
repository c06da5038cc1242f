package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/internal/refusal"
)

// RegistrationReconciler keeps the namespace in the ExtensionConfig of this extension: that of its Service,
// and that of the Secret with its CA. clusterctl installs a provider in any namespace, and changes it in
// webhooks, but not in an ExtensionConfig.
type RegistrationReconciler struct {
	// Client reads from a cache that holds the ExtensionConfig, and writes to the API server.
	Client client.Client
	// Name is the ExtensionConfig's, and Namespace the Service's.
	Name, Namespace string
	Now             func() time.Time

	// written is when it last wrote. One worker uses it.
	written time.Time
}

// registrationPause is the least time between two writes. Two extensions that share an ExtensionConfig by
// mistake, or a GitOps tool, change it back at once.
const registrationPause = 10 * time.Second

// SetupWithManager registers the Reconciler.
func (r *RegistrationReconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == r.Name })
	err := ctrl.NewControllerManagedBy(mgr).
		Named("registration").
		For(&runtimev1.ExtensionConfig{}).
		WithEventFilter(own).
		Complete(refusal.BackOff("registration", r))
	if err != nil {
		return fmt.Errorf("setting up the controller of ExtensionConfig %s: %w", r.Name, err)
	}
	return nil
}

// Reconcile writes the namespace where it differs.
func (r *RegistrationReconciler) Reconcile(
	ctx context.Context, request reconcile.Request,
) (reconcile.Result, error) {
	config := &runtimev1.ExtensionConfig{}
	if err := r.Client.Get(ctx, request.NamespacedName, config); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	patch, err := registrationPatch(config, r.Namespace)
	if err != nil || patch == nil {
		return reconcile.Result{}, err
	}
	if wait := registrationPause - r.Now().Sub(r.written); wait > 0 {
		ctrl.LoggerFrom(ctx).Info("Something else writes another namespace to the ExtensionConfig. "+
			"Fix: give each extension an ExtensionConfig of its own, or omit --extension-config",
			"namespace", r.Namespace, "other", config.Spec.ClientConfig.Service.Namespace)
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.Client.Patch(ctx, config, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the namespace %s to ExtensionConfig %s: %w",
			r.Namespace, r.Name, err)
	}
	r.written = r.Now()
	ctrl.LoggerFrom(ctx).Info("The ExtensionConfig has another namespace now", "namespace", r.Namespace)
	return reconcile.Result{}, nil
}

// registrationPatch returns the merge patch that sets the namespace, and nil if nothing differs. An
// ExtensionConfig with a URL, or without the annotation, keeps what it has.
func registrationPatch(config *runtimev1.ExtensionConfig, namespace string) ([]byte, error) {
	patch := map[string]any{}
	service := config.Spec.ClientConfig.Service
	if service.IsDefined() && service.Namespace != namespace {
		patch["spec"] = map[string]any{
			"clientConfig": map[string]any{"service": map[string]any{"namespace": namespace}},
		}
	}
	secret := config.Annotations[runtimev1.InjectCAFromSecretAnnotation]
	if _, name, found := strings.Cut(secret, "/"); found && secret != namespace+"/"+name {
		patch["metadata"] = map[string]any{"annotations": map[string]any{
			runtimev1.InjectCAFromSecretAnnotation: namespace + "/" + name,
		}}
	}
	if len(patch) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return data, nil
}
