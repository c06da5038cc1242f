package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/contract"
)

func checkAccess(t *testing.T, i *installation, namespace string) {
	t.Helper()
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: i.account.Name, Namespace: namespace}}
	for k, binding := range i.bindings {
		if diff := cmp.Diff(want, binding.Subjects); diff != "" || binding.RoleRef.Name != i.roles[k].Name || binding.Namespace != "" || i.roles[k].Namespace != "" {
			t.Errorf("the role %s is bound to (-want +got):\n%s", binding.RoleRef.Name, diff)
		}
	}
	if diff := cmp.Diff(want, i.leaseBinding.Subjects); diff != "" || i.leaseBinding.RoleRef.Name != i.leaseRole.Name {
		t.Errorf("the role %s is bound to (-want +got):\n%s", i.leaseBinding.RoleRef.Name, diff)
	}
	if got := i.deployment.Spec.Template.Spec.ServiceAccountName; got != i.account.Name {
		t.Errorf("the pods run as %q", got)
	}
	rules := slices.Clone(i.leaseRole.Rules)
	for _, role := range i.roles {
		rules = append(rules, role.Rules...)
	}
	checkLeast(t, rules)
	checkPolicies(t, i)
}

// checkPolicies checks that the admission policies are about the account that the pods run as, in any
// namespace, and that each is in force.
func checkPolicies(t *testing.T, i *installation) {
	t.Helper()
	account := fmt.Sprintf("'^system:serviceaccount:[^:]+:%s$'", i.account.Name)
	var names []string
	for k, policy := range i.policies {
		names = append(names, policy.Name)
		spec := policy.Spec
		if got := spec.MatchConditions; len(got) != 1 || !strings.Contains(got[0].Expression, account) {
			t.Errorf("the policy %s is about %v, want %s", policy.Name, got, account)
		}
		if spec.FailurePolicy == nil || *spec.FailurePolicy != admissionregistrationv1.Fail || policy.Namespace != "" {
			t.Errorf("the policy %s is %+v in namespace %q", policy.Name, spec, policy.Namespace)
		}
		want := admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}
		if diff := cmp.Diff(want, i.policyBindings[k].Spec); diff != "" || i.policyBindings[k].Namespace != "" {
			t.Errorf("the binding of the policy %s (-want +got):\n%s", policy.Name, diff)
		}
	}
	if diff := cmp.Diff([]string{"windlass-extension-configmaps", "windlass-extension-pods"}, names); diff != "" {
		t.Errorf("the admission policies (-want +got):\n%s", diff)
	}
}

// checkLeast holds what the extension may do at all: whoever lets it do more has to say so here, too.
func checkLeast(t *testing.T, rules []rbacv1.PolicyRule) {
	t.Helper()
	got := map[string][]string{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, name := range rule.Resources {
				key := name
				if group != "" {
					key += "." + group
				}
				if len(rule.ResourceNames) > 0 {
					key += " " + strings.Join(rule.ResourceNames, " ")
				}
				got[key] = append(got[key], rule.Verbs...)
			}
		}
		if len(rule.NonResourceURLs) > 0 {
			t.Errorf("a rule is about %q", rule.NonResourceURLs)
		}
	}
	listAndWatch, read := []string{"list", "watch"}, []string{"get", "list", "watch"}
	readAndPatch := []string{"get", "list", "watch", "patch"}
	want := map[string][]string{
		"upgradegraphs.windlass.dev": listAndWatch, "updaters.windlass.dev": read, "updatepolicies.windlass.dev": listAndWatch,
		"upgradegraphs/status.windlass.dev": {"patch"}, "updaters/status.windlass.dev": {"patch"}, "updatepolicies/status.windlass.dev": {"patch"},
		"upgradegates.windlass.dev": read, "upgradegates/status.windlass.dev": {"patch"},
		"clusters.cluster.x-k8s.io": read, "machinedeployments.cluster.x-k8s.io": readAndPatch, "machinesets.cluster.x-k8s.io": {"get", "list", "patch"}, "machines.cluster.x-k8s.io": readAndPatch,
		"machines/status.cluster.x-k8s.io": {"patch"}, "machinedeployments/status.cluster.x-k8s.io": {"patch"},
		"machinedrainrules.cluster.x-k8s.io": {"list"},
		"*.controlplane.cluster.x-k8s.io":    readAndPatch, "*/status.controlplane.cluster.x-k8s.io": {"patch"},
		"*.infrastructure.cluster.x-k8s.io": {"get"}, "*.bootstrap.cluster.x-k8s.io": {"get"},
		"configmaps": {"get", "create", "patch", "delete"},
		// In its own namespace: the label of the Pod that leads.
		"pods":    {"get", "list", "patch"},
		"secrets": {"get"}, "namespaces": listAndWatch, "customresourcedefinitions.apiextensions.k8s.io": listAndWatch,
		"validatingwebhookconfigurations.admissionregistration.k8s.io":                                    listAndWatch,
		"validatingwebhookconfigurations.admissionregistration.k8s.io " + v1alpha1.GuardConfigurationName: {"patch"},
		"events.events.k8s.io":                               {"create", "patch"},
		"extensionconfigs.runtime.cluster.x-k8s.io windlass": {"list", "watch", "patch"},
		"tokenreviews.authentication.k8s.io":                 {"create"}, "subjectaccessreviews.authorization.k8s.io": {"create"},
		"leases.coordination.k8s.io": {"create"}, "leases.coordination.k8s.io extension.windlass.dev": {"get", "update", "watch"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the extension may do (-want +got):\n%s", diff)
	}
}

