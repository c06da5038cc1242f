package seeds_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

const (
	// gated and listed are namespaces with a ClusterClass each. That of gated lists no versions.
	gated, listed = "gated", "listed"
	// The Clusters of gated go from gatedFrom to gatedTo.
	gatedFrom, gatedTo = "v1.31.0", "v1.32.0"
	// lateClass is the class of listed that lists the last version only.
	lateClass = "late"
	// workers is the name of the only group of each Cluster.
	workers = "md-0"
	// etcdHealthy is a check that passes.
	etcdHealthy v1alpha1.GateCheck = "EtcdHealthy"
)

// listedVersions are those of the class of listed, oldest first.
func listedVersions() []string { return []string{"v1.30.0", "v1.31.0", "v1.32.0", "v1.33.0"} }

// topology is a Cluster of a ClusterClass.
type topology struct {
	*plane

	key types.NamespacedName
	// version is the one that the Cluster is created with.
	version string
	// test is what happens to the Cluster once it is ready.
	test func(c topology, ctx context.Context, t *testing.T)
}

// topologies are in the order in which they are created.
func (p *plane) topologies() []topology {
	in := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return []topology{
		{p, in(gated, "approve"), gatedFrom, topology.testApproval},
		{p, in(gated, "window"), gatedFrom, topology.testWindow},
		{p, in(gated, "nodes"), gatedFrom, topology.testNodes},
		{p, in(listed, "no-path"), listedVersions()[0], topology.testNoPath},
		{p, in(graphed, "imageless"), graphedFrom, topology.testImageless},
	}
}

// createTopologies creates Clusters and their classes. It does not wait for the Clusters.
func (p *plane) createTopologies(ctx context.Context, t *testing.T, topologies []topology) {
	t.Helper()
	p.ApplyClass(ctx, t, gated, rig.Class{})
	p.ApplyClass(ctx, t, listed, rig.Class{Versions: listedVersions()})
	p.ApplyClass(ctx, t, graphed, rig.Class{Extension: graphPlanner, Imageless: graphedBad})
	p.createGraph(ctx, t)
	for _, c := range topologies {
		cluster := rig.NewCluster(c.key, c.version, 1, rig.Group{Name: workers, Replicas: 1})
		if err := p.Client.Create(ctx, cluster); err != nil {
			t.Fatal(err)
		}
	}
}

// runTopologies tests Clusters in parallel subtests.
func (p *plane) runTopologies(ctx context.Context, t *testing.T, topologies []topology) {
	t.Helper()
	for _, c := range topologies {
		t.Run(c.key.Name, func(t *testing.T) {
			t.Parallel()
			c.AwaitArrived(ctx, t, c.key, c.version)
			c.test(c, ctx, t)
		})
	}
}

// testApproval holds an upgrade before its first change by two gates: one needs approval, the other
// has a check that the API server cannot answer. A person approves the step with the command, and
// removes the check.
func (c topology) testApproval(ctx context.Context, t *testing.T) {
	t.Helper()
	checkRefused(t, c.tryTarget(ctx, "v1.33.0"),
		"it is 2 minors ahead of the control plane at v1.31.0", "accepted: v1.31.0 and newer")
	approval := c.hold(ctx, t, "approval", beforeCluster,
		v1alpha1.GateRequirements{Approval: &v1alpha1.GateApproval{}})
	unknown := c.hold(ctx, t, "unknown", beforeCluster, checks(etcdHealthy, "NoDeprecatedAPIs"))
	c.SetTarget(ctx, t, c.key, gatedTo)
	c.awaitHeld(ctx, t, approval, "needs approval: windlass approve approve -n gated "+
		`--gate approve-approval --step "before cluster v1.32.0"`)
	c.awaitHeld(ctx, t, unknown, "cannot check NoDeprecatedAPIs: the API server of Cluster "+
		"gated/approve: its answer to /metrics is 404 Not Found. Fix: if it can never be checked "+
		"here, remove the check from the gate")
	printed := c.windlass(ctx, t, "approve", "--list")
	for _, h := range []hold{approval, unknown} {
		line := fmt.Sprintf("gate %s: %s, since ", h.gate.Name, h.at)
		if !strings.Contains(printed, line) {
			t.Errorf("windlass approve --list does not show %q:\n%s", line, printed)
		}
	}

	held, machines := c.revision(ctx, t), c.machines()
	c.checkHeldReport(ctx, t, approval)
	c.require(ctx, t, unknown, checks(etcdHealthy))
	c.windlass(ctx, t, "approve")
	me := &authenticationv1.SelfSubjectReview{}
	if err := c.Client.Create(ctx, me); err != nil {
		t.Fatal(err)
	}
	c.checkApprovals(ctx, t, approval, v1alpha1.GateApprovalRecord{
		Cluster: c.key.Name, ClusterUID: c.uid(), At: beforeCluster.name, Version: gatedTo,
		Generation: 1, By: me.Status.UserInfo.Username,
	})
	c.checkPassed(ctx, t, held)
	// The end of the upgrade has removed the approval, so that it does not count for the next one.
	c.checkApprovals(ctx, t, approval)
	c.checkReport(ctx, t, approval, me.Status.UserInfo.Username, machines)
}

