package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/policy"
)

// scopeOwner is the field manager of the guard's scope. It owns nothing else, and nobody else owns the scope.
const scopeOwner client.FieldOwner = "windlass-guard-scope"

// registration is the guard's ValidatingWebhookConfiguration with the scope that it holds.
//
// The order of writes keeps the promise of the condition Guarding. Reconcile writes a scope that includes all that the policies of a
// namespace keep, then the statuses of these policies, and some time later a scope that includes nothing else. All of it happens in one goroutine, and
// each write requires the resourceVersion that it was decided on. So no write of this process can undo what a status relies on.
//
// A former leader may have been paused before such a write. Every process therefore puts its own name into the scope before it
// writes the first status: the resourceVersion changes, and the writes of its predecessors fail.
//
// The name begins with a term, which is higher than that of every predecessor. A process that finds
// a higher term than its own stops writing the scope. A lower one is that of a scope that was
// restored from a backup, so the process writes it anew.
type registration struct {
	// config is nil where the guard is not installed, or without a webhook of the name GuardWebhookName.
	config *admissionregistrationv1.ValidatingWebhookConfiguration
	// scope is what config holds. It has no meaning where known is false: the condition is missing, or somebody else wrote it.
	scope  guard.Scope
	writer string
	term   int64
	known  bool
}

// errNotOurs is the error of a process that may not write the guard's scope any more, nor a status
// that promises anything.
var errNotOurs = errors.New("the scope of the guard belongs to another process")

// scopeWriter remembers what this process wrote. The zero value has written nothing.
type scopeWriter struct {
	uid types.UID
	// generation is that of the last write, at the time written.
	generation int64
	written    time.Time
	// term is that of this process, and 0 until it has put its name into the scope.
	term int64
	// widened holds when the part of a namespace last grew, until a status relied on it; for
	// noNamespace, when this process replaced a scope of another process, or none. API servers may
	// not know such a configuration yet, since it may just have been created, restored or written
	// by a predecessor.
	widened map[string]time.Time
	pace    scopePace
}

// isBehind reports whether a cached configuration does not show the last write: the cache lags, or
// the configuration is one of an etcd that was restored from a backup.
func (w *scopeWriter) isBehind(
	config *admissionregistrationv1.ValidatingWebhookConfiguration,
) bool {
	return config != nil && config.UID == w.uid && config.Generation < w.generation
}

// lags reports whether a cached configuration may not show the last write yet.
func (w *scopeWriter) lags(
	config *admissionregistrationv1.ValidatingWebhookConfiguration, now time.Time,
) bool {
	return w.isBehind(config) && keyed.Lags(w.written, now)
}

// newRegistration reads the scope out of a configuration, which may be nil.
func newRegistration(config *admissionregistrationv1.ValidatingWebhookConfiguration) registration {
	for i := range configWebhooks(config) {
		w := &config.Webhooks[i]
		if w.Name != v1alpha1.GuardWebhookName {
			continue
		}
		r := registration{config: config}
		for _, c := range w.MatchConditions {
			if c.Name == v1alpha1.GuardScopeCondition {
				r.scope, r.writer, r.known = guard.ParseExpression(c.Expression)
				r.term = termOf(r.writer)
			}
		}
		return r
	}
	return registration{}
}

// writerName is how a process of a term calls itself in the scope.
func (r *UpdatePolicyReconciler) writerName(term int64) string {
	return fmt.Sprintf("%d-%s", term, r.Process)
}

// termOf returns the term in a name that writerName made, and 0 for any other name.
func termOf(writer string) int64 {
	digits, _, _ := strings.Cut(writer, "-")
	term, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return 0
	}
	return int64(term)
}

// wrote reports whether the scope is the last one that this process wrote.
func (r *UpdatePolicyReconciler) wrote(reg registration) bool {
	return reg.known && r.scope.term > 0 && reg.writer == r.writerName(r.scope.term) &&
		!r.scope.isBehind(reg.config)
}

func configWebhooks(config *admissionregistrationv1.ValidatingWebhookConfiguration) []admissionregistrationv1.ValidatingWebhook {
	if config == nil {
		return nil
	}
	return config.Webhooks
}

// widenScope adds the entries of one namespace, and returns the configuration as written. It writes
// nothing where nothing changes. The error is a Conflict where somebody else wrote the configuration
// meanwhile.
func (r *UpdatePolicyReconciler) widenScope(ctx context.Context, reg registration, namespace string, kept guard.Scope) (registration, error) {
	delete(r.scope.pace.unneeded, namespace)
	base, err := r.baseScope(ctx, reg)
	if err != nil {
		return reg, err
	}
	ours := r.wrote(reg)
	grows := slices.ContainsFunc(kept, func(entry string) bool { return !base.Covers(entry) })
	if grows && !r.scope.pace.mayWiden(namespace, r.Now(), r.NarrowEvery) {
		kept = guard.Scope{guard.NamespaceEntry(namespace)}
	}
	written, err := r.writeScope(ctx, reg, base.With(namespace, append(base.In(namespace), kept...)...), namespace)
	if err != nil || written.config == nil {
		return written, err
	}
	if r.scope.widened == nil {
		r.scope.widened = map[string]time.Time{}
	}
	if !ours {
		r.scope.widened[noNamespace] = r.Now()
	}
	if grows {
		r.scope.widened[namespace] = r.Now()
	}
	return written, nil
}

