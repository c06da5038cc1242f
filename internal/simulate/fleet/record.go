package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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
	// queued machines wait for a slot of their policy, since a time; queuing is how long some have.
	queued  int
	since   time.Duration
	queuing time.Duration
	// failed machines wait for a person. Nothing else happens to the group since a time, where it only waits for that; stalled is how long that has been.
	failed     int
	stalls     bool
	stallsFrom time.Duration
	stalled    time.Duration
	// calls is how often the engine was called, and throttling how long that waited for the budget, added up.
	calls      int
	throttling time.Duration
}

// Attention is the limit of a segment in which a group only waits for a person.
const Attention = "somebody who attends to failed machines"

// stall keeps account of the time in which nothing happens to a group but that machines whose update has failed wait for a person.
func (s *sim) stall(g *group, failed int) {
	o := g.op
	if o == nil {
		return
	}
	if o.stalls {
		o.stalled += s.now - o.stallsFrom
	}
	o.failed = max(0, o.failed+failed)
	o.stalls, o.stallsFrom = o.failed > 0 && o.failed == g.updating && g.coming+g.going == 0, s.now
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

// queue notes that so many more machines wait for a slot of their policy.
func (o *operation) queue(by int, now time.Duration) {
	if o == nil || by == 0 {
		return
	}
	if o.queued > 0 {
		o.queuing += now - o.since
	}
	o.queued, o.since = max(0, o.queued+by), now
}

// span is a part of a cluster's upgrade, as the critical path sees it.
type span struct {
	group string
	began time.Duration
	// released is when the chain could go on, ended when nothing happened any more.
	released, ended time.Duration
	limit           string
	// stalled is how much of it was waiting for a person.
	stalled time.Duration
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
	missing := max(0, g.desired-(g.waiting()+g.fresh+g.updating-g.begun))
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
	op.queue(-op.queued, s.now)
	s.stall(g, 0)
	limit := g.limit(op, s.now)
	if op.throttling > time.Duration(op.calls)*muchThrottling {
		limit += fmt.Sprintf(", and %g requests a second", s.cfg.Budget.QPS)
	}
	released := op.released
	if released == 0 {
		released = s.now
	}
	g.cluster.spans = append(g.cluster.spans, span{group: g.name, began: op.began, released: released, ended: s.now, limit: limit, stalled: op.stalled})
	if s.rec.detail {
		s.rec.operations = append(s.rec.operations, Operation{
			Cluster: g.cluster.Name, Group: g.name, From: op.from, To: op.to, InPlace: g.update.InPlace, Began: op.began, Ended: s.now, Limit: limit,
		})
	}
	g.op = nil
}

// limit says what bounds how many machines of a group are in flight.
func (g *group) limit(op *operation, ended time.Duration) string {
	switch {
	case g.isCP:
		return "one machine at a time"
	case 2*op.queuing > ended-op.began && g.scope.pools > 1:
		return fmt.Sprintf("maxInFlight %d for %d pools together", g.scope.max, g.scope.pools)
	case 2*op.queuing > ended-op.began:
		return fmt.Sprintf("maxInFlight %d", g.scope.max)
	case g.surge == 0 || g.update.InPlace && g.unavailable > 0:
		return fmt.Sprintf("maxUnavailable %d", MaxUnavailable(g.surge, g.unavailable))
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
		s.release(c)
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
	latest := slices.DeleteFunc(slices.Clone(s.clusters), func(c *cluster) bool { return !c.asked || s.endOf(c) <= c.run.Began })
	slices.SortStableFunc(latest, func(a, b *cluster) int { return cmp.Compare(s.endOf(b), s.endOf(a)) })
	var back []Segment
	at := s.now
	for _, c := range latest {
		if s.endOf(c) > at {
			continue
		}
		if between := at - s.endOf(c); between > 0 {
			back = append(back, Segment{Limit: betweenSteps, Began: s.endOf(c), Took: between})
		}
		back, at = c.path(back, s.endOf(c))
	}
	if at > 0 {
		back = append(back, Segment{Limit: "nothing was under way", Took: at})
	}
	slices.Reverse(back)
	return merge(back)
}

// endOf is when a cluster's upgrade ended; one that has not ends now.
func (s *sim) endOf(c *cluster) time.Duration {
	if !c.ended {
		return s.now
	}
	return c.run.Ended
}

// betweenSteps is the limit of a segment in which controllers, and not machines, were waited for.
const betweenSteps = "controllers between steps"

// path goes back through one cluster's upgrade from its end to its beginning. The last operation counts to its own end, the others until the chain
// could go on.
func (c *cluster) path(back []Segment, at time.Duration) ([]Segment, time.Duration) {
	if last := c.lastSpan(at); last != nil {
		last.released = last.ended
		slices.SortStableFunc(c.spans, func(a, b span) int { return cmp.Compare(a.released, b.released) })
	}
	for i := len(c.spans) - 1; i >= 0 && at > c.run.Began; i-- {
		p := c.spans[i]
		if p.released > at || p.released <= p.began {
			continue
		}
		if at > p.released {
			back = append(back, Segment{Cluster: c.Name, Limit: betweenSteps, Began: p.released, Took: at - p.released})
		}
		stalled := min(p.stalled, p.released-p.began)
		if stalled > 0 {
			back = append(back, Segment{Cluster: c.Name, Group: p.group, Limit: Attention, Began: p.released - stalled, Took: stalled})
		}
		if moving := p.released - p.began - stalled; moving > 0 {
			back = append(back, Segment{Cluster: c.Name, Group: p.group, Limit: p.limit, Began: p.began, Took: moving})
		}
		at = p.began
	}
	if at > c.run.Began {
		back = append(back, Segment{Cluster: c.Name, Limit: betweenSteps, Began: c.run.Began, Took: at - c.run.Began})
	}
	return back, c.run.Began
}

// lastSpan is the one that ended last by a time; nil if there is none.
func (c *cluster) lastSpan(at time.Duration) *span {
	var last *span
	for i := range c.spans {
		if p := &c.spans[i]; p.ended <= at && (last == nil || p.ended > last.ended) {
			last = p
		}
	}
	return last
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
