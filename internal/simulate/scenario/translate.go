package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// Simulation is what a scenario says.
type Simulation struct {
	Config fleet.Config
	Runs   int
	Seed   uint64
	// Variants are those of File.Compare, in its order.
	Variants []Variation
	// Assumptions say in words what the scenario does not: guessed durations, and how good they are. They are to be shown beside every result.
	Assumptions []string
}

// Variation is another way to do the upgrade.
type Variation struct {
	Name, Description string
	Config            fleet.Config
}

// Options are what a caller knows better than a file can say.
type Options struct {
	// File is what errors call the file.
	File string
	// Sources take the place of Cluster.Versions, by the names of clusters as they stand in the file.
	Sources map[string]plan.Source
	// AllMethods says that the same machines are also looked at with the other methods, so that what is guessed about these is an assumption, too.
	AllMethods bool
	// Reserved are names of variants that the caller adds itself.
	Reserved []string
}

// Translate checks a scenario as a whole, and says what it means to the simulator. Whether a legal plan exists is not looked at. The error is
// an *Error with all problems at once.
func Translate(f File, o Options) (Simulation, error) {
	t := translateOne(f, o)
	s := Simulation{Config: t.config, Runs: cmp.Or(f.Runs, DefaultRuns), Seed: cmp.Or(f.Seed, DefaultSeed), Assumptions: t.assumptions()}
	if f.Runs < 0 || f.Runs > MaxRuns {
		t.problem(field.Invalid(field.NewPath("runs"), f.Runs, fmt.Sprintf("must be from 1 to %d", MaxRuns)))
	}
	t.checkVariants()
	if len(t.problems) > 0 {
		return Simulation{}, t.err("")
	}
	for i, v := range f.Compare {
		other := translateOne(f.with(v), o)
		if len(other.problems) > 0 {
			return Simulation{}, other.err(fmt.Sprintf("compare[%d]", i))
		}
		s.Variants = append(s.Variants, Variation{Name: v.Name, Description: v.Description, Config: other.config})
		for _, a := range other.assumptions() {
			if !slices.Contains(s.Assumptions, a) {
				s.Assumptions = append(s.Assumptions, a)
			}
		}
	}
	return s, nil
}

func (t *translation) checkVariants() {
	path := field.NewPath("compare")
	t.duplicates(path, names(t.file.Compare, func(v Variant) string { return v.Name }))
	for i, v := range t.file.Compare {
		switch at := path.Index(i).Child("name"); {
		case v.Name == "":
			t.problem(field.Required(at, "give it a name"))
		case slices.Contains(t.options.Reserved, v.Name):
			t.problem(field.Invalid(at, v.Name, "another variant is always called so. Fix: choose another name"))
		}
	}
}

// translateOne leaves out what is the same for all variants.
func translateOne(f File, o Options) *translation {
	t := &translation{file: f, options: o, used: map[string]bool{}, usedPolicies: map[string]bool{}}
	t.durations = t.parseDurations(field.NewPath("durations"), f.Durations, base())
	t.checkPolicies()
	t.config = fleet.Config{
		Begin: t.begin(), Faults: t.faults(), Budget: t.budget(), Costs: t.costs(),
		ClustersAtOnce: t.count(field.NewPath("clustersAtOnce"), f.ClustersAtOnce),
	}
	gates := t.gates()
	if t.countAll() {
		t.config.Clusters = t.clusters(gates)
	}
	return t
}

// with is the scenario of a variant.
func (f File) with(v Variant) File {
	f.ClustersAtOnce = cmp.Or(v.ClustersAtOnce, f.ClustersAtOnce)
	f.Clusters, f.Policies = slices.Clone(f.Clusters), slices.Clone(f.Policies)
	for i := range f.Clusters {
		f.Clusters[i].PoolsAtOnce = cmp.Or(v.PoolsAtOnce, f.Clusters[i].PoolsAtOnce)
	}
	for _, p := range v.Policies {
		if at := slices.IndexFunc(f.Policies, func(q Policy) bool { return q.Name == p.Name }); at >= 0 {
			f.Policies[at] = p
		} else {
			f.Policies = append(f.Policies, p)
		}
	}
	f.Durations = f.Durations.With(v.Durations)
	return f
}

