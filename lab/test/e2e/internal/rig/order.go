package rig

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/pkg/version"
)

// AwaitArrived waits until everything of a Cluster is at a version, groups that are named in other excepted, which are at that one, and the engine
// has nothing left to do.
func (p *Plane) AwaitArrived(ctx context.Context, t *testing.T, key types.NamespacedName, to string) {
	t.Helper()
	p.History.AwaitArrived(ctx, t, key, to)
}

// AwaitArrived is Plane.AwaitArrived.
func (h *History) AwaitArrived(ctx context.Context, t *testing.T, key types.NamespacedName, to string) {
	t.Helper()
	h.Await(ctx, t, fmt.Sprintf("waiting for %s at %s", key, to), func() string { return h.Now(key).notArrived(to) })
}

// AwaitGroup waits until a group, or the control plane where name is empty, has all its machines ready at a version.
func (p *Plane) AwaitGroup(ctx context.Context, t *testing.T, key types.NamespacedName, name, at string) {
	t.Helper()
	p.History.Await(ctx, t, fmt.Sprintf("waiting for %q of %s at %s", name, key, at), func() string { return p.History.Now(key).NotSettled(name, at) })
}

func (o Objects) notArrived(to string) string {
	switch {
	case o.Cluster.Version != to:
		return "the Cluster asks for " + o.Cluster.Version
	case o.Cluster.Hooks != "":
		return "hooks are pending: " + o.Cluster.Hooks + "; " + o.Cluster.Reconciled.Message
	case o.Cluster.Reconciled.Status != metav1.ConditionTrue:
		return o.Cluster.Reconciled.Reason + ": " + o.Cluster.Reconciled.Message
	case o.ControlPlane.Reported == "":
		return "there is no control plane"
	}
	if missing := o.NotSettled("", to); missing != "" {
		return missing
	}
	for name := range o.Groups {
		if missing := o.NotSettled(name, to); missing != "" {
			return missing
		}
	}
	return ""
}

// NotSettled says what is missing until a group, or the control plane where name is empty, has all its machines ready at a version.
func (o Objects) NotSettled(name, at string) string {
	owner := o.ControlPlane
	if name != "" {
		owner = o.Groups[name]
	}
	machines := o.Machines[name]
	switch {
	case owner.UID == "":
		return fmt.Sprintf("group %q does not exist", name)
	case owner.Version != at:
		return fmt.Sprintf("%s asks for %s", owner.Name, owner.Version)
	case name == "" && owner.Reported != at:
		return fmt.Sprintf("%s is at %s", owner.Name, owner.Reported)
	case len(machines) != int(owner.Replicas):
		return fmt.Sprintf("%s has %d machines of %d", owner.Name, len(machines), owner.Replicas)
	}
	for _, m := range machines {
		if m.Version != at || m.Reported != at || !m.Ready || m.Deleting {
			return fmt.Sprintf("Machine %s: wants %s, has %q, ready %t", m.Name, m.Version, m.Reported, m.Ready)
		}
	}
	return ""
}

// Ways are the versions that the control plane (empty name) and the groups went through, without the first. A part that never moved has none.
type Ways map[string][]string

// Ways returns the ways of a Cluster's parts.
func (h *History) Ways(cluster types.NamespacedName) Ways {
	ways, last := Ways{}, map[types.UID]string{}
	for _, f := range h.Of(cluster) {
		if f.Kind != KindControlPlane && f.Kind != KindGroup {
			continue
		}
		if before, known := last[f.UID]; known && before != f.Version {
			ways[f.Group] = append(ways[f.Group], f.Version)
		}
		last[f.UID] = f.Version
	}
	return ways
}

// Moves returns the changes of version of a Cluster's parts, in order: "control plane v1.31.0", "md-0 v1.31.0".
func (h *History) Moves(cluster types.NamespacedName) []string {
	moves, _ := h.MovesAt(cluster)
	return moves
}

// MovesAt is Moves, and when each was seen.
func (h *History) MovesAt(cluster types.NamespacedName) (moves []string, at []time.Time) {
	last := map[types.UID]string{}
	for _, f := range h.Of(cluster) {
		if f.Kind != KindControlPlane && f.Kind != KindGroup {
			continue
		}
		if before, known := last[f.UID]; known && before != f.Version {
			name := f.Group
			if name == "" {
				name = "control plane"
			}
			moves, at = append(moves, name+" "+f.Version), append(at, f.Seen)
		}
		last[f.UID] = f.Version
	}
	return moves, at
}

