package explore_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/simulate/explore"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

func patch(minor, patch int) version.Version {
	return version.MustParse(fmt.Sprintf("v1.%d.%d", minor, patch))
}

// answer is that of an extension which leaves stops to be inferred.
func answer(controlPlane, _, target version.Version) plan.Source {
	var r plan.Response
	for m := controlPlane.Minor().Next(); m.Before(target.Minor()); m = m.Next() {
		r.ControlPlane = append(r.ControlPlane, v(int(m.Minor)))
	}
	if controlPlane != target {
		r.ControlPlane = append(r.ControlPlane, target)
	}
	return r
}

// offers are places where versions come from. All offer every minor from the first to the last.
func offers(first, last int) map[string]func(*explore.Config) {
	var plain, patched plan.VersionList
	var graph plan.Graph
	for minor := first; minor <= last; minor++ {
		plain = append(plain, v(minor))
		patched = append(patched, v(minor), patch(minor, 3))
		graph.Versions = append(graph.Versions, v(minor), patch(minor, 7))
		// Every minor is entered from the last patch of the one before it.
		graph.Floors = append(graph.Floors, plan.Floor{Before: v(minor + 1).Minor(), AtLeast: patch(minor, 7)})
	}
	ruled := plan.Graph{Versions: graph.Versions, Stops: []plan.StopRule{
		{Groups: []string{"a"}, EveryMinor: true}, {Groups: []string{"p", "b"}, At: []plan.Match{plan.MatchMinor(v(first + 1).Minor())}},
	}}
	return map[string]func(*explore.Config){
		"nothing":             func(c *explore.Config) { c.Sources = []plan.Source{plan.NextMinor{}} },
		"a list":              func(c *explore.Config) { c.Sources = []plan.Source{plain} },
		"a list with patches": func(c *explore.Config) { c.Sources = []plan.Source{patched} },
		"a graph with floors": func(c *explore.Config) { c.Sources = []plan.Source{graph} },
		"a graph with rules":  func(c *explore.Config) { c.Sources = []plan.Source{ruled} },
		"an extension":        func(c *explore.Config) { c.Extension = answer },
	}
}

// fleets are groups that lag behind a control plane, by so many minors.
func fleets(controlPlane int) map[string][]explore.Group {
	group := func(name string, kind plan.GroupKind, lag int, step uint32) explore.Group {
		return explore.Group{Name: name, Kind: kind, Version: v(controlPlane - lag), MaxMinorStep: step}
	}
	const md, mp = plan.MachineDeployment, plan.MachinePool
	return map[string][]explore.Group{
		"no groups":            nil,
		"one, even":            {group("a", md, 0, 0)},
		"one, a minor behind":  {group("a", md, 1, 0)},
		"one, two behind":      {group("a", md, 2, 0)},
		"one, three behind":    {group("a", md, 3, 0)},
		"three, at three":      {group("a", md, 0, 0), group("b", md, 2, 0), group("p", mp, 1, 0)},
		"in place beside pool": {group("a", md, 0, 1), group("b", md, 1, 1), group("p", mp, 3, 0)},
		"the pool leads":       {group("a", md, 2, 2), group("p", mp, 0, 0), group("q", mp, 1, 1)},
	}
}

// TestEveryChain runs every upgrade from six minors back to one minor ahead through decisions, engine and simulated world, to its end: as many steps
// as the plan has, to the versions that it names, and never against an invariant.
func TestEveryChain(t *testing.T) {
	t.Parallel()
	currents := []int{31, 36}
	if os.Getenv("WINDLASS_LONG") == "1" {
		currents = []int{27, 28, 29, 30, 31, 32, 33, 34, 35, 36}
	}
	began, chains, refused, steps := time.Now(), 0, 0, 0
	for _, current := range currents {
		for from := current - 6; from <= current+1; from++ {
			for to := from; to <= current+1; to++ {
				for offer, set := range offers(from, to) {
					for name, groups := range fleets(from) {
						c := explore.Config{ControlPlane: v(from), Target: v(to), Groups: groups, MayEndWithoutPath: true}
						set(&c)
						n, err := checkChain(t, c, groups)
						if err != nil {
							t.Fatalf("from v1.%d to v1.%d by %s, %s: %v", from, to, offer, name, err)
						}
						if n < 0 {
							refused++
							continue
						}
						chains++
						steps += n
					}
				}
			}
		}
	}
	t.Logf("%d chains with %d steps, %d pairs without a legal chain, %s", chains, steps, refused, time.Since(began).Round(time.Millisecond))
	if chains < 1000 {
		t.Errorf("only %d chains", chains)
	}
}

