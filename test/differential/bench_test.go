package differential

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

var speedFlag = flag.Bool("speed", false, "measure, and print how the result stands to the goals of TestSpeed")

// Goals of TestSpeed.
const (
	// minSpeedup is how many times faster than upstream a four-minor plan is to be.
	minSpeedup = 5.0
	// maxFleet bounds a plan for 1,000 groups.
	maxFleet = time.Millisecond
	// speedRounds is how often each side is measured, in turns. The best round counts: noise only ever adds.
	speedRounds = 5
)

// A chain of four minors, as a Cluster and its ClusterClass have it: in strings, which both sides have to parse.
const (
	chainFrom = "v1.29.0"
	chainTo   = "v1.33.0"
)

var chainVersions = []string{"v1.29.0", "v1.30.3", "v1.31.2", "v1.32.1", "v1.33.0"}

func upstreamChain() (controlPlane, workers []string, err error) {
	controlPlane, workers, err = desiredstate.GetUpgradePlanFromClusterClassVersions(chainVersions)(context.Background(), chainTo, chainFrom, chainFrom)
	if err != nil {
		return nil, nil, err
	}
	workers, err = desiredstate.DefaultAndValidateUpgradePlans(chainTo, chainFrom, chainFrom, controlPlane, workers)
	return controlPlane, workers, err
}

func ourChain() (plan.Plan, error) {
	from, err := version.Parse(chainFrom)
	if err != nil {
		return plan.Plan{}, err
	}
	to, err := version.Parse(chainTo)
	if err != nil {
		return plan.Plan{}, err
	}
	workers, err := version.Parse(chainFrom)
	if err != nil {
		return plan.Plan{}, err
	}
	list, err := version.ParseList(chainVersions)
	if err != nil {
		return plan.Plan{}, err
	}
	return plan.Compute(plan.Request{
		Inventory: plan.Inventory{ControlPlane: from, Groups: []plan.Group{{Name: "workers", Version: workers}}},
		Target:    to, Source: plan.VersionList(list),
	})
}

func BenchmarkChainUpstream(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := upstreamChain(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChainOurs(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ourChain(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFleet plans 1,000 groups at three versions. Upstream has no counterpart: it plans once, for the slowest.
func BenchmarkFleet(b *testing.B) {
	list, err := version.ParseList(chainVersions)
	if err != nil {
		b.Fatal(err)
	}
	r := plan.Request{Inventory: plan.Inventory{ControlPlane: list[0]}, Target: list[len(list)-1], Source: plan.VersionList(list)}
	for i := range 1000 {
		r.Inventory.Groups = append(r.Inventory.Groups, plan.Group{
			Name: fmt.Sprintf("group-%d", i), Version: version.MustParse(fmt.Sprintf("v1.%d.0", 27+i%3)), MaxMinorStep: uint32(i % 2 * 3),
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := plan.Compute(r); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSpeed compares in one run, so that both sides have the same machine under the same load.
func TestSpeed(t *testing.T) {
	if !*speedFlag {
		t.Skip("measures only with -speed: run `make bench`")
	}
	if _, _, err := upstreamChain(); err != nil {
		t.Fatal(err)
	}
	var theirs, our, fleet testing.BenchmarkResult
	for round := range speedRounds {
		theirs = faster(round, theirs, testing.Benchmark(BenchmarkChainUpstream))
		our = faster(round, our, testing.Benchmark(BenchmarkChainOurs))
		fleet = faster(round, fleet, testing.Benchmark(BenchmarkFleet))
	}
	ratio := perOp(theirs) / perOp(our)
	t.Logf("four minors, upstream: %8.0f ns/op %4d allocs/op %6d B/op", perOp(theirs), theirs.AllocsPerOp(), theirs.AllocedBytesPerOp())
	t.Logf("four minors, ours:     %8.0f ns/op %4d allocs/op %6d B/op", perOp(our), our.AllocsPerOp(), our.AllocedBytesPerOp())
	t.Logf("ratio:                 %8.1f times   %4.1f times fewer allocations", ratio, float64(theirs.AllocsPerOp())/float64(our.AllocsPerOp()))
	t.Logf("1,000 groups, ours:    %8.0f ns/op %4d allocs/op", perOp(fleet), fleet.AllocsPerOp())
	t.Logf("goals:                 %.0f times as fast as upstream: %s; 1,000 groups under %s: %s",
		minSpeedup, met(ratio >= minSpeedup), maxFleet, met(perOp(fleet) < float64(maxFleet)))
	// Times are for reading: the machine is shared. Allocations are the same everywhere.
	if our.AllocsPerOp() >= theirs.AllocsPerOp() {
		t.Errorf("%d allocations for a four-minor plan, upstream needs %d", our.AllocsPerOp(), theirs.AllocsPerOp())
	}
}

func met(goal bool) string {
	if goal {
		return "met"
	}
	return "missed"
}

func faster(round int, best, result testing.BenchmarkResult) testing.BenchmarkResult {
	if round > 0 && perOp(best) <= perOp(result) {
		return best
	}
	return result
}

func perOp(r testing.BenchmarkResult) float64 {
	return float64(r.T.Nanoseconds()) / float64(max(r.N, 1))
}
