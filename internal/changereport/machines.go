package changereport

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// machines are those that exist, in the order of the status.
func (c *computation) machines() []Machine {
	objects := make(map[string]*clusterv1.Machine, len(c.facts.Machines))
	for _, m := range c.facts.Machines {
		objects[m.Name] = m
	}
	replaced := 0
	machines := make([]Machine, 0, len(c.status.Machines))
	for _, s := range c.status.Machines {
		object := objects[s.Name]
		m := Machine{Machine: s.Name, Group: s.Group, State: s.State, Way: Untouched, Created: object.CreationTimestamp.UTC()}
		m.To, _ = version.Parse(s.Version) // What cannot be read is not shown.
		progress, last := status.ReadUpdate(object)
		switch {
		case progress != nil:
			m = withProgress(m, progress)
		case last != nil && c.isOfUpgrade(last):
			m = withSummary(m, last)
		case c.inUpgrade(m.Created):
			m.Way, m.Began, m.Ended = Created, m.Created, readySince(object)
		}
		if last != nil && c.upgrade != nil && !c.upgrade.Ended.IsZero() && last.Began.After(c.upgrade.Ended) {
			replaced++
		}
		machines = append(machines, m)
	}
	if replaced > 0 {
		c.note("updates in place of this upgrade on %s with a later update: a Machine records its last update only",
			text.Count(replaced, "machine"))
	}
	return machines
}

// isOfUpgrade reports whether an update that has ended is one of the upgrade. Where it is not known when
// that began, the last update of each machine is shown.
func (c *computation) isOfUpgrade(last *inplace.Summary) bool {
	return c.upgrade == nil || c.upgrade.Began.IsZero() || c.inUpgrade(last.Began)
}

func withProgress(m Machine, p *inplace.Progress) Machine {
	m.Way, m.From, m.Began, m.Error = InPlace, p.From, p.Began.UTC(), text.Bound(p.LastError, maxMessage)
	if !p.To.IsZero() {
		m.To = p.To
	}
	m = withUpdaters(m, p.Done)
	m.Attempts += p.Attempt
	return m
}

func withSummary(m Machine, s *inplace.Summary) Machine {
	m.Way, m.From, m.Began, m.Ended = InPlace, s.From, s.Began.UTC(), s.Ended.UTC()
	if !s.To.IsZero() {
		m.To = s.To
	}
	return withUpdaters(m, s.Done)
}

func withUpdaters(m Machine, done []inplace.Finished) Machine {
	for _, d := range done {
		m.Updaters = append(m.Updaters, Updater{Updater: d.Updater, Attempts: d.Attempts, Seconds: d.Seconds})
		m.Attempts += d.Attempts
	}
	return m
}

// readySince is since when a Machine has been Ready; zero where it is not.
func readySince(m *clusterv1.Machine) time.Time {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineReadyCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	return c.LastTransitionTime.UTC()
}

// groups counts the machines of each group, in the order of the status.
func (c *computation) groups(machines []Machine) []Group {
	of := make(map[string][]Machine, len(c.status.Groups))
	for _, m := range machines {
		of[m.Group] = append(of[m.Group], m)
	}
	groups := make([]Group, 0, len(c.status.Groups))
	for _, g := range c.status.Groups {
		groups = append(groups, countGroup(g.Name, of[g.Name]))
	}
	return groups
}

func countGroup(name string, machines []Machine) Group {
	g := Group{Group: name, Machines: len(machines)}
	var took []time.Duration
	open := false
	for _, m := range machines {
		if m.Way == Untouched {
			g.Untouched++
			continue
		}
		g.count(m)
		if m.Ended.IsZero() {
			open = true
			continue
		}
		took = append(took, max(m.Ended.Sub(m.Began), 0))
	}
	if open {
		g.Ended = time.Time{}
	}
	if len(took) > 0 {
		slices.Sort(took)
		g.Median, g.Longest = status.Seconds{Duration: took[len(took)/2]}, status.Seconds{Duration: took[len(took)-1]}
	}
	return g
}

// count adds a machine that the upgrade touched.
func (g *Group) count(m Machine) {
	if m.Way == InPlace {
		g.InPlace++
	} else {
		g.Created++
	}
	if m.State == status.Failed {
		g.Failed++
	}
	if m.Error != "" || slices.ContainsFunc(m.Updaters, func(u Updater) bool { return u.Attempts > 1 }) {
		g.Retried++
	}
	if g.Began.IsZero() || m.Began.Before(g.Began) {
		g.Began = m.Began
	}
	if m.Ended.After(g.Ended) {
		g.Ended = m.Ended
	}
}
