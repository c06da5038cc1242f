package bench_test

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

var (
	poolParts  = flag.String("pool-parts", "pairs,hundred,replaced,fleet", "which parts TestPools measures; none means those of -pools-from")
	hundred    = flag.Int("hundred", 100, "machines that are updated in place at once")
	fleet      = flag.Int("fleet", 1000, "machines of the fleet")
	fleetPool  = flag.Int("fleet-pool", 100, "machines of each pool of the fleet")
	fleetSlots = flag.Int("fleet-slots", 20, "machines of a pool of the fleet that are updated at once")
	fleetRest  = flag.Duration("fleet-rest", 2*time.Minute, "how long the fleet is measured at rest")
	poolsTable = flag.String("pools-table", "", "file that the table is written to; none means the test's log")
	poolsJSON  = flag.String("pools-json", "", "file that everything that was counted is written to")
	poolsPprof = flag.String("pools-profiles", "", "folder that profiles of the managers' CPU and heap are written to; none means no profiles")
	poolsFrom  = flag.String("pools-from", "", "files of -pools-json of earlier runs, separated by commas, whose parts are in the table, too")
)

const (
	// nextVersion is where pools are sent from rig.FirstVersion.
	nextVersion = "v1.31.1"
	// updateFor is how long the simulated updater takes for one machine.
	updateFor = 5 * time.Second
	pair      = 2
	pairs     = 3
	five      = 5
)

// results has what was counted, by part and engine.
type results map[string]map[setup.Engine]outcome

// TestPools measures groups of workers by each engine, one plane for each part and engine. It fails only
// if an engine does not finish: figures are for people to judge.
func TestPools(t *testing.T) {
	if os.Getenv("WINDLASS_BENCH") != "1" {
		t.Skip("set WINDLASS_BENCH=1 to measure engines side by side")
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	found := readResults(t)
	for _, part := range listed(*poolParts) {
		for _, name := range listed(*engines) {
			engine, err := setup.ParseEngine(name)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(part+" "+name, func(t *testing.T) {
				for name, o := range measurePools(ctx, t, engine, part) {
					found.add(name, engine, o)
				}
				writeResults(t, found)
			})
		}
	}
	if *poolParts == "" {
		writeResults(t, found)
	}
}

// listed splits a flag at commas. An empty flag lists nothing.
func listed(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
}

func (r results) add(part string, engine setup.Engine, o outcome) {
	if r[part] == nil {
		r[part] = make(map[setup.Engine]outcome)
	}
	r[part][engine] = o
}

// readResults reads the files of earlier runs.
func readResults(t *testing.T) results {
	t.Helper()
	found := results{}
	for _, file := range listed(*poolsFrom) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var earlier results
		if err := json.Unmarshal(data, &earlier); err != nil {
			t.Fatalf("reading %s: %v", file, err)
		}
		for part, measured := range earlier {
			for engine, o := range measured {
				found.add(part, engine, o)
			}
		}
	}
	return found
}

