package updatepolicy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// guardConfig is a configuration that guards everything, after an edit.
func guardConfig(edit func(*admissionregistrationv1.ValidatingWebhook)) *admissionregistrationv1.ValidatingWebhookConfiguration {
	w := admissionregistrationv1.ValidatingWebhook{
		Name: "guard.windlass.dev", FailurePolicy: new(admissionregistrationv1.Fail), MatchPolicy: new(admissionregistrationv1.Equivalent),
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "windlass.dev/guard", Operator: "NotIn", Values: []string{"disabled"}}}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"CREATE", "DELETE"},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"cluster.x-k8s.io"}, APIVersions: []string{"v1beta2"}, Resources: []string{"machines"}},
		}},
	}
	edit(&w)
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "windlass-guard"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{w}}
}

func TestSelectGuard(t *testing.T) {
	t.Parallel()
	type webhook = admissionregistrationv1.ValidatingWebhook
	const (
		missing  = `there is no ValidatingWebhookConfiguration "windlass-guard", so Cluster API may replace machines. Fix: install it: sed s/NAMESPACE/windlass-system/ config/webhook/guard.yaml | kubectl apply -f -`
		noCreate = `no webhook of ValidatingWebhookConfiguration "windlass-guard" with failurePolicy Fail is asked about every CREATE of a Machine. Fix: install it again: sed s/NAMESPACE/windlass-system/ config/webhook/guard.yaml | kubectl apply -f -`
		noDelete = `no webhook of ValidatingWebhookConfiguration "windlass-guard" with failurePolicy Fail is asked about every DELETE of a Machine. Fix: install it again: sed s/NAMESPACE/windlass-system/ config/webhook/guard.yaml | kubectl apply -f -`
		disabled = `namespace "ns" has the label windlass.dev/guard=disabled, so Cluster API may replace machines in it. Fix: remove the label`
		noCA     = `webhook "guard.windlass.dev" of ValidatingWebhookConfiguration "windlass-guard" has no caBundle, so API servers cannot call the guard and refuse to create and delete Machines that policies keep. Fix: ` +
			`see that cert-manager's CA injector runs and that the annotation cert-manager.io/inject-ca-from names the Certificate, or install it again: sed s/NAMESPACE/windlass-system/ config/webhook/guard.yaml | kubectl apply -f -`
		left = `the namespaceSelector in ValidatingWebhookConfiguration "windlass-guard" excludes namespace "ns", so Cluster API may replace machines in it. Fix: correct one or the other`
	)
	active := updatepolicy.Guard{Active: true, Reason: "GuardInstalled"}
	scoped := func(name string) []admissionregistrationv1.MatchCondition {
		return []admissionregistrationv1.MatchCondition{
			{Name: name, Expression: guard.NewScope("ns").Expression("writer")},
		}
	}
	lacking := func(message string) updatepolicy.Guard {
		return updatepolicy.Guard{Reason: "GuardMissing", Message: message}
	}
	if diff := cmp.Diff(lacking(missing), updatepolicy.SelectGuard(nil, "ns", nil)); diff != "" {
		t.Errorf("without a configuration (-want +got):\n%s", diff)
	}
	for name, tt := range map[string]struct {
		edit   func(*webhook)
		labels map[string]string
		want   updatepolicy.Guard
	}{
		"as installed":              {edit: func(*webhook) {}, want: active},
		"with another label":        {edit: func(*webhook) {}, labels: map[string]string{"windlass.dev/guard": "enabled"}, want: active},
		"a disabled namespace":      {edit: func(*webhook) {}, labels: map[string]string{"windlass.dev/guard": "disabled"}, want: updatepolicy.Guard{Reason: "NamespaceExcluded", Message: disabled}},
		"no selector":               {edit: func(w *webhook) { w.NamespaceSelector = nil }, labels: map[string]string{"windlass.dev/guard": "disabled"}, want: active},
		"a selector of others":      {edit: func(w *webhook) { w.NamespaceSelector = labelled("stage", "prod") }, want: updatepolicy.Guard{Reason: "NamespaceExcluded", Message: left}},
		"a selector that is broken": {edit: func(w *webhook) { w.NamespaceSelector = broken() }, want: updatepolicy.Guard{Reason: "NamespaceExcluded", Message: left}},
		"a Service without a CA": {
			edit: func(w *webhook) { w.ClientConfig.Service = &admissionregistrationv1.ServiceReference{Name: "x"} },
			want: updatepolicy.Guard{Reason: "GuardUnreachable", Message: noCA},
		},
		"a Service with a CA": {edit: func(w *webhook) {
			w.ClientConfig = admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "x"}, CABundle: []byte("x")}
		}, want: active},
		"defaults": {edit: func(w *webhook) { w.FailurePolicy, w.MatchPolicy = nil, nil }, want: active},
		"everything": {edit: func(w *webhook) {
			w.Rules[0].Operations = []admissionregistrationv1.OperationType{"*"}
			w.Rules[0].Rule = admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}}
		}, want: active},
		"everything with subresources": {edit: func(w *webhook) { w.Rules[0].Resources = []string{"*/*"} }, want: active},
		"two rules":                    {edit: func(w *webhook) { w.Rules = append(w.Rules, w.Rules[0]); splitRules(w) }, want: active},
		"unreachable means yes":        {edit: func(w *webhook) { w.FailurePolicy = new(admissionregistrationv1.Ignore) }, want: lacking(noCreate)},
		"only some Machines":           {edit: func(w *webhook) { w.ObjectSelector = labelled("a", "b") }, want: lacking(noCreate)},
		"under conditions": {edit: func(w *webhook) {
			w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "x", Expression: "false"}}
		}, want: lacking(noCreate)},
		"under the condition of a scope": {edit: func(w *webhook) {
			w.MatchConditions = scoped(v1alpha1.GuardScopeCondition)
		}, want: updatepolicy.Guard{Active: true, Reason: "GuardInstalled", Scopes: []guard.Scope{{"ns"}}}},
		"a scope under another name": {
			edit: func(w *webhook) { w.MatchConditions = scoped("x") }, want: lacking(noCreate),
		},
		"only deletion":          {edit: func(w *webhook) { w.Rules[0].Operations = w.Rules[0].Operations[1:] }, want: lacking(noCreate)},
		"only creation":          {edit: func(w *webhook) { w.Rules[0].Operations = w.Rules[0].Operations[:1] }, want: lacking(noDelete)},
		"another resource":       {edit: func(w *webhook) { w.Rules[0].Resources = []string{"machines/status"} }, want: lacking(noCreate)},
		"another group":          {edit: func(w *webhook) { w.Rules[0].APIGroups = []string{""} }, want: lacking(noCreate)},
		"one version, no others": {edit: func(w *webhook) { w.MatchPolicy = new(admissionregistrationv1.Exact) }, want: lacking(noCreate)},
		"all versions, exactly": {edit: func(w *webhook) {
			w.MatchPolicy, w.Rules[0].APIVersions = new(admissionregistrationv1.Exact), []string{"*"}
		}, want: active},
		"cluster-scoped objects": {edit: func(w *webhook) { w.Rules[0].Scope = new(admissionregistrationv1.ClusterScope) }, want: lacking(noCreate)},
		"no rules":               {edit: func(w *webhook) { w.Rules = nil }, want: lacking(noCreate)},
		"an empty selector":      {edit: func(w *webhook) { w.NamespaceSelector = &metav1.LabelSelector{} }, labels: map[string]string{"windlass.dev/guard": "disabled"}, want: active},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, updatepolicy.SelectGuard(guardConfig(tt.edit), "ns", tt.labels)); diff != "" {
				t.Errorf("SelectGuard (-want +got):\n%s", diff)
			}
		})
	}
}