// testWindow holds the step of a control plane by two gates: the window of one is closed, and the
// other finds a budget that forbids every eviction.
func (c topology) testWindow(ctx context.Context, t *testing.T) {
	t.Helper()
	workload := c.WorkloadOf(ctx, t, c.key)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "never"},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 1, ExpectedPods: 1, DesiredHealthy: 1,
		},
	}
	if err := workload.Create(ctx, budget); err != nil {
		t.Fatal(err)
	}
	clock := func(in time.Duration) string { return time.Now().UTC().Add(in).Format("15:04") }
	from, to := clock(6*time.Hour), clock(8*time.Hour)
	closed := c.hold(ctx, t, "closed", beforeControlPlane, window(from, to))
	budgets := c.hold(ctx, t, "budgets", beforeControlPlane, checks("BudgetsCanBeSatisfied"))
	c.SetTarget(ctx, t, c.key, gatedTo)
	c.awaitHeld(ctx, t, closed,
		fmt.Sprintf("waits for the window daily %s-%s UTC, opens 20", from, to))
	c.awaitHeld(ctx, t, budgets, "PodDisruptionBudgets that allow no eviction ever: default/never")

	held := c.revision(ctx, t)
	// A window that ends when it begins is open all day.
	c.require(ctx, t, closed, window(from, from))
	if err := workload.Delete(ctx, budget); err != nil {
		t.Fatal(err)
	}
	c.checkPassed(ctx, t, held)
}

// testNodes holds the step of workers while a Node is not Ready.
func (c topology) testNodes(ctx context.Context, t *testing.T) {
	t.Helper()
	workload := c.WorkloadOf(ctx, t, c.key)
	machines := c.History.Now(c.key).Machines[workers]
	if len(machines) != 1 {
		t.Fatalf("%s has %d machines of %s, want 1", c.key, len(machines), workers)
	}
	node := rig.MachineOf(machines[0]).Status.NodeRef.Name
	setReady(ctx, t, workload, node, corev1.ConditionFalse)
	h := c.hold(ctx, t, "ready", beforeWorkers, checks("NodesReady", etcdHealthy))
	c.SetTarget(ctx, t, c.key, gatedTo)
	c.awaitHeld(ctx, t, h,
		fmt.Sprintf("Nodes that are not Ready: %s (Ready is False: Test)", node))

	held := c.revision(ctx, t)
	setReady(ctx, t, workload, node, corev1.ConditionTrue)
	c.checkPassed(ctx, t, held, "control plane v1.32.0")
}

// checkRefused fails the test if err is not a refusal with all these texts.
func checkRefused(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v; want a refusal that contains %q", err, text)
		}
	}
}

// hook is where a gate is, by its name and in the words of messages.
type hook struct {
	name  v1alpha1.GateHook
	words string
}

