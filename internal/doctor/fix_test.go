package doctor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestFixes checks what is said, once, and what to do about it.
func TestFixes(t *testing.T) {
	blocked := func(reason, message string) func(*Facts) {
		return func(f *Facts) {
			f.Objects.MachineDeployments[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message}}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*Facts)
		id     ID
		// want are the messages of findings that are not OK, and fix is in all their fixes.
		want []string
		fix  []string
	}{
		{"failed machine, on its owner and in Cluster API's words too", func(f *Facts) {
			const why = `updater "kubeadm" (1 of 1), attempt 3 failed, and no attempt is left: the disk is full`
			w := f.Objects.Machines[1]
			w.Annotations[v1alpha1.UpdateProgressAnnotation] = `{"phase": "Failed", "lastError": "` + strings.ReplaceAll(why, `"`, `\"`) + `"}`
			w.Status.Conditions = []metav1.Condition{
				{Type: v1alpha1.UpdateBlockedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.UpdateFailedReason, Message: why},
				{Type: "Updating", Status: metav1.ConditionTrue, Message: why},
			}
			blocked(v1alpha1.UpdateFailedReason, why)(f)
		}, CheckMachines,
			[]string{`Machine w-1: its update failed: updater "kubeadm" (1 of 1), attempt 3 failed, and no attempt is left: the disk is full`},
			[]string{"windlass retry machine w-1 -n team-a", "windlass abandon machine NAME -n team-a", "windlass.dev/allow-replacement=", "onFailure Remediate"}},
		{"failed machine that is not known", blocked(v1alpha1.UpdateFailedReason, "it failed"), CheckMachines,
			[]string{"MachineDeployment prod-md-0: its update is blocked (UpdateFailed): it failed"}, []string{"do what the message says"}},
		{"not covered", blocked(v1alpha1.NotCoveredReason, "x. Fix: this or that"), CheckMachines,
			[]string{"MachineDeployment prod-md-0: its update is blocked (NotCovered): x"},
			[]string{"an updater that covers", "ignorePaths", "RollingUpdate", "revert the change"}},
		{"OnDelete, and the engine is ours", func(f *Facts) {
			f.Engine = v1alpha1.EngineManager
			strategy := &f.Objects.MachineDeployments[0].Spec.Rollout.Strategy
			strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
		}, CheckSurge, []string{"MachineDeployment prod-md-0: its rollout strategy is OnDelete: Cluster API never asks, " +
			"and replaces a machine when somebody deletes it"},
			[]string{"set the type RollingUpdate", "; or onDelete InPlace in the UpdatePolicy"}},
		{"updater that fails", blocked(v1alpha1.UpdaterErrorReason, "x"), CheckMachines,
			[]string{"MachineDeployment prod-md-0: its update is blocked (UpdaterError): x"}, []string{"kubectl get updaters"}},
		{"guard not installed", func(f *Facts) { f.Guard = nil }, CheckGuard,
			[]string{`guard: there is no ValidatingWebhookConfiguration "windlass-guard", so Cluster API may replace machines`},
			[]string{"cert-manager runs", "no Machine is created or deleted", "config/webhook/guard.yaml | kubectl apply -f -"}},
		{"no Updater at all", func(f *Facts) { f.Updaters = nil }, CheckUpdaters, []string{
			controlPlane + ": no Updater is registered, so no change is possible in place",
			workers + ": no Updater is registered, so no change is possible in place",
		}, []string{"register one"}},
		{"a policy of another Cluster only", func(f *Facts) { f.Policies[0].Spec.Targets[0].ClusterName = "prdo" }, CheckPolicy, []string{
			controlPlane + ": no UpdatePolicy selects it, so that its machines are replaced",
			workers + ": no UpdatePolicy selects it, so that its machines are replaced",
			`UpdatePolicy all: it selects nothing of this Cluster: is clusterName right? Its targets name ["prdo"]; the nearest name is "prod"`,
		}, nil},
		{"a policy that counts for another Cluster", func(f *Facts) {
			f.Policies[0].Spec.Targets[0].ClusterName = "prdo"
			f.Policies[0].Status.GroupCount = new(int32(2))
		}, CheckPolicy, []string{
			controlPlane + ": no UpdatePolicy selects it, so that its machines are replaced",
			workers + ": no UpdatePolicy selects it, so that its machines are replaced",
		}, nil},
		{"a policy for nothing at all, beside one that counts", func(f *Facts) {
			idle := newPolicy("idle", v1alpha1.ExternalUpdate, "", v1alpha1.UpdateTarget{ControlPlane: true, ClusterName: "other"})
			idle.Status.GroupCount = new(int32(0))
			other := idle
			other.Name, other.Status.GroupCount = "other", new(int32(1))
			f.Policies = append(f.Policies, idle, other)
		}, CheckPolicy, []string{`UpdatePolicy idle: it selects nothing: is clusterName right? Its targets name ["other"]`}, []string{"clusterName, clusterSelector"}},
		{"policies in conflict", func(f *Facts) {
			twin := f.Policies[0]
			f.Policies[0].Status.GroupCount = new(int32(0))
			twin.Name, twin.Status.GroupCount = "twin", new(int32(0))
			f.Policies = append(f.Policies, twin)
		}, CheckPolicy, []string{
			controlPlane + `: UpdatePolicies "all", "twin" select the control plane of team-a/prod with the same precision (by name of the cluster); let only one of them select it, or let one name it more precisely`,
			workers + `: UpdatePolicies "all", "twin" select the MachineDeployment team-a/prod-md-0 (topology md-0) with the same precision (by name of the cluster); let only one of them select it, or let one name it more precisely`,
		}, nil},
		{"a policy beside invalid ones", func(f *Facts) {
			f.Policies[0].Status.GroupCount = new(int32(0))
			for _, name := range []string{"x", "y", "z"} {
				invalid := newPolicy(name, v1alpha1.ExternalUpdate, "", v1alpha1.UpdateTarget{ClusterName: "prod", Selector: &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}},
				}})
				f.Policies = append(f.Policies, invalid)
			}
		}, CheckPolicy, []string{
			controlPlane + `: UpdatePolicy "team-a/x" cannot be used: spec.targets[0].selector: Invalid value: "Is" is not a valid label selector operator; invalid as well: y, z`,
			workers + `: UpdatePolicy "team-a/x" cannot be used: spec.targets[0].selector: Invalid value: "Is" is not a valid label selector operator; invalid as well: y, z`,
		}, nil},
		{"files that were not given", func(f *Facts) {
			f.Live, f.Unread = false, []Unread{{
				Source: SourceClass, Problem: "not among the manifests", Fix: "name its file with -f",
			}}
		}, CheckUnread, []string{"the ClusterClass: cannot read it: not among the manifests"}, []string{"name its file with -f"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := healthy()
			test.change(&f)
			var got []string
			all, _ := Examine(f)
			for _, found := range all {
				if found.ID != test.id || found.Severity == OK {
					continue
				}
				got = append(got, found.Subject+": "+found.Message)
				for _, words := range test.fix {
					if !strings.Contains(found.Fix, words) {
						t.Errorf("the fix of %q is %q, without %q", found.Message, found.Fix, words)
					}
				}
				if strings.Contains(found.Fix, "config/default") {
					t.Errorf("the fix %q applies everything again", found.Fix)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
