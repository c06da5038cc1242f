package whatif

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/pkg/version"
)

// seconds are rounded to milliseconds: more would be noise in a report.
func seconds(d time.Duration) float64 { return ratio(d.Seconds(), 1, 1000) }

// ratio is a/b, rounded to a whole number of parts; zero where b is.
func ratio(a, b, parts float64) float64 {
	if b <= 0 {
		return 0
	}
	return math.Round(a/b*parts) / parts
}

// versions are in the order of their age.
type versions []version.Version

func (vs versions) strings() []string {
	words := make([]string, 0, len(vs))
	for _, v := range vs {
		words = append(words, v.String())
	}
	return words
}

// sortVersions returns each version once, the oldest first. Builds without an order among them stand in that of their names.
func sortVersions(set map[version.Version]bool) versions {
	delete(set, version.Version{})
	byName := slices.SortedFunc(maps.Keys(set), func(a, b version.Version) int { return strings.Compare(a.String(), b.String()) })
	return version.Sorted(byName)
}

func collectVersions(orders []versions) []string {
	set := make(map[version.Version]bool)
	for _, order := range orders {
		for _, v := range order {
			set[v] = true
		}
	}
	return sortVersions(set).strings()
}

func describeInputs(r Request) Inputs {
	in := Inputs{
		Clusters: len(r.Config.Clusters), Runs: r.Runs, Seed: r.Seed,
		Verified: r.Config.Verify, Faults: disturbsEngine(r.Config.Faults),
	}
	from, to := make(map[version.Version]bool), make(map[version.Version]bool)
	for _, c := range r.Config.Clusters {
		from[c.ControlPlane.Version], to[c.Target] = true, true
		in.ControlPlaneMachines += c.ControlPlane.Replicas
		in.Pools += len(c.Pools)
		for _, p := range c.Pools {
			in.Machines += p.Replicas
		}
	}
	in.Machines += in.ControlPlaneMachines
	in.From, in.To = sortVersions(from).strings(), sortVersions(to).strings()
	return in
}

// disturbsEngine leaves out outages: they are part of the world, like machines that fail.
func disturbsEngine(f fleet.Faults) bool {
	return f.Conflict > 0 || f.Stale > 0 || f.Lost > 0 || f.Crash > 0
}

func computeResult(v Variant, runs []summary, median Median) Result {
	result := Result{
		Name: v.Name, Description: v.Description, Median: median, Duration: computeDurations(runs), PerRun: computePerRun(runs), Unfinished: computeUnfinished(runs),
	}
	for _, r := range runs {
		switch r.Outcome {
		case fleet.Completed:
			result.Outcomes.Completed++
		case fleet.Stuck:
			result.Outcomes.Stuck++
		case fleet.GivenUp:
			result.Outcomes.GivenUp++
		case fleet.Violated:
			result.Outcomes.Violated++
		}
		if r.Violation != nil && result.Violation == nil {
			result.Violation = &Violation{
				Seed: r.Seed, AtSeconds: seconds(r.Violation.At), Cluster: r.Violation.Cluster, Problem: r.Violation.Problem,
				Trace: append([]string{}, r.Violation.Trace...),
			}
		}
	}
	return result
}

func computeDurations(runs []summary) *Durations {
	completed := sortCompleted(runs)
	n := len(completed)
	if n == 0 {
		return nil
	}
	at := func(rank int) float64 { return seconds(runs[completed[rank]].Duration) }
	return &Durations{
		Runs: n, MinSeconds: at(0), MaxSeconds: at(n - 1),
		P10Seconds: at(nearestRank(n, 10)), P50Seconds: at(nearestRank(n, 50)), P90Seconds: at(nearestRank(n, 90)),
	}
}

func computeUnfinished(runs []summary) []Unfinished {
	type reason struct {
		outcome fleet.Outcome
		why     string
	}
	at := make(map[reason]int)
	found := []Unfinished{}
	for _, r := range runs {
		if r.Outcome == fleet.Completed {
			continue
		}
		why, machine := splitWhy(r.Why)
		key := reason{r.Outcome, why}
		i, known := at[key]
		if !known {
			i = len(found)
			at[key] = i
			found = append(found, Unfinished{Outcome: string(r.Outcome), Why: why, Machine: machine, Seed: r.Seed})
		}
		found[i].Runs++
	}
	slices.SortStableFunc(found, func(a, b Unfinished) int { return cmp.Compare(b.Runs, a.Runs) })
	return found[:min(len(found), maxReasons)]
}

// splitWhy takes the machine, if there is one, out of what a run waits for: "CLUSTER: machine CLUSTER/GROUP/ID: MESSAGE". So runs in which the same happens to different
// machines have the same reason.
func splitWhy(why string) (message, machine string) {
	cluster, rest, found := strings.Cut(why, ": machine ")
	if !found || !strings.HasPrefix(rest, cluster+"/") {
		return why, ""
	}
	machine, message, found = strings.Cut(rest, ": ")
	if !found || message == "" {
		return why, ""
	}
	return message, machine
}

func computePerRun(runs []summary) PerRun {
	failed, gaveUp := 0, 0
	for _, r := range runs {
		failed += r.failed
		gaveUp += r.gaveUp
	}
	mean := func(sum int) float64 { return ratio(float64(sum), float64(len(runs)), 100) }
	return PerRun{Failed: mean(failed), GaveUp: mean(gaveUp)}
}

// computeMedian reduces a run to what is reported of it. The versions are those of its charts.
func computeMedian(c fleet.Config, run fleet.Run) (Median, versions) {
	perMachine := func(writes int) float64 { return ratio(float64(writes), float64(run.Machines), 100) }
	m := Median{
		Seed: run.Seed, Outcome: string(run.Outcome), Why: run.Why, DurationSeconds: seconds(run.Duration), MaxInFlight: run.MaxInFlight,
		Groups: make([]Group, 0, len(run.Groups)), CriticalPath: computePath(c, run),
		Writes: Writes{
			Engine: run.Writes.Engine, Others: run.Writes.Others, WaitedSeconds: seconds(run.Writes.Waited),
			EnginePerMachine: perMachine(run.Writes.Engine), OthersPerMachine: perMachine(run.Writes.Others),
		},
	}
	down := time.Duration(0)
	for _, g := range run.Groups {
		m.Groups = append(m.Groups, Group{
			Cluster: g.Cluster, Group: g.Group, Machines: g.Machines, Stops: g.Stops, Disruptions: g.Updated + g.Replaced,
			Updated: g.Updated, Replaced: g.Replaced, Drained: g.Drained, Failed: g.Failed, GaveUp: g.GaveUp,
			MaxDown: g.MaxDown, DownSeconds: seconds(g.Down),
		})
		m.Updated += g.Updated
		m.Replaced += g.Replaced
		m.Drained += g.Drained
		m.Failed += g.Failed
		m.GaveUp += g.GaveUp
		down += g.Down
	}
	m.DownSeconds = seconds(down)
	detail := fleet.Detail{}
	if run.Detail != nil {
		detail = *run.Detail
	}
	m.Charts = computeCharts(run, detail)
	return m, detail.Order
}
