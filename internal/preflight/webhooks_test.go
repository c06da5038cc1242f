package preflight_test

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/pkg/version"
)

func ruleFor(group, resources string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{Operations: operations, Rule: admissionregistrationv1.Rule{
		APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: strings.Fields(resources),
	}}
}

// hook is a webhook for Pods of all namespaces, behind the Service ops/hook.
func hook(edit func(*preflight.Webhook)) preflight.Webhook {
	w := preflight.Webhook{
		Kind: "ValidatingWebhookConfiguration", Configuration: "c", Name: "w", Service: types.NamespacedName{Namespace: "ops", Name: "hook"},
		Rules: []admissionregistrationv1.RuleWithOperations{ruleFor("", "pods", admissionregistrationv1.Create)},
	}
	if edit != nil {
		edit(&w)
	}
	return w
}

var spaces = map[string]labels.Set{
	"kube-system":     {"kubernetes.io/metadata.name": "kube-system"},
	"kube-node-lease": {"kubernetes.io/metadata.name": "kube-node-lease"},
	"ops":             {"kubernetes.io/metadata.name": "ops"},
}

func except(names ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: names},
	}}
}

const subject = "ValidatingWebhookConfiguration c, webhook w: "

func TestCheckBackends(t *testing.T) {
	t.Parallel()
	const podsOf = "Pods of the system on new Nodes, Pods that replace evicted ones"
	const refuses = "; its failurePolicy is Fail, so the API server then refuses "
	all := func(w *preflight.Webhook) {
		w.Rules = []admissionregistrationv1.RuleWithOperations{ruleFor("*", "*/*", "*")}
	}
	tests := map[string]struct {
		webhook preflight.Webhook
		backend preflight.Backend
		want    string
	}{
		"on two Nodes": {hook(nil), preflight.Backend{Ready: 2, Nodes: 2}, "Passed: 1 webhook that an upgrade calls checked: each can answer while one Node is drained"},
		"missing":      {hook(nil), preflight.Backend{Missing: true}, "Failed: " + subject + "Service ops/hook does not exist" + refuses + podsOf},
		"not ready":    {hook(nil), preflight.Backend{}, "Failed: " + subject + "no endpoint of Service ops/hook is ready" + refuses + podsOf},
		"brings itself back": {hook(nil), preflight.Backend{Ready: 1, Nodes: 1}, "Failed: " + subject +
			"Service ops/hook has 1 endpoint, on one Node, and it must admit its own Pods: when this Node is drained, nothing brings it back" + refuses + podsOf},
		"two on one Node": {hook(func(w *preflight.Webhook) { w.NamespaceSelector = except("ops") }), preflight.Backend{Ready: 2, Nodes: 1},
			"Warned: " + subject + "Service ops/hook has 2 endpoints, on one Node, and nothing answers while it is drained" + refuses + podsOf},
		"a URL": {hook(func(w *preflight.Webhook) { w.Service = types.NamespacedName{} }), preflight.Backend{},
			"Warned: " + subject + "it is called by a URL, which is not checked" + refuses + podsOf},
		"everything": {hook(all), preflight.Backend{}, "Failed: " + subject + "no endpoint of Service ops/hook is ready" + refuses +
			"updates of Nodes, new Nodes, deletions of Nodes and 29 more"},
		"evictions": {hook(func(w *preflight.Webhook) {
			w.Rules = []admissionregistrationv1.RuleWithOperations{ruleFor("", "pods/eviction", admissionregistrationv1.Create)}
		}), preflight.Backend{}, "Failed: " + subject + "no endpoint of Service ops/hook is ready" + refuses + "evictions"},
		"with an objectSelector": {hook(func(w *preflight.Webhook) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}), preflight.Backend{}, "Failed: " + subject + "no endpoint of Service ops/hook is ready" + refuses +
			podsOf + " (as far as its objectSelector and matchConditions select them, which is not evaluated)"},
		"Ignore": {hook(func(w *preflight.Webhook) { w.FailurePolicy = new(admissionregistrationv1.Ignore) }), preflight.Backend{},
			"Passed: 0 webhooks that an upgrade calls checked: each can answer while one Node is drained"},
		"Pods outside of the system": {
			hook(func(w *preflight.Webhook) { w.NamespaceSelector = except("kube-system") }), preflight.Backend{},
			"Failed: " + subject + "no endpoint of Service ops/hook is ready" + refuses + "Pods that replace evicted ones",
		},
		"nothing that an upgrade does": {
			hook(func(w *preflight.Webhook) {
				w.Rules = []admissionregistrationv1.RuleWithOperations{ruleFor("", "services", "*")}
			}), preflight.Backend{},
			"Passed: 0 webhooks that an upgrade calls checked: each can answer while one Node is drained",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backends := map[types.NamespacedName]preflight.Backend{{Namespace: "ops", Name: "hook"}: tt.backend}
			expect(t, []string{tt.want}, sayBriefly(preflight.CheckBackends([]preflight.Webhook{tt.webhook}, backends, spaces)))
		})
	}
	expect(t, []string{"NotChecked: " + subject + "the endpoints of Service ops/hook could not be read"},
		sayBriefly(preflight.CheckBackends([]preflight.Webhook{hook(nil)}, nil, spaces)))
}

