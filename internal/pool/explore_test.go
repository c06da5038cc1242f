package pool_test

import (
	"hash/maphash"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"
)

// explorer visits worlds breadth first.
type explorer struct {
	scenario
	decider  decider
	plans    map[reading]decided
	setPlans map[setReading][]operation
	rests    map[[maxOperations]operation]uint16
	lists    [][]operation
	// labelled says that the labels of steps are wanted: making them takes time.
	labelled bool

	seed  maphash.Seed
	index map[uint64]struct{}
	// good are worlds from which a run without disturbances ends.
	good map[uint64]struct{}
	// queue are the worlds that are not visited yet; from and ways say from which, and by which of its steps.
	queue []scene
	from  []int32
	ways  []uint16
}

// report says what an exploration found.
type report struct {
	states, transitions int
	complete            bool
	violation           string
}

func newExplorer(s scenario, d decider) *explorer {
	return &explorer{
		scenario: s, decider: d, plans: map[reading]decided{}, setPlans: map[setReading][]operation{},
		rests: map[[maxOperations]operation]uint16{},
		seed:  maphash.MakeSeed(), index: map[uint64]struct{}{}, good: map[uint64]struct{}{},
	}
}

func (e *explorer) key(w *scene) uint64 { return maphash.Comparable(e.seed, *w) }

// explore visits what can happen from the beginning of a scenario, at most limit states. It ends at
// the first violation.
func explore(s scenario, d decider, limit int) report {
	e := newExplorer(s, d)
	r := report{complete: true}
	e.visit(s.begin(), -1, 0, limit)
	for at := 0; len(e.queue) > 0; at++ {
		w := e.queue[0]
		e.queue = e.queue[1:]
		if at%4096 == 0 {
			e.queue = slices.Clone(e.queue)
		}
		r.states = at + 1
		if _, violation := e.fair(w); violation != "" {
			e.labelled, e.good = true, map[uint64]struct{}{}
			trail, _ := e.fair(w)
			r.violation = e.trace(at, &w, append(trail, "VIOLATION: "+violation)...)
			return r
		}
		for way, next := range e.steps(&w) {
			r.transitions++
			if next.violation != "" {
				e.labelled = true
				r.violation = e.trace(at, &w, e.steps(&w)[way].label, "VIOLATION: "+next.violation)
				return r
			}
			r.complete = e.visit(next.to, at, way, limit) && r.complete
		}
	}
	return r
}

// visit adds a world if it is new. It reports whether there is room for it.
func (e *explorer) visit(w scene, from, way, limit int) bool {
	k := e.key(&w)
	if _, known := e.index[k]; known {
		return true
	}
	if len(e.from) >= limit {
		return false
	}
	e.index[k] = struct{}{}
	e.queue, e.from, e.ways = append(e.queue, w), append(e.from, int32(from)), append(e.ways, uint16(way))
	return true
}

// trace says how a world was reached, by taking the same steps again.
func (e *explorer) trace(at int, end *scene, last ...string) string {
	var ways []uint16
	for ; e.from[at] >= 0; at = int(e.from[at]) {
		ways = append(ways, e.ways[at])
	}
	w := e.begin()
	lines := []string{"begin"}
	for _, way := range slices.Backward(ways) {
		taken := e.steps(&w)[way]
		lines = append(lines, taken.label)
		w = taken.to
	}
	return strings.Join(append(append(lines, "IN: "+end.String()), last...), "\n")
}

// fair lets everything behave from now on, once with this engine and once with stock, and says what
// keeps the rollout from its end.
func (e *explorer) fair(w scene) (trail []string, violation string) {
	for _, stock := range []bool{false, true} {
		// Stock's engine stalls in kept groups where the guard refuses what it wants: a move that was
		// reverted, surge, a pause. People end that by hand, so nothing here tells whose fault it is.
		if stock && e.keep {
			continue
		}
		calm := w
		calm.settle()
		calm.stockRan = calm.stockRan || calm.stock != stock
		calm.stock = stock
		if trail, violation = e.calmly(calm); violation != "" {
			return trail, violation
		}
	}
	return nil, ""
}

