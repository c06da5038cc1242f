package status

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/version"
)

type chainTest struct {
	name    string
	upgrade upgrade
	want    []string
}

func chainTests() []chainTest {
	return slices.Concat(windlassTests(), clusterAPITests(), otherTests(), machineTests())
}

func windlassTests() []chainTest {
	first := midChain()
	first.controlPlane, first.stamp, first.members = "v1.31.0", "v1.31.0", []string{"v1.31.0", "v1.30.0", "v1.30.0"}
	first.pending = "AfterClusterUpgrade,AfterControlPlaneUpgrade"
	first.groups = []testGroup{{name: "md-0", template: "v1.30.0", kubelets: repeat(4, "v1.30.0")}}
	first.source = fourMinors
	first.progress = way()
	first.progress.Steps = []chain.Step{{To: version.MustParse("v1.31.0"), Began: start}}

	held := midChain()
	held.groups[0] = testGroup{name: "md-0", template: "v1.31.0", kubelets: repeat(2, "v1.31.0")}
	held.pending += ",BeforeWorkersUpgrade"
	held.message = "Cluster is upgrading to v1.33.0\n  * hook BeforeWorkersUpgrade for v1.32.0 is blocking: ask the team\n  * control plane pending upgrade to version v1.33.0"
	gate := func(name, uid, at, to string) v1alpha1.UpgradeGate {
		return v1alpha1.UpgradeGate{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team-a"}, Status: v1alpha1.UpgradeGateStatus{
			Waiting: []v1alpha1.GateWaiting{{Cluster: "prod", ClusterUID: uid, At: v1alpha1.GateHook(at), Version: to, Since: metav1.NewTime(after(20 * time.Minute)), Message: "needs approval"}},
		}}
	}
	held.gates = []v1alpha1.UpgradeGate{
		gate("night", "uid-prod", "BeforeWorkersUpgrade", "v1.32.0"), gate("other-cluster", "uid-other", "BeforeWorkersUpgrade", "v1.32.0"),
		gate("approval", "uid-prod", "BeforeWorkersUpgrade", "v1.32.0"), gate("passed", "uid-prod", "BeforeControlPlaneUpgrade", "v1.32.0"),
	}

	held.gates[0].Status.Approvals = []v1alpha1.GateApprovalRecord{{
		ClusterUID: "uid-prod", At: "BeforeWorkersUpgrade", Version: "v1.32.0", By: "jane", Time: metav1.NewTime(after(21 * time.Minute)),
	}, {
		ClusterUID: "uid-prod", At: "BeforeWorkersUpgrade", Version: "v1.33.0", By: "joe", Time: metav1.NewTime(after(22 * time.Minute)),
	}}

	paused := midChain()
	paused.change = func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }

	deferred := midChain()
	deferred.groups[0].kubelets = repeat(2, "v1.32.0")
	deferred.groups[1].annotations = map[string]string{clusterv1.ClusterTopologyDeferUpgradeAnnotation: ""}

	return []chainTest{
		{"workers follow a step", midChain(), []string{
			"Upgrading by Windlass: waits for MachineDeployment md-0 to v1.32.0",
			"Done ControlPlaneUpgrade v1.30.0->v1.31.0 [] +0s +3m0s",
			"Done WorkersUpgrade ->v1.31.0 [] +3m0s +11m0s",
			"Done ControlPlaneUpgrade v1.31.0->v1.32.0 [] +12m0s +16m0s",
			"Running WorkersUpgrade v1.31.0->v1.32.0 [md-0 md-1] 1/4 +16m0s",
			"Next ControlPlaneUpgrade v1.32.0->v1.33.0 [] 0/3",
			"Next WorkersUpgrade v1.32.0->v1.33.0 [md-0 md-1] 0/4",
			// Eight machines at 2 minutes each, and a step of 3 to 4 minutes.
			"eta  19m0s..19m30s..20m0s",
		}},
		{"paused on the way", paused, []string{
			"Paused by Windlass: the Cluster is paused",
			"Done ControlPlaneUpgrade v1.30.0->v1.31.0 [] +0s +3m0s",
			"Done WorkersUpgrade ->v1.31.0 [] +3m0s +11m0s",
			"Done ControlPlaneUpgrade v1.31.0->v1.32.0 [] +12m0s +16m0s",
			"Running WorkersUpgrade v1.31.0->v1.32.0 [md-0 md-1] 1/4 +16m0s",
			"Next ControlPlaneUpgrade v1.32.0->v1.33.0 [] 0/3",
			"Next WorkersUpgrade v1.32.0->v1.33.0 [md-0 md-1] 0/4",
			"held by Pause spec.paused, or the annotation cluster.x-k8s.io/paused: the Cluster is paused",
		}},
		{"first step", first, []string{
			"Upgrading by Windlass: the control plane is upgrading to v1.31.0",
			"Running ControlPlaneUpgrade v1.30.0->v1.31.0 [] 1/3 +0s",
			"Next ControlPlaneUpgrade v1.31.0->v1.32.0 [] 0/3",
			"Next ControlPlaneUpgrade v1.32.0->v1.33.0 [] 0/3",
			"Next WorkersUpgrade v1.30.0->v1.33.0 [md-0] 0/4",
			"eta " + etaNoControlPlane + " 0s..0s..0s",
		}},
		{"held by a hook and gates", held, []string{
			"Held by Windlass: hook BeforeWorkersUpgrade for v1.32.0 is due",
			"Done ControlPlaneUpgrade v1.30.0->v1.31.0 [] +0s +3m0s",
			"Done WorkersUpgrade ->v1.31.0 [] +3m0s +11m0s",
			"Done ControlPlaneUpgrade v1.31.0->v1.32.0 [] +12m0s +16m0s",
			"Next WorkersUpgrade v1.31.0->v1.32.0 [md-0 md-1] 0/4",
			"Next ControlPlaneUpgrade v1.32.0->v1.33.0 [] 0/3",
			"Next WorkersUpgrade v1.32.0->v1.33.0 [md-0 md-1] 0/4",
			"held by Hook BeforeWorkersUpgrade: hook BeforeWorkersUpgrade for v1.32.0 is blocking: ask the team +20m0s false",
			"held by UpgradeGate approval: needs approval +20m0s false",
			"held by UpgradeGate night: approved by jane at 2026-03-04T12:21:00Z; windlass manager asks the gate again usually at once, and by 2026-03-04T12:22:00Z if it runs +20m0s false",
			"eta  19m0s..19m30s..20m0s",
		}},
		{"deferred", deferred, []string{
			"Held by Windlass: MachineDeployment md-1 to v1.32.0, kept back by defer-upgrade or hold-upgrade-sequence",
			"Done ControlPlaneUpgrade v1.30.0->v1.31.0 [] +0s +3m0s",
			"Done WorkersUpgrade ->v1.31.0 [] +3m0s +11m0s",
			"Done ControlPlaneUpgrade v1.31.0->v1.32.0 [] +12m0s +16m0s",
			"Next WorkersUpgrade v1.31.0->v1.32.0 [md-0 md-1] 2/4 +16m0s",
			"Next ControlPlaneUpgrade v1.32.0->v1.33.0 [] 0/3",
			"Next WorkersUpgrade v1.32.0->v1.33.0 [md-0 md-1] 0/4",
			"held by Annotation topology.cluster.x-k8s.io/defer-upgrade: MachineDeployment md-1 to v1.32.0, kept back by defer-upgrade or hold-upgrade-sequence +16m0s true",
			"eta  19m0s..19m30s..20m0s",
		}},
	}
}

