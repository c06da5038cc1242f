package preflight

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Webhook is what counts of a validating or mutating webhook.
type Webhook struct {
	// Kind is that of the configuration, Configuration its name, and Name that of the webhook in it.
	Kind, Configuration, Name string
	// FailurePolicy nil means Fail, and MatchPolicy nil means Equivalent, as in the API.
	FailurePolicy     *admissionregistrationv1.FailurePolicyType
	MatchPolicy       *admissionregistrationv1.MatchPolicyType
	Rules             []admissionregistrationv1.RuleWithOperations
	NamespaceSelector *metav1.LabelSelector
	ObjectSelector    *metav1.LabelSelector
	// Conditional reports that CEL match conditions may exempt requests; they are not evaluated.
	Conditional bool
	// Service is where the webhook is called, empty for a URL.
	Service types.NamespacedName
}

func (w Webhook) subject() string {
	return named(w.Kind, "", w.Configuration) + ", webhook " + text.Bound(w.Name, maxNameBytes)
}

// MustAnswer reports whether requests are refused that the webhook does not answer.
func (w Webhook) MustAnswer() bool {
	return w.FailurePolicy == nil || *w.FailurePolicy == admissionregistrationv1.Fail
}

// Backend is what is behind the Service of a webhook.
type Backend struct {
	// Missing reports that the Service does not exist.
	Missing bool
	// Ready is how many endpoints are ready, and Nodes on how many Nodes these are.
	Ready, Nodes int
}

// request is one that an upgrade makes.
type request struct {
	what, group, version, resource, subresource string
	// namespace is empty for cluster-scoped objects, and anyNamespace for all namespaces.
	namespace string
	operation admissionregistrationv1.OperationType
}

const (
	anyNamespace = "*"
	systemSpace  = metav1.NamespaceSystem
	leaseSpace   = corev1.NamespaceNodeLease
)

// The operations of requests. Patches are updates.
const (
	creates = admissionregistrationv1.Create
	updates = admissionregistrationv1.Update
	deletes = admissionregistrationv1.Delete
)

// The API groups and a resource of requests.
const (
	signing      = "certificates.k8s.io"
	requested    = "certificatesigningrequests"
	coordination = "coordination.k8s.io"
	rbac         = "rbac.authorization.k8s.io"
	networking   = "networking.k8s.io"
	storage      = "storage.k8s.io"
)

// requests are those of kubeadm, of Cluster API and its control plane provider, of kubelets, of
// drains, and of the controllers that start the drained Pods elsewhere.
var requests = []request{
	{"updates of Nodes", "", "v1", "nodes", "", "", updates},
	{"new Nodes", "", "v1", "nodes", "", "", creates},
	{"deletions of Nodes", "", "v1", "nodes", "", "", deletes},
	{"the status of Nodes", "", "v1", "nodes", "status", "", updates},
	{"tokens of Nodes that join", "", "v1", "secrets", "", systemSpace, creates},
	{"certificates of kubelets", signing, "v1", requested, "", "", creates},
	{"approvals of certificates", signing, "v1", requested, "approval", "", updates},
	{"signed certificates", signing, "v1", requested, "status", "", updates},
	{"Leases of new Nodes", coordination, "v1", "leases", "", leaseSpace, creates},
	{"heartbeats of Nodes", coordination, "v1", "leases", "", leaseSpace, updates},
	{"leader elections of the control plane", coordination, "v1", "leases", "", systemSpace, updates},
	{
		"the ConfigMaps of kubeadm, kube-proxy and CoreDNS",
		"", "v1", "configmaps", "", systemSpace, updates,
	},
	{"the DaemonSet of kube-proxy", "apps", "v1", "daemonsets", "", systemSpace, updates},
	{"the Deployment of CoreDNS", "apps", "v1", "deployments", "", systemSpace, updates},
	{"new Roles of kubeadm", rbac, "v1", "roles", "", systemSpace, creates},
	{"Roles of kubeadm", rbac, "v1", "roles", "", systemSpace, updates},
	{"new RoleBindings of kubeadm", rbac, "v1", "rolebindings", "", systemSpace, creates},
	{"RoleBindings of kubeadm", rbac, "v1", "rolebindings", "", systemSpace, updates},
	{"new ClusterRoles of kubeadm", rbac, "v1", "clusterroles", "", "", creates},
	{"ClusterRoles of kubeadm and CoreDNS", rbac, "v1", "clusterroles", "", "", updates},
	{"new ClusterRoleBindings of kubeadm", rbac, "v1", "clusterrolebindings", "", "", creates},
	{"ClusterRoleBindings of kubeadm", rbac, "v1", "clusterrolebindings", "", "", updates},
	{"Pods of the system on new Nodes", "", "v1", "pods", "", systemSpace, creates},
	{"evictions", "", "v1", "pods", "eviction", anyNamespace, creates},
	{"deletions of evicted Pods", "", "v1", "pods", "", anyNamespace, deletes},
	{"the status of Pods", "", "v1", "pods", "status", anyNamespace, updates},
	{"Pods that replace evicted ones", "", "v1", "pods", "", anyNamespace, creates},
	{"bindings of Pods to Nodes", "", "v1", "pods", "binding", anyNamespace, creates},
	{"tokens that Pods mount", "", "v1", "serviceaccounts", "token", anyNamespace, creates},
	{"attachments of volumes", storage, "v1", "volumeattachments", "", "", creates},
	{"detachments of volumes", storage, "v1", "volumeattachments", "", "", deletes},
	{"the status of volume attachments", storage, "v1", "volumeattachments", "status", "", updates},
}