func writeResults(t *testing.T, found results) {
	t.Helper()
	if *poolsJSON != "" {
		data, err := json.MarshalIndent(found, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(*poolsJSON, append(data, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if *poolsTable == "" {
		t.Log("\n" + found.markdown())
		return
	}
	if err := os.WriteFile(*poolsTable, []byte(found.markdown()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPoolWrites fails if Windlass' engine writes more for each machine than the table's last column allows.
func TestPoolWrites(t *testing.T) {
	if os.Getenv("WINDLASS_POOL_WRITES") != "1" {
		t.Skip("set WINDLASS_POOL_WRITES=1 to check how often the engine writes for each machine")
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	for _, part := range []string{partPairs, partHundred, partReplaced} {
		for name, o := range measurePools(ctx, t, setup.EngineWindlass, part) {
			if most, ok := mostWrites()[name]; ok && o.perMachine(o.Writes) > most {
				t.Errorf("%s: %.1f writes for each machine, want at most %.1f:\n%s", name, o.perMachine(o.Writes), most, o.frequent())
			}
		}
	}
}

// The parts that the flag names.
const (
	partPairs    = "pairs"
	partHundred  = "hundred"
	partReplaced = "replaced"
	partFleet    = "fleet"
)

// The rows of the table, by what was done.
const (
	pairsInPlace   = "1 in place, pools of 2"
	hundredInPlace = "2 in place, all machines of a pool at once"
	pairsReplaced  = "3 replaced, pools of 2"
	fiveReplaced   = "4 replaced, a pool of 5"
	fleetCreated   = "5 fleet, creation"
	fleetResting   = "6 fleet, at rest"
	fleetUpdated   = "7 fleet, one pool in place"
)

// measurePools does one part with one engine, on a plane of its own.
func measurePools(ctx context.Context, t *testing.T, engine setup.Engine, part string) map[string]outcome {
	t.Helper()
	p := rig.StartAs(ctx, t, engine, managerName, profilerArgs(), rig.AuditAll)
	p.AddExtension(ctx, t)
	p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: "updater", Selector: inPlacePools(), Duration: updateFor})
	r := newRecorder(p, engine, part)
	switch part {
	case partPairs:
		return map[string]outcome{pairsInPlace: r.pools(ctx, t, inPlace("pair", pairs, pair, 1)...)}
	case partHundred:
		all := int32(*hundred)
		return map[string]outcome{hundredInPlace: r.pools(ctx, t, inPlace("hundred", 1, all, all)...)}
	case partReplaced:
		return r.replaced(ctx, t)
	case partFleet:
		return r.fleet(ctx, t)
	}
	t.Fatalf("there is no part %q. Fix: use %s, %s, %s or %s", part, partPairs, partHundred, partReplaced, partFleet)
	return nil
}

// replacedPrefix begins the names of pools whose machines are replaced.
const replacedPrefix = "replaced-"

// inPlacePools selects the machines of pools that inPlace returned.
func inPlacePools() *metav1.LabelSelector {
	var names []string
	for _, prefix := range []string{"pair", "hundred", "fleet"} {
		for i := range max(pairs, *fleet / *fleetPool) {
			names = append(names, fmt.Sprintf("%s-%d", prefix, i))
		}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "pool", Operator: metav1.LabelSelectorOpIn, Values: names},
	}}
}

// inPlace returns pools that are updated in place, some machines at once.
func inPlace(prefix string, count int, replicas, atOnce int32) []rig.Pool {
	var found []rig.Pool
	for i := range count {
		found = append(found, rig.Pool{
			Name: fmt.Sprintf("%s-%d", prefix, i), Replicas: replicas, MaxUnavailable: atOnce,
			Policy: v1alpha1.UpdatePolicySpec{MaxInFlight: atOnce},
		})
	}
	return found
}

// pools creates pools, and measures how they are sent to the next version one after another.
func (r *recorder) pools(ctx context.Context, t *testing.T, pools ...rig.Pool) outcome {
	t.Helper()
	r.plane.CreatePools(ctx, t, rig.PoolsCluster, pools)
	r.awaitPools(ctx, t, rig.FirstVersion, pools...)
	return r.send(ctx, t, pools...)
}

// send sends pools to the next version, one after another, and returns what that took together.
func (r *recorder) send(ctx context.Context, t *testing.T, pools ...rig.Pool) outcome {
	t.Helper()
	var sum outcome
	for _, pool := range pools {
		sum = sum.plus(r.during(ctx, t, int(pool.Replicas), func() {
			r.plane.Send(ctx, t, pool.Name, nextVersion)
			r.awaitPools(ctx, t, nextVersion, pool)
		}))
		if handOver, ok := r.handOver(pool.Name); ok {
			sum.HandOver = append(sum.HandOver, handOver.Seconds())
		}
	}
	return sum
}

// replaced measures pools whose machines are replaced, with a surge of one machine.
func (r *recorder) replaced(ctx context.Context, t *testing.T) map[string]outcome {
	t.Helper()
	pool := func(name string, replicas int32) rig.Pool {
		return rig.Pool{Name: replacedPrefix + name, Replicas: replicas, MaxSurge: 1, NoPolicy: true}
	}
	pools := []rig.Pool{pool("a", pair), pool("b", pair), pool("five", five)}
	r.plane.CreatePools(ctx, t, rig.PoolsCluster, pools)
	r.awaitPools(ctx, t, rig.FirstVersion, pools...)
	return map[string]outcome{
		pairsReplaced: r.send(ctx, t, pools[:2]...),
		fiveReplaced:  r.send(ctx, t, pools[2]),
	}
}

// fleet measures many machines: their creation, at rest, and an update of one pool in place.
func (r *recorder) fleet(ctx context.Context, t *testing.T) map[string]outcome {
	t.Helper()
	slots := int32(min(*fleetSlots, *fleetPool))
	pools := inPlace("fleet", *fleet / *fleetPool, int32(*fleetPool), slots)
	found := map[string]outcome{}
	found[fleetCreated] = r.during(ctx, t, *fleet, func() {
		r.plane.CreatePools(ctx, t, rig.PoolsCluster, pools)
		r.awaitPools(ctx, t, rig.FirstVersion, pools...)
	})
	found[fleetResting] = r.during(ctx, t, *fleet, func() {
		select {
		case <-time.After(*fleetRest):
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	})
	found[fleetUpdated] = r.send(ctx, t, pools[0])
	return found
}

// awaitPools waits until the status of each pool has all machines, available and up to date, at a
// version. It reads MachineDeployments alone, because a fleet has too many Machines to look at after
// each change.
func (r *recorder) awaitPools(ctx context.Context, t *testing.T, version string, pools ...rig.Pool) {
	t.Helper()
	for _, pool := range pools {
		_, err := setup.Await(ctx, r.plane.Client, &clusterv1.MachineDeploymentList{}, func(md *clusterv1.MachineDeployment) string {
			return poolMissing(md, version, pool.Replicas)
		}, setup.Named(pool.Name), client.InNamespace(rig.PoolsCluster))
		if err != nil {
			t.Fatalf("waiting for pool %s at %s: %v", pool.Name, version, err)
		}
	}
}

// poolMissing returns what a pool lacks until exactly its replicas are available at a version.
func poolMissing(md *clusterv1.MachineDeployment, version string, replicas int32) string {
	status := md.Status
	if md.Spec.Template.Spec.Version != version || status.ObservedGeneration != md.Generation {
		return "its status is about an earlier generation"
	}
	for _, count := range []struct {
		name  string
		value *int32
	}{
		{"replicas", status.Replicas}, {"readyReplicas", status.ReadyReplicas},
		{"availableReplicas", status.AvailableReplicas}, {"upToDateReplicas", status.UpToDateReplicas},
	} {
		if count.value == nil || *count.value != replicas {
			return fmt.Sprintf("status.%s is not %d", count.name, replicas)
		}
	}
	// The kubelets' versions: an updated Machine counts as up to date before its node is.
	if len(status.Versions) != 1 || status.Versions[0].Version != version {
		return fmt.Sprintf("status.versions is %v", status.Versions)
	}
	return ""
}

// handOver returns the time from a pool's new version to the first update of a machine that begins:
// the first version of a Machine with a progress.
func (r *recorder) handOver(pool string) (time.Duration, bool) {
	changed := r.plane.History.Facts(func(f history.Fact) bool {
		return f.Kind == history.KindGroup && f.Name == pool && f.Version == nextVersion
	})
	begun := r.plane.History.Facts(func(f history.Fact) bool {
		m := rig.MachineOf(f)
		return m != nil && m.Labels[clusterv1.MachineDeploymentNameLabel] == pool && rig.ProgressOf(m) != nil
	})
	if len(changed) == 0 || len(begun) == 0 {
		return 0, false
	}
	seen := func(a, b history.Fact) int { return cmp.Compare(a.Seen.UnixNano(), b.Seen.UnixNano()) }
	return slices.MinFunc(begun, seen).Seen.Sub(slices.MinFunc(changed, seen).Seen), true
}
