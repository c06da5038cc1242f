package chain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		state chain.State
		want  chain.Condition
	}{
		"up to date": {at(30), chain.Condition{True: true, Reason: chain.ReconcileSucceeded}},
		"creation":   {chain.State{Target: v(30)}, chain.Condition{True: true, Reason: chain.ReconcileSucceeded}},
		"a hook blocks creation": {
			chain.State{Target: v(30), Answers: []chain.Answer{
				{Hook: chain.BeforeClusterCreate, Message: "no", Until: now.Add(time.Second)},
			}},
			chain.Condition{
				Reason:  chain.ClusterCreating,
				Message: "Cluster is being created\n  * hook BeforeClusterCreate is blocking: no",
			},
		},
		"paused": {at(31, func(s *chain.State) { s.Paused = true }), chain.Condition{Reason: chain.ClusterPaused, Message: "Cluster is paused"}},
		"a chain in its middle": {at(33, raised), chain.Condition{Reason: chain.ClusterUpgrading, Message: "Cluster is upgrading to v1.33.0\n" +
			"  * control plane pending upgrade to version v1.32.0, v1.33.0\n  * MachineDeployment a pending upgrade to version v1.33.0\n  * MachinePool p pending upgrade to version v1.33.0"}},
		"deferred": {
			at(31, raised, moved, pending(chain.AfterWorkersUpgrade), func(s *chain.State) { s.Groups[1].Defer = true }),
			chain.Condition{Reason: chain.MachinePoolsUpgradeDeferred, Message: "Cluster is upgrading to v1.31.0\n  * MachinePool p upgrade to version v1.31.0 deferred by defer-upgrade or hold-upgrade-sequence annotations"},
		},
		"deferred, the first kind counts": {
			at(31, raised, pending(chain.AfterWorkersUpgrade), func(s *chain.State) { s.Groups[0].Hold = true }),
			chain.Condition{Reason: chain.MachineDeploymentsUpgradeDeferred, Message: "Cluster is upgrading to v1.31.0\n" +
				"  * MachineDeployment a upgrade to version v1.31.0 deferred by defer-upgrade or hold-upgrade-sequence annotations\n" +
				"  * MachinePool p upgrade to version v1.31.0 deferred by defer-upgrade or hold-upgrade-sequence annotations"},
		},
		"the control plane begins a step": {
			at(33, begun, func(s *chain.State) { s.Intent = &chain.Intent{From: v(30), To: v(31), Passed: now} }),
			chain.Condition{Reason: chain.ClusterUpgrading, Message: "Cluster is upgrading to v1.33.0\n  * control plane upgrading to version v1.31.0 (v1.32.0, v1.33.0 pending)\n" +
				"  * MachineDeployment a pending upgrade to version v1.33.0\n  * MachinePool p pending upgrade to version v1.33.0"},
		},
		"the control plane is on its way": {
			at(32, raised, pending(chain.AfterClusterUpgrade, chain.AfterControlPlaneUpgrade), func(s *chain.State) { s.ControlPlane.Upgrading = true }),
			chain.Condition{Reason: chain.ClusterUpgrading, Message: "Cluster is upgrading to v1.32.0\n  * control plane upgrading to version v1.31.0 (v1.32.0 pending)\n" +
				"  * MachineDeployment a pending upgrade to version v1.32.0\n  * MachinePool p pending upgrade to version v1.32.0"},
		},
		"many groups are named by the first": {
			at(31, raised, pending(chain.AfterWorkersUpgrade), moving, func(s *chain.State) {
				for i := range 5 {
					s.Groups = append(s.Groups, group(fmt.Sprintf("n%d", i), plan.MachinePool))
				}
			}),
			chain.Condition{Reason: chain.ClusterUpgrading, Message: "Cluster is upgrading to v1.31.0\n  * MachineDeployment a upgrading to version v1.31.0\n" +
				"  * MachinePools p, n0, n1 and 3 more pending upgrade to version v1.31.0"},
		},
		"groups that left": {
			at(34, begun, func(s *chain.State) {
				s.ControlPlane.Version, s.Groups = v(33), nil
				s.Leaving = []chain.Group{group("old", plan.MachinePool), group("gone", plan.MachineDeployment)}
			}),
			chain.Condition{
				Reason: chain.ClusterUpgrading,
				Message: "Cluster is upgrading to v1.34.0\n  * the control plane waits with its step to v1.34.0 until " +
					"MachineDeployment gone and MachinePool old, which lags too far behind for it, is gone\n" +
					"  * control plane pending upgrade to version v1.34.0",
			},
		},
		"a hook blocks": {
			at(31, answered(31, time.Second, false)), chain.Condition{Reason: chain.ClusterUpgrading, Message: "Cluster is upgrading to v1.31.0\n" +
				"  * hook BeforeClusterUpgrade for v1.31.0 is blocking: no\n  * control plane pending upgrade to version v1.31.0\n" +
				"  * MachineDeployment a pending upgrade to version v1.31.0\n  * MachinePool p pending upgrade to version v1.31.0"},
		},
		"a hook fails": {
			at(31, answered(31, time.Second, true)), chain.Condition{Reason: chain.ReconcileFailed, Message: "hook BeforeClusterUpgrade for v1.31.0 failed: no"},
		},
		"no way in a list": {
			at(33, begun, func(s *chain.State) { s.Source = plan.VersionList{v(31), v(33)} }),
			chain.Condition{Reason: chain.ReconcileFailed, Message: "there is no upgrade path to v1.33.0 in ClusterClass spec.kubernetesVersions: " +
				"v1.32: the list of versions offers no v1.32 version, and the control plane cannot skip a minor on its way from v1.30.0 to v1.33.0. " +
				"Fix: add a v1.32 version"},
		},
		"no way back in a list": {
			at(31, begun, func(s *chain.State) { s.Source, s.Target = plan.VersionList{v(29), v(30)}, v(29) }),
			chain.Condition{Reason: chain.ReconcileFailed, Message: "there is no upgrade path to v1.29.0: target v1.29.0: it is older than " +
				"the control plane's v1.30.0, and Kubernetes is never downgraded. Fix: choose a version newer than v1.30.0"},
		},
		"no way": {
			at(33, begun, func(s *chain.State) { s.Source = plan.NextMinor{} }),
			chain.Condition{Reason: chain.ReconcileFailed, Message: "there is no upgrade path to v1.33.0: target v1.33.0: it is 3 minors ahead of the control plane at v1.30.0, and nothing says which versions lie between. " +
				"Fix: list the versions in ClusterClass spec.kubernetesVersions, name a GenerateUpgradePlan extension, or go to v1.31 first"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, chain.Describe(tt.state, chain.Decide(tt.state, now))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWorkersUpgrades(t *testing.T) {
	t.Parallel()
	p := plan.Plan{ControlPlane: []version.Version{v(31), v(32), v(33)}, Groups: []plan.GroupPlan{
		{Name: "a", Upgrades: []version.Version{v(33)}}, {Name: "b", Upgrades: []version.Version{v(30), v(32), v(33)}},
	}}
	if diff := cmp.Diff([]version.Version{v(30), v(32), v(33)}, chain.WorkersUpgrades(v(30), p)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestConditionOfManyIsBounded: whatever is listed, the condition stays short, and says how many
// there are and what a person can do.
func TestConditionOfManyIsBounded(t *testing.T) {
	t.Parallel()
	const many = 400
	blocked := at(31)
	for i := range many {
		blocked.Blockers = append(blocked.Blockers, fmt.Sprintf("before-upgrade.hook.cluster.cluster.x-k8s.io/%03d-%s", i, strings.Repeat("x", 59)))
	}
	ways := at(40, moving)
	for i := range many {
		g := group(fmt.Sprintf("%03d-%s", i, strings.Repeat("x", 249)), plan.MachineDeployment)
		g.Version, g.Upgrading = v(30+i), true
		ways.Groups = append(ways.Groups, g)
	}
	for name, test := range map[string]struct {
		state chain.State
		want  []string
	}{
		"annotations": {blocked, []string{"/000-xxx", " and 397 more. Fix: remove it when the upgrade may begin"}},
		"ways":        {ways, []string{"MachineDeployment 000-xxx", "\n  * and 394 more lines like these"}},
	} {
		message := chain.Describe(test.state, chain.Decide(test.state, now)).Message
		for _, want := range test.want {
			if !strings.Contains(message, want) {
				t.Errorf("%s: the message lacks %q: %.2000s", name, want, message)
			}
		}
		if most := 4096; len(message) > most {
			t.Errorf("%s: the message has %d bytes, want at most %d", name, len(message), most)
		}
	}
}