func clusterAPITests() []chainTest {
	stock := midChain()
	stock.stamp, stock.progress, stock.source = "", nil, fourMinors
	stock.target = "v1.34.0"
	// A pool that is behind makes a stop, and stock Cluster API takes the other one along.
	stock.groups[0] = testGroup{name: "md-0", template: "v1.32.0", kubelets: []string{"v1.32.0", "v1.29.0"}}
	stock.message = "Cluster is upgrading to v1.34.0\n  * KubeadmControlPlane pending upgrade to version v1.33.0, v1.34.0"
	stock.events = []corev1.Event{
		topologyEvent(4*time.Minute, `Updated MachineDeployment "team-a/prod-md-0" with version change from v1.29.0 to v1.32.0`),
		topologyEvent(2*time.Minute, `Updated KubeadmControlPlane "team-a/prod-cp" with version change from v1.31.0 to v1.32.0`),
		topologyEvent(time.Minute, `Updated KubeadmControlPlane "team-a/prod-cp" with version change from v1.30.0 to v1.31.0`),
		topologyEvent(-time.Minute, `Updated KubeadmControlPlane "team-a/prod-cp" with version change from v1.29.0 to v1.30.0`),
		topologyEvent(time.Minute, `Updated MachineDeployment "team-a/prod-md-0"`),
		topologyEvent(time.Minute, `Updated DockerCluster "team-a/prod" with version change from v1.29.0 to v1.30.0`),
		topologyEvent(time.Minute, `Updated MachineDeployment "team-a/prod-md-0" with version change from a to b`),
	}
	stockHeld := stock
	stockHeld.events = nil
	stockHeld.groups = []testGroup{{name: "md-0", template: "v1.32.0", kubelets: repeat(2, "v1.32.0")}}
	stockHeld.pending = "AfterClusterUpgrade,AfterWorkersUpgrade"
	stockHeld.message = "Cluster is upgrading to v1.34.0\n  * Following hooks are blocking upgrade: AfterWorkersUpgrade: later\n  * KubeadmControlPlane pending upgrade to version v1.33.0, v1.34.0"
	took := midChain()
	took.stamp = ""
	began := upgrade{
		target: "v1.31.0", controlPlane: "v1.30.0", members: repeat(1, "v1.30.0"), reason: chain.ClusterUpgrading,
		annotations: map[string]string{clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/ticket": ""},
		message: "Cluster is upgrading to v1.31.0\n  * Following hooks are blocking upgrade: BeforeClusterUpgrade: annotation [" +
			clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/ticket] is set\n  * KubeadmControlPlane pending upgrade to version v1.31.0",
	}
	return []chainTest{
		{"stock", stock, []string{
			"Upgrading by ClusterAPI: waits for MachineDeployment md-0 to v1.32.0",
			"Done ControlPlaneUpgrade v1.30.0->v1.31.0 [] +1m0s",
			"Done ControlPlaneUpgrade v1.31.0->v1.32.0 [] +2m0s",
			"Running WorkersUpgrade v1.29.0->v1.32.0 [md-0] 1/2 +4m0s",
			"Next ControlPlaneUpgrade v1.32.0->v1.33.0 [] 0/3",
			"Next ControlPlaneUpgrade v1.33.0->v1.34.0 [] 0/3",
			"Next WorkersUpgrade ->v1.34.0 [md-0 md-1] 0/4",
			"eta " + etaNotRecorded + " 0s..0s..0s",
			"not known: " + notRecorded,
		}},
		{"stock, held by a hook", stockHeld, []string{
			"Held by ClusterAPI: hook AfterWorkersUpgrade for v1.32.0 is due",
			"Next ControlPlaneUpgrade v1.32.0->v1.33.0 [] 0/3",
			"Next ControlPlaneUpgrade v1.33.0->v1.34.0 [] 0/3",
			"Next WorkersUpgrade v1.32.0->v1.34.0 [md-0] 0/2",
			"held by Hook AfterWorkersUpgrade: Following hooks are blocking upgrade: AfterWorkersUpgrade: later +0s true",
			"eta " + etaNotRecorded + " 0s..0s..0s",
			"not known: " + notRecorded,
		}},
		{"stock, held by an annotation", began, []string{
			"Held by ClusterAPI: the upgrade to v1.31.0 waits while the Cluster has before-upgrade.hook.cluster.cluster.x-k8s.io/ticket. Fix: remove it when the upgrade may begin",
			"Next ControlPlaneUpgrade v1.30.0->v1.31.0 [] 0/1",
			"held by Annotation before-upgrade.hook.cluster.cluster.x-k8s.io/ticket: the upgrade to v1.31.0 waits while the Cluster has before-upgrade.hook.cluster.cluster.x-k8s.io/ticket. Fix: remove it when the upgrade may begin +0s true",
			"eta " + etaNotRecorded + " 0s..0s..0s",
			"not known: " + notRecorded,
		}},
		{"another controller has gone on", took, []string{
			"Upgrading by ClusterAPI: waits for MachineDeployment md-0 to v1.32.0",
			"Running WorkersUpgrade v1.31.0->v1.32.0 [md-0 md-1] 1/4",
			"Next ControlPlaneUpgrade v1.32.0->v1.33.0 [] 0/3",
			"Next WorkersUpgrade v1.32.0->v1.33.0 [md-0 md-1] 0/4",
			"eta " + etaNotRecorded + " 0s..0s..0s",
			"not known: windlass manager began this upgrade, but another controller has taken the control plane's last step, and records none",
			"not known: " + notRecorded,
		}},
	}
}

