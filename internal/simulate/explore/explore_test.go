package explore_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/simulate/explore"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

func v(minor int) version.Version { return version.MustParse(fmt.Sprintf("v1.%d.0", minor)) }

// minors is a list of versions of these minors.
func minors(from, to int) plan.VersionList {
	var list plan.VersionList
	for minor := from; minor <= to; minor++ {
		list = append(list, v(minor))
	}
	return list
}

func md(name string, minor int) explore.Group {
	return explore.Group{Name: name, Kind: plan.MachineDeployment, Version: v(minor)}
}

func mp(name string, minor int) explore.Group {
	return explore.Group{Name: name, Kind: plan.MachinePool, Version: v(minor)}
}

// chainOf is an upgrade of a Cluster from v1.30 by as many minors, with the groups that stand at v1.30.
func chainOf(steps int, faults explore.Faults, groups ...explore.Group) explore.Config {
	return explore.Config{
		ControlPlane: v(30), Target: v(30 + steps), Sources: []plan.Source{minors(30, 30+steps)}, Groups: groups, Faults: faults,
	}
}

// everySecond answers like an extension that sends workers to every second minor.
func everySecond(controlPlane, workers, target version.Version) plan.Source {
	r := plan.Response{}
	if workers.Minor().Before(controlPlane.Minor()) && (controlPlane.Minor().Minor%2 == 0 || controlPlane == target) {
		r.Workers = append(r.Workers, controlPlane)
	}
	for m := controlPlane.Minor().Next(); !target.Minor().Before(m); m = m.Next() {
		r.ControlPlane = append(r.ControlPlane, v(int(m.Minor)))
		if m.Minor%2 == 0 {
			r.Workers = append(r.Workers, v(int(m.Minor)))
		}
	}
	return r
}

