package differential

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	defaultSeed   = 20250513
	defaultInputs = 120_000
	// minLegalShare keeps the test honest: on errors alone any two planners agree.
	minLegalShare = 0.30
)

var (
	seedFlag   = flag.Uint64("seed", defaultSeed, "seed of the random inputs")
	inputsFlag = flag.Uint64("inputs", defaultInputs, "how many random inputs to compare")
	indexFlag  = flag.Int64("index", -1, "compare only this input of the seed")
)

// tally counts what was seen.
type tally struct {
	inputs, legal, chains int
	agreedPlan            int
	agreedError           int
	byClass               map[string]int
	byShape               map[string]map[shape]int
	bySource              map[source]int
}

// finding is why an input fails the test; empty when it does not.
type finding string

func TestDifferential(t *testing.T) {
	seen := tally{byClass: make(map[string]int), byShape: make(map[string]map[shape]int), bySource: make(map[source]int)}
	first, last := uint64(0), *inputsFlag
	if *indexFlag >= 0 {
		first, last = uint64(*indexFlag), uint64(*indexFlag)+1
	}
	for index := first; index < last; index++ {
		in := newGenerator(*seedFlag, index).input()
		if problem := examine(in, &seen); problem != "" {
			report(t, in, index)
			return
		}
	}
	seen.print(t)
	if *indexFlag >= 0 {
		return
	}
	if share := float64(seen.chains) / float64(seen.inputs); share < minLegalShare {
		t.Errorf("only %.0f%% of the inputs are legal chains, and the test needs %.0f%% to mean something", 100*share, 100*minLegalShare)
	}
	if share := float64(seen.agreedPlan) / float64(seen.inputs); share < minLegalShare {
		t.Errorf("the planners agree on a plan for only %.0f%% of the inputs, and the test needs %.0f%% to mean something", 100*share, 100*minLegalShare)
	}
	names := make([]string, 0, len(classes)+3)
	for _, c := range classes {
		names = append(names, c.name)
	}
	for _, name := range append(names, classSpelling, classListOrder, classOwnPlans) {
		if seen.byClass[name] == 0 {
			t.Errorf("no input fell into the class %q: either upstream has fixed it, or the generator does not reach it", name)
		}
	}
}

// report prints a failing input, as small as it fails, and how to see it again.
func report(t *testing.T, in input, index uint64) {
	t.Helper()
	fails := func(c input) bool { return examine(c, nil) != "" }
	small := shrink(in, fails)
	our, their := ours(small), upstream(small)
	t.Fatalf("%s\nrun it alone: go test -run TestDifferential . -args -seed %d -index %d\n\nas a case of TestWorkedCases:\n%s\n\nours:     %s\nupstream: %s\noracle:   %s\n\nas generated:\n%s",
		examine(small, nil), *seedFlag, index, small, our, their, judge(small.normal()), in)
}

// examine compares the planners on one input and counts what it sees, unless seen is nil.
func examine(in input, seen *tally) finding {
	normal := in.normal()
	our, v := ours(in), judge(normal)
	if problem := check(normal, our, v); problem != "" {
		return problem
	}
	their := upstream(in)
	name, disagreement := "", shape(0)
	if !our.equal(their) {
		var problem finding
		if name, disagreement, problem = classify(in, our, their); problem != "" {
			return problem
		}
	}
	ahead := 0
	if our.err == nil && name == "" {
		var problem finding
		if ahead, problem = compareGroups(normal, our, v); problem != "" {
			return problem
		}
	}
	if seen != nil {
		seen.count(in, v, our, disagreement, name, ahead)
	}
	return ""
}

// check holds our answer against the oracle's.
func check(in input, our outcome, v verdict) finding {
	switch {
	case our.err != nil && v.err == nil:
		return "there is a legal plan, and we refuse"
	case our.err == nil && v.err != nil:
		return "there is no legal plan, and we give one"
	case our.err != nil:
		return ""
	case !slices.Equal(our.controlPlane, strs(v.route[1:])):
		return "the control plane's versions are wrong"
	case len(our.workers) != v.fewest:
		return finding(fmt.Sprintf("%d worker stops would do", v.fewest))
	case len(our.workers) == 0:
		return ""
	}
	stops := make([]kver, 0, len(our.workers))
	for _, s := range our.workers {
		at := slices.IndexFunc(v.route, func(k kver) bool { return k.String() == s })
		if at < 0 {
			return finding("workers stop at " + s + ", which the control plane never has")
		}
		stops = append(stops, v.route[at])
	}
	if err := v.checkStops(in.groups, stops); err != nil {
		return finding("our workers list is illegal: " + err.Error())
	}
	return ""
}

