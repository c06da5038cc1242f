package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/status"
)

var start = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// cache answers lists as a cache does: from memory.
type cache struct {
	client.Reader
	clusters []clusterv1.Cluster
	gates    []v1alpha1.UpgradeGate
	machines []metav1.PartialObjectMetadata
	err      error

	deployments []clusterv1.MachineDeployment
}

func (c *cache) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *clusterv1.ClusterList:
		list.Items = c.clusters
	case *v1alpha1.UpgradeGateList:
		list.Items = c.gates
	case *metav1.PartialObjectMetadataList:
		list.Items = c.machines
	case *clusterv1.MachineDeploymentList:
		list.Items = c.deployments
	}
	return c.err
}

// world is a Collector with its registry, and a clock.
type world struct {
	cache     cache
	now       time.Time
	elected   chan struct{}
	upgrades  bool
	updates   *Updates
	collector *Collector
}

func newWorld(most int) *world {
	w := &world{now: start, elected: make(chan struct{}), upgrades: true, updates: NewUpdates(most)}
	w.collector = NewCollector(Options{
		Reader: &w.cache, Serves: Extension, Elected: w.elected, Upgrades: func(context.Context) bool { return w.upgrades }, Gates: true, Machines: true,
		Updates: w.updates, Now: func() time.Time { return w.now }, Log: logr.Discard(), Most: most,
	})
	return w
}

// scrape returns the lines of some families, without buckets.
func (w *world) scrape(t *testing.T, families ...string) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w.collector)
	found, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, family := range found {
		if len(families) > 0 && !slices.Contains(families, family.GetName()) {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") {
			lines = append(lines, line)
		}
	}
	return lines
}

func (w *world) check(t *testing.T, want []string, families ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.scrape(t, families...)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func upgrading(name, condition string) clusterv1.Cluster {
	c := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID("uid-" + name)}}
	c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.32.0"}
	c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
		Versions:         []clusterv1.StatusVersion{{Version: "v1.31.0"}},
		UpgradePlan:      []clusterv1.StatusUpgradePlanVersion{{Version: "v1.32.0"}},
		UpToDateReplicas: new(int32(2)),
	}
	if condition != "" {
		c.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.ClusterTopologyReconciledClusterUpgradingReason, Message: "Cluster is upgrading to v1.32.0\n  * " + condition,
		}}
	}
	return c
}

func machine(cluster, annotation, value string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team-a", Name: "secret-name", Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
		Annotations: map[string]string{annotation: value},
	}}
}