func TestCheckScope(t *testing.T) {
	t.Parallel()
	rule := func(group, resources string, operation admissionregistrationv1.OperationType) func(*preflight.Webhook) {
		return func(w *preflight.Webhook) {
			w.Rules = []admissionregistrationv1.RuleWithOperations{ruleFor(group, resources, operation)}
		}
	}
	scoped := func(s admissionregistrationv1.ScopeType) func(*preflight.Webhook) {
		return func(w *preflight.Webhook) {
			rule("", "nodes pods", "*")(w)
			w.Rules[0].Scope = new(s)
		}
	}
	const passed = "Passed: no webhook with failurePolicy Fail must admit system objects in an upgrade"
	found := func(what string) string {
		return "Warned: " + subject + "failurePolicy Fail: the cluster cannot repair itself while it does not answer, because it must admit " + what
	}
	tests := map[string]struct {
		edit func(*preflight.Webhook)
		want string
	}{
		"Pods":              {nil, found("Pods of the system on new Nodes")},
		"exempt":            {func(w *preflight.Webhook) { w.NamespaceSelector = except("kube-system") }, passed},
		"evictions":         {rule("", "pods/eviction", "*"), passed},
		"Leases":            {rule("coordination.k8s.io", "leases", "*"), found("Leases of new Nodes, heartbeats of Nodes, leader elections of the control plane")},
		"another operation": {rule("", "configmaps", admissionregistrationv1.Delete), passed},
		"another group":     {rule("example.com", "pods", "*"), passed},
		"cluster scope":     {scoped(admissionregistrationv1.ClusterScope), found("updates of Nodes, new Nodes, deletions of Nodes")},
		"namespaced scope":  {scoped(admissionregistrationv1.NamespacedScope), found("Pods of the system on new Nodes")},
		"a subresource":     {rule("", "nodes/status", "*"), found("the status of Nodes")},
		"all subresources":  {rule("", "nodes/*", "*"), found("updates of Nodes, new Nodes, deletions of Nodes and 1 more")},
		"an old version":    {func(w *preflight.Webhook) { w.Rules[0].APIVersions = []string{"v1beta1"} }, found("Pods of the system on new Nodes")},
		"an old version, exactly": {func(w *preflight.Webhook) {
			w.Rules[0].APIVersions = []string{"v1beta1"}
			w.MatchPolicy = new(admissionregistrationv1.Exact)
		}, passed},
		"an invalid selector": {func(w *preflight.Webhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Maybe"}}}
		}, found("Pods of the system on new Nodes")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, []string{tt.want}, sayBriefly(preflight.CheckScope(preflight.Upgrade{}, []preflight.Webhook{hook(tt.edit)}, spaces)))
		})
	}
}