// word is a duration of a file, and the name of its field.
type word struct {
	name string
	text *string
}

// wordsOf are the durations but for Updaters, in the order of the file.
func wordsOf(d *Durations) []word {
	return []word{
		{"create", &d.Create}, {"delete", &d.Delete}, {"drain", &d.Drain}, {"updater", &d.Updater},
		{"settle", &d.Settle}, {"react", &d.React}, {"attend", &d.Attend}, {"giveUp", &d.GiveUp},
	}
}

// With puts what is given in the place of what counts otherwise.
func (d Durations) With(over Durations) Durations {
	own := wordsOf(&d)
	for i, given := range wordsOf(&over) {
		*own[i].text = cmp.Or(*given.text, *own[i].text)
	}
	d.Updaters = union(d.Updaters, over.Updaters)
	return d
}

// Without leaves out what drop reports of a duration and that of others.
func (d Durations) Without(others Durations, drop func(own, other string) bool) Durations {
	theirs := wordsOf(&others)
	for i, own := range wordsOf(&d) {
		if drop(*own.text, *theirs[i].text) {
			*own.text = ""
		}
	}
	d.Updaters = maps.Clone(d.Updaters)
	maps.DeleteFunc(d.Updaters, func(name, own string) bool { return drop(own, others.Updaters[name]) })
	return d
}

// union has what is in either map; over counts where both have a name.
func union[V any](m, over map[string]V) map[string]V {
	if len(m) == 0 {
		return maps.Clone(over)
	}
	m = maps.Clone(m)
	maps.Copy(m, over)
	return m
}

// translation collects problems on the way.
type translation struct {
	file      File
	options   Options
	config    fleet.Config
	problems  field.ErrorList
	durations timings
	// used has the guesses that count for some group.
	used map[string]bool
	// usedPolicies has the names of the policies of groups.
	usedPolicies map[string]bool
	// synthesised says that versions were made up.
	synthesised bool
}

// err is all problems, of a part of the file unless that is empty.
func (t *translation) err(part string) error {
	problems := make([]error, 0, len(t.problems))
	for _, p := range t.problems {
		var problem error = p
		if part != "" {
			problem = fmt.Errorf("with %s: %w", part, p)
		}
		problems = append(problems, problem)
	}
	return &Error{File: t.options.File, Problems: problems}
}

func (t *translation) problem(p *field.Error) { t.problems = append(t.problems, p) }

// count checks a number that means "not given" where it is 0.
func (t *translation) count(path *field.Path, n int) int {
	if n < 0 {
		t.problem(field.Invalid(path, n, "must not be negative"))
	}
	return n
}

// rate checks a probability. NaN is none.
func (t *translation) rate(path *field.Path, r float64) {
	if !(r >= 0 && r <= 1) {
		t.problem(field.Invalid(path, r, "must be a part from 0 to 1, such as 0.02 for 2 %"))
	}
}

// distribution parses a word; none takes no time.
func (t *translation) distribution(path *field.Path, word string) fleet.Distribution {
	if word == "" {
		return fleet.Distribution{}
	}
	d, err := fleet.ParseDistribution(word)
	if err != nil {
		t.problem(field.Invalid(path, word, err.Error()))
	}
	return d
}

// fixed parses one duration, which is no distribution.
func (t *translation) fixed(path *field.Path, word string, fallback time.Duration) time.Duration {
	if word == "" {
		return fallback
	}
	d, err := time.ParseDuration(word)
	if err != nil || d < 0 || d > fleet.MaxDuration {
		t.problem(field.Invalid(path, word, fmt.Sprintf("must be one duration up to %s, such as 90s, 12m or 1h30m", fleet.MaxDuration)))
	}
	return d
}

func (t *translation) begin() time.Time {
	if t.file.Begin == "" {
		return DefaultBegin()
	}
	at, err := time.Parse(time.RFC3339, t.file.Begin)
	if err != nil {
		t.problem(field.Invalid(field.NewPath("begin"), t.file.Begin, "must be a time such as 2026-01-05T08:00:00Z"))
	}
	return at
}