// writeScope writes a scope, as far as there is room for it. It is written because of a namespace.
func (r *UpdatePolicyReconciler) writeScope(
	ctx context.Context, reg registration, scope guard.Scope, namespace string,
) (registration, error) {
	if reg.config == nil {
		return reg, nil
	}
	term := r.scope.term
	if term == 0 {
		// The clock alone could be behind that of a predecessor, and a new configuration knows no
		// predecessor.
		term = max(r.Now().Unix(), reg.term+1)
	}
	scope = scope.Fit()
	expression := scope.Expression(r.writerName(term))
	// One that is behind is written anyway: a Conflict tells a cache that lags from a restored
	// etcd.
	same := reg.known && expression == reg.scope.Expression(reg.writer)
	if same && !r.scope.isBehind(reg.config) {
		return reg, nil
	}
	written, err := r.applyScope(ctx, reg.config, expression)
	if err != nil {
		return reg, err
	}
	r.scope.uid, r.scope.generation, r.scope.term = written.UID, written.Generation, term
	r.scope.written = r.Now()
	ctrl.LoggerFrom(ctx).Info("Changed which groups the API server asks the guard about",
		"entries", len(scope), "before", len(reg.scope), "updatePoliciesOf", namespace)
	return newRegistration(written), nil
}

// baseScope returns the scope to change. Without a scope, or with one that has no room for
// namespaces, the guard is asked about all Machines, and policies of all namespaces may rely on
// that. They also rely on what a restored scope lacks. The base then includes the namespaces of all
// policies that keep machines, or report so.
func (r *UpdatePolicyReconciler) baseScope(ctx context.Context, reg registration) (guard.Scope, error) {
	if reg.config == nil {
		return nil, nil
	}
	if r.scope.term > 0 && reg.term > r.scope.term {
		return nil, fmt.Errorf("%w: process %s took it from this process, %s. "+
			"Fix: run one replica, or use --leader-elect", errNotOurs, reg.writer, r.writerName(r.scope.term))
	}
	if reg.known && !reg.scope.IsEverything() && (r.scope.term == 0 || r.wrote(reg)) {
		return reg.scope, nil
	}
	return r.keepingNamespaces(ctx)
}

// keepingNamespaces returns the namespaces of all policies that keep machines, or report so.
func (r *UpdatePolicyReconciler) keepingNamespaces(ctx context.Context) (guard.Scope, error) {
	var policies v1alpha1.UpdatePolicyList
	if err := r.Client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing UpdatePolicies: %w", err)
	}
	var entries []string
	for i := range policies.Items {
		p := &policies.Items[i]
		if policy.MayGuard(p) || guards(p.Status) {
			entries = append(entries, guard.NamespaceEntry(p.Namespace))
		}
	}
	return guard.NewScope(entries...), nil
}

// applyScope writes the match condition by server-side apply, if the configuration is still at the version of config.
func (r *UpdatePolicyReconciler) applyScope(
	ctx context.Context, config *admissionregistrationv1.ValidatingWebhookConfiguration, expression string,
) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": config.Name, "uid": string(config.UID), "resourceVersion": config.ResourceVersion},
		"webhooks": []any{map[string]any{
			"name":            v1alpha1.GuardWebhookName,
			"matchConditions": []any{map[string]any{"name": v1alpha1.GuardScopeCondition, "expression": expression}},
		}},
	}}
	object.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"))
	// This overwrites a condition that a person wrote by hand.
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), scopeOwner, client.ForceOwnership); err != nil {
		return nil, fmt.Errorf("writing the match condition %s of ValidatingWebhookConfiguration %s: %w", v1alpha1.GuardScopeCondition, config.Name, err)
	}
	written := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, written); err != nil {
		return nil, fmt.Errorf("reading the answer about ValidatingWebhookConfiguration %s: %w", config.Name, err)
	}
	return written, nil
}

// readRegistration reads the guard's configuration from the cache.
func (r *UpdatePolicyReconciler) readRegistration(ctx context.Context) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.GuardConfigurationName}, config)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // Nil means that the guard is not installed.
	}
	if err != nil {
		return nil, fmt.Errorf("reading ValidatingWebhookConfiguration %s: %w", v1alpha1.GuardConfigurationName, err)
	}
	return config, nil
}