func explorations() map[string]explore.Config {
	all := explore.Unlimited
	creation := chainOf(1, explore.Faults{Cuts: all, Restarts: all, Answers: all, Pauses: 1, Deletions: 1, Races: 1, Retargets: 1},
		explore.Group{Name: "a", Kind: plan.MachineDeployment}, explore.Group{Name: "p", Kind: plan.MachinePool})
	creation.ControlPlane = version.Version{}
	creation.Retargets = []version.Version{v(30)}
	retarget := chainOf(3, explore.Faults{Retargets: 3, Cuts: all, Answers: 1, Races: 1}, md("a", 30), mp("p", 30))
	retarget.Retargets = []version.Version{v(30), v(31), v(32)}
	relist := chainOf(3, explore.Faults{Relists: 2, Outages: 1, Cuts: all, Races: 1}, md("a", 30))
	relist.Sources = append(relist.Sources, plan.VersionList{v(31), v(33)},
		plan.VersionList{v(30), v(31), version.MustParse("v1.31.4"), v(32), version.MustParse("v1.32.1"), v(33)})
	relist.MayEndWithoutPath = true
	mixed := chainOf(2, explore.Faults{Cuts: all, Annotations: 1, Races: 1},
		explore.Group{Name: "a", Kind: plan.MachineDeployment, Version: v(30), Oldest: v(29)}, md("b", 28), mp("p", 30))
	mixed.Concurrency = 2
	together := chainOf(3, explore.Faults{Cuts: all, Restarts: all, Answers: all, Annotations: 2, Races: 1}, md("a", 30), md("b", 30), md("c", 29), mp("p", 30))
	together.Concurrency = 2
	limited := explore.Group{Name: "a", Kind: plan.MachineDeployment, Version: v(30), MaxMinorStep: 1}
	response := chainOf(4, explore.Faults{Cuts: all, Answers: all, Restarts: all, Annotations: 1, Races: 1, Swaps: 1}, md("a", 30), mp("p", 30))
	response.Extension = everySecond
	six := chainOf(6, explore.Faults{Cuts: all, Restarts: all, Answers: all, Outages: 1, Blockers: 1, Annotations: 1, Races: 1, Pauses: 1}, md("a", 30), md("b", 29), md("c", 28), mp("p", 29))
	everything := chainOf(2, explore.Faults{Cuts: 2, Answers: 2, Annotations: 1, Retargets: 1, Outages: 1, Groups: 1, Races: 1, Swaps: 1}, md("a", 30))
	everything.Retargets = []version.Version{v(31)}
	strayed := chainOf(3, explore.Faults{Swaps: 2, Retargets: 2, Answers: 1, Blockers: 1, Races: 1}, md("a", 30))
	strayed.Retargets = []version.Version{v(31), v(32)}
	gates := chainOf(2, explore.Faults{Swaps: 2, Retargets: 1, Answers: 1, Blockers: 1}, md("a", 30))
	gates.Target, gates.Retargets = v(31), []version.Version{v(32)}
	back := chainOf(3, explore.Faults{Swaps: 2, Retargets: 3}, md("a", 30))
	back.Retargets = []version.Version{v(31), v(32)}
	scarce := chainOf(2, explore.Faults{Shortages: 1, Swaps: 2, Cuts: 1}, explore.Group{Name: "a", Kind: plan.MachineDeployment, Version: v(30), Short: true},
		explore.Group{Name: "b", Kind: plan.MachineDeployment, Version: v(29), MaxMinorStep: 1})
	late := chainOf(3, explore.Faults{Lags: 2, Cuts: 2, Restarts: 1, Answers: 1, Retargets: 1, Annotations: 1}, md("a", 30), md("b", 29))
	late.Retargets = []version.Version{v(31), v(32)}
	behind := chainOf(2, explore.Faults{Lags: 1, Races: 1, Retargets: 2}, md("a", 30))
	behind.Target, behind.Retargets = v(31), []version.Version{v(32)}
	swapped := chainOf(2, explore.Faults{Lags: 2, Swaps: 2, Cuts: 1, Answers: 1}, md("a", 30))
	leave := chainOf(6, explore.Faults{Groups: 2, Cuts: 1, Races: 1}, md("a", 30), md("b", 29), mp("p", 28))
	come := chainOf(3, explore.Faults{Groups: 2, Retargets: 2, Cuts: 1, Answers: 1, Races: 1}, md("a", 30), explore.Group{Name: "b", Kind: plan.MachineDeployment, Absent: true})
	come.Target, come.Retargets = v(31), []version.Version{v(32), v(33)}
	one, two := version.MustParse("v1.31.1+rke2r1"), version.MustParse("v1.31.1+rke2r2")
	builds := explore.Config{
		ControlPlane: v(30), Target: two, Retargets: []version.Version{one}, Sources: []plan.Source{plan.VersionList{v(30), one, two}}, Groups: []explore.Group{md("a", 30), mp("p", 30)},
		Faults:            explore.Faults{Cuts: all, Answers: all, Retargets: 2, Races: 1},
		MayEndWithoutPath: true,
	}
	bad, good := patch(31, 99), patch(31, 5)
	broken := chainOf(2, explore.Faults{Retargets: 2, Cuts: 2, Answers: 1, Races: 1, Restarts: 1, Blockers: 1}, md("a", 30), mp("p", 29))
	broken.Target, broken.Retargets, broken.Broken = bad, []version.Version{good, v(32)}, []version.Version{bad}
	broken.Sources, broken.MayEndWithoutPath = []plan.Source{plan.NextMinor{}}, true
	joining := broken
	joining.Target, joining.Retargets = patch(31, 7), []version.Version{good}
	listed := chainOf(2, explore.Faults{Relists: 2, Retargets: 1, Cuts: 1, Lags: 1}, md("a", 30))
	listed.Broken, listed.Retargets = []version.Version{bad}, []version.Version{good}
	listed.Sources = []plan.Source{plan.VersionList{v(30), good, bad, v(32)}, plan.VersionList{v(30), good, v(32)}}
	asked := listed
	asked.Asked, asked.Faults.Outages = true, 1
	strange := chainOf(2, explore.Faults{Relists: 1, Swaps: 2, Retargets: 1, Cuts: 1}, md("a", 30))
	strange.Broken, strange.Retargets, strange.Sources = listed.Broken, listed.Retargets, listed.Sources
	return map[string]explore.Config{
		"a step that is taken back":                      joining,
		"a version without an image":                     broken,
		"a version without an image, in a list":          listed,
		"a version without an image, and an extension":   asked,
		"a version without an image, and another engine": strange,
		"builds of one release":                          builds,
		"one step, everything fails":                     chainOf(1, explore.Faults{Cuts: all, Restarts: all, Answers: all, Blockers: 2, Pauses: 2, Races: 2}, md("a", 30), mp("p", 30)),
		"annotations":                                    chainOf(2, explore.Faults{Cuts: all, Annotations: 4, Races: 1}, md("a", 30), md("b", 30), mp("p", 30)),
		"three groups and a pool":                        together,
		"the target changes":                             retarget,
		"the list changes":                               relist,
		"groups come and go":                             chainOf(2, explore.Faults{Cuts: all, Groups: 3, Races: 1}, md("a", 30), explore.Group{Name: "b", Kind: plan.MachineDeployment, Absent: true}, mp("p", 30)),
		"creation":                                       creation,
		"deletion":                                       chainOf(2, explore.Faults{Cuts: all, Answers: all, Deletions: 1, Races: 2, Pauses: 1}, md("a", 30)),
		"machines at mixed versions":                     mixed,
		"six minors":                                     six,
		"six minors, one at a time in place":             chainOf(6, explore.Faults{Cuts: all, Answers: all, Annotations: 1, Races: 1}, limited, md("b", 30), mp("p", 28)),
		"another engine":                                 chainOf(3, explore.Faults{Swaps: 4, Answers: 2, Annotations: 1, Races: 1}, md("a", 30), mp("p", 29)),
		"another engine, and crashes":                    chainOf(3, explore.Faults{Swaps: 3, Cuts: 3}, md("a", 30)),
		"another engine, and groups":                     chainOf(2, explore.Faults{Swaps: 2, Groups: 2, Annotations: 1, Answers: 1}, md("a", 30), explore.Group{Name: "b", Kind: plan.MachineDeployment, Absent: true}, mp("p", 30)),
		"another engine, and targets":                    strayed,
		"another engine, and gates":                      gates,
		"another engine, there and back":                 back,
		"machines are missing from the start":            scarce,
		"an extension makes the plans":                   response,
		"much at once":                                   everything,
		"late reads":                                     late,
		"late reads, and another engine":                 swapped,
		"late reads, and another target":                 behind,
		"shortages, and another engine":                  chainOf(2, explore.Faults{Shortages: 2, Swaps: 2}, explore.Group{Name: "a", Kind: plan.MachineDeployment, Version: v(30), MaxMinorStep: 1}),
		"machines are missing":                           chainOf(3, explore.Faults{Shortages: 3, Annotations: 1, Cuts: 1, Answers: 1, Races: 1}, md("a", 30), md("b", 29), mp("p", 30)),
		"groups leave on a long way":                     leave,
		"groups come with another target":                come,
		"the clock is set back":                          chainOf(2, explore.Faults{Jumps: 3, Answers: all, Cuts: 2, Restarts: 1}, md("a", 30), mp("p", 30)),
	}
}