func TestUpgrades(t *testing.T) {
	t.Parallel()
	const hook = "hook BeforeClusterUpgrade for v1.32.0 is blocking: no"
	gate := v1alpha1.UpgradeGate{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "night"}}
	gate.Status.Waiting = []v1alpha1.GateWaiting{{ClusterUID: "uid-gated", At: "BeforeClusterUpgrade", Since: metav1.NewTime(start.Add(-time.Hour))}}
	elsewhere := *gate.DeepCopy()
	elsewhere.Namespace = "team-b"
	progress := func(phase string) string {
		return fmt.Sprintf(`{"phase":%q,"started":"2026-03-04T11:59:00Z"}`, phase)
	}
	arrived := machine("moving", clusterv1.UpdateInProgressAnnotation, "")
	arrived.OwnerReferences = []metav1.OwnerReference{
		{Kind: "MachineSet", Name: "md-new", Controller: new(true)},
	}
	arrived.Labels[clusterv1.MachineDeploymentUniqueLabel] = "new-abcde"
	arrived.Annotations[v1alpha1.LastUpdateAnnotation] = `{"target":"new"}`
	w := newWorld(MaxSets)
	close(w.elected)
	w.cache = cache{
		clusters: []clusterv1.Cluster{upgrading("moving", ""), upgrading("gated", hook), upgrading("failing", "")},
		gates:    []v1alpha1.UpgradeGate{gate, elsewhere},
		machines: []metav1.PartialObjectMetadata{
			machine("failing", v1alpha1.UpdateProgressAnnotation, progress("Failed")),
			machine("failing", v1alpha1.InPlaceUpgradeAnnotation, `{"option":"x","message":"no","at":"2026-03-04T11:00:00Z"}`),
			machine("moving", v1alpha1.UpdateProgressAnnotation, progress("Draining")),
			machine("moving", v1alpha1.InPlaceUpgradeAnnotation, `{"option":"x","progress":`+progress("Draining")+`}`),
			machine("moving", clusterv1.UpdateInProgressAnnotation, ""),
			machine("moving", v1alpha1.UpdateProgressAnnotation, progress("made up")),
			machine("moving", v1alpha1.LastUpdateAnnotation, "{}"),
			arrived,
			machine("unknown", v1alpha1.UpdateProgressAnnotation, progress("Failed")),
		},
	}
	w.check(t, []string{
		`windlass_cluster_machines_up_to_date{cluster="failing",cluster_namespace="team-a"} 2`,
		`windlass_cluster_machines_up_to_date{cluster="gated",cluster_namespace="team-a"} 2`,
		`windlass_cluster_machines_up_to_date{cluster="moving",cluster_namespace="team-a"} 2`,
		`windlass_cluster_upgrade_held_seconds{cluster="failing",cluster_namespace="team-a",reason="Machines"} 3600`,
		`windlass_cluster_upgrade_held_seconds{cluster="gated",cluster_namespace="team-a",reason="UpgradeGate"} 3600`,
		`windlass_cluster_upgrade_info{cluster="failing",cluster_namespace="team-a",from="v1.31.0",phase="Held",to="v1.32.0"} 1`,
		`windlass_cluster_upgrade_info{cluster="gated",cluster_namespace="team-a",from="v1.31.0",phase="Held",to="v1.32.0"} 1`,
		`windlass_cluster_upgrade_info{cluster="moving",cluster_namespace="team-a",from="v1.31.0",phase="Upgrading",to="v1.32.0"} 1`,
		`windlass_cluster_upgrade_steps_left{cluster="failing",cluster_namespace="team-a"} 1`,
		`windlass_cluster_upgrade_steps_left{cluster="gated",cluster_namespace="team-a"} 1`,
		`windlass_cluster_upgrade_steps_left{cluster="moving",cluster_namespace="team-a"} 1`,
		`windlass_gate_waiting{cluster="gated",cluster_namespace="team-a",gate="night",hook="BeforeClusterUpgrade"} 1`,
		`windlass_machine_updates{cluster="failing",cluster_namespace="team-a",phase="Failed"} 2`,
		`windlass_machine_updates{cluster="moving",cluster_namespace="team-a",phase="Draining"} 2`,
		`windlass_machine_updates{cluster="moving",cluster_namespace="team-a",phase="Queued"} 1`,
		`windlass_machine_updates{cluster="moving",cluster_namespace="team-a",phase="Unreadable"} 1`,
	}, infoFamily.name, stepFamily.name, leftFamily.name, upToDateFamily.name, heldFamily.name,
		gateFamily.name, updatesFamily.name)
	w.upgrades = false
	w.check(t, nil, infoFamily.name, leftFamily.name, heldFamily.name, gateFamily.name, updatesFamily.name)
}

// TestBlocked: a MachineDeployment with the condition UpdateBlocked is served, also if another
// process serves upgrades, and only by a process whose cache has MachineDeployments.
func TestBlocked(t *testing.T) {
	t.Parallel()
	deployment := func(name, kind, reason string, status metav1.ConditionStatus) clusterv1.MachineDeployment {
		md := clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}}
		md.Spec.ClusterName = "c"
		md.Status.Conditions = []metav1.Condition{{Type: kind, Status: status, Reason: reason}}
		return md
	}
	const blocked = v1alpha1.UpdateBlockedCondition
	deleted := deployment("deleted", blocked, "CanaryFailed", metav1.ConditionTrue)
	deleted.DeletionTimestamp = new(metav1.NewTime(start))
	elsewhere := deployment("elsewhere", blocked, "CanaryFailed", metav1.ConditionTrue)
	elsewhere.Spec.ClusterName = "other"
	w := newWorld(MaxSets)
	close(w.elected)
	w.collector.Filter = "shard"
	own, other := upgrading("c", ""), upgrading("other", "")
	own.Labels = map[string]string{clusterv1.WatchLabel: "shard"}
	w.cache.clusters = []clusterv1.Cluster{own, other}
	w.cache.deployments = []clusterv1.MachineDeployment{
		deployment("held", blocked, "CanaryFailed", metav1.ConditionTrue),
		deployment("kept", blocked, "Partition", metav1.ConditionTrue),
		deployment("free", blocked, "CanaryFailed", metav1.ConditionFalse),
		deployment("moving", clusterv1.RollingOutCondition, "RollingOut", metav1.ConditionTrue),
		deleted, elsewhere,
	}
	w.check(t, nil, blockedFamily.name)
	w.collector.Deployments = true
	want := []string{
		`windlass_machinedeployment_blocked{cluster="c",cluster_namespace="team-a",machinedeployment="held",reason="CanaryFailed"} 1`,
		`windlass_machinedeployment_blocked{cluster="c",cluster_namespace="team-a",machinedeployment="kept",reason="Partition"} 1`,
	}
	w.check(t, want, blockedFamily.name)
	w.upgrades = false
	w.check(t, want, blockedFamily.name)
}

