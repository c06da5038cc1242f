package rig

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/pkg/version"
)

// AwaitArrived is History.AwaitArrived.
func (p *Plane) AwaitArrived(ctx context.Context, t *testing.T, key types.NamespacedName, to string) {
	t.Helper()
	p.History.AwaitArrived(ctx, t, key, to)
}

// AwaitGroup waits until a group, or the control plane where name is empty, has all its machines ready at a version.
func (p *Plane) AwaitGroup(ctx context.Context, t *testing.T, key types.NamespacedName, name, at string) {
	t.Helper()
	p.History.Await(ctx, t, fmt.Sprintf("waiting for %q of %s at %s", name, key, at), func() string { return p.History.Now(key).NotReady(name, at) })
}

// Ways are the versions that the control plane (empty name) and the groups went through, without the first. A part that never moved has none.
type Ways map[string][]string

// Ways returns the ways of a Cluster's parts.
func (h History) Ways(cluster types.NamespacedName) Ways {
	ways := Ways{}
	for _, c := range h.Changes(cluster) {
		ways[c.Group] = append(ways[c.Group], c.To.String())
	}
	return ways
}

// Moves returns the changes of version of a Cluster's parts, in order.
func (h History) Moves(cluster types.NamespacedName) []string { return Moves(h.Changes(cluster)) }

// Moves describes changes: "control plane v1.31.0", "md-0 v1.31.0".
func Moves(changes []history.Change) []string {
	var moves []string
	for _, c := range changes {
		moves = append(moves, fmt.Sprintf("%s %s", cmp.Or(c.Group, "control plane"), c.To))
	}
	return moves
}

// CheckOrder fails the test where the history of a Cluster breaks a rule of chained upgrades, in any of its states: skew, one minor and one part
// at a time, nothing before its turn, and machines made exactly once for every step. concurrency is how many groups may move at once.
func (h History) CheckOrder(t *testing.T, cluster types.NamespacedName, want Ways, concurrency int) {
	t.Helper()
	c := checker{latest: map[types.UID]history.Fact{}, made: map[string]map[types.UID]string{}, concurrency: concurrency}
	history.Replay(h.Of(cluster), c.take)
	for _, fault := range c.faults {
		t.Errorf("%s: %s", cluster, fault)
	}
	got := h.Ways(cluster)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("the ways of %s (-want +got):\n%s", cluster, diff)
	}
	o := h.Now(cluster)
	for name, owner := range withControlPlane(o) {
		if machines, wanted := len(c.made[name]), int(owner.Replicas)*(1+len(got[name])); machines != wanted {
			t.Errorf("%s: %q had %d machines, want %d: %d for each of %d versions: %v", cluster, name, machines, wanted, owner.Replicas, 1+len(got[name]), c.made[name])
		}
	}
}

func withControlPlane(o history.Objects) map[string]history.Fact {
	all := maps.Clone(o.Groups)
	all[""] = o.ControlPlane
	return all
}

// checker looks at one Cluster, one change after another.
type checker struct {
	latest map[types.UID]history.Fact
	// made are the Machines that there ever were, by group and UID, with their versions.
	made        map[string]map[types.UID]string
	concurrency int
	faults      []string
}

func (c *checker) fault(f history.Fact, format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf("revision %d: %s %s: %s", f.Revision, f.Kind, f.Name, fmt.Sprintf(format, args...)))
}

func (c *checker) take(f history.Fact, o history.Objects) {
	before, known := c.latest[f.UID]
	c.latest[f.UID] = f
	if f.Gone {
		return
	}
	moved := known && before.Version != f.Version
	switch f.Kind {
	case history.KindControlPlane:
		if moved {
			c.controlPlaneMoved(before, f, o)
		}
	case history.KindGroup:
		if moved || !known {
			c.groupMoved(before, f, o)
		}
	case history.KindMachine:
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
func (c *checker) controlPlaneMoved(before, f history.Fact, o history.Objects) {
	from, to := version.MustParse(before.Version), version.MustParse(f.Version)
	if lag, ok := from.Minor().Lag(to.Minor()); !ok || lag > 1 || version.Compare(from, to) != version.Less {
		c.fault(f, "went from %s to %s", from, to)
	}
	if before.Reported != before.Version {
		c.fault(f, "went to %s while at %q on the way to %s", to, before.Reported, before.Version)
	}
	if moving := Moving(o); len(moving) > 0 {
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
func (c *checker) skew(f history.Fact, kubelet, apiServer string) {
	k, a := version.MustParse(kubelet), version.MustParse(apiServer)
	if lag, ok := k.Minor().Lag(a.Minor()); !ok || lag > 3 || version.Compare(a, k) == version.Less {
		c.fault(f, "a kubelet %s beside an API server %s", k, a)
	}
}

// groupMoved: to where the whole control plane is, and not beside more others than may move.
func (c *checker) groupMoved(before, f history.Fact, o history.Objects) {
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
	if moving := Moving(o); len(moving) > c.concurrency {
		c.fault(f, "went to %s although %d may move at once: %v", f.Version, c.concurrency, moving)
	}
}

// Moving are the groups with a machine at another version than they ask for. One that is about to go does not count.
func Moving(o history.Objects) []string {
	var names []string
	for name, g := range o.Groups {
		if !g.Deleting && slices.ContainsFunc(o.Machines[name], func(m history.Fact) bool { return m.Version != g.Version && !m.Deleting }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