// checkChain runs one chain and returns how many steps it took; below zero when there is no legal one, and nothing was done.
func checkChain(t *testing.T, c explore.Config, groups []explore.Group) (int, error) {
	t.Helper()
	request := plan.Request{Inventory: plan.Inventory{ControlPlane: c.ControlPlane}, Target: c.Target, Policy: plan.Policy{Workers: plan.WorkersPerGroup}}
	if c.Extension != nil {
		request.Source = c.Extension(c.ControlPlane, version.Version{}, c.Target)
	} else {
		request.Source = c.Sources[0]
	}
	for _, g := range groups {
		request.Inventory.Groups = append(request.Inventory.Groups, plan.Group{Name: g.Name, Kind: g.Kind, Version: g.Version, MaxMinorStep: g.MaxMinorStep})
	}
	want, planErr := plan.Compute(request)
	w, err := explore.New(c)
	if err != nil {
		return 0, err
	}
	course, err := w.Finish()
	switch {
	case err != nil:
		return 0, err
	case planErr != nil:
		return -1, checkRefused(course, planErr)
	case course.Reason != chain.UpToDate:
		return 0, errors.New("it ends with " + string(course.Reason))
	}
	stops, total := map[string][]version.Version{}, len(want.ControlPlane)
	for _, g := range want.Groups {
		if len(g.Upgrades) > 0 {
			stops[g.Name] = g.Upgrades
			total += len(g.Upgrades)
		}
	}
	if diff := cmp.Diff(want.ControlPlane, course.ControlPlane); diff != "" {
		return 0, fmt.Errorf("the control plane's steps (-plan +course):\n%s", diff)
	}
	if diff := cmp.Diff(stops, course.Groups); diff != "" {
		return 0, fmt.Errorf("the groups' stops (-plan +course):\n%s", diff)
	}
	return total, nil
}

// checkRefused checks that nothing is done where there is no legal chain.
func checkRefused(course explore.Course, planErr error) error {
	if course.Reason != chain.NoPath || len(course.ControlPlane) > 0 || len(course.Groups) > 0 {
		return fmt.Errorf("there is no legal chain (%w), and it went %v %v to %s", planErr, course.ControlPlane, course.Groups, course.Reason)
	}
	return nil
}

// TestBuildsOfOneRelease goes where only a list says what is newer.
func TestBuildsOfOneRelease(t *testing.T) {
	t.Parallel()
	one, two := version.MustParse("v1.33.1+rke2r1"), version.MustParse("v1.33.1+rke2r2")
	list := plan.VersionList{version.MustParse("v1.32.4+rke2r1"), one, two}
	for name, c := range map[string]explore.Config{
		"the build alone":  {ControlPlane: one, Target: two, Groups: []explore.Group{{Name: "a", Kind: plan.MachineDeployment, Version: one}}},
		"a minor as well":  {ControlPlane: list[0], Target: two, Groups: []explore.Group{{Name: "a", Kind: plan.MachineDeployment, Version: list[0]}}},
		"only the workers": {ControlPlane: two, Target: two, Groups: []explore.Group{{Name: "a", Kind: plan.MachineDeployment, Version: one}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Sources = []plan.Source{list}
			if _, err := checkChain(t, c, c.Groups); err != nil {
				t.Error(err)
			}
		})
	}
}
