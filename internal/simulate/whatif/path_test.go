package whatif

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
)

func TestSentence(t *testing.T) {
	pools := func(n int, limit string) []fleet.Segment {
		segments := make([]fleet.Segment, 0, n)
		for i := range n {
			segments = append(segments, fleet.Segment{Cluster: "prod", Group: fmt.Sprintf("pool-%d", i), Limit: limit, Took: time.Hour})
		}
		return segments
	}
	controlPlane := func(took time.Duration) fleet.Segment {
		return fleet.Segment{Cluster: "prod", Group: fleet.ControlPlaneGroup, Limit: "one machine at a time", Took: took}
	}
	two := []fleet.Cluster{{Name: "prod", PoolsAtOnce: 1}, {Name: "test", PoolsAtOnce: 1}}
	tests := map[string]struct {
		config fleet.Config
		path   []fleet.Segment
		want   string
	}{
		"nothing": {want: ""},
		"one pool is nearly all": {
			path: []fleet.Segment{controlPlane(4 * time.Hour), {Cluster: "prod", Group: "telco-3", Limit: "maxInFlight 10", Took: 92 * time.Hour},
				{Cluster: "prod", Group: "telco-1", Limit: "maxInFlight 10", Took: 4 * time.Hour}},
			want: "96 % of the time goes into pool telco-3 at maxInFlight 10",
		},
		"one pool stands out": {
			path: []fleet.Segment{controlPlane(33 * time.Hour), {Cluster: "prod", Group: "slow", Limit: "maxSurge 1", Took: 45 * time.Hour},
				{Cluster: "prod", Group: "fast", Limit: "maxSurge 1", Took: 22 * time.Hour}},
			want: "67 % of the time goes into pool slow and 1 more pool, one at a time (upgrade-concurrency 1), each at maxSurge 1; 33 % goes into the control plane, one machine at a time",
		},
		"one control plane stands out": {
			config: fleet.Config{Clusters: two, ClustersAtOnce: 1},
			path:   []fleet.Segment{controlPlane(2 * time.Hour), {Cluster: "test", Group: fleet.ControlPlaneGroup, Limit: "one machine at a time", Took: time.Hour}},
			want:   "100 % of the time goes into the control plane of prod and 1 more control plane, one cluster after another, each one machine at a time",
		},
		"a person, for one pool": {
			path: []fleet.Segment{controlPlane(32 * time.Hour), {Cluster: "prod", Group: "w", Limit: fleet.Attention, Took: 68 * time.Hour}},
			want: "68 % of the time goes into waiting for somebody who attends to failed machines of pool w; 32 % goes into the control plane, one machine at a time",
		},
		"a person, for a short time": {
			path: []fleet.Segment{controlPlane(98 * time.Hour), {Cluster: "prod", Group: fleet.ControlPlaneGroup, Limit: fleet.Attention, Took: 2 * time.Hour}},
			want: "98 % of the time goes into the control plane, one machine at a time; 2 % goes into waiting for somebody who attends to failed machines of the control plane",
		},
		"a person, for several pools": {
			path: pools(3, fleet.Attention),
			want: "100 % of the time goes into waiting for somebody who attends to failed machines of 3 pools",
		},
		"one limit": {
			path: append(pools(300, "maxUnavailable 10"), controlPlane(20*time.Hour)),
			want: "94 % of the time goes into 300 pools one at a time (upgrade-concurrency 1), each at maxUnavailable 10",
		},
		"several pools at once": {
			config: fleet.Config{Clusters: []fleet.Cluster{{Name: "prod", PoolsAtOnce: 5, Pools: make([]fleet.Pool, 60)}}},
			path:   pools(60, "maxUnavailable 10"),
			want:   "100 % of the time goes into 60 pools one after another, with 5 under way at once (upgrade-concurrency 5), each at maxUnavailable 10",
		},
		"all pools at once": {
			config: fleet.Config{Clusters: []fleet.Cluster{{Name: "prod", PoolsAtOnce: 5, Pools: make([]fleet.Pool, 4)}}},
			path:   pools(3, "maxUnavailable 10"),
			want:   "100 % of the time goes into 3 pools, all of a cluster under way at once (upgrade-concurrency 5), each at maxUnavailable 10",
		},
		"a shared limit": {
			path: pools(3, "maxInFlight 10"),
			want: "100 % of the time goes into 3 pools one at a time (upgrade-concurrency 1) at maxInFlight 10",
		},
		"windows": {
			path: []fleet.Segment{{Cluster: "prod", Limit: "the window of gate weekend", Took: 71 * time.Hour}, controlPlane(29 * time.Hour)},
			want: "71 % of the time goes into waiting for the window of gate weekend; 29 % goes into the control plane, one machine at a time",
		},
		"short waits are named, short work is not": {
			path: []fleet.Segment{{Cluster: "prod", Group: "a", Took: 90 * time.Hour}, controlPlane(8 * time.Hour), {Limit: "approval", Took: 2 * time.Hour}},
			want: "90 % of the time goes into pool a; 2 % goes into waiting for approval",
		},
		"clusters": {
			config: fleet.Config{Clusters: two, ClustersAtOnce: 1},
			path: []fleet.Segment{controlPlane(time.Hour), {Cluster: "test", Group: fleet.ControlPlaneGroup, Limit: "one machine at a time", Took: time.Hour / 4},
				{Cluster: "test", Group: fleet.ControlPlaneGroup, Limit: "two at a time", Took: 5 * time.Hour / 4}},
			want: "50 % of the time goes into the control plane of prod and 1 more control plane, one cluster after another, each one machine at a time; 50 % goes into the control plane of test, two at a time",
		},
		"control planes": {
			config: fleet.Config{Clusters: append(two, fleet.Cluster{Name: "third", PoolsAtOnce: 2}), ClustersAtOnce: 2},
			path: []fleet.Segment{controlPlane(time.Hour), {Cluster: "test", Group: fleet.ControlPlaneGroup, Limit: "one machine at a time", Took: time.Hour},
				{Cluster: "third", Group: fleet.ControlPlaneGroup, Limit: "one machine at a time", Took: time.Hour}, {Took: time.Hour}},
			want: "75 % of the time goes into 3 control planes, 2 clusters at once, each one machine at a time; 25 % goes into waiting",
		},
		"pools of clusters with different concurrency": {
			config: fleet.Config{Clusters: append(two, fleet.Cluster{Name: "third", PoolsAtOnce: 2}), ClustersAtOnce: 1},
			path:   pools(4, "maxUnavailable 1"),
			want:   "100 % of the time goes into 4 pools, one cluster after another, each at maxUnavailable 1",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.config.Clusters == nil {
				test.config = fleetOf()
			}
			if got := computePath(test.config, fleet.Run{Path: test.path}).Sentence; got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// Shares are those of the whole duration, whatever part of it the path explains.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.Custom(func(t *rapid.T) fleet.Segment {
			return fleet.Segment{
				Cluster: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "cluster"), Group: rapid.SampledFrom([]string{"", fleet.ControlPlaneGroup, "p", "q"}).Draw(t, "group"),
				Limit: rapid.SampledFrom([]string{"", "maxInFlight 1", "x"}).Draw(t, "limit"), Took: time.Duration(rapid.IntRange(0, 1e6).Draw(t, "took")) * time.Second,
			}
		})
		run := fleet.Run{Path: rapid.SliceOfN(segment, 0, 30).Draw(t, "path")}
		sum := time.Duration(0)
		for _, s := range run.Path {
			sum += s.Took
		}
		run.Duration = sum + time.Duration(rapid.IntRange(-10, 1e6).Draw(t, "rest"))*time.Second
		path := computePath(fleetOf(), run)
		shares, all, last := 0.0, 0.0, math.Inf(1)
		for _, s := range path.Shares {
			shares += s.Share
			all += s.Seconds
			if s.Seconds > last || s.LongestSeconds > s.Seconds || s.Groups < 1 {
				t.Fatalf("share %+v after one of %v s", s, last)
			}
			last = s.Seconds
		}
		if math.Abs(all-sum.Seconds()) > 1 {
			t.Fatalf("shares are %v s of %v", all, sum)
		}
		if want := ratio(sum.Seconds(), max(sum, run.Duration).Seconds(), 1e4); math.Abs(shares-want) > 0.01 {
			t.Fatalf("shares add up to %v, want %v", shares, want)
		}
		if sum > 0 && path.Sentence == "" {
			t.Fatalf("no sentence about %v", path.Shares)
		}
	})
}
