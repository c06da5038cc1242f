package whatif

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestThinnedSeriesKeepsPeaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 3000).Draw(t, "samples")
		seed := rapid.IntRange(1, 1000).Draw(t, "shape")
		samples := make([]fleet.Sample, 0, n)
		at := time.Duration(0)
		for i := range n {
			at += time.Duration(i*seed%97) * time.Second
			samples = append(samples, fleet.Sample{At: at, Value: i * seed % 1009})
		}
		end := at + time.Duration(rapid.IntRange(0, 1000).Draw(t, "rest"))*time.Second
		points := thinInFlight(samples, end)
		if len(points) > maxPoints || (n > 0) != (len(points) > 0) {
			t.Fatalf("%d points of %d samples", len(points), n)
		}
		if n == 0 {
			return
		}
		peak := slices.MaxFunc(samples, func(a, b fleet.Sample) int { return a.Value - b.Value }).Value
		if got := slices.MaxFunc(points, func(a, b Point) int { return a.Machines - b.Machines }).Machines; got != peak {
			t.Fatalf("the peak is %d, want %d", got, peak)
		}
		if got, want := points[len(points)-1], samples[n-1]; got.Machines != want.Value || got.AtSeconds != seconds(want.At) {
			t.Fatalf("ends with %v, want %v", got, want)
		}
		if !slices.IsSortedFunc(points, func(a, b Point) int { return int(a.AtSeconds - b.AtSeconds) }) {
			t.Fatal("the order is lost")
		}
	})
}

func TestThinnedVersionsKeepBothEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3000).Draw(t, "samples")
		step := rapid.IntRange(0, 10).Draw(t, "step")
		samples := make([]fleet.VersionSample, 0, n)
		for i := range n {
			samples = append(samples, fleet.VersionSample{At: time.Duration(i*step) * time.Second, Counts: []int{n - i, i}})
		}
		points := thinVersions(samples, 3)
		if len(points) > maxPoints {
			t.Fatalf("%d points", len(points))
		}
		first, last := points[0], points[len(points)-1]
		if diff := cmp.Diff([]int{n, 0, 0}, first.Counts); diff != "" {
			t.Fatalf("begins with %v", first)
		}
		if diff := cmp.Diff([]int{1, n - 1, 0}, last.Counts); diff != "" || last.AtSeconds != float64((n-1)*step) {
			t.Fatalf("ends with %v", last)
		}
	})
}

func detailOf(clusters, pools, stops int, holds bool) (fleet.Run, fleet.Detail) {
	run, detail := fleet.Run{Duration: time.Duration(clusters*pools*stops+1) * time.Hour}, fleet.Detail{}
	for c := range clusters {
		cluster := fmt.Sprintf("c%d", c)
		for p := range pools + 1 {
			group := fmt.Sprintf("pool-%d", p)
			if p == 0 {
				group = fleet.ControlPlaneGroup
			}
			run.Groups = append(run.Groups, fleet.GroupRun{Cluster: cluster, Group: group})
			for s := range stops {
				began := time.Duration(c*pools+s*pools+p) * time.Hour
				detail.Operations = append(detail.Operations, fleet.Operation{
					Cluster: cluster, Group: group, From: version.MustParse(fmt.Sprintf("v1.%d.0", 30+s)), To: version.MustParse(fmt.Sprintf("v1.%d.0", 31+s)),
					InPlace: p%2 == 1, Began: began, Ended: began + time.Hour, Limit: fmt.Sprint("maxUnavailable ", p%2),
				})
			}
		}
		if holds {
			detail.Holds = append(detail.Holds, fleet.Operation{Cluster: cluster, Began: 0, Ended: time.Minute, Limit: "gate"})
		}
	}
	return run, detail
}

// Every operation is in exactly one bar, which covers it, in rows that stand in the order of the groups.
func TestTimelineShowsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clusters, pools, stops := rapid.IntRange(1, 90).Draw(t, "clusters"), rapid.IntRange(0, 40).Draw(t, "pools"), rapid.IntRange(0, 3).Draw(t, "stops")
		run, detail := detailOf(clusters, pools, stops, rapid.Bool().Draw(t, "holds"))
		rows := computeTimeline(run, detail)
		if len(rows) > maxRows {
			t.Fatalf("%d rows", len(rows))
		}
		operations, groups, holds := 0, 0, 0
		for _, row := range rows {
			for _, bar := range row.Bars {
				if bar.EndedSeconds < bar.BeganSeconds || (bar.Method == "") != (row.Kind == Wait) {
					t.Fatalf("bar %+v of %v", bar, row)
				}
				if row.Kind == Wait {
					holds += bar.Operations
					continue
				}
				operations += bar.Operations
			}
			if row.Kind != Wait {
				groups += row.Groups
			}
		}
		wantGroups := len(run.Groups)
		if stops == 0 {
			wantGroups = 0
		}
		if operations != len(detail.Operations) || groups != wantGroups || holds != len(detail.Holds) {
			t.Fatalf("%d operations of %d groups and %d holds, want %d, %d, %d", operations, groups, holds, len(detail.Operations), wantGroups, len(detail.Holds))
		}
	})
}

func TestTimelineSharesRows(t *testing.T) {
	run, detail := detailOf(1, 300, 2, true)
	rows := computeTimeline(run, detail)
	if got := len(rows); got < 50 {
		t.Errorf("%d rows: there is room for more", got)
	}
	want := Row{
		Kind: Pool, Cluster: "c0", Name: "pool-1", LastCluster: "c0", LastName: "pool-6", Groups: 6,
		Bars: []Bar{
			{From: "v1.30.0", To: "v1.31.0", Method: Mixed, BeganSeconds: 3600, EndedSeconds: 7 * 3600, Operations: 6},
			{From: "v1.31.0", To: "v1.32.0", Method: Mixed, BeganSeconds: 301 * 3600, EndedSeconds: 307 * 3600, Operations: 6},
		},
	}
	if diff := cmp.Diff(want, rows[2]); diff != "" {
		t.Errorf("first row of pools:\n%s", diff)
	}
	run, detail = detailOf(61, 1, 1, false)
	rows = computeTimeline(run, detail)
	if got := rows[0]; got.Kind != ControlPlane || got.Cluster != "c0" || got.LastCluster != "c3" || got.Groups != 4 {
		t.Errorf("first row of clusters: %+v", got)
	}
}

func TestHoldsCloseToEachOtherAreOne(t *testing.T) {
	hold := func(from, to time.Duration, gate string) fleet.Operation {
		return fleet.Operation{Cluster: "prod", Began: from, Ended: to, Limit: gate}
	}
	got := computeHolds([]fleet.Operation{
		hold(50*time.Hour, 60*time.Hour, "b"), hold(0, 10*time.Hour, "a"), hold(10*time.Hour+time.Minute, 20*time.Hour, "a"), hold(60*time.Hour, 61*time.Hour, "c"),
	}, 100*time.Hour)
	want := []Bar{
		{Limit: "a", EndedSeconds: 20 * 3600, Operations: 2},
		{BeganSeconds: 50 * 3600, EndedSeconds: 61 * 3600, Operations: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