func (e *explorer) calmly(w scene) (trail []string, violation string) {
	trail = []string{"-- from here nothing disturbs it, with stock in charge: " + boolean(w.stock)}
	var path []uint64
	for {
		k := e.key(&w)
		if _, known := e.good[k]; known {
			break
		}
		if slices.Contains(path, k) {
			return append(trail, w.String()), "the rollout does not end"
		}
		path = append(path, k)
		before := w
		labels, violation := e.calm(&w)
		trail = append(trail, labels...)
		if violation != "" {
			return append(trail, w.String()), violation
		}
		if before != w {
			continue
		}
		if e.helped(&w) {
			trail = append(trail, "a person deletes a Machine")
			continue
		}
		if w.isHeld() {
			if violation := e.endsHeld(&w); violation != "" {
				return append(trail, w.String()), violation
			}
			w.release()
			trail = append(trail, "what holds the group ends")
			continue
		}
		if violation := e.ends(&w, !w.stock && e.deploy(w.read(), false).stated); violation != "" {
			return append(trail, w.String()), violation
		}
		break
	}
	for _, k := range path {
		e.good[k] = struct{}{}
	}
	return nil, ""
}

func boolean(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

var explorations = map[string]scenario{
	"replace, surge":         {replicas: 2, surge: 1, faults: faults{crashes: 1, races: 1}},
	"replace, unavailable":   {replicas: 3, unavailable: 1, faults: faults{crashes: 1}},
	"replace, both":          {replicas: 3, surge: 2, unavailable: 1, gateOff: true, faults: faults{crashes: 1}},
	"replace, old counters":  {replicas: 2, surge: 1, unavailable: 1, faults: faults{lags: 1}},
	"replace, breaks":        {replicas: 2, surge: 1, faults: faults{breaks: 2}},
	"in place, unavailable":  {replicas: 3, unavailable: 1, covered: upwards, faults: faults{crashes: 1}},
	"in place, surge":        {replicas: 2, surge: 1, covered: upwards, faults: faults{crashes: 1, races: 1}},
	"in place, old counters": {replicas: 2, surge: 1, unavailable: 1, covered: upwards, faults: faults{lags: 1}},
	"in place, breaks":       {replicas: 2, surge: 1, unavailable: 1, covered: upwards, faults: faults{breaks: 1, deletes: 1}},
	"in place, swaps":        {replicas: 2, surge: 1, unavailable: 1, covered: upwards, faults: faults{swaps: 2, crashes: 1}},
	"scale":                  {replicas: 2, surge: 1, unavailable: 1, covered: upwards, scales: []int8{1, 3}, faults: faults{scales: 2}},
	"changes":                {replicas: 2, surge: 1, unavailable: 1, covered: upwards, faults: faults{changes: 1, reverts: 1}},
	"changes, replace":       {replicas: 2, surge: 1, unavailable: 1, faults: faults{changes: 1, reverts: 2}},
	"changes and races":      {replicas: 2, surge: 1, unavailable: 1, faults: faults{changes: 1, reverts: 1, races: 1}},
	"changes and crashes":    {replicas: 2, unavailable: 1, covered: upwards, faults: faults{reverts: 1, races: 1, crashes: 1}},
	"pause":                  {replicas: 2, surge: 1, unavailable: 1, covered: upwards, scales: []int8{0, 3}, faults: faults{pauses: 1, scales: 1}},
	"pause before":           {replicas: 2, surge: 1, notBegun: true, scales: []int8{0, 3}, faults: faults{pauses: 2, scales: 2, changes: 1}},
	"on delete":              {replicas: 2, onDelete: true, scales: []int8{1, 3}, faults: faults{deletes: 1, scales: 1, changes: 1}},
	"updater away":           {replicas: 2, unavailable: 1, covered: upwards, faults: faults{outages: 2, crashes: 1}},
	"keep":                   {replicas: 2, unavailable: 1, keep: true, covered: upwards, faults: faults{crashes: 1, races: 1, outages: 1}},
	"keep, old counters":     {replicas: 2, unavailable: 1, keep: true, covered: upwards, faults: faults{lags: 1, deletes: 1}},
	"keep, scale":            {replicas: 2, surge: 1, keep: true, covered: upwards, scales: []int8{1, 3}, faults: faults{scales: 2}},
	"keep, not covered":      {replicas: 2, surge: 1, keep: true, scales: []int8{1, 3}, faults: faults{crashes: 1, scales: 1, races: 1}},
	"keep, blocked, breaks":  {replicas: 2, surge: 1, keep: true, faults: faults{breaks: 1, crashes: 1, races: 1}},
	"keep, blocked, reverts": {replicas: 2, unavailable: 1, keep: true, faults: faults{breaks: 2, reverts: 1, outages: 1, deletes: 1}},
	"pause, no MachineSet":   {replicas: 1, notBegun: true, scales: []int8{0, 2}, faults: faults{pauses: 1, scales: 2, changes: 1}},
	"keep, pause":            {replicas: 2, notBegun: true, keep: true, scales: []int8{1, 3}, faults: faults{pauses: 1, scales: 1, changes: 1, deletes: 1}},
	"in place, hangs":        {replicas: 2, surge: 1, unavailable: 1, covered: upwards, faults: faults{hangs: 1, changes: 1}},
	"keep, hangs":            {replicas: 2, unavailable: 1, keep: true, covered: upwards, faults: faults{hangs: 1, changes: 1, crashes: 1}},
	"keep, reverts":          {replicas: 2, unavailable: 2, keep: true, covered: upwards, faults: faults{reverts: 1, crashes: 2}},
	"keep, reverts, races":   {replicas: 2, unavailable: 2, keep: true, covered: upwards, faults: faults{reverts: 1, races: 1}},
	"keep, changes, races":   {replicas: 3, unavailable: 1, keep: true, covered: upwards, faults: faults{changes: 1, reverts: 1, races: 1}},
	"keep, reverts, away":    {replicas: 3, unavailable: 2, keep: true, covered: upwards, faults: faults{reverts: 1, outages: 1, deletes: 1}},
	"keep, reverts, scale":   {replicas: 3, unavailable: 2, keep: true, covered: upwards, scales: []int8{2}, faults: faults{reverts: 1, scales: 1, pauses: 1}},
	"keep, reverts, hangs":   {replicas: 2, unavailable: 2, keep: true, covered: upwards, faults: faults{reverts: 1, changes: 1, hangs: 1}},
	"limits, canary":         {replicas: 3, surge: 1, bounds: bounds{canary: 1}, faults: faults{crashes: 1, races: 1}},
	"limits, canary, down":   {replicas: 3, unavailable: 2, bounds: bounds{canary: 1}, faults: faults{crashes: 1, races: 1}},
	"limits, in place":       {replicas: 3, unavailable: 2, covered: upwards, bounds: bounds{canary: 1}, faults: faults{crashes: 1, races: 1}},
	"limits, in place, lag":  {replicas: 3, surge: 1, unavailable: 2, covered: upwards, bounds: bounds{canary: 1, batch: 1}, faults: faults{lags: 1, crashes: 1}},
	"limits, keep":           {replicas: 3, unavailable: 2, keep: true, covered: upwards, bounds: bounds{canary: 1, batch: 1}, faults: faults{crashes: 1, races: 1}},
	"limits, keep, lag":      {replicas: 3, unavailable: 2, keep: true, covered: upwards, bounds: bounds{canary: 1, partition: 1}, faults: faults{lags: 1, crashes: 1}},
	"limits, partition":      {replicas: 3, surge: 1, unavailable: 1, bounds: bounds{partition: 1}, faults: faults{crashes: 1, races: 1}},
	"limits, part, in place": {replicas: 3, surge: 1, covered: upwards, bounds: bounds{partition: 1}, faults: faults{crashes: 1, races: 1}},
	"limits, part, lag":      {replicas: 3, surge: 1, unavailable: 1, bounds: bounds{partition: 2}, faults: faults{lags: 1}},
	"limits, in flight":      {replicas: 3, surge: 2, unavailable: 1, bounds: bounds{maxInFlight: 1}, faults: faults{crashes: 1, races: 1}},
	"limits, in flight, lag": {replicas: 3, surge: 2, unavailable: 1, bounds: bounds{maxInFlight: 1}, faults: faults{lags: 1}},
	"limits, batches":        {replicas: 3, surge: 1, unavailable: 2, bounds: bounds{batch: 1}, faults: faults{crashes: 1, lags: 1}},
	"limits, flips":          {replicas: 3, surge: 1, unavailable: 1, covered: upwards, bounds: bounds{canary: 1, partition: 1}, faults: faults{flips: 3, races: 1}},
	"limits, flips, replace": {replicas: 3, surge: 1, unavailable: 1, bounds: bounds{canary: 1, partition: 1}, faults: faults{flips: 3, crashes: 1}},
	"limits, flips, keep":    {replicas: 3, unavailable: 2, keep: true, covered: upwards, bounds: bounds{canary: 1, partition: 1}, faults: faults{flips: 3, crashes: 1}},
	"limits, scale":          {replicas: 2, surge: 1, unavailable: 1, covered: upwards, scales: []int8{1, 3}, bounds: bounds{canary: 1, batch: 1}, faults: faults{scales: 2}},
	"limits, scale, part":    {replicas: 2, surge: 1, unavailable: 1, scales: []int8{1, 4}, bounds: bounds{partition: 1}, faults: faults{scales: 2, crashes: 1}},
	"limits, deletes":        {replicas: 3, unavailable: 1, covered: upwards, bounds: bounds{canary: 1}, faults: faults{deletes: 1, races: 1}},
	"limits, deletes, keep":  {replicas: 3, unavailable: 1, keep: true, covered: upwards, bounds: bounds{canary: 1, batch: 1}, faults: faults{deletes: 1, crashes: 1}},
	"limits, breaks":         {replicas: 3, surge: 1, unavailable: 1, bounds: bounds{canary: 1}, faults: faults{breaks: 1, crashes: 1}},
	"limits, changes":        {replicas: 2, surge: 1, unavailable: 1, covered: upwards, bounds: bounds{canary: 1}, faults: faults{changes: 1, reverts: 1}},
	"limits, changes, new":   {replicas: 3, surge: 1, unavailable: 1, bounds: bounds{canary: 1}, faults: faults{changes: 1, reverts: 1, crashes: 1}},
	"limits, changes, keep":  {replicas: 3, unavailable: 2, keep: true, covered: upwards, bounds: bounds{canary: 1}, faults: faults{changes: 1, reverts: 1, crashes: 1}},
	"limits, hangs, keep":    {replicas: 3, unavailable: 2, keep: true, covered: upwards, bounds: bounds{canary: 1}, faults: faults{hangs: 2, crashes: 1, races: 1}},
	"limits, hangs, retry":   {replicas: 3, unavailable: 2, keep: true, covered: upwards, bounds: bounds{canary: 1, batch: 1}, faults: faults{hangs: 2, retries: 1, crashes: 1}},
	"limits, hangs, changes": {replicas: 2, unavailable: 1, keep: true, covered: upwards, bounds: bounds{canary: 1}, faults: faults{hangs: 2, changes: 1, reverts: 1}},
	"limits, swaps":          {replicas: 3, surge: 1, unavailable: 1, covered: upwards, bounds: bounds{canary: 1, partition: 1}, faults: faults{swaps: 2}},
	"keep on delete, flips":  {replicas: 2, unavailable: 1, keep: true, updatesOnDelete: true, covered: upwards, faults: faults{flips: 2, crashes: 1}},
	"keep on delete, races":  {replicas: 2, unavailable: 1, keep: true, updatesOnDelete: true, covered: upwards, faults: faults{flips: 2, races: 1}},
	"keep on delete, lag":    {replicas: 2, unavailable: 1, keep: true, updatesOnDelete: true, covered: upwards, faults: faults{flips: 2, lags: 1}},
	"keep on delete, change": {replicas: 2, unavailable: 1, keep: true, updatesOnDelete: true, covered: upwards, faults: faults{flips: 1, changes: 1, reverts: 1}},
	"keep on delete, pause":  {replicas: 2, unavailable: 1, keep: true, updatesOnDelete: true, covered: upwards, faults: faults{flips: 1, pauses: 1, crashes: 1}},
	"keep on delete, two":    {replicas: 3, unavailable: 2, keep: true, updatesOnDelete: true, covered: upwards, bounds: bounds{maxInFlight: 2}, faults: faults{flips: 1, races: 1, lags: 1}},
	"keep, changes":          {replicas: 2, surge: 1, keep: true, covered: upwards, faults: faults{changes: 1, reverts: 1, pauses: 1}},
}

// exhausted are the explorations in which a run without WINDLASS_LONG visits all that can happen.
var exhausted = sets.New(
	"fails, in place", "fails, scale", "fails, swaps", "in place, old counters", "keep on delete, flips",
	"in place, surge", "in place, swaps", "in place, unavailable", "keep, blocked, breaks",
	"keep, not covered", "limits, canary", "limits, canary, down", "limits, fails",
	"limits, in flight", "limits, in flight, lag", "limits, part, in place",
	"limits, part, lag", "limits, partition", "limits, swaps", "quota, scale",
	"replace, old counters", "replace, surge", "replace, unavailable", "updater away",
)

// TestExplore visits all that can happen to a group, within bounds, and checks after every step what
// must always hold.
func TestExplore(t *testing.T) {
	t.Parallel()
	limit, long := 3_000, os.Getenv("WINDLASS_LONG") == "1"
	if long {
		limit = 200_000
	}
	all := maps.Clone(explorations)
	maps.Copy(all, troubled)
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := explore(s, sound, limit)
			if r.violation != "" {
				t.Fatal(r.violation)
			}
			t.Logf("%d states, %d transitions, all: %v", r.states, r.transitions, r.complete)
			if r.states < 100 {
				t.Errorf("only %d states: the model does not move", r.states)
			}
			switch {
			case exhausted.Has(name) && !r.complete:
				t.Errorf("it has more than %d states. Fix: make it smaller, or remove it from the list "+
					"of those that are exhausted", limit)
			case r.complete && !exhausted.Has(name) && !long:
				t.Error("all is visited. Fix: add it to the list of those that are exhausted")
			}
		})
	}
}

