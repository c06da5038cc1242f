package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/internal/simulate/scenario"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

// longest bounds a measured duration. What seems to take longer was something else: a node that was away for a while later on, a person who scaled.
const longest = 6 * time.Hour

// FitObjects are what is measured.
type FitObjects struct {
	// Objects has all Machines of the cluster.
	Objects snapshot.Objects
	// Class may be nil.
	Class *clusterv1.ClusterClass
	// Policies are those of the cluster's namespace, as they were during the upgrade.
	Policies []v1alpha1.UpdatePolicy
}

// Fitted are measured durations.
type Fitted struct {
	// Durations are those of workers, or where these tell none of the control plane. ControlPlane are those that differ there.
	Durations, ControlPlane scenario.Durations
	// Notes say from how many machines each is, and what could not be measured.
	Notes []string
}

// Fit measures a cluster's machines that are at the version that it has now. The error says that there is nothing to measure.
func Fit(o FitObjects) (Fitted, error) {
	target, err := version.Parse(o.Objects.Cluster.Spec.Topology.Version)
	if err != nil {
		return Fitted{}, fmt.Errorf("cluster %s: spec.topology.version: %w", o.Objects.Cluster.Name, err)
	}
	m := &measurement{policies: policiesOf(o), rows: map[string]*row{}, over: rolloutsOver(o.Objects)}
	for _, machine := range sorted(o.Objects.Machines) {
		m.machine(machine, target)
	}
	m.between()
	if m.workers.empty() && m.controlPlane.empty() {
		return Fitted{}, fmt.Errorf("cluster %s: none of its %d Machines tells how long it took to get to %s. Fix: name a cluster that was upgraded",
			o.Objects.Cluster.Name, len(o.Objects.Machines), target)
	}
	controlPlane := m.controlPlane.durations()
	f := Fitted{Durations: controlPlane.With(m.workers.durations())}
	f.ControlPlane = controlPlane.Without(f.Durations, func(own, other string) bool { return own == other })
	f.Notes = m.notes(o.Objects.Cluster.Name, target)
	return f, nil
}

// measurement gathers samples.
type measurement struct {
	policies              map[string]policy.Policy
	workers, controlPlane samples
	// rows are by group, as policiesOf names them.
	rows map[string]*row
	// over is when rollouts were over, by group.
	over map[string]time.Time
	// elsewhere are machines at another version, unchanged those whose last update was no upgrade, strange what was dropped, retried what needed more
	// than one attempt.
	elsewhere, unchanged, strange, retried int
}

// samples are those of workers, or of a control plane.
type samples struct {
	create, delete, drain []time.Duration
	updaters              map[string][]time.Duration
}

// row is the new machines of a group, by age.
type row struct {
	into *samples
	// acts is how long its controllers take to notice something and act on it.
	acts time.Duration
	// last is when the last one was Ready; zero where that cannot be told.
	last time.Time
	// between are the times from one being Ready until the next was made. sideBySide says that some were made before that, so that these times tell nothing.
	between    []time.Duration
	sideBySide bool
}

func (s *samples) empty() bool { return len(s.create)+len(s.updaters)+len(s.drain) == 0 }

