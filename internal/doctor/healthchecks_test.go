package doctor

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// findingsOf returns what one check finds, as bad does.
func findingsOf(id ID, f Facts) []string {
	all, _ := Examine(f)
	return bad(slices.DeleteFunc(all, func(found Finding) bool { return found.ID != id }))
}

// expectFindings compares findings by a part of each.
func expectFindings(t *testing.T, want, got []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d findings, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("finding %d is %q, want %q in it", i, got[i], want[i])
		}
	}
}

// TestHealthCheckTimeouts compares the timeouts of MachineHealthChecks with the attempts of the
// policy.
func TestHealthCheckTimeouts(t *testing.T) {
	t.Parallel()
	const (
		short = "Its shortest timeout (%) is shorter than an attempt may take (30m0s, attemptTimeoutSeconds of UpdatePolicy \"all\")"
		plain = "does not happen to a machine under update"
	)
	for _, test := range []struct {
		name          string
		node, attempt int32
		change        func(*clusterv1.MachineHealthCheck)
		want          string
	}{
		{"shorter than the default attempt", 300, 0, nil, strings.Replace(short, "%", "5m0s", 1)},
		{"as long as an attempt", 1800, 0, nil, plain},
		{"the attempt is shorter", 300, 240, nil, plain},
		{"a condition of the Machine", 3600, 0, func(h *clusterv1.MachineHealthCheck) {
			h.Spec.Checks.UnhealthyMachineConditions = []clusterv1.UnhealthyMachineCondition{
				{Type: "Ready", Status: metav1.ConditionFalse, TimeoutSeconds: new(int32(60))},
			}
		}, strings.Replace(short, "%", "1m0s", 1)},
		{"a machine under update has its Node", 3600, 0, func(h *clusterv1.MachineHealthCheck) {
			h.Spec.Checks.NodeStartupTimeoutSeconds = new(int32(60))
		}, plain},
		{"no condition", 0, 0, func(h *clusterv1.MachineHealthCheck) { h.Spec.Checks.UnhealthyNodeConditions = nil }, plain},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f, h := healthy(), healthCheck(map[string]string{"pool": "md-0"}, test.node)
			if test.change != nil {
				test.change(h)
			}
			f.HealthChecks, f.Policies[0].Spec.AttemptTimeoutSeconds = []*clusterv1.MachineHealthCheck{h}, test.attempt
			got := findingsOf(CheckHealthChecks, f)
			expectFindings(t, []string{test.want}, got)
			if len(got) == 1 && test.want == plain && strings.Contains(got[0], "shortest") {
				t.Errorf("%q", got[0])
			}
		})
	}
}

// TestOnDelete: with the strategy OnDelete, nothing remediates machines of an old template.
func TestOnDelete(t *testing.T) {
	t.Parallel()
	const old = "unhealthy machines of the old one are not remediated"
	unhealthy := metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse}
	for _, test := range []struct {
		name   string
		change func(*Facts)
		want   []string
	}{
		{"replaced", func(f *Facts) { f.Policies = nil }, []string{old}},
		{"kept", func(*Facts) {}, []string{old, "remediation replaces"}},
		{"updated in place", func(f *Facts) { f.Policies[0].Spec.OnDelete = v1alpha1.OnDeleteInPlace },
			[]string{"remediation replaces"}},
		{"one is unhealthy", func(f *Facts) {
			f.Policies = nil
			f.Objects.Machines[1].Status.Conditions = []metav1.Condition{unhealthy}
		}, []string{old + "; unhealthy now: w-1"}},
		{"rolling", func(f *Facts) {
			f.Policies, f.Objects.MachineDeployments[0].Spec.Rollout.Strategy.Type = nil, clusterv1.RollingUpdateMachineDeploymentStrategyType
		}, nil},
		{"no MachineHealthCheck", func(f *Facts) { f.Policies, f.HealthChecks = nil, nil }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			f.HealthChecks = []*clusterv1.MachineHealthCheck{healthCheck(map[string]string{"pool": "md-0"}, 3600)}
			f.Objects.MachineDeployments[0].Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
			test.change(&f)
			expectFindings(t, test.want, findingsOf(CheckHealthChecks, f))
		})
	}
}

// TestManagedFields: arguments of machines that Cluster API v1.11 made cannot be changed in place.
func TestManagedFields(t *testing.T) {
	t.Parallel()
	with := func(path ...string) func(*Facts) {
		return func(f *Facts) {
			value := []any{map[string]any{"name": "quota-backend-bytes", "value": "1"}}
			if err := unstructured.SetNestedSlice(f.Objects.ControlPlane.Object, value, path...); err != nil {
				t.Error(err)
			}
			f.Unowned = []string{"cp-1"}
		}
	}
	etcd := with("spec", "kubeadmConfigSpec", "clusterConfiguration", "etcd", "local", "extraArgs")
	for _, test := range []struct {
		name   string
		change func(*Facts)
		want   []string
	}{
		{"etcd", etcd, []string{
			"of 1 Machine were written by Cluster API v1.11 or older: a changed or removed value in clusterConfiguration.etcd.local.extraArgs is refused",
		}},
		{"kubelet", with("spec", "kubeadmConfigSpec", "joinConfiguration", "nodeRegistration", "kubeletExtraArgs"),
			[]string{"in joinConfiguration.nodeRegistration.kubeletExtraArgs is refused"}},
		{"no arguments", func(f *Facts) { f.Unowned = []string{"cp-1"} }, nil},
		{"made by a newer one", func(f *Facts) { etcd(f); f.Unowned = nil }, nil},
		{"machines are replaced", func(f *Facts) { etcd(f); f.Policies = nil }, nil},
		{"manifests", func(f *Facts) { etcd(f); f.Live = false }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			test.change(&f)
			expectFindings(t, test.want, findingsOf(CheckManagedFields, f))
		})
	}
}

func healthCheck(selector map[string]string, seconds int32) *clusterv1.MachineHealthCheck {
	h := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "mhc", Namespace: "team-a"}}
	h.Spec.Selector.MatchLabels = selector
	h.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: new(seconds)},
		{Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: new(seconds + 60)},
	}
	return h
}