// TestHeldSince counts from when this process saw a hook hold a Cluster, and anew for another hook.
func TestHeldSince(t *testing.T) {
	t.Parallel()
	w := newWorld(MaxSets)
	close(w.elected)
	for i, step := range []struct{ condition, want string }{
		{"hook BeforeClusterUpgrade is blocking: a", "0"},
		{"hook BeforeClusterUpgrade is blocking: b", "60"},
		{"hook BeforeWorkersUpgrade is blocking: b", "0"},
		{"", ""},
		{"hook BeforeWorkersUpgrade is blocking: b", "0"},
	} {
		w.now = start.Add(time.Duration(i) * time.Minute)
		w.cache.clusters = []clusterv1.Cluster{upgrading("c", step.condition)}
		var want []string
		if step.want != "" {
			want = []string{`windlass_cluster_upgrade_held_seconds{cluster="c",cluster_namespace="team-a",reason="Hook"} ` + step.want}
		}
		w.check(t, want, heldFamily.name)
	}
}

// TestUpdates counts results, and forgets those of Clusters that are gone.
func TestUpdates(t *testing.T) {
	t.Parallel()
	w := newWorld(MaxSets)
	close(w.elected)
	w.cache.clusters = []clusterv1.Cluster{upgrading("a", ""), upgrading("b", "")}
	for _, name := range []string{"a", "b"} {
		key := types.NamespacedName{Namespace: "team-a", Name: name}
		w.updates.Attempt(key, "K8sd", Failure)
		w.updates.Attempt(key, "K8sd", Success)
		w.updates.Ended(key, "K8sd", Success, 90*time.Second)
		w.updates.Ended(key, "K8sd", Success, -time.Second)
	}
	of := func(name string) []string {
		return []string{
			`windlass_machine_update_attempts_total{cluster="` + name + `",cluster_namespace="team-a",result="failure",updater="K8sd"} 1`,
			`windlass_machine_update_attempts_total{cluster="` + name + `",cluster_namespace="team-a",result="success",updater="K8sd"} 1`,
		}
	}
	w.check(t, slices.Concat(of("a"), of("b")), attemptsFamily)
	w.cache.clusters = w.cache.clusters[1:]
	w.check(t, of("b"), attemptsFamily)
	w.check(t, []string{
		`windlass_machine_update_duration_seconds_sum{cluster="b",cluster_namespace="team-a",result="success",updater="K8sd"} 90`,
		`windlass_machine_update_duration_seconds_count{cluster="b",cluster_namespace="team-a",result="success",updater="K8sd"} 2`,
	}, durationFamily)
	var none *Updates
	none.Attempt(types.NamespacedName{}, "", "")
	none.Ended(types.NamespacedName{}, "", "", 0)
}

// TestFilter: gauges show the Clusters of the filter; a hook that was asked about a Machine of
// another Cluster counts as long as that Cluster exists.
func TestFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(MaxSets)
	close(w.elected)
	w.collector.Filter = "shard"
	own, other := upgrading("own", ""), upgrading("other", "")
	own.Labels = map[string]string{clusterv1.WatchLabel: "shard"}
	w.cache.clusters = []clusterv1.Cluster{own, other}
	for _, name := range []string{"own", "other", "gone"} {
		w.updates.Attempt(types.NamespacedName{Namespace: "team-a", Name: name}, "K3s", Success)
	}
	of := func(family, cluster, more string) string {
		return family + `{cluster="` + cluster + `",cluster_namespace="team-a"` + more + `} 1`
	}
	w.check(t, []string{
		of(leftFamily.name, "own", ""),
		of(attemptsFamily, "other", `,result="success",updater="K3s"`),
		of(attemptsFamily, "own", `,result="success",updater="K3s"`),
	}, leftFamily.name, attemptsFamily)
}