var (
	beforeCluster      = hook{"BeforeClusterUpgrade", "before cluster"}
	beforeControlPlane = hook{"BeforeControlPlaneUpgrade", "before control plane"}
	beforeWorkers      = hook{"BeforeWorkersUpgrade", "before workers"}
)

// String is the step to gatedTo at the hook.
func (h hook) String() string { return h.words + " " + gatedTo }

// hold is a gate at one hook, for one Cluster of gated.
type hold struct {
	gate *v1alpha1.UpgradeGate
	at   hook
}

func checks(names ...v1alpha1.GateCheck) v1alpha1.GateRequirements {
	return v1alpha1.GateRequirements{Checks: names}
}

func window(from, to string) v1alpha1.GateRequirements {
	windows := []v1alpha1.GateWindow{{TimeZone: "UTC", From: from, To: to}}
	return v1alpha1.GateRequirements{Windows: windows}
}

// hold creates a gate for the Cluster, whose name begins the gate's.
func (c topology) hold(
	ctx context.Context, t *testing.T, name string, at hook, requires v1alpha1.GateRequirements,
) hold {
	t.Helper()
	gate := &v1alpha1.UpgradeGate{Spec: v1alpha1.UpgradeGateSpec{
		ClusterName: c.key.Name, Requires: requires, Steps: []v1alpha1.GateStep{{At: at.name}},
	}}
	gate.Namespace, gate.Name = c.key.Namespace, c.key.Name+"-"+name
	if err := c.Client.Create(ctx, gate); err != nil {
		t.Fatal(err)
	}
	return hold{gate, at}
}

// require changes what a gate requires.
func (c topology) require(
	ctx context.Context, t *testing.T, h hold, requires v1alpha1.GateRequirements,
) {
	t.Helper()
	spec := map[string]any{"requires": requires}
	rig.Patch(ctx, t, c.Client, h.gate.DeepCopy(), map[string]any{"spec": spec})
}

// awaitHeld waits until the Cluster's condition has the reason why the Cluster waits at a gate, and
// until the status of the gate has it, too.
func (c topology) awaitHeld(ctx context.Context, t *testing.T, h hold, reason string) {
	t.Helper()
	c.awaitCondition(ctx, t, clusterv1.ClusterTopologyReconciledClusterUpgradingReason,
		fmt.Sprintf("gate %s: %s: %s", h.gate.Name, h.at, reason))
	// A status that could not be written in time is written with the next question.
	want := []v1alpha1.GateWaiting{{
		Cluster: c.key.Name, ClusterUID: c.uid(), At: h.at.name, Version: gatedTo,
	}}
	ignored := cmpopts.IgnoreFields(v1alpha1.GateWaiting{}, "Since", "Message")
	_, err := setup.Await(ctx, c.Client, &v1alpha1.UpgradeGateList{}, func(g *v1alpha1.UpgradeGate) string {
		if diff := cmp.Diff(want, g.Status.Waiting, ignored); diff != "" {
			return fmt.Sprintf("who waits at gate %s (-want +got):\n%s", g.Name, diff)
		}
		if !strings.Contains(g.Status.Waiting[0].Message, reason) {
			return fmt.Sprintf("gate %s has the message %q, want %q", g.Name, g.Status.Waiting[0].Message, reason)
		}
		return ""
	}, client.InNamespace(h.gate.Namespace), setup.Named(h.gate.Name))
	if err != nil {
		t.Fatal(err)
	}
}

// awaitCondition waits until the condition TopologyReconciled has a reason, and a text in its
// message.
func (c topology) awaitCondition(ctx context.Context, t *testing.T, reason, text string) {
	t.Helper()
	c.History.Await(ctx, t, fmt.Sprintf("waiting until %s has %q", c.key, text), func() string {
		condition := c.History.Now(c.key).Cluster.Reconciled()
		if condition.Reason != reason || !strings.Contains(condition.Message, text) {
			return fmt.Sprintf("the condition is %s: %q", condition.Reason, condition.Message)
		}
		return ""
	})
}

// status returns the present status of a gate.
func (c topology) status(ctx context.Context, t *testing.T, h hold) v1alpha1.UpgradeGateStatus {
	t.Helper()
	gate := &v1alpha1.UpgradeGate{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(h.gate), gate); err != nil {
		t.Fatal(err)
	}
	return gate.Status
}