// TestServiceCIDR: the API server of v1.33 creates objects at its first start, for which no
// namespaceSelector helps, so that the fix names them.
func TestServiceCIDR(t *testing.T) {
	t.Parallel()
	const names = "omit servicecidrs.networking.k8s.io, ipaddresses.networking.k8s.io from its rules"
	upgrade := func(from, to string) preflight.Upgrade {
		return preflight.Upgrade{From: version.MustParse(from), To: version.MustParse(to)}
	}
	ignore := admissionregistrationv1.Ignore
	for name, tt := range map[string]struct {
		upgrade  preflight.Upgrade
		resource string
		policy   *admissionregistrationv1.FailurePolicyType
		want     bool
	}{
		"to v1.33":       {upgrade("v1.32.9", "v1.33.5"), "*", nil, true},
		"across v1.33":   {upgrade("v1.32.9", "v1.34.3"), "*", nil, true},
		"within v1.33":   {upgrade("v1.33.1", "v1.33.5"), "*", nil, false},
		"to v1.34":       {upgrade("v1.33.5", "v1.34.3"), "*", nil, false},
		"may be silent":  {upgrade("v1.32.9", "v1.33.5"), "*", &ignore, false},
		"other resource": {upgrade("v1.32.9", "v1.33.5"), "ingresses", nil, false},
	} {
		w := hook(func(w *preflight.Webhook) {
			w.NamespaceSelector, w.FailurePolicy = except("kube-system"), tt.policy
			w.Rules = []admissionregistrationv1.RuleWithOperations{
				ruleFor("networking.k8s.io", tt.resource, admissionregistrationv1.OperationAll),
			}
		})
		f := preflight.CheckScope(tt.upgrade, []preflight.Webhook{w}, spaces)[0]
		if warned := f.Outcome == clustercheck.Warned; warned != tt.want {
			t.Errorf("%s: %+v", name, f)
		}
		if tt.want && (!strings.Contains(f.Fix, names) || strings.Contains(f.Fix, "exempt namespaces") ||
			!strings.Contains(f.Message, "the first API server of v1.33 also creates ServiceCIDR kubernetes")) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestFixOfScope: the fix exempts the namespaces that the webhook takes in, and names the resources
// for which that does not help.
func TestFixOfScope(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		group, resources, want, not string
	}{
		"namespaces":    {"coordination.k8s.io", "leases", "values: [kube-node-lease, kube-system]}]}", "omit"},
		"cluster scope": {"", "nodes", "omit nodes from its rules", "exempt namespaces"},
		"both":          {"rbac.authorization.k8s.io", "roles clusterroles", "values: [kube-system]}]}; a namespaceSelector does not", "nodes"},
	} {
		w := hook(func(w *preflight.Webhook) {
			w.Rules = []admissionregistrationv1.RuleWithOperations{ruleFor(tt.group, tt.resources, "*")}
		})
		f := preflight.CheckScope(preflight.Upgrade{}, []preflight.Webhook{w}, spaces)[0]
		if !strings.Contains(f.Fix, tt.want) || strings.Contains(f.Fix, tt.not) {
			t.Errorf("%s: %s", name, f.Fix)
		}
	}
}

// TestRequests holds which requests of an upgrade a webhook can refuse, each by a webhook for it alone.
func TestRequests(t *testing.T) {
	t.Parallel()
	const create, update = admissionregistrationv1.Create, admissionregistrationv1.Update
	const rbac = "rbac.authorization.k8s.io"
	tests := map[string]struct {
		group, resource string
		operation       admissionregistrationv1.OperationType
		// system reports that the request is about a system object.
		system bool
	}{
		"deletions of Nodes":                 {"", "nodes", admissionregistrationv1.Delete, true},
		"tokens of Nodes that join":          {"", "secrets", create, true},
		"approvals of certificates":          {"certificates.k8s.io", "certificatesigningrequests/approval", update, true},
		"signed certificates":                {"certificates.k8s.io", "certificatesigningrequests/status", update, true},
		"Leases of new Nodes":                {"coordination.k8s.io", "leases", create, true},
		"new Roles of kubeadm":               {rbac, "roles", create, true},
		"Roles of kubeadm":                   {rbac, "roles", update, true},
		"new RoleBindings of kubeadm":        {rbac, "rolebindings", create, true},
		"RoleBindings of kubeadm":            {rbac, "rolebindings", update, true},
		"new ClusterRoles of kubeadm":        {rbac, "clusterroles", create, true},
		"ClusterRoles of kubeadm":            {rbac, "clusterroles", update, true},
		"new ClusterRoleBindings of kubeadm": {rbac, "clusterrolebindings", create, true},
		"ClusterRoleBindings of kubeadm":     {rbac, "clusterrolebindings", update, true},
		"deletions of evicted Pods":          {"", "pods", admissionregistrationv1.Delete, false},
		"the status of Pods":                 {"", "pods/status", update, false},
		"bindings of Pods to Nodes":          {"", "pods/binding", create, false},
		"tokens that Pods mount":             {"", "serviceaccounts/token", create, false},
		"attachments of volumes":             {"storage.k8s.io", "volumeattachments", create, true},
		"detachments of volumes":             {"storage.k8s.io", "volumeattachments", admissionregistrationv1.Delete, true},
		"the status of volume attachments":   {"storage.k8s.io", "volumeattachments/status", update, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			webhooks := []preflight.Webhook{hook(func(w *preflight.Webhook) {
				w.Rules = []admissionregistrationv1.RuleWithOperations{ruleFor(tt.group, tt.resource, tt.operation)}
			})}
			backends := map[types.NamespacedName]preflight.Backend{{Namespace: "ops", Name: "hook"}: {Missing: true}}
			f := preflight.CheckBackends(webhooks, backends, spaces)[0]
			if f.Outcome != clustercheck.Failed || !strings.Contains(f.Message, "then refuses "+name) {
				t.Errorf("got %+v", f)
			}
			if got := preflight.CheckScope(preflight.Upgrade{}, webhooks, spaces)[0].Outcome == clustercheck.Warned; got != tt.system {
				t.Errorf("about a system object: %t, want %t", got, tt.system)
			}
		})
	}
}