// ownPods is the request that brings back a webhook's own Pods.
func ownPods(w Webhook) request {
	return request{"its own Pods", "", "v1", "pods", "", w.Service.Namespace, creates}
}

// matches reports whether a webhook may be called for a request. Selectors of objects and match
// conditions count as matching. spaces are the labels of namespaces; one that is missing counts as
// matching.
func (w Webhook) matches(r request, spaces map[string]labels.Set) bool {
	if !slices.ContainsFunc(w.Rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		exact := w.MatchPolicy != nil && *w.MatchPolicy == admissionregistrationv1.Exact
		return ruleMatches(rule, r, exact)
	}) {
		return false
	}
	known, ok := spaces[r.namespace]
	if !ok || w.NamespaceSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
	return err != nil || selector.Matches(known)
}

// ruleMatches is the rule of the API server's predicates. Under the policy Equivalent another
// version of the resource matches, too.
func ruleMatches(rule admissionregistrationv1.RuleWithOperations, r request, exact bool) bool {
	has := func(items []string, item string) bool {
		return slices.Contains(items, "*") || slices.Contains(items, item)
	}
	operation := slices.Contains(rule.Operations, admissionregistrationv1.OperationAll) ||
		slices.Contains(rule.Operations, r.operation)
	return operation && inScope(rule.Scope, r) && has(rule.APIGroups, r.group) &&
		(!exact || has(rule.APIVersions, r.version)) &&
		slices.ContainsFunc(rule.Resources, func(s string) bool {
			resource, sub, _ := strings.Cut(s, "/")
			return (resource == "*" || resource == r.resource) && (sub == "*" || sub == r.subresource)
		})
}

func inScope(scope *admissionregistrationv1.ScopeType, r request) bool {
	if scope == nil || *scope == admissionregistrationv1.AllScopes {
		return true
	}
	return (*scope == admissionregistrationv1.ClusterScope) == (r.namespace == "")
}

// needed returns the requests of an upgrade that a webhook may refuse.
func (w Webhook) needed(spaces map[string]labels.Set) []request {
	if !w.MustAnswer() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(requests), func(r request) bool {
		return !w.matches(r, spaces)
	})
}

// Needed reports whether an upgrade makes requests that a webhook may refuse.
func (w Webhook) Needed(spaces map[string]labels.Set) bool { return len(w.needed(spaces)) > 0 }

// CheckBackends finds webhooks that an upgrade needs and that do not answer, or not while a Node is
// drained. A backend that is missing in backends was not read.
func CheckBackends(
	webhooks []Webhook, backends map[types.NamespacedName]Backend, spaces map[string]labels.Set,
) []clustercheck.Finding {
	r := report{id: WebhookBackends}
	checked := 0
	for _, w := range webhooks {
		needed := w.needed(spaces)
		if len(needed) == 0 {
			continue
		}
		checked++
		checkBackend(&r, w, backends, needed, w.matches(ownPods(w), spaces))
	}
	return r.finish("%s that an upgrade calls checked: each can answer while one Node is drained",
		text.Count(checked, "webhook"))
}