func (c topology) uid() string { return string(c.History.Now(c.key).Cluster.UID) }

// checkPassed waits until the Cluster of gated is upgraded, and checks that no gate lists it, and
// that only these moves were made up to a revision.
func (c topology) checkPassed(ctx context.Context, t *testing.T, held int64, moves ...string) {
	t.Helper()
	c.AwaitArrived(ctx, t, c.key, gatedTo)
	c.History.CheckOrder(t, c.key, rig.Ways{"": {gatedTo}, workers: {gatedTo}}, 1)
	c.checkMoves(t, held, moves...)
	c.checkOneMessage(t, "gate "+c.key.Name+"-")
	var gates v1alpha1.UpgradeGateList
	if err := c.Client.List(ctx, &gates, client.InNamespace(c.key.Namespace)); err != nil {
		t.Fatal(err)
	}
	for _, gate := range gates.Items {
		status := gate.Status
		if gate.Spec.ClusterName == c.key.Name && len(status.Waiting)+int(status.WaitingCount) > 0 {
			t.Errorf("at the end, gate %s has the status %+v", gate.Name, status)
		}
	}
}

// checkMoves checks what the Cluster's parts did up to a revision, which the History has passed.
func (c topology) checkMoves(t *testing.T, revision int64, want ...string) {
	t.Helper()
	later := func(change history.Change) bool { return change.Revision > revision }
	got := rig.Moves(slices.DeleteFunc(c.History.Changes(c.key), later))
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("moves of %s while it was held (-want +got):\n%s", c.key, diff)
	}
}

// checkApprovals checks which approvals a gate has.
func (c topology) checkApprovals(
	ctx context.Context, t *testing.T, h hold, want ...v1alpha1.GateApprovalRecord,
) {
	t.Helper()
	ignored := cmpopts.IgnoreFields(v1alpha1.GateApprovalRecord{}, "Time")
	got := c.status(ctx, t, h).Approvals
	if diff := cmp.Diff(want, got, ignored, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("approvals of gate %s (-want +got):\n%s", h.gate.Name, diff)
	}
}

// checkOneMessage fails the test if the Cluster's condition had several messages that contain a
// text: each is a write, and an event for every watch.
func (c topology) checkOneMessage(t *testing.T, text string) {
	t.Helper()
	var messages []string
	for _, f := range c.History.Of(c.key) {
		m := f.Reconciled().Message
		if strings.Contains(m, text) && !slices.Contains(messages, m) {
			messages = append(messages, m)
		}
	}
	if len(messages) != 1 {
		t.Errorf("the condition of %s had these messages with %q: %q", c.key, text, messages)
	}
}

// windlass runs a command about the Cluster, and returns what it printed.
func (c topology) windlass(ctx context.Context, t *testing.T, name string, flags ...string) string {
	t.Helper()
	args := append([]string{
		name, c.key.Name, "-n", c.key.Namespace, "--kubeconfig", c.KubeconfigPath(),
	}, flags...)
	printed, err := exec.CommandContext(ctx, c.Programs.Windlass, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("windlass %s: %v\n%s", strings.Join(args, " "), err, printed)
	}
	return string(printed)
}

// revision returns the present revision of the plane.
func (p *plane) revision(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	var clusters clusterv1.ClusterList
	if err := p.Client.List(ctx, &clusters); err != nil {
		t.Fatal(err)
	}
	revision, err := strconv.ParseInt(clusters.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// setReady sets the condition Ready of a Node. The API server in memory has no subresources.
func setReady(
	ctx context.Context, t *testing.T, workload client.Client, name string, is corev1.ConditionStatus,
) {
	t.Helper()
	node := &corev1.Node{}
	if err := workload.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	before := node.DeepCopy()
	for i := range node.Status.Conditions {
		if condition := &node.Status.Conditions[i]; condition.Type == corev1.NodeReady {
			condition.Status, condition.Reason = is, "Test"
		}
	}
	if err := workload.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
