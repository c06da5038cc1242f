package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/pkg/version"
)

// tally counts what happens to the machines of a group.
type tally struct {
	GroupRun
	// missing machines are down since a time; Down is what that has come to before.
	missing int
	since   time.Duration
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
	// held says that only the canary of the group is updated, since a time; holding is how long that has been so.
	held      bool
	heldSince time.Duration
	holding   time.Duration
	// limited says why the limits of the policy let no more machines begin, since a time; limiting is
	// how long each reason has.
	limited      pool.Reason
	limitedSince time.Duration
	limiting     map[pool.Reason]time.Duration
	// waits says that the rollout waits for a person. The deadline of the group does not count then,
	// and counts from zero afterwards.
	waits  bool
	counts time.Duration
	// failed machines wait for a person. Nothing else happens to the group since a time, where it only waits for that; stalled is how long that has been.
	failed int
	// canaries are those that failed and were remediated; nil for none.
	canaries   *pool.FailedCanaries
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

// limit notes that the limits of the policy bound the group from now on; an empty reason means that
// they do not.
func (o *operation) limit(reason pool.Reason, now time.Duration) {
	if o == nil {
		return
	}
	if o.limited != "" && now > o.limitedSince {
		if o.limiting == nil {
			o.limiting = make(map[pool.Reason]time.Duration)
		}
		o.limiting[o.limited] += now - o.limitedSince
	}
	o.limited, o.limitedSince = reason, now
}

// wait notes that the rollout waits for a person, or does not, so that the deadline of the group
// counts as in pool.Group. The condition of a live group names an update in place that failed, and
// no such wait.
func (o *operation) wait(waits bool, now time.Duration) {
	switch {
	case o == nil:
		return
	case o.failed > 0 || o.canaries != nil:
		waits = false
	case o.waits && !waits:
		o.counts = now
	}
	o.waits = waits
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
	Operation
	// released is when the chain could go on; by Ended nothing happened any more.
	released time.Duration
	// stalled is how much of it was waiting for a person.
	stalled time.Duration
}

// recorder keeps what a Run tells.
type recorder struct {
	detail      bool
	events      int
	flying      int
	maxInFlight int
	flights     []Sample
	versions    []versionChange
}

type versionChange struct {
	at      time.Duration
	version version.Version
	by      int
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

// miss notes that so many machines are down from now on.
func (t *tally) miss(machines int, now time.Duration) {
	t.Down += time.Duration(t.missing) * (now - t.since)
	t.missing, t.since = machines, now
	t.MaxDown = max(t.MaxDown, machines)
}

// capacity keeps account of how many machines a group lacks.
func (s *sim) capacity(g *group) {
	t := &g.tally
	missing := max(0, g.desired-(g.waiting()+g.fresh+g.updating-g.begun))
	if missing == t.missing {
		return
	}
	t.miss(missing, s.now)
	if s.check != nil {
		s.check.capacity(g, missing)
	}
}

// beginOperation notes that a group is on its way to its template's version.
func (s *sim) beginOperation(g *group, from version.Version) {
	s.endOperation(g)
	g.op = &operation{from: from, to: g.template, began: s.now, counts: s.now}
	g.tally.Stops++
}

// settle ends the operation of a group to whose machines nothing happens any more.
func (s *sim) settle(g *group) {
	if g.off == 0 && g.moving() == 0 {
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
	op.holdBack(false, s.now)
	op.limit("", s.now)
	s.stall(g, 0)
	limit := g.limit(op, s.now)
	if op.throttling > time.Duration(op.calls)*muchThrottling {
		limit += fmt.Sprintf(", and %g requests a second", s.cfg.Budget.QPS)
	}
	g.cluster.spans = append(g.cluster.spans, span{
		Operation: Operation{
			Cluster: g.cluster.Name, Group: g.name, From: op.from, To: op.to, InPlace: g.update.InPlace, Began: op.began, Ended: s.now, Limit: limit,
		},
		released: cmp.Or(op.released, s.now), stalled: op.stalled,
	})
	g.op = nil
}

// bound returns how long the limits of the policy bounded the group, and the reason that did so for
// the longest time.
func (o *operation) bound() (total time.Duration, most pool.Reason) {
	for _, reason := range slices.Sorted(maps.Keys(o.limiting)) {
		total += o.limiting[reason]
		if most == "" || o.limiting[reason] > o.limiting[most] {
			most = reason
		}
	}
	return total, most
}

// limit says what bounds how many machines of a group are in flight.
func (g *group) limit(op *operation, ended time.Duration) string {
	limiting, most := op.bound()
	switch {
	case g.isCP:
		return "one machine at a time"
	case 2*limiting > ended-op.began:
		return g.update.Limits.DescribeReason(most)
	case 2*op.holding > ended-op.began:
		return fmt.Sprintf("canary %d", g.update.Policy.Alone)
	case 2*(op.queuing-op.holding) > ended-op.began && len(g.scope.groups) > 1:
		return fmt.Sprintf("maxInFlight %d for %d pools together", g.scope.max, len(g.scope.groups))
	case 2*(op.queuing-op.holding) > ended-op.began:
		return fmt.Sprintf("maxInFlight %d", g.scope.max)
	case g.limits.Surge == 0 || g.update.InPlace && g.limits.Unavailable > 0:
		return fmt.Sprintf("maxUnavailable %d", g.limits.Unavailable)
	case g.limits.Unavailable == 0:
		return fmt.Sprintf("maxSurge %d", g.limits.Surge)
	default:
		return fmt.Sprintf("maxSurge %d, maxUnavailable %d", g.limits.Surge, g.limits.Unavailable)
	}
}

// result is the Run.
func (s *sim) result(outcome Outcome) Run {
	r := Run{
		Seed: s.seed, Outcome: outcome, Duration: s.now, MaxInFlight: s.rec.maxInFlight, Events: s.rec.events,
		Writes: Writes{Engine: s.writes, Waited: s.budget.waited},
	}
	others := 0.0
	for _, c := range s.clusters {
		s.release(c)
		if !c.ended {
			c.run.Why = cmp.Or(c.whyHeld(), c.decision.Message, "its turn has not come")
			r.Why = cmp.Or(r.Why, c.Name+": "+c.run.Why)
		}
		r.Clusters = append(r.Clusters, c.run)
		for _, g := range c.groups {
			s.endOperation(g)
			t := &g.tally
			t.miss(0, s.now)
			r.Groups = append(r.Groups, t.GroupRun)
			r.Machines += t.Machines
			others += s.cfg.Costs.Replace*float64(t.Replaced) + s.cfg.Costs.InPlace*float64(t.Updated)
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
		r.Detail = s.detail()
	}
	return r
}

// whyHeld says which limits hold groups of the cluster, and what else went wrong last; empty for
// nothing.
func (c *cluster) whyHeld() string {
	var causes []string
	for _, g := range c.groups {
		causes = append(causes, g.heldBy)
	}
	causes = append(causes, c.trouble)
	return strings.Join(slices.DeleteFunc(causes, func(s string) bool { return s == "" }), "; ")
}

// path goes back from the end of the run: what ended last, what had to end before that began, and so on to the beginning.
func (s *sim) path() []Segment {
	for _, c := range s.clusters {
		c.sortSpans()
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

// sortSpans sorts them by when the chain could go on.
func (c *cluster) sortSpans() {
	slices.SortStableFunc(c.spans, func(a, b span) int { return cmp.Compare(a.released, b.released) })
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
		last.released = last.Ended
		c.sortSpans()
	}
	for i := len(c.spans) - 1; i >= 0 && at > c.run.Began; i-- {
		p := c.spans[i]
		if p.released > at || p.released <= p.Began {
			continue
		}
		if at > p.released {
			back = append(back, Segment{Cluster: c.Name, Limit: betweenSteps, Began: p.released, Took: at - p.released})
		}
		stalled := min(p.stalled, p.released-p.Began)
		if stalled > 0 {
			back = append(back, Segment{Cluster: c.Name, Group: p.Group, Limit: Attention, Began: p.released - stalled, Took: stalled})
		}
		if moving := p.released - p.Began - stalled; moving > 0 {
			back = append(back, Segment{Cluster: c.Name, Group: p.Group, Limit: p.Limit, Began: p.Began, Took: moving})
		}
		at = p.Began
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
		if p := &c.spans[i]; p.Ended <= at && (last == nil || p.Ended > last.Ended) {
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

func (s *sim) detail() *Detail {
	d := &Detail{InFlight: thin(s.rec.flights)}
	for _, c := range s.clusters {
		for _, p := range c.spans {
			if p.Group == "" {
				d.Holds = append(d.Holds, p.Operation)
			} else {
				d.Operations = append(d.Operations, p.Operation)
			}
		}
	}
	slices.SortStableFunc(d.Operations, func(a, b Operation) int {
		return cmp.Or(cmp.Compare(a.Began, b.Began), cmp.Compare(a.Ended, b.Ended))
	})
	d.Order, d.Versions = s.rec.versionSeries()
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
	order = version.Sorted(order)
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