// splitRules gives each of two rules one operation.
func splitRules(w *admissionregistrationv1.ValidatingWebhook) {
	w.Rules[0].Operations, w.Rules[1].Operations = w.Rules[0].Operations[:1], w.Rules[0].Operations[1:]
}

func TestComputeStatuses(t *testing.T) {
	t.Parallel()
	earlier, now := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	condition := func(kind, status, reason, message string, at metav1.Time) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, ObservedGeneration: 3, LastTransitionTime: at}
	}
	valid := condition("Ready", "True", "Valid", "", now)
	notNeeded := condition("Guarding", "False", "NotNeeded", "the policy has no group whose machines must not be replaced", now)
	installed := condition("Guarding", "True", "GuardInstalled", "", now)
	active, missing := updatepolicy.Guard{Active: true, Reason: "GuardInstalled"}, updatepolicy.Guard{Reason: "GuardMissing", Message: "no guard"}
	scoped := func(s guard.Scope) updatepolicy.Guard {
		return updatepolicy.Guard{Active: true, Reason: "GuardInstalled", Scopes: []guard.Scope{s}}
	}
	notCovering := func(groups string) metav1.Condition {
		return condition("Guarding", "False", "GuardNotCovering",
			`the match condition "kept-by-policies" of ValidatingWebhookConfiguration "windlass-guard" does not include the `+groups+
				" yet, so nothing keeps Cluster API from replacing their machines. Fix: see that `windlass extension` runs, and in its log why it cannot patch the configuration", now)
	}
	another := policy.Group{Namespace: "ns", Cluster: "prod", Topology: "md-1", Object: "prod-md-1"}
	replicas := func(n int64) []updatepolicy.State {
		return []updatepolicy.State{{Group: workers}, {Group: controlPlane, Kubeadm: true, Replicas: &n}}
	}
	both := []string{"control plane of ns/prod", "MachineDeployment ns/prod-md-0-x7k2p (topology md-0)"}
	keep, replace, rolling, faulty := newPolicy("keep", target{}), newPolicy("replace", target{}), newPolicy("rolling", target{}), newPolicy("faulty", target{Selector: broken()})
	replace.Spec.Fallback, rolling.Spec.Strategy = v1alpha1.FallbackRollingUpdate, v1alpha1.RollingUpdate
	conflictWith := func(other string) string {
		return fmt.Sprintf("the %s is also selected by %q with the same precision (any group of the namespace)", both[1], other)
	}
	undecided := func(conflict, guarding, reason, message string) v1alpha1.UpdatePolicyStatus {
		return v1alpha1.UpdatePolicyStatus{ObservedGeneration: 3, GroupCount: new(int32(0)), Conditions: []metav1.Condition{
			condition("Ready", "False", "Conflict", conflict+"; these groups are not updated until one policy names each more precisely than the others", now),
			condition("Guarding", guarding, reason, message, now),
		}}
	}
	const because = ", because it is not known which UpdatePolicy counts: "
	const beside = "the guard refuses to create and to delete the Machines of 2 groups" + because
	refused := func(other string) string {
		return "the guard refuses to create and to delete the Machines of 1 group" + because + conflictWith(other) +
			". Fix: let one policy name each group more precisely than the others"
	}
	old := *keep.DeepCopy()
	old.Status.Conditions = []metav1.Condition{condition("Ready", "True", "Valid", "", earlier), condition("Guarding", "False", "GuardMissing", "gone", earlier), condition("Other", "True", "X", "", earlier)}
	old.Status.Warnings, old.Status.Groups = []string{"old"}, []string{"old"}
	tests := map[string]struct {
		policies []v1alpha1.UpdatePolicy
		groups   []updatepolicy.State
		guard    updatepolicy.Guard
		want     []v1alpha1.UpdatePolicyStatus
	}{
		"no groups": {policies: []v1alpha1.UpdatePolicy{keep}, guard: active, want: []v1alpha1.UpdatePolicyStatus{
			{ObservedGeneration: 3, GroupCount: new(int32(0)), Conditions: []metav1.Condition{
				condition("Ready", "True", "NoGroups", "the policy counts for no group of machines: nothing in its namespace matches spec.targets, "+
					"or more precise policies count for all that does. Fix: compare the names and labels there with those of the Clusters and MachineDeployments", now),
				notNeeded,
			}},
		}},
		"guarded": {policies: []v1alpha1.UpdatePolicy{keep}, groups: replicas(3), guard: active, want: []v1alpha1.UpdatePolicyStatus{
			{ObservedGeneration: 3, GroupCount: new(int32(2)), Groups: both, Conditions: []metav1.Condition{valid, installed}},
		}},
		"not guarded": {policies: []v1alpha1.UpdatePolicy{keep}, groups: replicas(3), guard: missing, want: []v1alpha1.UpdatePolicyStatus{
			{ObservedGeneration: 3, GroupCount: new(int32(2)), Groups: both, Conditions: []metav1.Condition{valid, condition("Guarding", "False", "GuardMissing", "no guard", now)}},
		}},
		"guarded, without one group": {
			policies: []v1alpha1.UpdatePolicy{keep}, groups: replicas(3), guard: scoped(guard.Scope{"ns/prod/cp"}),
			want: []v1alpha1.UpdatePolicyStatus{{
				ObservedGeneration: 3, GroupCount: new(int32(2)), Groups: both,
				Conditions: []metav1.Condition{valid, notCovering(both[1])},
			}},
		},
		"guarded, without three groups": {
			policies: []v1alpha1.UpdatePolicy{keep}, groups: append(replicas(3), updatepolicy.State{Group: another}),
			guard: scoped(guard.Scope{}),
			want: []v1alpha1.UpdatePolicyStatus{{
				ObservedGeneration: 3, GroupCount: new(int32(3)), Groups: append(both[:2:2], another.String()),
				Conditions: []metav1.Condition{valid, notCovering(both[0] + " and 2 more groups")},
			}},
		},
		"still valid keeps its time, what is old goes": {policies: []v1alpha1.UpdatePolicy{old}, groups: replicas(3), guard: active, want: []v1alpha1.UpdatePolicyStatus{
			{ObservedGeneration: 3, GroupCount: new(int32(2)), Groups: both, Conditions: []metav1.Condition{
				condition("Ready", "True", "Valid", "", earlier), installed, condition("Other", "True", "X", "", earlier),
			}},
		}},
		"a guard for nobody": {policies: []v1alpha1.UpdatePolicy{rolling}, groups: replicas(1), guard: missing, want: []v1alpha1.UpdatePolicyStatus{
			{ObservedGeneration: 3, GroupCount: new(int32(2)), Groups: both, Conditions: []metav1.Condition{valid, notNeeded}},
		}},
		"a control plane of one, kept": {policies: []v1alpha1.UpdatePolicy{keep}, groups: replicas(1), guard: active, want: []v1alpha1.UpdatePolicyStatus{
			{
				ObservedGeneration: 3, GroupCount: new(int32(2)), Groups: both, Conditions: []metav1.Condition{valid, installed},
				Warnings: []string{"control plane of ns/prod: Cluster API cannot update a KubeadmControlPlane of 1 in place: it adds a machine first, because it refuses maxSurge 0 below 3 replicas; " +
					"no change reaches its machines, because the guard refuses the additional one"},
			},
		}},
		"a control plane of one, replaced": {policies: []v1alpha1.UpdatePolicy{replace}, groups: replicas(1), guard: active, want: []v1alpha1.UpdatePolicyStatus{
			{
				ObservedGeneration: 3, GroupCount: new(int32(2)), Groups: both, Conditions: []metav1.Condition{valid, notNeeded},
				Warnings: []string{"control plane of ns/prod: Cluster API cannot update a KubeadmControlPlane of 1 in place: it adds a machine first, because it refuses maxSurge 0 below 3 replicas; its machines are replaced"},
			},
		}},
		"a control plane of another kind": {policies: []v1alpha1.UpdatePolicy{keep}, groups: []updatepolicy.State{{Group: controlPlane, Replicas: new(int64(1))}}, guard: active, want: []v1alpha1.UpdatePolicyStatus{
			{ObservedGeneration: 3, GroupCount: new(int32(1)), Groups: both[:1], Conditions: []metav1.Condition{valid, installed}},
		}},
		"a control plane of unknown size": {policies: []v1alpha1.UpdatePolicy{keep}, groups: []updatepolicy.State{{Group: controlPlane, Kubeadm: true}}, guard: active, want: []v1alpha1.UpdatePolicyStatus{
			{ObservedGeneration: 3, GroupCount: new(int32(1)), Groups: both[:1], Conditions: []metav1.Condition{valid, installed}},
		}},
		"conflict": {policies: []v1alpha1.UpdatePolicy{keep, replace}, groups: replicas(3)[:1], guard: active, want: []v1alpha1.UpdatePolicyStatus{
			undecided(conflictWith("replace"), "True", "Conflict", refused("replace")),
			undecided(conflictWith("keep"), "True", "Conflict", refused("keep")),
		}},
		"conflict without a guard": {policies: []v1alpha1.UpdatePolicy{keep, replace}, groups: replicas(3)[:1], guard: missing, want: []v1alpha1.UpdatePolicyStatus{
			undecided(conflictWith("replace"), "False", "GuardMissing", "no guard"),
			undecided(conflictWith("keep"), "False", "GuardMissing", "no guard"),
		}},
		"conflict, not covered": {
			policies: []v1alpha1.UpdatePolicy{keep, replace}, groups: replicas(3)[:1], guard: scoped(guard.Scope{}),
			want: []v1alpha1.UpdatePolicyStatus{
				undecided(conflictWith("replace"), "False", "GuardNotCovering", notCovering(both[1]).Message),
				undecided(conflictWith("keep"), "False", "GuardNotCovering", notCovering(both[1]).Message),
			},
		},
		"conflict of policies that keep nothing": {policies: []v1alpha1.UpdatePolicy{replace, rolling}, groups: replicas(3)[:1], guard: active, want: []v1alpha1.UpdatePolicyStatus{
			undecided(conflictWith("rolling"), "False", "NotNeeded", notNeeded.Message),
			undecided(conflictWith("replace"), "False", "NotNeeded", notNeeded.Message),
		}},
		"invalid, and one that is less precise": {policies: []v1alpha1.UpdatePolicy{faulty, keep}, groups: replicas(3), guard: active, want: []v1alpha1.UpdatePolicyStatus{
			{ObservedGeneration: 3, Conditions: []metav1.Condition{
				condition("Ready", "False", "InvalidSpec", `spec.targets[0].selector: Invalid value: "Is" is not a valid label selector operator`, now),
				condition("Stalled", "True", "InvalidSpec", `spec.targets[0].selector: Invalid value: "Is" is not a valid label selector operator`, now),
				condition("Guarding", "Unknown", "InvalidSpec", "the spec cannot be used, so it is not known which groups to guard; "+
					"until it is correct, the guard refuses to create and to delete the Machines of 2 groups", now),
			}},
			{ObservedGeneration: 3, GroupCount: new(int32(0)), Conditions: []metav1.Condition{
				valid, condition("Guarding", "True", "InvalidPolicy", beside+`invalid UpdatePolicies may count for the `+both[0]+`: ns/faulty. Fix: correct them`, now),
			}},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := (&v1alpha1.UpdatePolicyList{Items: tt.policies}).DeepCopy().Items
			reversed := slices.Clone(tt.groups)
			slices.Reverse(reversed)
			for _, groups := range [][]updatepolicy.State{tt.groups, reversed} {
				if diff := cmp.Diff(tt.want, selectAll(t, policy.CompileAll(tt.policies), groups).Statuses(tt.policies, tt.guard, now)); diff != "" {
					t.Errorf("ComputeStatuses (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(before, tt.policies); diff != "" {
				t.Errorf("ComputeStatuses changed its input (-before +after):\n%s", diff)
			}
		})
	}
}

// TestStatusBounds holds that the lists keep the bounds of the CRD.
func TestStatusBounds(t *testing.T) {
	t.Parallel()
	var groups []updatepolicy.State
	for i := range 300 {
		groups = append(groups, updatepolicy.State{
			Group: policy.Group{Namespace: "ns", Cluster: fmt.Sprintf("c%03d", i), ControlPlane: true}, Kubeadm: true, Replicas: new(int64(1)),
		})
	}
	compute := func(policies ...v1alpha1.UpdatePolicy) v1alpha1.UpdatePolicyStatus {
		return selectAll(t, policy.CompileAll(policies), groups).Statuses(policies, updatepolicy.Guard{}, metav1.Unix(0, 0))[0]
	}
	got := compute(newPolicy("keep", target{}))
	if *got.GroupCount != 300 || len(got.Groups) != 256 || got.Groups[255] != "control plane of ns/c255" || len(got.Warnings) != 16 {
		t.Errorf("%d groups, %d listed, %d warnings; want 300, 256, 16", *got.GroupCount, len(got.Groups), len(got.Warnings))
	}
	got = compute(newPolicy("a", target{}), newPolicy("b", target{}))
	if message := got.Conditions[0].Message; !strings.Contains(message, "; and 297 more; these groups") {
		t.Errorf("message is %q", message)
	}
}
