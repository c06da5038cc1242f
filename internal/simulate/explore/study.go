package explore

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
	targets := with("targets", "the target changes twice to any version on the way, plans are unavailable for a while, two effects are lost or unanswered",
		Faults{Retargets: 2, Outages: 1, Cuts: 2})
	targets.Config.Retargets = append([]version.Version{c.ControlPlane}, route...)
	takeovers := with("takeovers", "Cluster API's own engine takes over and gives way again at any point, the target changes twice to the first version on the way or back, "+
		"a before-upgrade annotation is set and removed", Faults{Swaps: 2, Retargets: 2, Blockers: 1})
	takeovers.Config.Retargets = route[:min(len(route), 1)]
	studies := []Study{
		with("hooks", "any hook blocks, fails or is not reached; any effect is lost, or done and its answer lost; restarts; a pause, a before-upgrade annotation, "+
			"a change while the engine acts", Faults{Answers: all, Cuts: all, Restarts: all, Pauses: 1, Blockers: 1, Races: 1}),
		with("annotations", "defer-upgrade and hold-upgrade-sequence are set or removed twice, also while the engine acts; two effects are lost or unanswered",
			Faults{Annotations: 2, Cuts: 2, Races: 1}),
		targets,
		with("groups", "a group is removed from the topology or its object is deleted, or lacks machines for a while or for good; two effects are lost or unanswered", Faults{Groups: 1, Shortages: 1, Cuts: 2}),
		with("reads", "after restarts the control plane or a group is read as it was before its last write, twice; an annotation of a group changes; an effect is lost or unanswered",
			Faults{Lags: 2, Annotations: 1, Cuts: 1}),
		with("engines", "Cluster API's own engine takes over and gives way again at any point; a hook blocks or fails", Faults{Swaps: 2, Answers: 1}),
		takeovers,
		with("deletion", "the Cluster is deleted at any point; any hook blocks or fails; any effect is lost or unanswered", Faults{Deletions: 1, Answers: all, Cuts: all}),
	}
	if len(c.Recorded.Pending) == 0 && len(route) > 0 {
		studies = append(studies, imageless(with("images", "the control plane is sent to a version that no machine of it joins at, until people leave that one out; "+
			"machines at other versions join before the step is over; an effect is lost or unanswered, a late read",
			Faults{Relists: 2, Retargets: 1, Cuts: 1, Lags: 1}), route))
	}
	return studies
}

// imageless adds to the versions on the route one without an image, to which the first step leads.
func imageless(s Study, route []version.Version) Study {
	first := route[0]
	bad := version.MustParse(fmt.Sprintf("v%d.%d.%d", first.Minor().Major, first.Minor().Minor, badPatch))
	good := append(plan.VersionList{s.Config.ControlPlane}, route...)
	s.Config.Asked = s.Config.Extension != nil || slices.ContainsFunc(s.Config.Sources, func(source plan.Source) bool {
		switch source.(type) {
		case plan.Graph, plan.Response:
			return true
		case plan.NextMinor, plan.VersionList:
		}
		return false
	})
	s.Config.Broken, s.Config.Extension = []version.Version{bad}, nil
	s.Config.Retargets = []version.Version{s.Config.Target}
	if len(route) == 1 || route[1].Minor() == first.Minor() {
		s.Config.Target = bad
	}
	s.Config.Sources = []plan.Source{append(slices.Clone(good), bad), good}
	return s
}

// badPatch is beyond those that are released.
const badPatch = 999

// likenessOf returns what makes groups behave alike.
func likenessOf(g Group) Group {
	g.Name, g.Short = "", false
	return g
}

// Represented are the groups that stand for all of an upgrade.
type Represented struct {
	// Groups are at most MaxGroups, in their order.
	Groups []Group
	// Note says who was left out; it is empty when nobody was. Complete says that they can show all that can happen to all.
	Note     string
	Complete bool
}

// Represent chooses at most MaxGroups groups that stand for all: one of each likeness, and of each kind as many more as it takes to see more than
// may move at once, since order and concurrency show only among those.
func Represent(groups []Group, concurrency int) Represented {
	if len(groups) <= MaxGroups {
		return Represented{Groups: groups, Complete: true}
	}
	chosen, unseen := representatives(groups, max(concurrency, 1))
	r := Represented{}
	names := make([]string, 0, len(chosen))
	for _, i := range chosen {
		r.Groups = append(r.Groups, groups[i])
		names = append(names, groups[i].Name)
	}
	r.Note = fmt.Sprintf("%d groups are represented by %s: groups of one kind at one version, with the same limits and annotations, behave alike", len(groups), strings.Join(names, ", "))
	if unseen > 0 {
		r.Note += fmt.Sprintf("; %d versions or kinds between those are not represented", unseen)
	}
	crowded := crowded(groups, r.Groups, max(concurrency, 1))
	if crowded != "" {
		r.Note += fmt.Sprintf("; that no more than %d move at once is not shown of %ss", concurrency, crowded)
	}
	r.Complete = unseen == 0 && crowded == ""
	return r
}

// representatives are the places of those who stand for all. unseen is how many likenesses nobody stands for.
func representatives(groups []Group, concurrency int) (chosen []int, unseen int) {
	seen := map[Group]bool{}
	count := map[plan.GroupKind]int{plan.MachineDeployment: 0, plan.MachinePool: 0}
	var more []int
	for i, g := range groups {
		if l := likenessOf(g); seen[l] {
			more = append(more, i)
		} else {
			seen[l] = true
			count[g.Kind]++
			chosen = append(chosen, i)
		}
	}
	if len(chosen) > MaxGroups {
		unseen = len(chosen) - MaxGroups
		chosen = extremes(groups, chosen)
	}
	for _, i := range more {
		if kind := groups[i].Kind; len(chosen) < MaxGroups && count[kind] <= concurrency {
			count[kind]++
			chosen = append(chosen, i)
		}
	}
	slices.Sort(chosen)
	return chosen, unseen
}

// crowded is a kind of which some are left out, and not more are kept than may move at once; empty when there is none.
func crowded(all, kept []Group, concurrency int) plan.GroupKind {
	count := func(groups []Group, kind plan.GroupKind) int {
		return len(slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return g.Kind != kind }))
	}
	for _, kind := range []plan.GroupKind{plan.MachineDeployment, plan.MachinePool} {
		if n := count(kept, kind); n < count(all, kind) && n <= concurrency {
			return kind
		}
	}
	return ""
}

// extremes keeps those that are farthest behind, and the last to move, which is a MachinePool where there is one.
func extremes(groups []Group, of []int) []int {
	sorted := slices.Clone(of)
	slices.SortStableFunc(sorted, func(a, b int) int {
		order := version.Compare(groups[a].Version, groups[b].Version)
		if order == version.Unordered {
			return 0
		}
		return int(order)
	})
	kept := append([]int{}, sorted[:MaxGroups-1]...)
	last := of[len(of)-1]
	if slices.Contains(kept, last) {
		last = sorted[len(sorted)-1]
	}
	return append(kept, last)
}