// TestProviderRole: the extension has the rules of the sample, and no more than it needs of them.
func TestProviderRole(t *testing.T) {
	t.Parallel()
	sample := readSamples[rbacv1.ClusterRole](t, "samples/provider_role.yaml")[0]
	i := decode(t, build(t, unchanged))
	at := slices.IndexFunc(i.roles, func(r rbacv1.ClusterRole) bool { return r.AggregationRule != nil })
	if at < 0 {
		t.Fatal("no role aggregates others")
	}
	want := []metav1.LabelSelector{{MatchLabels: map[string]string{contract.AggregationLabel: "true"}}}
	if diff := cmp.Diff(want, i.roles[at].AggregationRule.ClusterRoleSelectors); diff != "" {
		t.Errorf("which roles are aggregated (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[0].MatchLabels, sample.Labels); diff != "" {
		t.Errorf("the labels of the sample (-want +got):\n%s", diff)
	}
	for _, rule := range sample.Rules {
		for _, verb := range rule.Verbs {
			if !slices.Contains([]string{"get", "list", "watch", "patch"}, verb) {
				t.Errorf("the sample allows to %s", verb)
			}
		}
	}
}

// checkNetwork compares the whole policy: a label too many would keep Cluster API out.
func checkNetwork(t *testing.T, i *installation) {
	t.Helper()
	at := slices.IndexFunc(i.networks, func(n networkingv1.NetworkPolicy) bool { return n.Name == i.deployment.Name })
	if len(i.networks) != 2 || at < 0 {
		t.Fatalf("there are %d NetworkPolicies", len(i.networks))
	}
	ingress, egress := i.networks[at], i.networks[1-at]
	tcp, hooks, health, guard := corev1.ProtocolTCP, intstr.FromString("hooks"), intstr.FromString("health"), intstr.FromString("guard")
	caller := func(namespace string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}}
	}
	want := []networkingv1.NetworkPolicyIngressRule{
		{
			From:  []networkingv1.NetworkPolicyPeer{caller("capi-system"), caller("capi-kubeadm-control-plane-system")},
			Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &hooks}},
		},
		{Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &guard}, {Protocol: &tcp, Port: &health}}},
	}
	if diff := cmp.Diff(want, ingress.Spec.Ingress); diff != "" {
		t.Errorf("the NetworkPolicy lets in (-want +got):\n%s", diff)
	}
	if got := ingress.Spec.PolicyTypes; !slices.Equal(got, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
		t.Errorf("the NetworkPolicy is about %v", got)
	}
	var ports []string
	for _, rule := range egress.Spec.Egress {
		for _, p := range rule.Ports {
			ports = append(ports, fmt.Sprint(*p.Protocol, " ", p.Port))
		}
		if len(rule.To) > 0 || len(rule.Ports) == 0 {
			t.Errorf("the NetworkPolicy %s lets out %+v", egress.Name, rule)
		}
	}
	if got, want := strings.Join(ports, ", "), "UDP 53, TCP 53, UDP 5353, TCP 5353, TCP 443, TCP 6443, TCP 9443, TCP 22, TCP 2380"; got != want {
		t.Errorf("the NetworkPolicy %s lets out %s, want %s", egress.Name, got, want)
	}
	if got := egress.Spec.PolicyTypes; !slices.Equal(got, []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}) || len(egress.Spec.Ingress) > 0 {
		t.Errorf("the NetworkPolicy %s is about %v", egress.Name, got)
	}
}
