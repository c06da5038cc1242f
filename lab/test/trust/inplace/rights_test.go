package inplace

import (
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// setRole changes the rules of one of the extension's roles.
func setRole(t *testing.T, p *wire.Plane, name string, change func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Get(t, role)
	patch := client.MergeFrom(role.DeepCopy())
	role.Rules = change(role.Rules)
	if err := p.Client.Patch(t.Context(), role, patch); err != nil {
		t.Fatal(err)
	}
}

// awaitAnswer calls a hook until its answer is as it should be: API servers read roles asynchronously.
func awaitAnswer(t *testing.T, call func() wire.Answer, status runtimehooksv1.ResponseStatus) wire.Answer {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		answer := call()
		if answer.Status == status {
			return answer
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("the answer is %+v, want %s", answer, status)
		}
	}
}

// TestMissingRights runs the extension without the right to read infrastructure machines. The hooks'
// answers and the conditions say which right is missing; once it is granted, everything goes on.
func TestMissingRights(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "a")
	newUpdater(t, plane, pool, "u").Update = working
	restricted := plane.Restricted(t)
	setRole(t, plane, "windlass-extension", func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		for i := range rules {
			rules[i].APIGroups = slices.DeleteFunc(rules[i].APIGroups, func(group string) bool {
				return group == wire.InfrastructureVersion.Group
			})
		}
		return rules
	})
	extension := restricted.Run(t)
	ask := func() wire.Answer { return extension.Call(t, wire.CanUpdateMachineSet, pool.Question(t)) }
	update := func() wire.Answer { return extension.Call(t, wire.UpdateMachine, pool.Update(t, "a")) }
	check := func(answer wire.Answer, conditions []metav1.Condition) {
		t.Helper()
		condition := meta.FindStatusCondition(conditions, v1alpha1.UpdateBlockedCondition)
		if condition == nil || condition.Reason != "RightsMissing" {
			t.Fatalf("the condition is %+v", condition)
		}
		for _, message := range []string{answer.Message, condition.Message} {
			if !strings.Contains(message, wire.InfrastructureVersion.Group) || !strings.Contains(message, "windlass.dev/aggregate-to-extension") {
				t.Errorf("a message does not say what is missing and how to grant it: %s", message)
			}
		}
	}
	// This is what Kubernetes does when an operator adds a ClusterRole with the label, or removes it.
	aggregate := func(rules ...rbacv1.PolicyRule) {
		t.Helper()
		setRole(t, plane, "windlass-extension-providers", func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return rules })
	}
	granted := rbacv1.PolicyRule{APIGroups: []string{wire.InfrastructureVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get"}}

	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: wire.PoolName}}
	answer := ask()
	plane.Get(t, deployment)
	check(answer, deployment.Status.Conditions)
	aggregate(granted)
	awaitAnswer(t, ask, runtimehooksv1.ResponseStatusSuccess)
	plane.Get(t, deployment)
	if c := meta.FindStatusCondition(deployment.Status.Conditions, v1alpha1.UpdateBlockedCondition); c != nil {
		t.Errorf("the condition is left: %+v", c)
	}

	aggregate()
	pool.Move(t, "a")
	answer = awaitAnswer(t, update, runtimehooksv1.ResponseStatusFailure)
	check(answer, pool.Machine(t, "a").Status.Conditions)
	aggregate(granted)
	awaitAnswer(t, update, runtimehooksv1.ResponseStatusSuccess)
	if c := meta.FindStatusCondition(pool.Machine(t, "a").Status.Conditions, v1alpha1.UpdateBlockedCondition); c != nil {
		t.Errorf("the condition is left: %+v", c)
	}
}