// CheckOrder fails the test where the history of a Cluster breaks a rule of chained upgrades, in any of its states: skew, one minor and one part
// at a time, nothing before its turn, and machines made exactly once for every step. concurrency is how many groups may move at once.
func (h *History) CheckOrder(t *testing.T, cluster types.NamespacedName, want Ways, concurrency int) {
	t.Helper()
	c := checker{latest: map[types.UID]Fact{}, made: map[string]map[types.UID]string{}, concurrency: concurrency}
	Replay(h.Of(cluster), c.take)
	for _, fault := range c.faults {
		t.Errorf("%s: %s", cluster, fault)
	}
	got := h.Ways(cluster)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the ways of %s (-want +got):\n%s", cluster, diff)
	}
	o := h.Now(cluster)
	for name, owner := range withControlPlane(o) {
		if machines, wanted := len(c.made[name]), int(owner.Replicas)*(1+len(got[name])); machines != wanted {
			t.Errorf("%s: %q had %d machines, want %d: %d for each of %d versions: %v", cluster, name, machines, wanted, owner.Replicas, 1+len(got[name]), c.made[name])
		}
	}
}

func withControlPlane(o Objects) map[string]Fact {
	all := maps.Clone(o.Groups)
	all[""] = o.ControlPlane
	return all
}

// checker looks at one Cluster, one change after another.
type checker struct {
	latest map[types.UID]Fact
	// made are the Machines that there ever were, by group and UID, with their versions.
	made        map[string]map[types.UID]string
	concurrency int
	faults      []string
}

func (c *checker) fault(f Fact, format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf("revision %d: %s %s: %s", f.Revision, f.Kind, f.Name, fmt.Sprintf(format, args...)))
}

func (c *checker) take(f Fact, o Objects) {
	before, known := c.latest[f.UID]
	c.latest[f.UID] = f
	if f.Gone {
		return
	}
	moved := known && before.Version != f.Version
	switch f.Kind {
	case KindControlPlane:
		if moved {
			c.controlPlaneMoved(before, f, o)
		}
	case KindGroup:
		if moved || !known {
			c.groupMoved(before, f, o)
		}
	case KindMachine:
		if c.made[f.Group] == nil {
			c.made[f.Group] = map[types.UID]string{}
		}
		c.made[f.Group][f.UID] = f.Version
		if !known && f.Group != "" {
			c.skew(f, f.Version, o.ControlPlane.Version)
		}
	}
}

// controlPlaneMoved: by one minor at most, and not while a group moves or one would be left too far behind.
func (c *checker) controlPlaneMoved(before, f Fact, o Objects) {
	from, to := version.MustParse(before.Version), version.MustParse(f.Version)
	if lag, ok := from.Minor().Lag(to.Minor()); !ok || lag > 1 || version.Compare(from, to) != version.Less {
		c.fault(f, "went from %s to %s", from, to)
	}
	if before.Reported != before.Version {
		c.fault(f, "went to %s while at %q on the way to %s", to, before.Reported, before.Version)
	}
	if moving := o.Moving(); len(moving) > 0 {
		c.fault(f, "went to %s while %v moved", to, moving)
	}
	for _, g := range o.Groups {
		c.skew(f, g.Version, f.Version)
	}
	for group, machines := range o.Machines {
		for _, m := range machines {
			if group != "" {
				c.skew(f, m.Version, f.Version)
			}
		}
	}
}

// skew: a kubelet is not newer than the API server, and at most three minors older.
func (c *checker) skew(f Fact, kubelet, apiServer string) {
	k, a := version.MustParse(kubelet), version.MustParse(apiServer)
	if lag, ok := k.Minor().Lag(a.Minor()); !ok || lag > 3 || version.Compare(a, k) == version.Less {
		c.fault(f, "a kubelet %s beside an API server %s", k, a)
	}
}

// groupMoved: to where the whole control plane is, and not beside more others than may move.
func (c *checker) groupMoved(before, f Fact, o Objects) {
	c.skew(f, f.Version, o.ControlPlane.Version)
	if before.UID == "" {
		return
	}
	if version.Compare(version.MustParse(before.Version), version.MustParse(f.Version)) != version.Less {
		c.fault(f, "went back from %s to %s", before.Version, f.Version)
	}
	if o.ControlPlane.Version != f.Version || o.ControlPlane.Reported != f.Version {
		c.fault(f, "went to %s while the control plane was at %q and asked for %s", f.Version, o.ControlPlane.Reported, o.ControlPlane.Version)
	}
	if moving := o.Moving(); len(moving) > c.concurrency {
		c.fault(f, "went to %s although %d may move at once: %v", f.Version, c.concurrency, moving)
	}
}

// Moving are the groups with a machine at another version than they ask for. One that is about to go does not count.
func (o Objects) Moving() []string {
	var names []string
	for name, g := range o.Groups {
		if !g.Deleting && slices.ContainsFunc(o.Machines[name], func(m Fact) bool { return m.Version != g.Version && !m.Deleting }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Replay calls see with each fact of one Cluster, in order, and the objects as they were with it.
func Replay(facts []Fact, see func(Fact, Objects)) {
	latest := map[types.UID]Fact{}
	for _, f := range facts {
		latest[f.UID] = f
		if f.Gone {
			delete(latest, f.UID)
		}
		o := Objects{Groups: map[string]Fact{}, Machines: map[string][]Fact{}}
		for _, f := range latest {
			o = o.with(f)
		}
		see(f, o)
	}
}