func (t *translation) faults() fleet.Faults {
	path, f, failures := field.NewPath("faults"), t.file.Faults, field.NewPath("failures")
	faults := fleet.Faults{
		Conflict: f.Conflict, Stale: f.Stale, Lag: t.fixed(path.Child("lag"), f.Lag, 0), Lost: f.Lost, Crash: f.Crash, Restart: t.fixed(path.Child("restart"), f.Restart, 0),
		OutageEvery: t.distribution(failures.Child("outageEvery"), t.file.Failures.OutageEvery),
		Outage:      t.distribution(failures.Child("outageTakes"), t.file.Failures.OutageTakes),
	}
	for _, rate := range []struct {
		name  string
		value float64
	}{{"conflict", f.Conflict}, {"stale", f.Stale}, {"lost", f.Lost}, {"crash", f.Crash}} {
		if !(rate.value >= 0 && rate.value < 1) {
			t.problem(field.Invalid(path.Child(rate.name), rate.value, "must be a part from 0 to less than 1, such as 0.02 for 2 %"))
		}
	}
	if f.Stale > 0 && f.Lag == "" {
		t.problem(field.Required(path.Child("lag"), "say how old stale objects are, such as 2s"))
	}
	if f.Crash > 0 && f.Restart == "" {
		t.problem(field.Required(path.Child("restart"), "say how long a restart takes, such as 10s"))
	}
	if faults.OutageEvery.IsZero() != faults.Outage.IsZero() {
		t.problem(field.Required(failures, "give outageEvery and outageTakes, both above zero, or none of them"))
	}
	return faults
}

func (t *translation) budget() fleet.Budget {
	b := t.file.Budget
	if b == nil {
		return DefaultBudget()
	}
	path := field.NewPath("budget")
	if !(b.QPS >= 0 && b.QPS <= maxRate) || b.Burst < 0 || (b.QPS > 0) != (b.Burst > 0) {
		t.problem(field.Invalid(path, fmt.Sprintf("qps %g, burst %d", b.QPS, b.Burst), "must both be above 0, or both 0 for no bound"))
	}
	return *b
}

// maxRate bounds numbers that are multiplied: beyond it they are slips.
const maxRate = 1e6

func (t *translation) costs() fleet.Costs {
	c := t.file.Costs
	if c == nil {
		return DefaultCosts()
	}
	for _, n := range []struct {
		name  string
		value float64
	}{{"replace", c.Replace}, {"inPlace", c.InPlace}} {
		if !(n.value >= 0 && n.value <= maxRate) {
			t.problem(field.Invalid(field.NewPath("costs", n.name), n.value, fmt.Sprintf("must be a number of requests from 0 to %g", maxRate)))
		}
	}
	return *c
}

// duplicates reports names that stand more than once.
func (t *translation) duplicates(path *field.Path, names []string) {
	seen := make(map[string]bool, len(names))
	for i, n := range names {
		if seen[n] {
			t.problem(field.Duplicate(path.Index(i).Child("name"), n))
		}
		seen[n] = true
	}
}

func names[T any](items []T, name func(T) string) []string {
	out := make([]string, 0, len(items))
	for _, item := range items {
		out = append(out, name(item))
	}
	return out
}

// updaterNames are the updaters of all policies.
func (t *translation) updaterNames() []string {
	var found []string
	for _, p := range t.file.Policies {
		found = append(found, names(p.updaters(), func(u Updater) string { return u.Name })...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// With completes a scenario of objects by what a person says beside them. What both have, and cannot both count, is an error.
func (f File) With(over File) (File, error) {
	if len(over.Clusters)+len(over.Policies) > 0 {
		return File{}, &Error{Problems: []error{errors.New("clusters and policies are those of the objects; take them out")}}
	}
	over.Clusters, over.Policies = f.Clusters, f.Policies
	over.Durations = f.Durations.With(over.Durations)
	over.Gates = append(slices.Clone(f.Gates), over.Gates...)
	return over, nil
}