// TestWalk takes random ways through larger groups. RAPID_SEED repeats one.
//
// Caches do not lag here: if the template changes twice while the cache of Machines is behind the
// Machines that a MachineSet has just created, more Machines than allowed exist for a while, by
// stock's rules and by these.
func TestWalk(t *testing.T) {
	t.Parallel()
	if os.Getenv("WINDLASS_LONG") != "1" {
		t.Skip("random ways need WINDLASS_LONG=1")
	}
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.Int8Range(0, 2)
		s := scenario{
			replicas: rapid.Int8Range(1, 5).Draw(t, "replicas"), surge: small.Draw(t, "surge"),
			unavailable: small.Draw(t, "unavailable"), keep: rapid.Bool().Draw(t, "keep"), scales: []int8{0, 2, 4, 6},
			faults: faults{
				crashes: 2, races: 2, outages: 1, breaks: small.Draw(t, "breaks"), deletes: 1,
				scales: small.Draw(t, "scales"), changes: 1, reverts: 1, pauses: small.Draw(t,
					"pauses"), hangs: 1,
			},
		}
		if rapid.Bool().Draw(t, "covered") {
			s.covered = upwards
		}
		e := newExplorer(s, sound)
		e.labelled = true
		w := s.begin()
		var trail []string
		for range 60 {
			all := e.steps(&w)
			if len(all) == 0 {
				break
			}
			next := all[rapid.IntRange(0, len(all)-1).Draw(t, "step")]
			trail = append(trail, next.label)
			if next.violation != "" {
				t.Fatalf("%s\n%v\nVIOLATION: %s", strings.Join(trail, "\n"), &w, next.violation)
			}
			w = next.to
		}
		if last, violation := e.fair(w); violation != "" {
			t.Fatalf("%s\n%v\n%s\nVIOLATION: %s", strings.Join(trail, "\n"), &w, strings.Join(last, "\n"), violation)
		}
	})
}
