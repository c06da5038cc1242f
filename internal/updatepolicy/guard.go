package updatepolicy

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/labelselector"
	"github.com/windlass-dev/windlass/internal/policy"
)

// Guard says whether the API server asks the guard before Machines of a namespace are created or deleted.
type Guard struct {
	Active bool
	// Reason is one of the reasons of v1alpha1.GuardingCondition.
	Reason string
	// Message says why it is not active, and what would fix that.
	Message string
	// Scopes are the groups that each webhook of the guard is asked about. Those in all of them are guarded; without any, all are.
	Scopes []guard.Scope
}

// Covers reports whether the API server asks the guard about a group's Machines, where the guard is active.
func (g Guard) Covers(group policy.Group) bool {
	return !slices.ContainsFunc(g.Scopes, func(s guard.Scope) bool { return !s.Covers(entryOf(group)) })
}

// installGuard is the command that installs the guard alone, in the namespace of config/default.
const installGuard = "sed s/NAMESPACE/windlass-system/ config/webhook/guard.yaml | kubectl apply -f -"

// guarded is what the guard must be asked about.
var guarded = []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Delete}

// SelectGuard looks at the guard's ValidatingWebhookConfiguration, nil where there is none, for a namespace with these labels. A
// webhook that lets requests pass when it cannot be reached does not count, and neither does one that is asked about some of the
// Machines only, unless a guard.Scope tells which.
func SelectGuard(config *admissionregistrationv1.ValidatingWebhookConfiguration, namespace string, namespaceLabels map[string]string) Guard {
	if config == nil {
		return Guard{
			Reason:  v1alpha1.GuardMissingReason,
			Message: fmt.Sprintf("there is no ValidatingWebhookConfiguration %q, so Cluster API may replace machines. Fix: install it: %s", v1alpha1.GuardConfigurationName, installGuard),
		}
	}
	var asked, here []admissionregistrationv1.OperationType
	var scopes []guard.Scope
	for i := range config.Webhooks {
		w := &config.Webhooks[i]
		scope, known := ScopeOf(w)
		if !refusesAlways(w) || len(w.MatchConditions) > 0 && !known {
			continue
		}
		if known {
			scopes = append(scopes, scope)
		}
		operations := askedAbout(w)
		asked = append(asked, operations...)
		if selectsNamespace(w, namespaceLabels) {
			here = append(here, operations...)
		}
	}
	for _, operation := range guarded {
		switch {
		case !slices.Contains(asked, operation):
			return Guard{
				Reason: v1alpha1.GuardMissingReason,
				Message: fmt.Sprintf("no webhook of ValidatingWebhookConfiguration %q with failurePolicy Fail is asked about every %s of a Machine. Fix: install it again: %s",
					config.Name, operation, installGuard),
			}
		case !slices.Contains(here, operation):
			return excluded(config.Name, namespace, namespaceLabels)
		}
	}
	if i := slices.IndexFunc(config.Webhooks, isUntrusted); i >= 0 {
		return Guard{
			Reason: v1alpha1.GuardUnreachableReason,
			Message: fmt.Sprintf("webhook %q of ValidatingWebhookConfiguration %q has no caBundle, so API servers cannot call the guard and refuse to create and delete Machines that policies keep. Fix: "+
				"see that cert-manager's CA injector runs and that the annotation cert-manager.io/inject-ca-from names the Certificate, or install it again: %s",
				config.Webhooks[i].Name, config.Name, installGuard),
		}
	}
	return Guard{Active: true, Reason: v1alpha1.GuardInstalledReason, Scopes: scopes}
}

// isUntrusted reports whether no API server can verify the certificate of a webhook: no public CA signs the names of Services.
func isUntrusted(w admissionregistrationv1.ValidatingWebhook) bool {
	return w.ClientConfig.Service != nil && len(w.ClientConfig.CABundle) == 0
}

func excluded(config, namespace string, namespaceLabels map[string]string) Guard {
	g := Guard{Reason: v1alpha1.NamespaceExcludedReason}
	if namespaceLabels[v1alpha1.GuardLabel] == v1alpha1.GuardDisabled {
		g.Message = fmt.Sprintf("namespace %q has the label %s=%s, so Cluster API may replace machines in it. Fix: remove the label", namespace, v1alpha1.GuardLabel, v1alpha1.GuardDisabled)
	} else {
		g.Message = fmt.Sprintf("the namespaceSelector in ValidatingWebhookConfiguration %q excludes namespace %q, so Cluster API may replace machines in it. Fix: correct one or the other", config, namespace)
	}
	return g
}

// ScopeOf returns the Scope that is the only match condition of a webhook, and false where it has other conditions or none.
func ScopeOf(w *admissionregistrationv1.ValidatingWebhook) (guard.Scope, bool) {
	if len(w.MatchConditions) != 1 || w.MatchConditions[0].Name != v1alpha1.GuardScopeCondition {
		return nil, false
	}
	scope, _, ok := guard.ParseExpression(w.MatchConditions[0].Expression)
	return scope, ok
}

// refusesAlways reports whether no objectSelector limits a webhook, and it refuses where it cannot be reached.
func refusesAlways(w *admissionregistrationv1.ValidatingWebhook) bool {
	return (w.FailurePolicy == nil || *w.FailurePolicy == admissionregistrationv1.Fail) && labelselector.IsEmpty(w.ObjectSelector)
}

// askedAbout returns the operations on Machines, whatever their version, that a webhook is asked about.
func askedAbout(w *admissionregistrationv1.ValidatingWebhook) []admissionregistrationv1.OperationType {
	exact := w.MatchPolicy != nil && *w.MatchPolicy == admissionregistrationv1.Exact
	var operations []admissionregistrationv1.OperationType
	for _, r := range w.Rules {
		switch {
		case !isAboutMachines(r.Rule) || exact && !slices.Contains(r.APIVersions, "*"):
		case slices.Contains(r.Operations, admissionregistrationv1.OperationAll):
			operations = append(operations, guarded...)
		default:
			operations = append(operations, r.Operations...)
		}
	}
	return operations
}

func isAboutMachines(r admissionregistrationv1.Rule) bool {
	return holds(r.APIGroups, clusterv1.GroupVersion.Group) && len(r.APIVersions) > 0 && (holds(r.Resources, "machines") || slices.Contains(r.Resources, "*/*")) &&
		(r.Scope == nil || *r.Scope != admissionregistrationv1.ClusterScope)
}

func holds(list []string, item string) bool {
	return slices.Contains(list, item) || slices.Contains(list, "*")
}

// selectsNamespace takes a selector that does not parse, which the API server does not store, for one that selects nothing.
func selectsNamespace(w *admissionregistrationv1.ValidatingWebhook, namespaceLabels map[string]string) bool {
	if labelselector.IsEmpty(w.NamespaceSelector) {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
	return err == nil && selector.Matches(labels.Set(namespaceLabels))
}