// classify finds the reason for a disagreement. What comes from spelling or from the list's order is told apart first: in
// normal form upstream then answers as we do, or differs for another reason, which counts.
func classify(in input, our, their outcome) (string, shape, finding) {
	if in.hasBare() || in.outOfOrder() {
		spelled := in.spelled()
		name := classSpelling
		if !in.hasBare() {
			spelled, name = in.normal(), classListOrder
		}
		if again := ours(spelled); !our.equal(again) {
			return "", 0, finding("our answer depends on spelling or on the list's order: " + again.String())
		}
		again := upstream(spelled)
		if our.equal(again) {
			return name, shapeOf(our, their), ""
		}
		return classify(spelled, our, again)
	}
	s := shapeOf(our, their)
	for _, c := range classes {
		if !c.applies(in) || !slices.Contains(c.shapes, s) {
			continue
		}
		if s == weRefuse && c.rules != nil && !slices.Contains(c.rules, our.rule) {
			continue
		}
		return c.name, s, ""
	}
	return "", 0, finding(fmt.Sprintf("a disagreement of no known class (%s)", s))
}

// compareGroups holds each group's own plan against the shared list. It returns how many groups their own plan spares a
// stop, or lets stop elsewhere.
func compareGroups(in input, our outcome, v verdict) (ahead int, problem finding) {
	slowest, _ := in.slowest()
	for i, g := range in.groups {
		var implied []string
		at := g.at
		for position, k := range v.route {
			if slices.Contains(our.workers, k.String()) && v.behind(at, position) {
				implied = append(implied, k.String())
				at = k
			}
		}
		own := our.groups[i]
		if slices.Equal(own, implied) {
			continue
		}
		switch alone, err := v.fewestStops(in.groups[i : i+1]); {
		case in.source == fromResponse && len(in.workers) > 0:
			return 0, "a group's own plan leaves out a stop that was listed"
		case err != nil || len(own) != alone || len(own) > len(implied):
			return 0, finding(fmt.Sprintf("group %d has %d stops of its own: %d would do", i, len(own), alone))
		case g.at.minor == slowest.minor && g.limit == 0 && !slices.ContainsFunc(in.groups, func(g group) bool { return g.limit > 0 }):
			return 0, finding(fmt.Sprintf("group %d is among the slowest, and its plan differs from the shared one", i))
		}
		ahead++
	}
	return ahead, ""
}

func (s *tally) count(in input, v verdict, our outcome, disagreement shape, name string, ahead int) {
	s.inputs++
	s.bySource[in.source]++
	if v.err == nil {
		s.legal++
		if len(v.route) > 1 {
			s.chains++
		}
	}
	if ahead > 0 {
		s.byClass[classOwnPlans]++
	}
	switch {
	case name != "":
		s.byClass[name]++
		if s.byShape[name] == nil {
			s.byShape[name] = make(map[shape]int)
		}
		s.byShape[name][disagreement]++
	case our.err != nil:
		s.agreedError++
	case len(our.controlPlane)+len(our.workers) > 0:
		s.agreedPlan++
	}
}

// print writes the counts to standard output, so that they show without -v.
func (s *tally) print(t *testing.T) {
	t.Helper()
	var b strings.Builder
	percent := func(n int) string { return fmt.Sprintf("%d (%.1f%%)", n, 100*float64(n)/float64(s.inputs)) }
	fmt.Fprintf(&b, "seed %d: %d inputs (next minor %d, version list %d, response %d)\n",
		*seedFlag, s.inputs, s.bySource[fromNextMinor], s.bySource[fromList], s.bySource[fromResponse])
	fmt.Fprintf(&b, "  a legal plan exists: %s, of these chains of the control plane: %s\n", percent(s.legal), percent(s.chains))
	fmt.Fprintf(&b, "  both give the same plan: %s, both refuse: %s\n", percent(s.agreedPlan), percent(s.agreedError))
	fmt.Fprintf(&b, "  disagreements by class:\n")
	for _, name := range slices.Sorted(maps.Keys(s.byClass)) {
		var shapes []string
		for _, sh := range slices.Sorted(maps.Keys(s.byShape[name])) {
			shapes = append(shapes, fmt.Sprintf("%s %d", sh, s.byShape[name][sh]))
		}
		fmt.Fprintf(&b, "    %7d  %s", s.byClass[name], name)
		if len(shapes) > 0 {
			fmt.Fprintf(&b, " (%s)", strings.Join(shapes, ", "))
		}
		fmt.Fprintln(&b)
	}
	if _, err := os.Stdout.WriteString(b.String()); err != nil {
		t.Error(err)
	}
}

func (o outcome) String() string {
	if o.err != nil {
		return fmt.Sprintf("error: %v", o.err)
	}
	return fmt.Sprintf("control plane %v, workers %v", o.controlPlane, o.workers)
}

func (v verdict) String() string {
	if v.err != nil {
		return fmt.Sprintf("no legal plan: %v", v.err)
	}
	return fmt.Sprintf("control plane %v, worker stops: %d", strs(v.route[1:]), v.fewest)
}
