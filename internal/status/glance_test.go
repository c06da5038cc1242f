package status

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/version"
)

// glanced is a Cluster that goes from v1.30.0 to v1.33.0 beside stock Cluster API. Its control
// plane is at v1.31.0.
func glanced(change func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team-a", Name: "prod", UID: "uid-prod",
		Annotations: map[string]string{runtimev1.PendingHooksAnnotation: "AfterClusterUpgrade"},
	}}
	c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.33.0"}
	c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
		Versions:    []clusterv1.StatusVersion{{Version: "v1.31.0"}, {Version: "v1.30.0"}},
		UpgradePlan: []clusterv1.StatusUpgradePlanVersion{{Version: "v1.32.0"}, {Version: "v1.33.0"}},
	}
	c.Status.Workers = &clusterv1.WorkersStatus{Versions: []clusterv1.StatusVersion{{Version: "v1.30.0"}, {Version: "not one"}}}
	if change != nil {
		change(c)
	}
	return c
}

func upgrades(c *clusterv1.Cluster, reason, message string) {
	c.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	}}
}

func progressOf(p chain.Progress) func(*clusterv1.Cluster) {
	text, _ := json.Marshal(p) // Its fields are plain.
	return func(c *clusterv1.Cluster) { c.Annotations[v1alpha1.ChainProgressAnnotation] = string(text) }
}

func TestComputeGlance(t *testing.T) {
	t.Parallel()
	v := version.MustParse
	stock := Glance{UnderWay: true, From: v("v1.30.0"), To: v("v1.33.0"), Left: 2}
	with := func(change func(*Glance)) Glance {
		g := stock
		change(&g)
		return g
	}
	held := func(holds ...Hold) Glance { return with(func(g *Glance) { g.Holds = holds }) }
	wait := func(name, uid string, at v1alpha1.GateHook, since time.Duration) *v1alpha1.UpgradeGate {
		return &v1alpha1.UpgradeGate{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.UpgradeGateStatus{
			Waiting: []v1alpha1.GateWaiting{{ClusterUID: uid, At: at, Since: metav1.NewTime(after(since))}},
		}}
	}
	twice := wait("early", "uid-prod", "BeforeWorkersUpgrade", time.Minute)
	twice.Status.Waiting = append(twice.Status.Waiting, v1alpha1.GateWaiting{
		Cluster: "forged", ClusterUID: "uid-prod", At: "BeforeWorkersUpgrade", Since: metav1.NewTime(after(time.Hour)),
	})
	const hook = "BeforeWorkersUpgrade"
	blocking := func(c *clusterv1.Cluster) {
		upgrades(c, "ClusterUpgrading", "Cluster is upgrading to v1.33.0\n  * Following hooks are blocking upgrade: "+hook+": no\n  * x")
	}
	for name, tt := range map[string]struct {
		change func(*clusterv1.Cluster)
		gates  []*v1alpha1.UpgradeGate
		want   Glance
	}{
		"stock": {want: stock},
		"not yet begun": {
			func(c *clusterv1.Cluster) { c.Annotations = nil }, nil, stock,
		},
		"a topology at its target": {
			func(c *clusterv1.Cluster) { c.Annotations, c.Spec.Topology.Version = nil, "v1.30.0" }, nil, Glance{},
		},
		"no topology": {func(c *clusterv1.Cluster) { c.Spec.Topology = clusterv1.Topology{} }, nil, Glance{}},
		"deletion":    {func(c *clusterv1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: start} }, nil, Glance{}},
		"a new Cluster without status": {
			func(c *clusterv1.Cluster) { c.Annotations, c.Status = nil, clusterv1.ClusterStatus{} }, nil, Glance{},
		},
		"recorded steps": {
			progressOf(chain.Progress{From: v("v1.29.0"), Target: v("v1.33.0"), Steps: []chain.Step{{To: v("v1.30.0")}, {To: v("v1.31.0")}}}), nil,
			with(func(g *Glance) { g.From, g.Step, g.Recorded = v("v1.29.0"), 2, true }),
		},
		"machines up to date": {func(c *clusterv1.Cluster) {
			c.Status.ControlPlane.UpToDateReplicas = new(int32(3))
			c.Status.Workers.UpToDateReplicas = new(int32(4))
		}, nil, with(func(g *Glance) { g.UpToDate = 7 })},
		"steps that another engine went past": {
			progressOf(chain.Progress{From: v("v1.29.0"), Steps: []chain.Step{{To: v("v1.30.0")}}}), nil, stock,
		},
		"a record that cannot be read": {
			func(c *clusterv1.Cluster) { c.Annotations[v1alpha1.ChainProgressAnnotation] = "{" }, nil, stock,
		},
		"paused": {func(c *clusterv1.Cluster) {
			blocking(c)
			c.Spec.Paused = new(true)
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
				Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(after(time.Minute)),
			})
		}, nil, held(Hold{Kind: HeldByPause, Since: after(time.Minute)})},
		"paused by annotation": {func(c *clusterv1.Cluster) { c.Annotations[clusterv1.PausedAnnotation] = "" }, nil, held(Hold{Kind: HeldByPause})},
		"a hook":               {blocking, nil, held(Hold{Kind: HeldByHook, By: hook})},
		"a gate": {blocking, []*v1alpha1.UpgradeGate{
			wait("late", "uid-prod", hook, time.Hour), twice,
			wait("other-hook", "uid-prod", "BeforeClusterUpgrade", time.Second), wait("other-cluster", "uid-other", hook, time.Second),
		}, with(func(g *Glance) {
			g.Holds = []Hold{{Kind: HeldByGate, By: "early", Since: after(time.Minute)}}
			g.Gates = []GateHold{{Gate: "early", Hook: hook, Since: after(time.Minute)}, {Gate: "late", Hook: hook, Since: after(time.Hour)}}
		})},
		"a gate that has let it pass": {
			func(c *clusterv1.Cluster) { upgrades(c, "ClusterUpgrading", "Cluster is upgrading to v1.33.0") },
			[]*v1alpha1.UpgradeGate{wait("g", "uid-prod", hook, time.Hour)}, stock,
		},
		"an annotation": {func(c *clusterv1.Cluster) {
			upgrades(c, "ClusterUpgrading", "x\n  * "+clusterv1.BeforeClusterUpgradeHookAnnotationPrefix+"/a is blocking")
		}, nil, held(Hold{Kind: HeldByAnnotation})},
		"a deferred group": {func(c *clusterv1.Cluster) {
			upgrades(c, clusterv1.ClusterTopologyReconciledMachineDeploymentsUpgradeDeferredReason, "x")
		}, nil, held(Hold{Kind: HeldByAnnotation})},
		"a failure": {
			func(c *clusterv1.Cluster) { upgrades(c, clusterv1.ClusterTopologyReconciledFailedReason, "no disk") }, nil,
			held(Hold{Kind: HeldByFailure}),
		},
		"no path": {func(c *clusterv1.Cluster) {
			upgrades(c, clusterv1.ClusterTopologyReconciledFailedReason, "there is no upgrade path to v1.33.0")
		}, nil, held(Hold{Kind: HeldByRule})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, ComputeGlance(glanced(tt.change), tt.gates, start)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
