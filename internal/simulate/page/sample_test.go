package page

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/internal/simulate/whatif"
	"github.com/windlass-dev/windlass/pkg/version"
)

// sampleVersions are those of an upgrade by four minors.
func sampleVersions() []version.Version {
	return []version.Version{
		version.MustParse("v1.31.4"), version.MustParse("v1.32.3"), version.MustParse("v1.33.2"), version.MustParse("v1.34.1"), version.MustParse("v1.35.0"),
	}
}

// sampleFleet is one cluster; its pools have 100 machines each.
func sampleFleet(pools int) fleet.Config {
	order := sampleVersions()
	cluster := fleet.Cluster{Name: "telco", Target: order[4], PoolsAtOnce: 2, ControlPlane: fleet.ControlPlane{Version: order[0], Replicas: 5}}
	for i := range pools {
		cluster.Pools = append(cluster.Pools, fleet.Pool{Name: fmt.Sprintf("telco-%d", i+1), Version: order[0], Replicas: 100, MaxUnavailable: 10})
	}
	return fleet.Config{Clusters: []fleet.Cluster{cluster}}
}

// drawing is a run in the making.
type drawing struct {
	run   fleet.Run
	now   time.Duration
	order []version.Version
	// at is how many machines have each version.
	at []int
}

func (d *drawing) sample(inFlight int) {
	d.run.Detail.InFlight = append(d.run.Detail.InFlight, fleet.Sample{At: d.now, Value: inFlight})
	d.run.Detail.Versions = append(d.run.Detail.Versions, fleet.VersionSample{At: d.now, Counts: append([]int{}, d.at...)})
}

// move has machines of a group go to another version, some at once.
func (d *drawing) move(group string, machines, atOnce, from, to int, each time.Duration, limit string) {
	began := d.now
	for done := 0; done < machines; done += atOnce {
		n := min(atOnce, machines-done)
		d.sample(n)
		d.now += each
		d.at[from] -= n
		d.at[to] += n
	}
	d.sample(0)
	d.run.Detail.Operations = append(d.run.Detail.Operations, fleet.Operation{
		Cluster: "telco", Group: group, From: d.order[from], To: d.order[to], Began: began, Ended: d.now, Limit: limit, InPlace: group != fleet.ControlPlaneGroup,
	})
	d.run.Path = append(d.run.Path, fleet.Segment{Cluster: "telco", Group: group, Limit: limit, Began: began, Took: d.now - began})
}

// drawRun is a stand-in for a simulation: pools one after another stop at v1.33 and v1.35, and a window holds the second half. Seeds make it faster or slower, every
// 25th one gets stuck.
func drawRun(_ context.Context, c fleet.Config, seed uint64) (fleet.Run, error) {
	cluster := c.Clusters[0]
	d := drawing{order: sampleVersions(), at: make([]int, 5), run: fleet.Run{Seed: seed, Outcome: fleet.Completed, Detail: &fleet.Detail{Order: sampleVersions()}}}
	d.run.Machines = cluster.ControlPlane.Replicas + 100*len(cluster.Pools)
	d.at[0] = d.run.Machines
	each := 12*time.Minute + time.Duration(seed*7919%181-90)*time.Second
	atOnce := 10 * cluster.PoolsAtOnce
	for minor := range 4 {
		d.move(fleet.ControlPlaneGroup, cluster.ControlPlane.Replicas, 1, minor, minor+1, each, "one machine at a time")
		if minor%2 == 0 {
			continue
		}
		if minor == 3 {
			began := d.now
			d.now += 7 * time.Hour
			d.run.Detail.Holds = append(d.run.Detail.Holds, fleet.Operation{Cluster: "telco", Began: began, Ended: d.now, Limit: "the window of gate nights"})
			d.run.Path = append(d.run.Path, fleet.Segment{Cluster: "telco", Limit: "the window of gate nights", Began: began, Took: d.now - began})
		}
		for i, p := range cluster.Pools {
			slow := each
			if i == 2 {
				slow *= 3
			}
			d.move(p.Name, p.Replicas, atOnce, minor-1, minor+1, slow, fmt.Sprint("maxUnavailable ", p.MaxUnavailable))
		}
	}
	d.at = []int{0, 0, 0, 0, d.run.Machines}
	d.sample(0)
	d.finish(c, atOnce)
	if seed%25 == 0 {
		d.run.Outcome, d.run.Why = fleet.Stuck, "machine telco-1-x7k2p: its update failed 3 times, and nobody attends to it"
	}
	if !c.Detail {
		d.run.Detail = nil
	}
	return d.run, nil
}

func (d *drawing) finish(c fleet.Config, atOnce int) {
	d.run.Duration, d.run.MaxInFlight = d.now, atOnce
	d.run.Groups = append(d.run.Groups, fleet.GroupRun{Cluster: "telco", Group: fleet.ControlPlaneGroup, Machines: 5, Stops: 4, Replaced: 20, Drained: 20, MaxDown: 1, Down: 4 * time.Hour})
	for i, p := range c.Clusters[0].Pools {
		d.run.Groups = append(d.run.Groups, fleet.GroupRun{
			Cluster: "telco", Group: p.Name, Machines: 100, Stops: 2, Updated: 200, Drained: 200, Failed: i % 7, MaxDown: 10, Down: time.Duration(40+i%13) * time.Hour,
		})
	}
	d.run.Writes = fleet.Writes{Engine: d.run.Machines * 4, Others: d.run.Machines * 11}
}

// sampleReport compares ways to upgrade a fleet of so many pools.
func sampleReport(tb testing.TB, pools, runs int) whatif.Report {
	tb.Helper()
	config := sampleFleet(pools)
	report, err := whatif.Compute(tb.Context(), whatif.Request{
		Config: config, Runs: runs, Seed: 1, Variants: whatif.Variants(config), Simulate: drawRun,
		Assumptions: []string{
			"Replacing a machine takes 10 to 15 minutes: the first 2 until it boots, the rest until its node is Ready.",
			"Drains take as long as they did in the last upgrade of telco-test (p50 2m, p90 6m).",
			"1 % of new machines never get Ready; they are made anew after 20 minutes.",
			"Nobody attends to machines whose update failed finally.",
		},
	})
	if err != nil {
		tb.Fatalf("Compute: %v", err)
	}
	return report
}