// TestPruneWhileCounting: a series that is counted during a scrape is pruned by that scrape or by a
// later one.
func TestPruneWhileCounting(t *testing.T) {
	t.Parallel()
	u, done := NewUpdates(MaxSets), make(chan struct{})
	gone := func(types.NamespacedName) bool { return false }
	go func() {
		defer close(done)
		for i := range 5_000 {
			name := types.NamespacedName{Namespace: "team-a", Name: strconv.Itoa(i)}
			u.Attempt(name, "K3s", Success)
		}
	}()
	for counting := true; counting; {
		select {
		case <-done:
			counting = false
		default:
			u.prune(gone)
		}
	}
	u.prune(gone)
	series := make(chan prometheus.Metric, 5_000)
	u.attempts.Collect(series)
	left := prometheus.Labels{labelNamespace: "", labelCluster: ""}
	if extra := len(series) - u.attempts.DeletePartialMatch(left); extra > 0 {
		t.Errorf("%d series of Clusters that are gone stay", extra)
	}
}

// TestLimit shows what exceeds the limit: gauges leave it out, counters count it without a Cluster,
// and one metric counts both.
func TestLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	close(w.elected)
	for _, name := range []string{"d", "c", "b", "a"} {
		w.cache.clusters = append(w.cache.clusters, upgrading(name, ""))
		key := types.NamespacedName{Namespace: "team-a", Name: name}
		w.updates.Attempt(key, "K3s", Success)
		w.updates.Attempt(key, "K3s", Success)
	}
	w.check(t, []string{
		`windlass_cluster_upgrade_steps_left{cluster="a",cluster_namespace="team-a"} 1`,
		`windlass_cluster_upgrade_steps_left{cluster="b",cluster_namespace="team-a"} 1`,
		`windlass_machine_update_attempts_total{cluster="",cluster_namespace="",result="success",updater="K3s"} 4`,
		`windlass_machine_update_attempts_total{cluster="c",cluster_namespace="team-a",result="success",updater="K3s"} 2`,
		`windlass_machine_update_attempts_total{cluster="d",cluster_namespace="team-a",result="success",updater="K3s"} 2`,
	}, leftFamily.name, attemptsFamily)
	w.check(t, []string{
		`windlass_metrics_omitted_label_sets{family="windlass_cluster_machines_up_to_date"} 2`,
		`windlass_metrics_omitted_label_sets{family="windlass_cluster_upgrade_held_seconds"} 0`,
		`windlass_metrics_omitted_label_sets{family="windlass_cluster_upgrade_info"} 2`,
		`windlass_metrics_omitted_label_sets{family="windlass_cluster_upgrade_step"} 0`,
		`windlass_metrics_omitted_label_sets{family="windlass_cluster_upgrade_steps_left"} 2`,
		`windlass_metrics_omitted_label_sets{family="windlass_gate_waiting"} 0`,
		`windlass_metrics_omitted_label_sets{family="windlass_machine_update_attempts_total"} 2`,
		`windlass_metrics_omitted_label_sets{family="windlass_machine_update_duration_seconds"} 0`,
		`windlass_metrics_omitted_label_sets{family="windlass_machine_updates"} 0`,
		`windlass_metrics_omitted_label_sets{family="windlass_machinedeployment_blocked"} 0`,
	}, "windlass_metrics_omitted_label_sets")
	// Without scrapes the sets beyond the limit are bounded, too.
	for i := range 10 {
		w.updates.Attempt(types.NamespacedName{Name: strconv.Itoa(i)}, "K3s", Success)
	}
	if n := w.updates.omitted(attemptsFamily); n != 2 {
		t.Errorf("%d label sets beyond the limit are remembered, want 2", n)
	}
	// The next one gets the place of one that is gone.
	w.cache.clusters = w.cache.clusters[2:]
	w.scrape(t)
	w.updates.Attempt(types.NamespacedName{Namespace: "team-a", Name: "a"}, "K3s", Success)
	w.check(t, []string{
		`windlass_machine_update_attempts_total{cluster="",cluster_namespace="",result="success",updater="K3s"} 14`,
		`windlass_machine_update_attempts_total{cluster="a",cluster_namespace="team-a",result="success",updater="K3s"} 1`,
	}, attemptsFamily)
}

