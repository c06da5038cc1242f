package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/metrics"
)

// counted returns what was counted: for attempts how many, for durations how many and how long
// together.
func counted(t *testing.T, u *metrics.Updates) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(u)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "windlass_machine_update_")
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			line := fmt.Sprintf("%s %s %v", name, strings.Join(values, " "), m.GetCounter().GetValue()+float64(m.GetHistogram().GetSampleCount()))
			if h := m.GetHistogram(); h != nil {
				line += " " + time.Duration(h.GetSampleSum()*float64(time.Second)).String()
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

func checkCounted(t *testing.T, when string, u *metrics.Updates, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, counted(t, u)); diff != "" {
		t.Errorf("%s (-want +got)\n%s", when, diff)
	}
}

// TestMeasure has an update fail finally, be retried, and be given up, and another one succeed at
// the second attempt. Each result counts once, however often Cluster API asks.
func TestMeasure(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	w.engine.Metrics = metrics.NewUpdates(metrics.MaxSets)
	s.answers(inplace.Fails, "disk full")
	w.until("a", "disk full")
	checkCounted(t, "after the first attempt", w.engine.Metrics, "attempts_total c ns failure RuntimeHooks 1")
	w.now = w.now.Add(time.Minute)
	for range 3 {
		if _, err := w.update("a"); err == nil {
			t.Fatal("the update has not failed finally")
		}
	}
	checkCounted(t, "after the last attempt", w.engine.Metrics,
		"attempts_total c ns failure RuntimeHooks 2", "duration_seconds c ns failure RuntimeHooks 1 1m0s")

	empty := ""
	w.annotate("a", v1alpha1.UpdateRetryAnnotation, &empty)
	s.answers(inplace.InProgress, "working")
	w.until("a", "working")
	s.answers(inplace.Finishes, "")
	w.node("a", to)
	w.until("a", "updated in place")
	found := counted(t, w.engine.Metrics)
	if len(found) != 4 || found[1] != "attempts_total c ns success RuntimeHooks 1" || !strings.HasPrefix(found[3], "duration_seconds c ns success RuntimeHooks 1 1m") {
		t.Errorf("after the end: %q", found)
	}
}

// TestMeasureAbandoned counts an update that a person gave up.
func TestMeasureAbandoned(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	w.engine.Metrics = metrics.NewUpdates(metrics.MaxSets)
	s.answers(inplace.InProgress, "working")
	w.until("a", "working")
	w.now = w.now.Add(time.Hour)
	m := w.machine("a")
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
		Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotUpToDateReason, LastTransitionTime: metav1.NewTime(w.now),
	})
	if err := w.client.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	empty := ""
	w.annotate("a", v1alpha1.UpdateAbandonAnnotation, &empty)
	for range 10 {
		if _, err := w.update("a"); err != nil {
			t.Fatal(err)
		}
		if !w.has("a", v1alpha1.UpdateProgressAnnotation) {
			break
		}
		w.now = w.now.Add(time.Minute)
	}
	found := counted(t, w.engine.Metrics)
	if !slices.ContainsFunc(found, func(line string) bool {
		return strings.HasPrefix(line, "duration_seconds c ns abandoned RuntimeHooks 1 1h")
	}) {
		t.Errorf("counted: %q", found)
	}
}

// TestMeasureAnnotated counts upgrades that annotations ask for.
func TestMeasureAnnotated(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.register()
	w.add(newMachine("cp-0", "kcp"), newMachine("a", ""))
	w.nodes.Edit(inCluster, "cp-0", func(n *inplace.Node) { n.Kubelet = inplaceVersion(wanted) })
	w.sync()
	w.engine.Metrics = metrics.NewUpdates(metrics.MaxSets)
	w.ask("a", toChannel)
	w.untilDone("a", toChannel)
	found := counted(t, w.engine.Metrics)
	if len(found) != 2 || found[0] != "attempts_total c "+namespace+" success K8sd 1" || !strings.HasPrefix(found[1], "duration_seconds c "+namespace+" success K8sd 1 ") {
		t.Errorf("counted: %q", found)
	}
}