func otherTests() []chainTest {
	resting := upgrade{
		target: "v1.31.0", controlPlane: "v1.31.0", members: repeat(1, "v1.31.0"), reason: chain.ReconcileSucceeded,
		groups: []testGroup{{name: "md-0", template: "v1.31.0", kubelets: repeat(1, "v1.31.0")}},
	}
	with := func(change func(*upgrade)) upgrade {
		u := resting
		change(&u)
		return u
	}
	cluster := func(change func(*clusterv1.Cluster)) upgrade { return with(func(u *upgrade) { u.change = change }) }
	begin := func(u *upgrade) { u.target, u.stamp, u.groups = "v1.32.0", "v1.31.0", nil }
	planned := func(controlPlane ...string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) {
			c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{}
			for _, v := range controlPlane {
				c.Status.ControlPlane.UpgradePlan = append(c.Status.ControlPlane.UpgradePlan, clusterv1.StatusUpgradePlanVersion{Version: v})
			}
		}
	}
	notLooked := "its controller has not looked since, or is down"
	next := "Next ControlPlaneUpgrade v1.31.0->v1.32.0 [] 0/1"
	calls := "Upgrading by Windlass: hook BeforeClusterUpgrade for v1.32.0 is due"
	return []chainTest{
		{"at rest", resting, []string{"UpToDate by ClusterAPI: everything is at v1.31.0"}},
		{"no condition", with(func(u *upgrade) { u.reason = "" }), []string{
			"UpToDate by ClusterAPI: everything is at v1.31.0",
			"disagreement: no controller has reported on the topology yet:  the Cluster has no condition TopologyReconciled",
		}},
		{"a condition from before", with(func(u *upgrade) { begin(u); u.observed = 6 }), []string{
			calls, next, "eta " + etaNoControlPlane + " 0s..0s..0s",
			"disagreement: the condition TopologyReconciled is about generation 6 of the Cluster, which is at 7: " + notLooked,
		}},
		{"a condition that knows nothing of it", with(begin), []string{
			calls, next, "eta " + etaNoControlPlane + " 0s..0s..0s",
			"disagreement: the condition TopologyReconciled reports that nothing is left to do, but the objects show an unfinished upgrade: " + notLooked,
		}},
		{"a condition that does not know that it is done", with(func(u *upgrade) {
			u.reason, u.message = chain.ClusterUpgrading, "Cluster is upgrading to v1.31.0\n  * hook AfterClusterUpgrade for v1.31.0 is blocking: a"
		}), []string{
			"UpToDate by ClusterAPI: everything is at v1.31.0",
			"disagreement: the condition TopologyReconciled reports an upgrade, but the objects show that it is done: " + notLooked,
		}},
		{"a hook that is not due", with(func(u *upgrade) {
			begin(u)
			u.reason, u.message = chain.ClusterUpgrading, "Cluster is upgrading to v1.32.0\n  * hook AfterWorkersUpgrade for v1.31.0 is blocking: a"
		}), []string{
			strings.Replace(calls, "Upgrading", "Held", 1), next,
			"held by Hook AfterWorkersUpgrade: hook AfterWorkersUpgrade for v1.31.0 is blocking: a",
			"eta " + etaNoControlPlane + " 0s..0s..0s",
			"disagreement: the condition TopologyReconciled reports that AfterWorkersUpgrade is blocking, but by the objects this hook is not due: " + notLooked,
		}},
		{"no way", with(func(u *upgrade) { begin(u); u.target = "v1.35.0"; u.reason = chain.ClusterUpgrading }), []string{
			"Held by Windlass: there is no upgrade path to v1.35.0 in ClusterClass spec.kubernetesVersions: target v1.35.0: the list of versions does not offer it. Fix: add v1.35.0 to the list of versions, or choose one of its versions",
			"held by Rule the plan: there is no upgrade path to v1.35.0 in ClusterClass spec.kubernetesVersions: target v1.35.0: the list of versions does not offer it. Fix: add v1.35.0 to the list of versions, or choose one of its versions",
			"eta " + etaNoPlan + " 0s..0s..0s",
		}},
		{"a failure", with(func(u *upgrade) { u.reason, u.message = chain.ReconcileFailed, "a patch does not apply" }), []string{
			"UpToDate by ClusterAPI: everything is at v1.31.0",
			"held by Failure the topology's controller: a patch does not apply. Fix: correct what the message names; " +
				"the controller then continues by itself. See docs/runbooks.md, WindlassUpgradeHeld +0s true",
		}},
		{"an extension, and a plan in the status", with(func(u *upgrade) {
			begin(u)
			u.reason, u.problem, u.change = chain.ClusterUpgrading, "the extension is not asked", planned("v1.31.0", "v1.32.0")
		}), []string{calls, next, "eta " + etaNoControlPlane + " 0s..0s..0s", "not known: " + toldByPlan}},
		{"an extension, and no plan", with(func(u *upgrade) {
			begin(u)
			u.reason, u.problem = chain.ClusterUpgrading, "the extension is not asked"
		}), []string{
			"Upgrading by Windlass: what comes is not known from here", "eta " + etaNoPlan + " 0s..0s..0s",
			"not known: what comes: the extension is not asked; the Cluster's status has no upgrade plan either",
		}},
		{"an extension, and a plan that is none", with(func(u *upgrade) {
			begin(u)
			u.reason, u.problem, u.change = chain.ClusterUpgrading, "the extension is not asked", planned("next")
		}), []string{
			"Upgrading by Windlass: what comes is not known from here", "eta " + etaNoPlan + " 0s..0s..0s",
			`not known: what comes: the upgrade plan in the Cluster's status: "next" is not a Kubernetes version: write all three numbers, such as v1.31.2`,
		}},
		{"paused", cluster(func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }), []string{
			"Paused by ClusterAPI: the Cluster is paused",
			"held by Pause spec.paused, or the annotation cluster.x-k8s.io/paused: the Cluster is paused",
		}},
		{"deleting", cluster(func(c *clusterv1.Cluster) { c.DeletionTimestamp = new(metav1.NewTime(start)) }), []string{
			"Deleting by ClusterAPI: hook BeforeClusterDelete is due",
		}},
		{"creating", with(func(u *upgrade) { u.controlPlane, u.members, u.groups = "", nil, nil }), []string{
			"Creating by ClusterAPI: the Cluster's topology is being created at v1.31.0",
		}},
		{"unreadable", with(func(u *upgrade) { u.target = "latest" }), []string{
			`Unknown by : `, `problem: Cluster team-a/prod: spec.topology.version: "latest" is not a Kubernetes version: write all three numbers, such as v1.31.2`,
		}},
	}
}
