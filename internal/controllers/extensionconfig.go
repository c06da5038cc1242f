package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/condition"
	"github.com/windlass-dev/windlass/internal/refusal"
	"github.com/windlass-dev/windlass/internal/text"
)

// Conflicts returns the extensions that are in each other's way, as HANDLER.EXTENSIONCONFIG, by the name of the hook; ready is false while it is
// not known which extensions there are.
type Conflicts func(context.Context) (conflicts map[string][]string, ready bool, err error)

// ExtensionConfigReconciler keeps the condition v1alpha1.UpdateExtensionsConflictCondition of all ExtensionConfigs. It reconciles them together: a request is empty.
type ExtensionConfigReconciler struct {
	// Client reads from a cache, and writes to the API server.
	Client    client.Client
	Conflicts Conflicts
	Recorder  events.EventRecorder
	// Now is the clock for conditions.
	Now func() time.Time
}

const (
	// conflictInterval is when conflicts are looked for again though no ExtensionConfig has changed. What is registered follows an ExtensionConfig a moment
	// later, and whether two are for one namespace depends on the labels of namespaces.
	conflictInterval = time.Minute
	// maxNamed is how many extensions a message names for each of the three hooks.
	maxNamed = 5
)

// SetupWithManager registers the Reconciler.
func (r *ExtensionConfigReconciler) SetupWithManager(mgr ctrl.Manager) error {
	together := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} })
	changed := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return registers(e.ObjectOld) != registers(e.ObjectNew) }}
	err := ctrl.NewControllerManagedBy(mgr).Named("extensionconfig-conflicts").Watches(&runtimev1.ExtensionConfig{}, together).WithEventFilter(changed).
		Complete(refusal.BackOff("extensionconfig-conflicts", r))
	if err != nil {
		return fmt.Errorf("setting up the controller of conflicts between ExtensionConfigs: %w", err)
	}
	return nil
}

// registers names what an ExtensionConfig registers, and at which state of its spec.
func registers(object client.Object) string {
	config, ok := object.(*runtimev1.ExtensionConfig)
	if !ok {
		return ""
	}
	names := make([]string, 0, len(config.Status.Handlers))
	for i := range config.Status.Handlers {
		names = append(names, config.Status.Handlers[i].Name+" "+config.Status.Handlers[i].RequestHook.Hook)
	}
	return fmt.Sprint(config.Generation, names)
}

// Reconcile brings the condition of all ExtensionConfigs up to date.
func (r *ExtensionConfigReconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	conflicts, ready, err := r.Conflicts(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !ready {
		return reconcile.Result{RequeueAfter: retryDelay}, nil
	}
	var configs runtimev1.ExtensionConfigList
	if err := r.Client.List(ctx, &configs); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing ExtensionConfigs: %w", err)
	}
	messages := computeMessages(conflicts)
	after := conflictInterval
	for i := range configs.Items {
		config := &configs.Items[i]
		err := r.applyCondition(ctx, config, messages[config.Name])
		switch {
		case apierrors.IsConflict(err):
			after = retryDelay
		case client.IgnoreNotFound(err) != nil:
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// computeMessages says of each ExtensionConfig with which others it is in conflict, and what to do.
func computeMessages(conflicts map[string][]string) map[string]string {
	hooks := map[string][]string{}
	for _, hook := range slices.Sorted(maps.Keys(conflicts)) {
		named := map[string]bool{}
		for _, extension := range conflicts[hook] {
			if _, config, ok := strings.Cut(extension, "."); ok && !named[config] {
				named[config] = true
				hooks[config] = append(hooks[config], fmt.Sprintf("%s has %s", hook, text.JoinSome(conflicts[hook], maxNamed, ", ")))
			}
		}
	}
	messages := make(map[string]string, len(hooks))
	for config, lines := range hooks {
		messages[config] = "Machines are not updated in place where a hook for it has more than one extension: " +
			strings.Join(lines, "; ") + ". Fix: keep one, and register the others as Updater objects"
	}
	return messages
}

// applyCondition sets the condition, or takes it away where there is no message, and says once that it is new.
func (r *ExtensionConfigReconciler) applyCondition(ctx context.Context, config *runtimev1.ExtensionConfig, message string) error {
	changed := config.DeepCopy()
	if message == "" {
		if !meta.RemoveStatusCondition(&changed.Status.Conditions, v1alpha1.UpdateExtensionsConflictCondition) {
			return nil
		}
	} else if !condition.Set(&changed.Status.Conditions, metav1.Condition{
		Type: v1alpha1.UpdateExtensionsConflictCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.SeveralExtensionsReason, Message: message,
		ObservedGeneration: config.Generation, LastTransitionTime: metav1.NewTime(r.Now()),
	}) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, changed, client.MergeFromWithOptions(config, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the status of ExtensionConfig %s: %w", config.Name, err)
	}
	log := ctrl.LoggerFrom(ctx).WithValues("extensionConfig", config.Name)
	old := meta.FindStatusCondition(config.Status.Conditions, v1alpha1.UpdateExtensionsConflictCondition)
	switch {
	case message == "":
		log.Info("no other extension conflicts with this one")
	case old == nil || old.Message != message:
		log.Info("several extensions conflict over one hook", "message", message)
		r.Recorder.Eventf(config, nil, corev1.EventTypeWarning, v1alpha1.SeveralExtensionsReason, "Register", "%s", message)
	}
	return nil
}