// sorted are Machines by age.
func sorted(machines []*clusterv1.Machine) []*clusterv1.Machine {
	return slices.SortedFunc(slices.Values(machines), func(a, b *clusterv1.Machine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

func (m *measurement) machine(machine *clusterv1.Machine, target version.Version) {
	runs, err := version.Parse(machine.Spec.Version)
	if err != nil || !target.RunBy(runs) {
		m.elsewhere++
		return
	}
	into, acts := &m.workers, fleet.PoolHops*scenario.DefaultReact
	if capi.IsControlPlane(machine) {
		into, acts = &m.controlPlane, fleet.ControlPlaneHops*scenario.DefaultReact
	}
	if _, updated := machine.Annotations[v1alpha1.LastUpdateAnnotation]; updated {
		m.updated(into, machine, target)
		return
	}
	m.created(into, machine, acts)
}

// updated measures a machine that was updated in place.
func (m *measurement) updated(into *samples, machine *clusterv1.Machine, target version.Version) {
	last, err := record.SummaryOf(machine.Annotations)
	if err != nil || !target.RunBy(last.To) || last.Ended.Before(last.Began) {
		m.strange++
		return
	}
	if last.From == last.To {
		m.unchanged++
		return
	}
	rest := last.Ended.Sub(last.Began)
	for i, done := range last.Done {
		// Bounded first: a number that is none of seconds must not become one.
		took := time.Duration(min(max(done.Seconds, -1), int64(longest/time.Second)+1)) * time.Second
		rest -= took
		if done.Attempts > 1 {
			// The waits between the attempts are part of it.
			m.retried++
			continue
		}
		if i > 0 {
			// It includes what passed before this updater was asked, which a simulation adds itself.
			took = max(took-inplace.NextStep, 0)
		}
		if m.plausible(took) {
			if into.updaters == nil {
				into.updaters = map[string][]time.Duration{}
			}
			into.updaters[done.Updater] = append(into.updaters[done.Updater], took)
		}
	}
	policy := m.policies[fitGroupOf(machine)]
	if policy.Drain && m.plausible(rest-policy.Soak) {
		into.drain = append(into.drain, rest-policy.Soak)
	}
}

// created measures a new machine, and what came between it and the one before.
func (m *measurement) created(into *samples, machine *clusterv1.Machine, acts time.Duration) {
	ready := readyAt(machine)
	if ready.IsZero() {
		return
	}
	name := fitGroupOf(machine)
	if m.rows[name] == nil {
		m.rows[name] = &row{into: into, acts: acts}
	}
	r := m.rows[name]
	took := ready.Sub(machine.CreationTimestamp.Time)
	if !m.plausible(took) {
		r.last = time.Time{}
		return
	}
	into.create = append(into.create, took)
	if !r.last.IsZero() {
		between := machine.CreationTimestamp.Sub(r.last)
		r.sideBySide = r.sideBySide || between <= 0
		if between > 0 && m.plausible(between) {
			r.between = append(r.between, between)
		}
	}
	r.last = ready
}

// reactions is how often the controllers of a group have to notice something from a new machine being Ready until the next one is made: that it is Ready, and
// that an old one is gone.
const reactions = 2

// between takes what came between new machines, and after the last one, for the time that deleting an old one takes, where they were made one after another.
func (m *measurement) between() {
	for _, name := range slices.Sorted(maps.Keys(m.rows)) {
		r := m.rows[name]
		if r.sideBySide {
			continue
		}
		for _, between := range r.between {
			r.into.delete = append(r.into.delete, max(0, between-reactions*r.acts))
		}
		// After the last new machine only one thing has to be noticed: that it is Ready. Without a surge that is the end.
		if last := m.over[name].Sub(r.last); !r.last.IsZero() && last > 0 && m.plausible(last) {
			r.into.delete = append(r.into.delete, max(0, last-r.acts))
		}
	}
}

// plausible reports whether a duration can be of one machine, and counts it where not.
func (m *measurement) plausible(d time.Duration) bool {
	if d < 0 || d > longest {
		m.strange++
		return false
	}
	return true
}

// readyAt is when a machine was Ready, as far as its conditions tell: they show the last time, and that of the one that has changed least is the nearest
// to the first. Zero where it is not Ready.
func readyAt(machine *clusterv1.Machine) time.Time {
	var first time.Time
	for _, kind := range []string{clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition, clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition} {
		c := meta.FindStatusCondition(machine.Status.Conditions, kind)
		if c == nil || c.Status != metav1.ConditionTrue {
			continue
		}
		if at := c.LastTransitionTime.Time; first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// fitGroupOf is a Machine's group in policiesOf.
func fitGroupOf(machine *clusterv1.Machine) string {
	if capi.IsControlPlane(machine) {
		return ""
	}
	return capi.InTopologyOf(machine).Name
}

// policiesOf are the policies of groups by their names in the topology; the control plane's is empty. One that cannot be told is left out.
func policiesOf(o FitObjects) map[string]policy.Policy {
	policies, compiled := map[string]policy.Policy{}, policy.CompileAll(o.Policies)
	for _, g := range snapshot.UpdateGroups(o.Objects, o.Class) {
		if !g.ControlPlane && g.Name == "" {
			continue
		}
		if selected, err := compiled.Select(g.Group); err == nil {
			policies[g.Name] = selected
		}
	}
	return policies
}

// durations are samples as words; those without any are empty.
func (s *samples) durations() scenario.Durations {
	d := scenario.Durations{Create: word(s.create), Delete: word(s.delete), Drain: word(s.drain)}
	for name, took := range s.updaters {
		if d.Updaters == nil {
			d.Updaters = map[string]string{}
		}
		d.Updaters[name] = word(took)
	}
	if len(s.updaters) > 0 {
		// An updater's time ends when the node is Ready at the version.
		d.Settle = fleet.FixedDuration(0).String()
	}
	return d
}

// word is a measured distribution, in whole seconds: objects hold no more.
func word(took []time.Duration) string {
	if len(took) == 0 {
		return ""
	}
	rounded := make([]time.Duration, 0, len(took))
	for _, d := range took {
		rounded = append(rounded, d.Round(time.Second))
	}
	return fleet.Measured(rounded).String()
}

// Apply gives a scenario the durations that it does not say itself. Updaters that it does not have are left out, and noted.
func (f Fitted) Apply(file scenario.File) (scenario.File, []string) {
	known := map[string]bool{}
	for _, p := range file.Policies {
		for _, u := range p.Updaters {
			known[u.Name] = true
		}
	}
	var left []string
	only := func(d scenario.Durations) scenario.Durations {
		d.Updaters = maps.Clone(d.Updaters)
		for name := range d.Updaters {
			if !known[name] {
				left = append(left, name)
				delete(d.Updaters, name)
			}
		}
		return d
	}
	said := file.Durations
	file.Durations = only(f.Durations).With(said)
	file.Clusters = slices.Clone(file.Clusters)
	own := only(f.ControlPlane).Without(said, func(_, other string) bool { return other != "" })
	for i := range file.Clusters {
		file.Clusters[i].ControlPlane.Durations = own.With(file.Clusters[i].ControlPlane.Durations)
	}
	notes := slices.Clone(f.Notes)
	slices.Sort(left)
	if left = slices.Compact(left); len(left) > 0 {
		notes = append(notes, fmt.Sprintf("measured, and not used, because no policy here has such updaters: %q", left))
	}
	return file, notes
}