// TestShares has a tenant with many Clusters hide those of no other tenant.
func TestShares(t *testing.T) {
	t.Parallel()
	w := newWorld(5)
	close(w.elected)
	for _, key := range []string{"a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "b/1", "b/2", "b/3", "c/1"} {
		namespace, name, _ := strings.Cut(key, "/")
		cluster := upgrading(name, "")
		cluster.Namespace = namespace
		w.cache.clusters = append(w.cache.clusters, cluster)
	}
	w.check(t, []string{
		`windlass_cluster_upgrade_steps_left{cluster="1",cluster_namespace="a"} 1`,
		`windlass_cluster_upgrade_steps_left{cluster="1",cluster_namespace="b"} 1`,
		`windlass_cluster_upgrade_steps_left{cluster="1",cluster_namespace="c"} 1`,
		`windlass_cluster_upgrade_steps_left{cluster="2",cluster_namespace="a"} 1`,
		`windlass_cluster_upgrade_steps_left{cluster="2",cluster_namespace="b"} 1`,
	}, leftFamily.name)
}

// TestSilence: a process that does not lead, or cannot read its cache, serves no series of a
// Cluster.
func TestSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(MaxSets)
	w.cache.clusters = []clusterv1.Cluster{upgrading("a", "")}
	w.check(t, []string{`windlass_leader{serves="extension"} 0`})
	close(w.elected)
	w.cache.err = errors.New("no cache")
	w.check(t, []string{`windlass_leader{serves="extension"} 1`})
}

// TestActive serves whether the Pod has its label.
func TestActive(t *testing.T) {
	t.Parallel()
	labelled := false
	active := NewActive(func() bool { return labelled })
	for _, want := range []float64{0, 1} {
		if got := testutil.ToFloat64(active); got != want {
			t.Errorf("labelled: %t: windlass_active is %v, want %v", labelled, got, want)
		}
		labelled = true
	}
}

// TestPage compares docs/reference/metrics.md with what is registered.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc, 100)
	newWorld(1).collector.Describe(descs)
	NewActive(nil).Describe(descs)
	close(descs)
	registered := map[string]bool{}
	for d := range descs {
		text := d.String()
		_, text, _ = strings.Cut(text, `fqName: "`)
		name, rest, _ := strings.Cut(text, `"`)
		_, rest, _ = strings.Cut(rest, "variableLabels: {")
		labels, _, _ := strings.Cut(rest, "}")
		registered[name] = true
		row := "| `" + name + "` | "
		at := bytes.Index(page, []byte(row))
		if at < 0 {
			t.Errorf("the page has no row of %s", name)
			continue
		}
		line, _, _ := strings.Cut(string(page[at:]), "\n")
		want := "`" + strings.ReplaceAll(labels, ",", "`, `") + "`"
		if labels == "" {
			want = "none"
		}
		if listed := strings.Split(line, " | ")[2]; listed != want {
			t.Errorf("the page gives %s the labels %s; it has %s", name, listed, labels)
		}
	}
	for _, value := range []string{
		Success, Failure, Abandoned, phaseUpgrading, phaseHeld, string(status.Queued), string(status.Unreadable),
		string(status.HeldByHook), string(status.HeldByGate), string(status.HeldByAnnotation), string(status.HeldByPause), string(status.HeldByRule),
		string(status.HeldByMachines), string(status.HeldByFailure), string(inplace.Draining), string(inplace.Updating), string(inplace.BackingOff),
		string(inplace.Verifying), string(inplace.Soaking), string(inplace.Failed), string(v1alpha1.K8sdUpdater), string(v1alpha1.KubeadmUpdater),
		string(v1alpha1.RKE2Updater), string(v1alpha1.K3sUpdater), string(v1alpha1.RuntimeHooksProtocol), string(v1alpha1.HandOverProtocol),
	} {
		if !strings.Contains(string(page), "`"+value+"`") {
			t.Errorf("the page does not list the value %s", value)
		}
	}
	for line := range strings.Lines(string(page)) {
		name, found := strings.CutPrefix(line, "| `windlass_")
		name, _, _ = strings.Cut(name, "`")
		elsewhere := strings.HasPrefix(name, "hook_") || strings.HasPrefix(name, "guard_") || name == "refused_writes_total"
		if found && !elsewhere && !registered["windlass_"+name] {
			t.Errorf("the page has a row of windlass_%s, which nobody registers", name)
		}
	}
}
