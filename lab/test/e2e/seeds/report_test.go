package seeds_test

import (
	"context"
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// report is the part of windlass report -o json that the tests compare.
type report struct {
	Upgrade *struct {
		State, From, Target string
		Began, Ended        time.Time
	}
	Steps []struct {
		Operation, Plan, State, To string
		Began, Ended               time.Time
	}
	Gates []struct {
		Gate, At, Version, State string
		Since, Passed            time.Time
		Approval                 *struct {
			By   string
			Time time.Time
		}
	}
	Machines []struct {
		Machine, Way string
		Began, Ended time.Time
		Updaters     []struct{ Updater string }
	}
}

func (p *plane) report(ctx context.Context, t *testing.T, key types.NamespacedName) report {
	t.Helper()
	var r report
	if err := json.Unmarshal([]byte(p.printReport(ctx, t, key, "json")), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func (p *plane) printReport(ctx context.Context, t *testing.T, key types.NamespacedName, format string) string {
	t.Helper()
	args := []string{"report", key.Name, "-n", key.Namespace, "--kubeconfig", p.KubeconfigPath(), "-o", format}
	printed, err := exec.CommandContext(ctx, p.Programs.Windlass, args...).Output()
	if err != nil {
		t.Fatalf("windlass %s: %v", strings.Join(args, " "), err)
	}
	return string(printed)
}

// checkOrder checks that times are in order. Records have whole seconds.
func checkOrder(t *testing.T, what string, times ...time.Time) {
	t.Helper()
	for i, at := range times {
		if at.IsZero() || i > 0 && at.Truncate(time.Second).Before(times[i-1].Truncate(time.Second)) {
			t.Errorf("%s: not in order: %v", what, times)
			return
		}
	}
}

// checkHeldReport checks the report on an upgrade that a gate holds before its first change.
func (c topology) checkHeldReport(ctx context.Context, t *testing.T, h hold) {
	t.Helper()
	r := c.report(ctx, t, c.key)
	if r.Upgrade == nil || r.Upgrade.State != "Held" || r.Upgrade.Target != gatedTo || len(r.Gates) != 2 {
		t.Fatalf("the report on an upgrade that is held: %+v", r)
	}
	for _, g := range r.Gates {
		if g.State != "Holds" || g.At != string(beforeCluster.name) || g.Version != gatedTo {
			t.Errorf("the report has the gate %+v", g)
		}
	}
	for _, s := range r.Steps {
		if s.Plan != "Computed" || s.State != "Next" {
			t.Errorf("before the upgrade has begun, the report has the step %+v", s)
		}
	}
	if page := c.printReport(ctx, t, c.key, "html"); !strings.Contains(page, "needs approval") || !strings.Contains(page, h.gate.Name) {
		t.Errorf("the page does not show what holds the upgrade:\n%s", page)
	}
}

// checkReport compares the report on an upgrade that has ended with the History. before are the machines
// that there were before it.
func (c topology) checkReport(ctx context.Context, t *testing.T, h hold, by string, before map[types.UID]history.Fact) {
	t.Helper()
	r := c.report(ctx, t, c.key)
	if r.Upgrade == nil || r.Upgrade.State != "Ended" || r.Upgrade.From != gatedFrom || r.Upgrade.Target != gatedTo {
		t.Fatalf("the report on an upgrade that has ended: %+v", r)
	}
	ended := c.firstSeen(v1alpha1.LastUpgradeAnnotation)
	checkOrder(t, "the upgrade", r.Upgrade.Began, c.firstSeen(v1alpha1.ChainProgressAnnotation), r.Upgrade.Ended, ended)
	moved := map[string]time.Time{}
	for _, change := range c.History.Changes(c.key) {
		operation := "ControlPlaneUpgrade"
		if change.Group != "" {
			operation = "WorkersUpgrade"
		}
		moved[operation] = change.Seen
	}
	if len(r.Steps) != len(moved) {
		t.Errorf("the report has %d steps, and the History %d", len(r.Steps), len(moved))
	}
	for _, s := range r.Steps {
		if s.Plan != "Planned" || s.State != "Done" || s.To != gatedTo {
			t.Errorf("the report has the step %+v", s)
		}
		checkOrder(t, s.Operation, r.Upgrade.Began, s.Began, moved[s.Operation], s.Ended, r.Upgrade.Ended)
	}
	approved := 0
	for _, g := range r.Gates {
		checkOrder(t, "gate "+g.Gate, g.Since, g.Passed, ended)
		if g.Gate == h.gate.Name {
			approved++
			if g.State != "Passed" || g.Approval == nil || g.Approval.By != by {
				t.Errorf("the report has the gate %+v, want an approval by %s", g, by)
				continue
			}
			checkOrder(t, "the approval", g.Since, g.Approval.Time, g.Passed)
		}
	}
	if approved != 1 {
		t.Errorf("the report has gate %s %d times: %+v", h.gate.Name, approved, r.Gates)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, m := range r.Machines {
		got[m.Machine] = m.Way
	}
	for uid, f := range c.machines() {
		want[f.Name] = "Untouched"
		if _, old := before[uid]; !old {
			want[f.Name] = "Created"
		} else if f.Object.GetAnnotations()[v1alpha1.LastUpdateAnnotation] != "" {
			want[f.Name] = "InPlace"
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("machines of the report (-want +got):\n%s", diff)
	}
}

// firstSeen is when a watch first showed the Cluster with an annotation.
func (c topology) firstSeen(annotation string) time.Time {
	for _, f := range c.History.Of(c.key) {
		if f.Kind == history.KindCluster && f.Object.GetAnnotations()[annotation] != "" {
			return f.Seen
		}
	}
	return time.Time{}
}

// machines are those of the Cluster that exist.
func (c topology) machines() map[types.UID]history.Fact {
	machines := c.History.Machines(c.key.Namespace)
	maps.DeleteFunc(machines, func(_ types.UID, f history.Fact) bool { return f.Gone || f.Cluster != c.key })
	return machines
}

// checkPoolsReport compares the times of machines that were updated in place, in the report on the Cluster
// of the pools, with the History.
func (p *plane) checkPoolsReport(ctx context.Context, t *testing.T) {
	t.Helper()
	key := types.NamespacedName{Namespace: rig.PoolsCluster, Name: rig.PoolsCluster}
	r := p.report(ctx, t, key)
	checked := 0
	for _, m := range r.Machines {
		facts := p.History.Facts(func(f history.Fact) bool {
			return f.Kind == history.KindMachine && f.Cluster == key && f.Name == m.Machine
		})
		last := lastUpdate(facts)
		if m.Way != "InPlace" || m.Ended.IsZero() || last == nil {
			continue
		}
		checked++
		if !m.Began.Equal(last.Began) || !m.Ended.Equal(last.Ended) || len(m.Updaters) != len(last.Done) {
			t.Errorf("the report has %+v, and the Machine %+v", m, last)
		}
		at := func(shows func(*clusterv1.Machine) bool) time.Time {
			i := slices.IndexFunc(facts, func(f history.Fact) bool { return shows(rig.MachineOf(f)) })
			if i < 0 {
				return time.Time{}
			}
			return facts[i].Seen
		}
		// A watch may be late: an update can end before its beginning is seen.
		began := at(func(o *clusterv1.Machine) bool {
			return strings.Contains(o.Annotations[v1alpha1.UpdateProgressAnnotation], last.ID)
		})
		ended := at(func(o *clusterv1.Machine) bool {
			return strings.Contains(o.Annotations[v1alpha1.LastUpdateAnnotation], last.ID)
		})
		checkOrder(t, "Machine "+m.Machine, m.Began, began, ended)
		checkOrder(t, "Machine "+m.Machine, m.Began, m.Ended, ended)
	}
	if checked == 0 {
		t.Error("the report has no machine that was updated in place")
	}
}

// lastUpdate is what a Machine records of its last update in place; nil where it records nothing, or is gone.
func lastUpdate(facts []history.Fact) *inplace.Summary {
	if len(facts) == 0 || facts[len(facts)-1].Gone {
		return nil
	}
	var last inplace.Summary
	if json.Unmarshal([]byte(facts[len(facts)-1].Object.GetAnnotations()[v1alpha1.LastUpdateAnnotation]), &last) != nil {
		return nil
	}
	return &last
}
