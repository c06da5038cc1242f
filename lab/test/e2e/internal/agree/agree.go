// Package agree compares upgrades on a development plane with the simulation of the same: which operations began in which order, and how long all took.
package agree

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/simulate/whatif"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

const (
	// Tolerance is the part of a real upgrade's duration by which a simulation's may be off.
	Tolerance = 0.2
	// Together is how far apart two operations may begin that begin together: their order is chance.
	Together = time.Second
)

// Upgrade is what is compared.
type Upgrade struct {
	// Operations are in the order of their beginning, as rig.Moves has them: "control plane v1.31.0", "md-0 v1.31.0".
	Operations []string
	// Began is when each of them did, from the beginning.
	Began []time.Duration
	Took  time.Duration
}

// Happened is an upgrade of these changes that began then and has ended now.
func Happened(changes []history.Change, began time.Time) Upgrade {
	u := Upgrade{Operations: rig.Moves(changes), Took: time.Since(began)}
	for _, c := range changes {
		u.Began = append(u.Began, c.Seen.Sub(began))
	}
	return u
}

func (u Upgrade) String() string {
	var text strings.Builder
	for i, o := range u.Operations {
		fmt.Fprintf(&text, "  %6.1f s %s\n", u.Began[i].Seconds(), o)
	}
	return fmt.Sprintf("%s  %6.1f s the end", text.String(), u.Took.Seconds())
}

// CompareOperations returns how the operations of a simulation, or their order, differ from what
// happened: "" if they do not. Operations that began Together have no order.
func CompareOperations(happened, simulated Upgrade) string {
	order, rest := []string(nil), slices.Clone(happened.Operations)
	began := slices.Clone(happened.Began)
	for _, operation := range simulated.Operations {
		at := slices.Index(rest, operation)
		if at < 0 || began[at]-began[0] > Together {
			break
		}
		order = append(order, operation)
		rest, began = slices.Delete(rest, at, at+1), slices.Delete(began, at, at+1)
	}
	order = append(order, rest...)
	return gocmp.Diff(order, simulated.Operations)
}

// CompareDurations returns how the duration of a simulation differs from what happened by more than
// the Tolerance: "" if it does not.
func CompareDurations(happened, simulated Upgrade) string {
	off := simulated.Took - happened.Took
	if off.Abs() <= time.Duration(Tolerance*float64(happened.Took)) {
		return ""
	}
	return fmt.Sprintf("it took %s and is simulated to take %s, %+.0f %%",
		happened.Took, simulated.Took, percent(off, happened.Took))
}

func percent(part, whole time.Duration) float64 { return 100 * float64(part) / float64(whole) }

// ReadReport reads what windlass simulate -o json writes about one Cluster.
func ReadReport(report []byte) (Upgrade, error) {
	var r whatif.Report
	if err := json.Unmarshal(report, &r); err != nil {
		return Upgrade{}, fmt.Errorf("reading the simulation's report: %w", err)
	}
	if len(r.Variants) != 1 || r.Variants[0].Duration == nil {
		return Upgrade{}, fmt.Errorf("the simulation's report has %d variants, or no run was completed", len(r.Variants))
	}
	type bar struct {
		operation string
		began     float64
	}
	var bars []bar
	for _, row := range r.Variants[0].Median.Charts.Timeline {
		if row.Groups != 1 {
			return Upgrade{}, fmt.Errorf("the report shows %s together with %d others", row.Name, row.Groups-1)
		}
		for _, b := range row.Bars {
			bars = append(bars, bar{operation: row.Name + " " + b.To, began: b.BeganSeconds})
		}
	}
	slices.SortStableFunc(bars, func(a, b bar) int { return cmp.Compare(a.began, b.began) })
	u := Upgrade{Took: time.Duration(r.Variants[0].Duration.P50Seconds * float64(time.Second))}
	for _, b := range bars {
		u.Operations, u.Began = append(u.Operations, b.operation), append(u.Began, time.Duration(b.began*float64(time.Second)))
	}
	return u, nil
}

// Cluster is one that is simulated by the windlass binary, as a user does.
type Cluster struct {
	types.NamespacedName
	Windlass, Kubeconfig string
}

// Recorded is a Cluster as it was before its upgrade.
type Recorded struct {
	cluster  Cluster
	scenario string
}

// Record writes down what would be simulated now, but for the control plane's version: from says where that begins, because it may be on its way already.
// Pools do not go before it.
func (c Cluster) Record(ctx context.Context, t *testing.T, from, to string) Recorded {
	t.Helper()
	r := Recorded{cluster: c, scenario: filepath.Join(t.TempDir(), "before.yaml")}
	scenario := c.simulate(ctx, t, c.Name, "--from", from, "--to", to, "--print-scenario")
	t.Logf("before the upgrade:\n%s", scenario)
	if err := os.WriteFile(r.scenario, scenario, 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// Check simulates the upgrade of the Cluster as it was, with the durations that it shows now that it
// has ended. The operations must agree. The duration must agree with WINDLASS_LONG=1, and is logged
// without: beside other tests it depends on what they do.
func (r Recorded) Check(ctx context.Context, t *testing.T, happened Upgrade) {
	t.Helper()
	report := r.cluster.simulate(ctx, t, "--scenario", r.scenario, "--fit-from", r.cluster.Name, "-o", "json", "--verify")
	simulated, err := ReadReport(report)
	if err != nil {
		t.Fatalf("%v\n%s", err, report)
	}
	t.Logf("happened:\n%s\nsimulated (%+.1f %%):\n%s", happened, percent(simulated.Took-happened.Took, happened.Took), simulated)
	if diff := CompareOperations(happened, simulated); diff != "" {
		t.Errorf("the simulation has other operations, or another order (-happened +simulated):\n%s", diff)
	}
	if off := CompareDurations(happened, simulated); off != "" {
		say := t.Logf
		if os.Getenv("WINDLASS_LONG") == "1" {
			say = t.Errorf
		}
		say("the simulation takes another time: %s", off)
	}
	if t.Failed() {
		t.Logf("the report:\n%s", report)
	}
}

func (c Cluster) simulate(ctx context.Context, t *testing.T, args ...string) []byte {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.Windlass, append([]string{"simulate", "--namespace", c.Namespace, "--kubeconfig", c.Kubeconfig}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("windlass simulate %q: %v\n%s%s", args, err, stdout.String(), stderr.String())
	}
	return stdout.Bytes()
}