// checkBackend judges the backend of one webhook. own reports whether it must admit its own Pods.
func checkBackend(
	r *report, w Webhook, backends map[types.NamespacedName]Backend, needed []request, own bool,
) {
	service := named("Service", w.Service.Namespace, w.Service.Name)
	refused := "its failurePolicy is Fail, so the API server then refuses " +
		describe(needed) + w.doubt()
	b, known := backends[w.Service]
	switch {
	case w.Service.Name == "":
		r.warn(w.subject(),
			"make sure that it answers during the whole upgrade, or set failurePolicy Ignore",
			"it is called by a URL, which is not checked; %s", refused)
	case !known:
		r.add(clustercheck.NotChecked, w.subject(), "", "the endpoints of %s could not be read",
			service)
	case b.Missing:
		r.fail(w.subject(),
			"install the webhook's program again, or delete the configuration",
			"%s does not exist; %s", service, refused)
	case b.Ready == 0:
		r.fail(w.subject(),
			"look at the Pods behind this Service: `kubectl get endpointslices -n "+
				w.Service.Namespace+"`",
			"no endpoint of %s is ready; %s", service, refused)
	case b.Nodes == 1 && own:
		r.fail(w.subject(),
			"run replicas on two Nodes, and exempt namespace "+w.Service.Namespace+
				" in namespaceSelector",
			"%s has %s, on one Node, and it must admit its own Pods: "+
				"when this Node is drained, nothing brings it back; %s",
			service, text.Count(b.Ready, "endpoint"), refused)
	case b.Nodes == 1:
		r.warn(w.subject(), "run replicas on two Nodes, with a PodDisruptionBudget",
			"%s has %s, on one Node, and nothing answers while it is drained; %s",
			service, text.Count(b.Ready, "endpoint"), refused)
	}
}

// doubt is why a webhook may exempt some of the requests; empty if it exempts none.
func (w Webhook) doubt() string {
	s := w.ObjectSelector
	if w.Conditional || s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		return " (as far as its objectSelector and matchConditions select them, " +
			"which is not evaluated)"
	}
	return ""
}

// describe names requests.
func describe(requests []request) string {
	words := make([]string, 0, len(requests))
	for _, r := range requests {
		words = append(words, r.what)
	}
	return text.JoinSome(words, shown, ", ")
}

// shown is how many items a message names.
const shown = 3

// servesServiceCIDR is the first minor whose API server creates ServiceCIDR kubernetes, and an
// IPAddress for each Service, by itself. It is not ready before it has created the ServiceCIDR.
var servesServiceCIDR = version.Minor{Major: 1, Minor: 33}

// firstStart are the requests that the first API server of servesServiceCIDR makes.
var firstStart = []request{
	{"ServiceCIDR kubernetes", networking, "v1", "servicecidrs", "", "", creates},
	{"IPAddresses of Services", networking, "v1", "ipaddresses", "", "", creates},
}

// CheckScope finds webhooks that must answer for cluster-scoped objects or for those in kube-system
// and kube-node-lease.
func CheckScope(
	u Upgrade, webhooks []Webhook, spaces map[string]labels.Set,
) []clustercheck.Finding {
	r := report{id: WebhookScope}
	for _, w := range webhooks {
		system := slices.DeleteFunc(w.needed(spaces), func(q request) bool {
			return q.namespace == anyNamespace
		})
		starts := ""
		if w.MustAnswer() && u.removes(servesServiceCIDR) {
			first := slices.DeleteFunc(slices.Clone(firstStart), func(q request) bool {
				return !w.matches(q, spaces)
			})
			if len(first) > 0 {
				starts = fmt.Sprintf("; the first API server of %s also creates %s at its start, "+
					"and is not ready if the webhook refuses that or does not answer",
					servesServiceCIDR, describe(first))
			}
			system = append(first, system...)
		}
		if len(system) == 0 {
			continue
		}
		r.warn(w.subject(), fixScope(system),
			"failurePolicy Fail: the cluster cannot repair itself while it does not answer, "+
				"because it must admit %s%s%s",
			describe(system), w.doubt(), starts)
	}
	return r.finish("no webhook with failurePolicy Fail must admit system objects in an upgrade")
}

// fixScope says how a webhook does not get requests: a namespaceSelector exempts objects in
// namespaces alone.
func fixScope(system []request) string {
	var spaces, resources []string
	for _, q := range system {
		if q.namespace != "" {
			spaces = append(spaces, q.namespace)
			continue
		}
		name := q.resource
		if q.group != "" {
			name += "." + q.group
		}
		if !slices.Contains(resources, name) {
			resources = append(resources, name)
		}
	}
	var fixes []string
	if len(spaces) > 0 {
		slices.Sort(spaces)
		fixes = append(fixes, fmt.Sprintf("exempt namespaces: namespaceSelector {matchExpressions: "+
			"[{key: %s, operator: NotIn, values: [%s]}]}",
			corev1.LabelMetadataName, strings.Join(slices.Compact(spaces), ", ")))
	}
	if len(resources) > 0 {
		const most = 8
		fixes = append(fixes, "a namespaceSelector does not exempt cluster-scoped objects: omit "+
			text.JoinSome(resources, most, ", ")+" from its rules, or exclude them in matchConditions "+
			"(Kyverno: resourceFilters), or set failurePolicy Ignore for the upgrade")
	}
	return strings.Join(fixes, "; ")
}
