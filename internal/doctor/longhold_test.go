package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/pkg/version"
)

// TestLongHolds: what keeps an upgrade from continuing is a warning if it has lasted, and never before.
func TestLongHolds(t *testing.T) {
	blocked := func(age time.Duration) func(*Facts) {
		return func(f *Facts) {
			f.Objects.Cluster.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionFalse,
				Reason:             clusterv1.ClusterTopologyReconciledClusterUpgradingReason,
				Message:            "Cluster is upgrading to v1.35.0\n  * Following hooks are blocking upgrade: BeforeClusterUpgrade",
				LastTransitionTime: metav1.NewTime(now.Add(-age)),
			}}
			e := runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "cso"}}
			e.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
			e.Spec.ClientConfig.URL = "https://cso.example"
			e.Status.Handlers = []runtimev1.ExtensionHandler{{
				Name: "x.cso", RequestHook: runtimev1.GroupVersionHook{Hook: "BeforeClusterUpgrade"},
			}}
			f.NamespaceLabels, f.Extensions = map[string]string{"team": "a"}, append(f.Extensions, e)
		}
	}
	rested := func(age time.Duration) func(*Facts) {
		return func(f *Facts) {
			f.Objects.ControlPlane.SetKind("RKE2ControlPlane")
			f.Objects.ControlPlane.Object["spec"] = map[string]any{"version": "v1.31.2", "replicas": int64(1)}
			old := f.Objects.Machines[0].DeepCopy()
			old.Name, old.Spec.Version = "cp-0", "v1.30.8"
			f.Objects.Machines = append(f.Objects.Machines, old)
			for _, m := range f.Objects.Machines {
				m.Status.Conditions = []metav1.Condition{{
					Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue,
					LastTransitionTime: metav1.NewTime(now.Add(-age)),
				}}
			}
			f.Provider = version.MustParse("v0.25.0")
		}
	}
	reports := func(v string) func(*Facts) {
		return func(f *Facts) {
			f.Objects.Cluster.Spec.Topology = clusterv1.Topology{}
			f.Objects.ControlPlane.Object["status"] = map[string]any{"version": v}
		}
	}
	workers := func(age time.Duration) func(*Facts) {
		return func(f *Facts) {
			md, w := f.Objects.MachineDeployments[0], f.Objects.Machines[1]
			md.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineDeploymentRollingOutCondition, Status: metav1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(now.Add(-age)),
			}}
			w.Spec.Version = md.Spec.Template.Spec.Version
			w.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse,
				LastTransitionTime: metav1.NewTime(now),
			}}
			f.HealthChecks = []*clusterv1.MachineHealthCheck{healthCheck(map[string]string{"pool": "md-0"}, 600)}
			f.HealthChecks[0].Spec.ClusterName = "prod"
		}
	}
	for name, tt := range map[string]struct {
		spoil func(*Facts)
		// want is in a warning, and fix in what a person can do; no such warning if they are empty.
		want, fix string
	}{
		"healthy":                  {func(*Facts) {}, "", ""},
		"a hook for hours":         {blocked(3 * time.Hour), "Warning Topology Cluster prod: hook BeforeClusterUpgrade blocks", "the program behind https://cso.example"},
		"a hook for five minutes":  {blocked(5 * time.Minute), "", ""},
		"a rollout for hours":      {rested(3 * time.Hour), "Warning Machines RKE2ControlPlane prod-cp: its rollout makes no progress: it has 2 machines for 1 replica", "rke2-control-plane-controller-manager"},
		"a rollout for 10 minutes": {rested(10 * time.Minute), "", ""},
		"workers for hours":        {workers(3 * time.Hour), "Warning Machines MachineDeployment prod-md-0: its rollout makes no progress: no new Machine has become Ready", "raise nodeStartupTimeoutSeconds of MachineHealthCheck mhc"},
		"workers for 10 minutes":   {workers(10 * time.Minute), "", ""},
		"a suffix":                 {reports("v1.31.2-k0s.0"), "Warning Machines KubeadmControlPlane prod-cp: it asks for v1.31.2 and reports v1.31.2-k0s.0", "v1.31.2-k0s.0"},
		"no suffix":                {reports("v1.31.2"), "", ""},
		"a suffix, and the check is off": {func(f *Facts) {
			reports("v1.31.2-k0s.0")(f)
			f.Managers[0] = deployment("capi-controller-manager", "cluster-api",
				"--feature-gates=RuntimeSDK=true,InPlaceUpdates=true,MachineSetPreflightChecks=false")
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			tt.spoil(&f)
			all, _ := Examine(f)
			words := []string{"blocks the upgrade", "makes no progress", "differ by the suffix"}
			all = slices.DeleteFunc(all, func(found Finding) bool {
				return !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(found.Message, w) })
			})
			got := strings.Join(bad(all), "\n")
			if (got != "") != (tt.want != "") || !strings.HasPrefix(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if tt.fix != "" && (len(all) != 1 || !strings.Contains(all[0].Fix, tt.fix)) {
				t.Errorf("%+v, want %q", all, tt.fix)
			}
		})
	}
}