// TestExplore visits all that can happen, and without WINDLASS_LONG=1 as much of that as is near the beginning, and checks after every step what must always hold. From every state it
// also lets the world behave, and checks that the upgrade then ends.
func TestExplore(t *testing.T) {
	t.Parallel()
	limit, long := 4_000, os.Getenv("WINDLASS_LONG") == "1"
	if long {
		limit = 3_000_000
	}
	for name, c := range explorations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			report, err := explore.Explore(t.Context(), c, limit)
			if err != nil {
				t.Fatal(err)
			}
			if report.Violation != nil {
				t.Fatal(report.Violation)
			}
			t.Logf("%d states, %d transitions, all: %v, %s", report.States, report.Transitions, report.Complete, time.Since(began).Round(time.Millisecond))
			if long && !report.Complete {
				t.Errorf("not everything is visited in %d states", report.States)
			}
			if report.States < 100 {
				t.Errorf("only %d states: the model does not move", report.States)
			}
		})
	}
}

// TestWalk goes random ways, far into worlds that have too many states to visit them all: three groups and a pool, six minors, and all that can go
// wrong, as often as it likes.
func TestWalk(t *testing.T) {
	t.Parallel()
	walks, steps := 20, 150
	if os.Getenv("WINDLASS_LONG") == "1" {
		walks, steps = 500, 400
	}
	const all = explore.Unlimited
	c := chainOf(6, explore.Faults{
		Cuts: all, Restarts: all, Answers: all, Annotations: all, Blockers: all, Retargets: all, Relists: all, Outages: all, Pauses: all, Groups: all, Races: all, Swaps: all, Lags: all, Shortages: all, Jumps: all,
	}, md("a", 30), md("b", 29), explore.Group{Name: "c", Kind: plan.MachineDeployment, Version: v(30), MaxMinorStep: 1}, mp("p", 28))
	c.Target, c.Retargets = v(32), []version.Version{v(30), v(31), v(33), v(34), v(35), v(36)}
	c.Sources = append(c.Sources, plan.VersionList{v(30), v(31), version.MustParse("v1.31.4"), v(32), version.MustParse("v1.33.1"), v(33), v(34), v(35), v(36)})
	c.Concurrency, c.MayEndWithoutPath = 2, true
	// The other engine has no intents: cut off in the middle it loses what is not ours to find.
	apart := c
	apart.Faults.Swaps = 0
	swapped := c
	swapped.Faults.Cuts = 0
	for name, c := range map[string]explore.Config{"crashes": apart, "engines": swapped, "both": c} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transitions := 0
			for seed := range uint64(walks) {
				report, err := explore.Walk(t.Context(), c, seed, steps)
				if err != nil {
					t.Fatal(err)
				}
				if report.Violation != nil {
					t.Fatalf("seed %d: %s", seed, report.Violation)
				}
				transitions += report.Transitions
			}
			t.Logf("%d walks of %d steps past %d transitions", walks, steps, transitions)
		})
	}
}
