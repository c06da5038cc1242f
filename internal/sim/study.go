package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Study is one kind of disturbance that an upgrade is explored with.
type Study struct {
	// Name is stable; Varies says to people what may happen, and how often.
	Name, Varies string
	Config       Config
}

// Studies returns what an upgrade has to withstand. route are the versions that its control plane goes through, which are what its target may be
// changed to. The disturbances of one study come in every order and at every point; those of different studies do not come together, since that
// would be too much to visit.
func Studies(c Config, route []version.Version) []Study {
	const all = Unlimited
	with := func(name, varies string, f Faults) Study {
		c := c
		c.Faults = f
		return Study{Name: name, Varies: varies, Config: c}
	}
	targets := with("targets", "the target changes twice to any version on the way, plans cannot be had for a while, two effects are lost or unanswered",
		Faults{Retargets: 2, Outages: 1, Cuts: 2})
	targets.Config.Retargets = append([]version.Version{c.ControlPlane}, route...)
	return []Study{
		with("hooks", "any hook blocks, fails or is not reached; any effect is lost, or done and its answer lost; restarts; a pause, a before-upgrade annotation, "+
			"a change while the engine acts", Faults{Answers: all, Cuts: all, Restarts: all, Pauses: 1, Blockers: 1, Races: 1}),
		with("annotations", "defer-upgrade and hold-upgrade-sequence are set or removed twice, also while the engine acts; two effects are lost or unanswered",
			Faults{Annotations: 2, Cuts: 2, Races: 1}),
		targets,
		with("groups", "a group is removed from the topology or its object is deleted; two effects are lost or unanswered", Faults{Groups: 1, Cuts: 2}),
		with("engines", "Cluster API's own engine takes over and gives way again at any point; a hook blocks or fails", Faults{Swaps: 2, Answers: 1}),
		with("deletion", "the Cluster is deleted at any point; any hook blocks or fails; any effect is lost or unanswered", Faults{Deletions: 1, Answers: all, Cuts: all}),
	}
}

// likeness is what makes groups behave alike.
type likeness struct {
	kind                   plan.GroupKind
	version, oldest        version.Version
	step                   uint32
	absent, deferred, hold bool
}

func likenessOf(g Group) likeness {
	return likeness{g.Kind, g.Version, g.Oldest, g.MaxMinorStep, g.Absent, g.Defer, g.Hold}
}

// Represent chooses at most MaxGroups groups that stand for all, in their order: one of each likeness, and a second MachineDeployment if there is one,
// since order and concurrency show only among two. note says who was left out; it is empty when nobody was.
func Represent(groups []Group) (kept []Group, note string) {
	if len(groups) <= MaxGroups {
		return groups, ""
	}
	seen := map[likeness]bool{}
	var first, more []int
	for i, g := range groups {
		if l := likenessOf(g); !seen[l] {
			seen[l] = true
			first = append(first, i)
		} else if g.Kind == plan.MachineDeployment {
			more = append(more, i)
		}
	}
	unseen := 0
	if len(first) > MaxGroups {
		unseen = len(first) - MaxGroups
		first = extremes(groups, first)
	} else {
		first = append(first, more[:min(len(more), 1, MaxGroups-len(first))]...)
	}
	slices.Sort(first)
	names := make([]string, 0, len(first))
	for _, i := range first {
		kept = append(kept, groups[i])
		names = append(names, groups[i].Name)
	}
	note = fmt.Sprintf("%d groups are represented by %s: groups of one kind at one version, with the same limits and annotations, behave alike", len(groups), strings.Join(names, ", "))
	if unseen > 0 {
		note += fmt.Sprintf("; %d versions or kinds between those are not represented", unseen)
	}
	return kept, note
}

// extremes keeps those that are farthest behind, and the last to move, which is a MachinePool where there is one.
func extremes(groups []Group, of []int) []int {
	sorted := slices.Clone(of)
	slices.SortStableFunc(sorted, func(a, b int) int {
		switch version.Compare(groups[a].Version, groups[b].Version) {
		case version.Less:
			return -1
		case version.Greater:
			return 1
		case version.Equal, version.Unordered:
		}
		return 0
	})
	kept := append([]int{}, sorted[:MaxGroups-1]...)
	last := of[len(of)-1]
	if slices.Contains(kept, last) {
		last = sorted[len(sorted)-1]
	}
	return append(kept, last)
}
