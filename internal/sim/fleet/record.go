package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/core/rollout"
	"github.com/windlass-dev/windlass/pkg/version"
)

// tally counts what happens to the machines of a group.
type tally struct {
	machines, stops, updated, replaced, drained, failed, gaveUp, maxDown int
	// missing machines are down since a time; down is what that has come to before.
	missing int
	since   time.Duration
	down    time.Duration
}

// operation is a group's way to one version.
type operation struct {
	from, to version.Version
	began    time.Duration
	// released is when the chain could go on: all machines ran the version, though some may still have been soaking. Zero until then.
	released time.Duration
	waited   bool
	// calls is how often the engine was called, and throttling how long that waited for the budget, added up.
	calls      int
	throttling time.Duration
}

// throttled notes that a call had to wait for the engine's budget.
func (o *operation) throttled(wait time.Duration) {
	if o != nil {
		o.calls++
		o.throttling += wait
	}
}

// muchThrottling is from when on the budget counts as what bounds a group: calls that wait for a second each.
const muchThrottling = time.Second

// queued notes that a machine had to wait for a slot of its policy.
func (o *operation) queued() {
	if o != nil {
		o.waited = true
	}
}

// span is a part of a cluster's upgrade, as the critical path sees it.
type span struct {
	group           string
	began, released time.Duration
	limit           string
}

// recorder keeps what a Run tells.
type recorder struct {
	detail      bool
	events      int
	flying      int
	maxInFlight int
	operations  []Operation
	holds       []Operation
	flights     []Sample
	versions    []versionChange
}

type versionChange struct {
	at      time.Duration
	version version.Version
	by      int
}

func (r *recorder) version(at time.Duration, v version.Version, by int) {
	if r.detail && !v.IsZero() {
		r.versions = append(r.versions, versionChange{at: at, version: v, by: by})
	}
}

func (r *recorder) hold(c *cluster, h span) {
	if r.detail {
		r.holds = append(r.holds, Operation{Cluster: c.Name, Began: h.began, Ended: h.released, Limit: h.limit})
	}
}

// flight changes how many machines are in flight.
func (s *sim) flight(by int) {
	r := &s.rec
	r.flying += by
	r.maxInFlight = max(r.maxInFlight, r.flying)
	if !r.detail {
		return
	}
	if last := len(r.flights) - 1; last >= 0 && r.flights[last].At == s.now {
		r.flights[last].Value = r.flying
		return
	}
	r.flights = append(r.flights, Sample{At: s.now, Value: r.flying})
}

// capacity keeps account of how many machines a group lacks.
func (s *sim) capacity(g *group) {
	t := &g.tally
	missing := max(0, g.desired-(len(g.old)-g.next+g.fresh+g.updating-g.begun))
	if missing == t.missing {
		return
	}
	t.down += time.Duration(t.missing) * (s.now - t.since)
	t.missing, t.since = missing, s.now
	t.maxDown = max(t.maxDown, missing)
	if s.check != nil {
		s.check.capacity(s, g, missing)
	}
}

// beginOperation notes that a group is on its way to its template's version.
func (s *sim) beginOperation(g *group, from version.Version) {
	s.endOperation(g)
	g.op = &operation{from: from, to: g.template, began: s.now}
	g.tally.stops++
}

// settle ends the operation of a group to whose machines nothing happens any more.
func (s *sim) settle(g *group) {
	if g.off == 0 && g.coming+g.going+g.updating == 0 {
		s.endOperation(g)
		s.end(g.cluster)
	}
}

func (s *sim) endOperation(g *group) {
	op := g.op
	if op == nil {
		return
	}
	limit := g.limit(op)
	if op.throttling > time.Duration(op.calls)*muchThrottling {
		limit += fmt.Sprintf(", and %g requests a second", s.cfg.Budget.QPS)
	}
	released := op.released
	if released == 0 {
		released = s.now
	}
	g.cluster.spans = append(g.cluster.spans, span{group: g.name, began: op.began, released: released, limit: limit})
	if s.rec.detail {
		s.rec.operations = append(s.rec.operations, Operation{
			Cluster: g.cluster.Name, Group: g.name, From: op.from, To: op.to, InPlace: g.update.InPlace, Began: op.began, Ended: s.now, Limit: limit,
		})
	}
	g.op = nil
}

// limit says what bounds how many machines of a group are in flight.
func (g *group) limit(op *operation) string {
	switch {
	case g.isCP:
		return "one machine at a time"
	case op.waited && g.scope.pools > 1:
		return fmt.Sprintf("maxInFlight %d for %d pools together", g.scope.max, g.scope.pools)
	case op.waited:
		return fmt.Sprintf("maxInFlight %d", g.scope.max)
	case g.update.InPlace:
		return fmt.Sprintf("maxUnavailable %d", rollout.MaxUnavailable(g.surge, g.unavailable, true))
	case g.surge == 0:
		return fmt.Sprintf("maxUnavailable %d", rollout.MaxUnavailable(g.surge, g.unavailable, false))
	case g.unavailable == 0:
		return fmt.Sprintf("maxSurge %d", g.surge)
	default:
		return fmt.Sprintf("maxSurge %d, maxUnavailable %d", g.surge, g.unavailable)
	}
}

