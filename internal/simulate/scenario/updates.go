package scenario

import (
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/labelselector"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// timings are parsed Durations, and which of them nobody gave.
type timings struct {
	create, delete, drain, updater, settle, react, attend, giveUp duration
	updaters                                                      map[string]fleet.Distribution
}

// all are those but for updaters, in the order of wordsOf.
func (d *timings) all() []*duration {
	return []*duration{&d.create, &d.delete, &d.drain, &d.updater, &d.settle, &d.react, &d.attend, &d.giveUp}
}

// knowsNot reports whether the updater of a step takes the time of those that have none of their own.
func (d *timings) knowsNot(s inplace.Step) bool {
	_, own := d.updaters[s.Updater]
	return !own
}

// duration is one of them. guess is empty for one that somebody gave.
type duration struct {
	dist  fleet.Distribution
	guess string
}

// The guesses, as sentences about what takes how long.
const (
	guessCreate = "a new machine is Ready after %s (durations.create)"
	guessDelete = "deleting a machine, its drain included, takes %s (durations.delete)"
	guessDrain  = "draining a node before an update in place takes %s (durations.drain)"
	guessUpdate = "an updater takes %s (durations.updater)"
	guessSettle = "a node is Ready %s after an update in place (durations.settle)"
	guessReact  = "a controller acts on a change after %s (durations.react)"
	guessGiveUp = "a new machine that does not get Ready is deleted after %s (durations.giveUp)"
	// noteLate is about MachineHealthChecks, which would delete such machines.
	noteLate    = "machines that take longer than giveUp to be created are not given up; only those that createFails picks (durations.giveUp)"
	guessAttend = "nobody has a machine retried whose update failed finally (durations.attend)"
)

// guesses are in the order in which they are told.
var guesses = []struct {
	text string
	dist fleet.Distribution
}{
	{guessCreate, defaultCreate}, {guessDelete, defaultDelete}, {guessDrain, defaultDrain}, {guessUpdate, defaultUpdate}, {guessSettle, defaultSettle},
	{guessReact, defaultReact}, {guessGiveUp, defaultGiveUp}, {noteLate, fleet.Distribution{}}, {guessAttend, fleet.Distribution{}},
}

// base are the durations of a scenario that says nothing.
func base() timings {
	return timings{
		create: duration{defaultCreate, guessCreate}, delete: duration{defaultDelete, guessDelete}, drain: duration{defaultDrain, guessDrain},
		updater: duration{defaultUpdate, guessUpdate}, settle: duration{defaultSettle, guessSettle}, react: duration{defaultReact, guessReact},
		giveUp: duration{defaultGiveUp, guessGiveUp}, attend: duration{guess: guessAttend},
	}
}

// parseDurations puts what is given in the place of what counts otherwise.
func (t *translation) parseDurations(path *field.Path, d Durations, otherwise timings) timings {
	into := otherwise
	parsed := into.all()
	for i, word := range wordsOf(&d) {
		if *word.text != "" {
			*parsed[i] = duration{dist: t.distribution(path.Child(word.name), *word.text)}
		}
	}
	// Otherwise machines that fail would be made anew for ever, at one instant.
	if d.GiveUp != "" && t.file.Failures.CreateFails > 0 && into.giveUp.dist.At(1) == 0 {
		t.problem(field.Invalid(path.Child("giveUp"), d.GiveUp, "must be above zero where failures.createFails is, such as 10m"))
	}
	known, updaters := t.updaterNames(), map[string]fleet.Distribution{}
	for _, name := range slices.Sorted(maps.Keys(d.Updaters)) {
		key := path.Child("updaters").Key(name)
		if !slices.Contains(known, name) {
			t.problem(field.NotSupported(key, name, known))
		}
		if d.Updaters[name] == "" {
			t.problem(field.Required(key, "say how long it takes, such as 3m"))
		}
		updaters[name] = t.distribution(key, d.Updaters[name])
	}
	into.updaters = union(otherwise.updaters, updaters)
	return into
}

// use notes a guess, where the duration counts for a group.
func (t *translation) use(counts bool, d duration) fleet.Distribution {
	if counts && d.guess != "" {
		t.used[d.guess] = true
	}
	return d.dist
}

// nearlyAll is the part of machines that are looked at to see whether some take too long: a log-normal duration has no bound.
const nearlyAll = 0.999

// noteLateMachines notes that machines may take longer than giveUp, where new ones are made.
func (t *translation) noteLateMachines(replaces bool, d timings) {
	if replaces && d.create.dist.At(nearlyAll) > d.giveUp.dist.At(0) {
		t.used[noteLate] = true
	}
}

// timings are what the simulator needs to know for a group. What is a guess, and counts for it, is noted.
func (t *translation) timings(d timings, u fleet.Update, surges bool) fleet.Timings {
	failures := t.file.Failures
	replaces := !u.InPlace || surges || u.Policy.Remediate || t.options.AllMethods
	others := t.use(u.InPlace && slices.ContainsFunc(u.Steps, d.knowsNot), d.updater)
	updaters := union(d.updaters, map[string]fleet.Distribution{"": others})
	drains := u.Policy.Drain && slices.ContainsFunc(u.Steps, func(s inplace.Step) bool { return s.NeedsDrain })
	t.noteLateMachines(replaces, d)
	fails := failures.UpdateFails > 0 || failures.UpdateHangs > 0
	return fleet.Timings{
		Create: t.use(replaces, d.create), Delete: t.use(replaces, d.delete), Drain: t.use(u.InPlace && drains, d.drain), Updaters: updaters,
		Settle: t.use(u.InPlace, d.settle), React: t.use(true, d.react), Attend: t.use(u.InPlace && fails && !u.Policy.Remediate, d.attend),
		CreateFails: failures.CreateFails, GiveUp: t.use(replaces && failures.CreateFails > 0, d.giveUp),
		UpdateFails: failures.UpdateFails, UpdateHangs: failures.UpdateHangs,
	}
}

// updaters are a policy's, in a slice of their own.
func (p Policy) updaters() []Updater {
	if p.Strategy != StrategyInPlace {
		return nil
	}
	if len(p.Updaters) == 0 {
		return []Updater{{Name: DefaultUpdater}}
	}
	return slices.Clone(p.Updaters)
}

func (t *translation) checkPolicies() {
	path := field.NewPath("policies")
	t.duplicates(path, names(t.file.Policies, func(p Policy) string { return p.Name }))
	for i, p := range t.file.Policies {
		t.checkPolicy(path.Index(i), p)
	}
	failures := field.NewPath("failures")
	t.rate(failures.Child("createFails"), t.file.Failures.CreateFails)
	t.rate(failures.Child("updateFails"), t.file.Failures.UpdateFails)
	t.rate(failures.Child("updateHangs"), t.file.Failures.UpdateHangs)
	if t.file.Failures.UpdateFails+t.file.Failures.UpdateHangs > 1 {
		t.problem(field.Invalid(failures, t.file.Failures.UpdateFails+t.file.Failures.UpdateHangs, "updateFails and updateHangs together must not be above 1"))
	}
}

func (t *translation) checkPolicy(path *field.Path, p Policy) {
	t.checkName(path.Child("name"), p.Name)
	strategies := []string{StrategyInPlace, StrategyReplace}
	if !slices.Contains(strategies, p.Strategy) {
		t.problem(field.NotSupported(path.Child("strategy"), p.Strategy, strategies))
	}
	fallbacks := []string{FallbackNone, FallbackReplace}
	switch {
	case p.Fallback != "" && !slices.Contains(fallbacks, p.Fallback):
		t.problem(field.NotSupported(path.Child("fallback"), p.Fallback, fallbacks))
	case p.Fallback != "" && p.Strategy == StrategyReplace:
		t.problem(field.Forbidden(path.Child("fallback"), "it goes with strategy InPlace only: with Replace machines are always replaced"))
	}
	if p.Strategy == StrategyReplace && len(p.Updaters) > 0 {
		t.problem(field.Forbidden(path.Child("updaters"), "they go with strategy InPlace only: with Replace none is asked"))
	}
	t.count(path.Child("maxInFlight"), p.MaxInFlight)
	t.checkCanary(path.Child("canary"), p.Canary)
	t.checkRollout(path.Child("rollout"), p.Rollout)
	t.count(path.Child("maxAttempts"), p.MaxAttempts)
	t.fixed(path.Child("soak"), p.Soak, 0)
	if t.fixed(path.Child("attemptTimeout"), p.AttemptTimeout, time.Minute) == 0 {
		t.problem(field.Invalid(path.Child("attemptTimeout"), p.AttemptTimeout, "must be above zero"))
	}
	t.duplicates(path.Child("updaters"), names(p.Updaters, func(u Updater) string { return u.Name }))
	for i, u := range p.Updaters {
		t.checkName(path.Child("updaters").Index(i).Child("name"), u.Name)
		t.count(path.Child("updaters").Index(i).Child("maxMinors"), u.MaxMinors)
	}
}

func (t *translation) checkCanary(path *field.Path, canary *int) {
	if canary != nil && (*canary < 0 || *canary > 1) {
		t.problem(field.Invalid(path, *canary, "must be 0 or 1"))
	}
}

func (t *translation) checkRollout(path *field.Path, r *Rollout) {
	if r == nil {
		return
	}
	t.count(path.Child("maxFailures"), r.MaxFailures)
	for _, p := range policy.CheckRollout(path, r.RolloutLimits) {
		t.problem(p)
	}
	t.fixed(path.Child("machineDeadline"), r.MachineDeadline, 0)
	t.fixed(path.Child("groupDeadline"), r.GroupDeadline, 0)
}

// limits are those of windlass manager; nil without any. u has what the policy leaves open. The
// problems of the policy were reported before.
func (p Policy) limits(u policy.Policy) *pool.Limits {
	r := p.Rollout
	if r == nil {
		return nil
	}
	spec := v1alpha1.UpdatePolicySpec{RolloutLimits: r.RolloutLimits}
	if r.MaxFailures > 0 {
		spec.OnFailure = v1alpha1.FailurePause
		spec.MaxFailures = int32(r.MaxFailures) // #nosec G115 -- a number of machines
	}
	l := pool.Limits(policy.FromSpec(&spec, labelselector.Parse(r.Order.Last)))
	l.MaxInFlight, l.Soak = u.MaxInFlight, u.Soak
	l.MachineDeadline, l.GroupDeadline = parsed(r.MachineDeadline), parsed(r.GroupDeadline)
	return &l
}

// parsed is a duration that was checked; 0 for none.
func parsed(word string) time.Duration {
	d, _ := time.ParseDuration(word)
	return d
}

// update is how a group's machines get to another version; limit is how many minors they can at once, 0 for any number.
// surges says that machines are created even where others are updated in place.
func (t *translation) update(path *field.Path, g Machines, surges bool) (u fleet.Update, limit int) {
	u.Domains = slices.Clone(g.FailureDomains)
	u.Policy = policy.Default()
	if len(g.Updaters) > 0 && g.Policy == "" {
		t.problem(field.Forbidden(path.Child("updaters"), "they go with a policy only"))
	}
	if g.Policy != "" {
		i := slices.IndexFunc(t.file.Policies, func(p Policy) bool { return p.Name == g.Policy })
		if i < 0 {
			known := names(t.file.Policies, func(p Policy) string { return p.Name })
			t.problem(field.NotSupported(path.Child("policy"), g.Policy, known))
			return u, 0
		}
		t.usedPolicies[g.Policy] = true
		u, limit = fromPolicy(t.file.Policies[i], t.chosen(path.Child("updaters"), t.file.Policies[i], g.Updaters), u)
	}
	for i, domain := range g.FailureDomains {
		t.checkName(path.Child("failureDomains").Index(i), domain)
	}
	u.Timings = t.timings(t.parseDurations(path.Child("durations"), g.Durations, t.durations), u, surges)
	return u, limit
}

// chosen are those of a policy's updaters that a group names, in the policy's order; all where it names none.
func (t *translation) chosen(path *field.Path, p Policy, named []string) []Updater {
	if len(named) == 0 {
		return setVersion(p.updaters())
	}
	known := names(p.updaters(), func(u Updater) string { return u.Name })
	for i, n := range named {
		if !slices.Contains(known, n) {
			t.problem(field.NotSupported(path.Index(i), n, known))
		}
	}
	return setVersion(slices.DeleteFunc(p.updaters(), func(u Updater) bool { return !slices.Contains(named, u.Name) }))
}

// setVersion sees to it that one of the updaters moves the kubelet. It changes its argument.
func setVersion(updaters []Updater) []Updater {
	if last := len(updaters) - 1; last >= 0 && !slices.ContainsFunc(updaters, func(u Updater) bool { return u.SetsVersion }) {
		updaters[last].SetsVersion = true
	}
	return updaters
}

// fromPolicy fills in what a policy says. Its problems were reported before.
func fromPolicy(p Policy, updaters []Updater, u fleet.Update) (_ fleet.Update, limit int) {
	u.PolicyName, u.InPlace = p.Name, p.Strategy == StrategyInPlace
	u.Guarded = u.InPlace && p.Fallback != FallbackReplace
	if p.MaxInFlight > 0 {
		u.Policy.MaxInFlight = int32(min(p.MaxInFlight, math.MaxInt32)) // #nosec G115 -- it fits
	}
	if p.Canary != nil {
		u.Policy.Alone = *p.Canary
	}
	if p.MaxAttempts > 0 {
		u.Policy.MaxAttempts = p.MaxAttempts
	}
	u.Policy.Drain, u.Policy.Remediate = p.Drain != nil && *p.Drain, p.Remediate
	// What does not parse has been reported.
	if soak, err := time.ParseDuration(p.Soak); err == nil {
		u.Policy.Soak = soak
	}
	if timeout, err := time.ParseDuration(p.AttemptTimeout); err == nil {
		u.Policy.AttemptTimeout = timeout
	}
	u.Limits = p.limits(u.Policy)
	var registered []v1alpha1.Updater
	for _, updater := range updaters {
		u.Steps = append(u.Steps, inplace.Step{Updater: updater.Name, SetsVersion: updater.SetsVersion, NeedsDrain: updater.NeedsDrain, MaxMinors: updater.MaxMinors})
		limit := int32(min(max(updater.MaxMinors, 0), maxMinors))
		registered = append(registered, v1alpha1.Updater{Spec: v1alpha1.UpdaterSpec{Transitions: v1alpha1.Transitions{MaxMinors: limit}}})
	}
	return u, updatepolicy.MinorLimit(registered)
}

// maxMinors is above what any skew policy allows.
const maxMinors = 1000
