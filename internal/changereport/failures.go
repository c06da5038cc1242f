package changereport

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
)

// maxNames is how many objects a failure names.
const maxNames = 10

// failureKey is what failures have in common that are told as one.
type failureKey struct {
	source                FailureSource
	kind, reason, message string
}

// failureSet collects failures.
type failureSet struct {
	found map[failureKey]*Failure
	seen  map[failureKey]map[string]bool
}

// add adds a failure of one object.
func (s failureSet) add(f Failure, name string) {
	// Objects that tell the same differ in their own names only.
	key := failureKey{f.Source, f.Kind, f.Reason, text.Bound(strings.ReplaceAll(f.Message, name, "<name>"), maxMessage)}
	known := s.found[key]
	if known == nil {
		f.Reason, f.Message = text.Bound(f.Reason, maxMessage), text.Bound(f.Message, maxMessage)
		known = &f
		s.found[key], s.seen[key] = known, map[string]bool{}
	} else {
		known.Times += f.Times
		if f.First.Before(known.First) {
			known.First = f.First
		}
		if f.Last.After(known.Last) {
			known.Last = f.Last
		}
	}
	if !s.seen[key][name] {
		s.seen[key][name] = true
		known.Objects = append(known.Objects, name)
	}
}

// list returns the failures, the latest first.
func (s failureSet) list() []Failure {
	failures := make([]Failure, 0, len(s.found))
	for _, f := range s.found {
		f.Count = len(f.Objects)
		slices.Sort(f.Objects)
		f.Objects = f.Objects[:min(len(f.Objects), maxNames)]
		failures = append(failures, *f)
	}
	slices.SortFunc(failures, func(a, b Failure) int {
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(string(a.Source), string(b.Source)), strings.Compare(a.Kind, b.Kind),
			strings.Compare(a.Reason, b.Reason), strings.Compare(a.Message, b.Message))
	})
	return failures
}

// failures are what went wrong.
func (c *computation) failures() []Failure {
	set := failureSet{map[failureKey]*Failure{}, map[failureKey]map[string]bool{}}
	for _, u := range c.status.Updates {
		if u.LastError != "" || u.State == status.Failed {
			set.add(Failure{
				Source: FromUpdate, Kind: "Machine", Reason: string(u.State), Message: cmp.Or(u.LastError, u.Message),
				First: u.Since.UTC(), Last: u.Since.UTC(),
			}, u.Machine)
		}
	}
	for _, b := range c.status.Blocked {
		set.add(Failure{
			Source: FromCondition, Kind: b.Kind, Reason: b.Reason, Message: b.Message, First: b.Since.UTC(), Last: b.Since.UTC(),
		}, b.Name)
	}
	c.addHolds(set)
	c.addEvents(set)
	return set.list()
}

// addHolds adds what holds the upgrade and is a failure.
func (c *computation) addHolds(set failureSet) {
	if c.upgrade == nil {
		return
	}
	for _, h := range c.upgrade.Holds {
		if h.Kind == status.HeldByFailure || h.Kind == status.HeldByMachines {
			set.add(Failure{
				Source: FromCondition, Kind: "Cluster", Reason: string(h.Kind), Message: h.Message, First: h.Since.UTC(), Last: h.Since.UTC(),
			}, c.status.Cluster)
		}
	}
}

func (c *computation) addEvents(set failureSet) {
	known := c.objects()
	for i := range c.facts.Warnings {
		e := &c.facts.Warnings[i]
		about := object{e.InvolvedObject.Kind, e.InvolvedObject.Name}
		if at := lastTime(e); known[about] && c.concernsEvent(at) {
			set.add(Failure{
				Source: FromEvent, Kind: about.kind, Reason: e.Reason, Message: e.Message, Times: max(e.Count, 1),
				First: firstTime(e), Last: at,
			}, about.name)
		}
	}
}

// concernsEvent reports whether an Event that was last seen at a time can be of the upgrade.
func (c *computation) concernsEvent(at time.Time) bool {
	return c.upgrade == nil || c.upgrade.Began.IsZero() || c.inUpgrade(at)
}

type object struct{ kind, name string }

// objects are those whose Events count.
func (c *computation) objects() map[object]bool {
	f := c.facts
	known := map[object]bool{{"Cluster", f.Cluster.Name}: true}
	if f.ControlPlane != nil {
		known[object{f.ControlPlane.GetKind(), f.ControlPlane.GetName()}] = true
	}
	for _, md := range f.MachineDeployments {
		known[object{"MachineDeployment", md.Name}] = true
	}
	for _, m := range f.Machines {
		known[object{"Machine", m.Name}] = true
	}
	for _, ms := range f.Rollouts.MachineSets {
		known[object{"MachineSet", ms.Name}] = true
	}
	return known
}

func firstTime(e *corev1.Event) time.Time {
	for _, t := range []time.Time{e.FirstTimestamp.Time, e.EventTime.Time} {
		if !t.IsZero() {
			return t.UTC()
		}
	}
	return lastTime(e)
}

func lastTime(e *corev1.Event) time.Time {
	if e.Series != nil && !e.Series.LastObservedTime.IsZero() {
		return e.Series.LastObservedTime.UTC()
	}
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !t.IsZero() {
			return t.UTC()
		}
	}
	return e.CreationTimestamp.UTC()
}