// result is the Run.
func (s *sim) result(outcome Outcome) Run {
	r := Run{
		Seed: s.seed, Outcome: outcome, Duration: s.now, Machines: 0, MaxInFlight: s.rec.maxInFlight, Events: s.rec.events,
		Writes: Writes{Engine: s.writes, Waited: s.budget.waited},
	}
	others := 0.0
	for _, c := range s.clusters {
		if !c.ended {
			c.run.Why = cmp.Or(c.trouble, c.decision.Message, "its turn has not come")
			r.Why = cmp.Or(r.Why, c.Name+": "+c.run.Why)
		}
		r.Clusters = append(r.Clusters, c.run)
		for _, g := range c.groups {
			s.endOperation(g)
			t := &g.tally
			t.down += time.Duration(t.missing) * max(0, s.now-t.since)
			r.Groups = append(r.Groups, GroupRun{
				Cluster: c.Name, Group: g.name, Machines: t.machines, Stops: t.stops, Updated: t.updated, Replaced: t.replaced, Drained: t.drained,
				Failed: t.failed, GaveUp: t.gaveUp, MaxDown: t.maxDown, Down: t.down,
			})
			r.Machines += t.machines
			others += s.cfg.Costs.Replace*float64(t.replaced) + s.cfg.Costs.InPlace*float64(t.updated)
		}
	}
	r.Writes.Others = int(others + 0.5)
	if outcome == Completed {
		r.Why = ""
	}
	r.Path = s.path()
	if s.check != nil {
		r.Violation = s.check.violation
	}
	if s.rec.detail {
		r.Detail = s.rec.result()
	}
	return r
}

// path goes back from the end of the run: what ended last, what had to end before that began, and so on to the beginning.
func (s *sim) path() []Segment {
	for _, c := range s.clusters {
		slices.SortStableFunc(c.spans, func(a, b span) int { return cmp.Compare(a.released, b.released) })
	}
	var back []Segment
	for at := s.now; at > 0; {
		c := s.lastEnded(at)
		if c == nil {
			back = append(back, Segment{Limit: "nothing was under way", Took: at})
			break
		}
		back, at = c.path(back, at)
	}
	slices.Reverse(back)
	return merge(back)
}

// lastEnded is the cluster under way at a time that ended last by then; one that has not ended counts as ending now.
func (s *sim) lastEnded(at time.Duration) *cluster {
	var last *cluster
	end := func(c *cluster) time.Duration {
		if !c.ended {
			return s.now
		}
		return c.run.Ended
	}
	for _, c := range s.clusters {
		if c.asked && c.run.Began < at && end(c) <= at && (last == nil || end(c) > end(last)) {
			last = c
		}
	}
	return last
}

// betweenSteps is the limit of a segment in which controllers, and not machines, were waited for.
const betweenSteps = "controllers between steps"

// path goes back through one cluster's upgrade from a time to its beginning.
func (c *cluster) path(back []Segment, at time.Duration) ([]Segment, time.Duration) {
	for i := len(c.spans) - 1; i >= 0 && at > c.run.Began; i-- {
		p := c.spans[i]
		if p.released > at || p.released <= p.began {
			continue
		}
		if at > p.released {
			back = append(back, Segment{Cluster: c.Name, Limit: betweenSteps, Began: p.released, Took: at - p.released})
		}
		back = append(back, Segment{Cluster: c.Name, Group: p.group, Limit: p.limit, Began: p.began, Took: p.released - p.began})
		at = p.began
	}
	if at > c.run.Began {
		back = append(back, Segment{Cluster: c.Name, Limit: betweenSteps, Began: c.run.Began, Took: at - c.run.Began})
	}
	return back, c.run.Began
}

// merge puts neighbours together that differ in their times only.
func merge(path []Segment) []Segment {
	var merged []Segment
	for _, s := range path {
		if last := len(merged) - 1; last >= 0 && merged[last].Cluster == s.Cluster && merged[last].Group == s.Group && merged[last].Limit == s.Limit {
			merged[last].Took += s.Took
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// maxSamples bounds the points of a series.
const maxSamples = 2000

func (r *recorder) result() *Detail {
	d := &Detail{Operations: r.operations, Holds: r.holds}
	slices.SortStableFunc(d.Operations, func(a, b Operation) int { return cmp.Compare(a.Began, b.Began) })
	d.InFlight = thin(r.flights)
	d.Order, d.Versions = r.versionSeries()
	return d
}

// thin keeps the greatest value of each stretch of a long series, and its end.
func thin(series []Sample) []Sample {
	if len(series) <= maxSamples {
		return series
	}
	every := (len(series) + maxSamples - 1) / maxSamples
	kept := make([]Sample, 0, maxSamples+1)
	for chunk := range slices.Chunk(series, every) {
		kept = append(kept, slices.MaxFunc(chunk, func(a, b Sample) int { return cmp.Compare(a.Value, b.Value) }))
	}
	return append(kept, series[len(series)-1])
}

// versionSeries adds the changes up.
func (r *recorder) versionSeries() ([]version.Version, []VersionSample) {
	slices.SortStableFunc(r.versions, func(a, b versionChange) int { return cmp.Compare(a.at, b.at) })
	var order []version.Version
	for _, c := range r.versions {
		if !slices.Contains(order, c.version) {
			order = append(order, c.version)
		}
	}
	slices.SortFunc(order, func(a, b version.Version) int { return int(version.Compare(a, b)) })
	counts := make([]int, len(order))
	every := (len(r.versions) + maxSamples - 1) / maxSamples
	var series []VersionSample
	// Changes come in pairs at the same time, so which ones are kept is counted from the last one that was.
	due := 0
	for i, c := range r.versions {
		counts[slices.Index(order, c.version)] += c.by
		if last := i == len(r.versions)-1; last || r.versions[i+1].at != c.at && (i >= due || c.at == 0) {
			due = i + every
			series = append(series, VersionSample{At: c.at, Counts: slices.Clone(counts)})
		}
	}
	return order, series
}
