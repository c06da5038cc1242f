package plan_test

import (
	"fmt"
	"testing"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// The sweep goes over every combination of control plane, two groups and target from v1.24 to v1.36 and every
// transition limit, and compares with a search that knows nothing of the planner: only the rules, written down once more.
const (
	oldestMinor = 24
	newestMinor = 36
	minorCount  = newestMinor - oldestMinor + 1
	// maxLimit is beyond what skew ever allows, so that limits that cannot matter are covered too.
	maxLimit   = 4
	impossible = 1 << 20
)

func sweepVersion(minor int) version.Version { return v(fmt.Sprintf("v1.%d.0", minor)) }

// skewAllows is https://kubernetes.io/releases/version-skew-policy/ in minors of major version 1.
func skewAllows(kubelet, controlPlane int) bool {
	lag := controlPlane - kubelet
	return lag >= 0 && (lag <= 2 || lag == 3 && kubelet >= 25)
}

// search finds by brute force the fewest worker stops for groups that stop together.
type search struct {
	target, start int
	limits        []int
	memo          map[[3]int]int
}

func (s *search) fewest(controlPlane int, at []int) int {
	for _, w := range at {
		if !skewAllows(w, controlPlane) {
			return impossible
		}
	}
	key := [3]int{controlPlane, at[0], at[len(at)-1]}
	if known, ok := s.memo[key]; ok {
		return known
	}
	best := impossible
	if controlPlane == s.target && at[0] == s.target && at[len(at)-1] == s.target {
		best = 0
	}
	if controlPlane < s.target {
		best = min(best, s.fewest(controlPlane+1, at))
	}
	// Workers may go to any version that the control plane has had since the start, not only to its present one.
	for to := s.start; to <= controlPlane; to++ {
		if moved, ok := s.move(at, to); ok {
			best = min(best, 1+s.fewest(controlPlane, moved))
		}
	}
	s.memo[key] = best
	return best
}

func (s *search) move(at []int, to int) (moved []int, ok bool) {
	for i, w := range at {
		switch {
		case w >= to:
			moved = append(moved, w)
		case s.limits[i] > 0 && to-w > s.limits[i]:
			return nil, false
		default:
			moved, ok = append(moved, to), true
		}
	}
	return moved, ok
}

func TestSweep(t *testing.T) {
	versions := plan.VersionList{}
	for minor := oldestMinor; minor <= newestMinor; minor++ {
		versions = append(versions, sweepVersion(minor))
	}
	limits := maxLimit
	if testing.Short() {
		limits = 1
	}
	plans, refused := 0, 0
	for controlPlane := oldestMinor; controlPlane <= newestMinor; controlPlane++ {
		for target := oldestMinor; target <= newestMinor; target++ {
			for limitA := 0; limitA <= limits; limitA++ {
				for limitB := 0; limitB <= limits; limitB++ {
					both := &search{target: target, start: controlPlane, limits: []int{limitA, limitB}, memo: map[[3]int]int{}}
					alone := [2]*search{
						{target: target, start: controlPlane, limits: []int{limitA}, memo: map[[3]int]int{}},
						{target: target, start: controlPlane, limits: []int{limitB}, memo: map[[3]int]int{}},
					}
					for a := oldestMinor; a <= newestMinor; a++ {
						for b := oldestMinor; b <= newestMinor; b++ {
							c := sweepCase{
								controlPlane: controlPlane, target: target, at: [2]int{a, b}, limits: [2]int{limitA, limitB}, versions: versions,
								wantShared: impossible, wantOwn: [2]int{impossible, impossible},
							}
							if target >= controlPlane {
								c.wantShared = both.fewest(controlPlane, []int{a, b})
								c.wantOwn = [2]int{alone[0].fewest(controlPlane, []int{a}), alone[1].fewest(controlPlane, []int{b})}
							}
							if c.check(t) {
								plans++
							} else {
								refused++
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d plans checked operation by operation, %d requests refused, limits 0 to %d", plans, refused, limits)
	if plans == 0 || refused == 0 {
		t.Fatal("the sweep must meet both legal and illegal requests")
	}
}

type sweepCase struct {
	controlPlane, target int
	at, limits           [2]int
	versions             plan.VersionList
	wantShared           int
	wantOwn              [2]int
}

func (c sweepCase) request(workers plan.Workers) plan.Request {
	return plan.Request{
		Inventory: plan.Inventory{
			ControlPlane: sweepVersion(c.controlPlane),
			Groups: []plan.Group{
				{Name: "a", Version: sweepVersion(c.at[0]), MaxMinorStep: uint32(c.limits[0])},
				{Name: "b", Version: sweepVersion(c.at[1]), MaxMinorStep: uint32(c.limits[1])},
			},
		},
		Target: sweepVersion(c.target), Source: c.versions, Policy: plan.Policy{Workers: workers},
	}
}

// check compares one case with the search, and reports whether a plan exists.
func (c sweepCase) check(t *testing.T) bool {
	t.Helper()
	shared, err := plan.Compute(c.request(plan.WorkersShared))
	if possible := c.wantShared < impossible; possible != (err == nil) {
		t.Fatalf("%+v: the search says possible=%t, the planner says %v", c, possible, err)
	}
	if err != nil {
		return false
	}
	own, err := plan.Compute(c.request(plan.WorkersPerGroup))
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	if len(shared.Workers) != c.wantShared || len(own.Groups[0].Upgrades) != c.wantOwn[0] || len(own.Groups[1].Upgrades) != c.wantOwn[1] {
		t.Fatalf("%+v: stops: shared %s, own %s and %s", c, list(shared.Workers), list(own.Groups[0].Upgrades), list(own.Groups[1].Upgrades))
	}
	c.replay(t, plan.WorkersShared, shared)
	c.replay(t, plan.WorkersPerGroup, own)
	return true
}

// replay carries a plan out, checks every rule after every operation, and that a plan made there is the rest.
func (c sweepCase) replay(t *testing.T, workers plan.Workers, p plan.Plan) {
	t.Helper()
	request := c.request(workers)
	request.Inventory.Groups = append([]plan.Group(nil), request.Inventory.Groups...)
	for i, o := range p.Operations {
		again, err := plan.Compute(request)
		if err != nil || sequence(again.Operations) != sequence(p.Operations[i:]) {
			t.Fatalf("%+v, %s: replanning before operation %d of %q gives %q, %v", c, workers, i, sequence(p.Operations), sequence(again.Operations), err)
		}
		apply(t, &request.Inventory, o)
		if o.Kind == plan.ControlPlaneUpgrade {
			// Cluster API records the intent to upgrade workers when it sends the control plane to the version of a stop.
			request.Inventory.WorkersUpgrading = i+1 < len(p.Operations) && p.Operations[i+1].Kind == plan.WorkersUpgrade
		}
	}
	for _, g := range request.Inventory.Groups {
		if g.Version != request.Target || request.Inventory.ControlPlane != request.Target {
			t.Fatalf("%+v, %s: %q ends with the control plane at %s and group %s at %s", c, workers, sequence(p.Operations), request.Inventory.ControlPlane, g.Name, g.Version)
		}
	}
}

// apply carries out one operation on an inventory and checks what must hold then.
func apply(t *testing.T, inventory *plan.Inventory, o plan.Operation) {
	t.Helper()
	at := func(v version.Version) int { return int(v.Minor().Minor) }
	if o.Kind == plan.ControlPlaneUpgrade {
		if o.From != inventory.ControlPlane || at(o.To) != at(o.From)+1 {
			t.Fatalf("the control plane is at %s and the operation is %s -> %s", inventory.ControlPlane, o.From, o.To)
		}
		inventory.ControlPlane = o.To
	}
	moving := map[string]bool{}
	for _, name := range o.Groups {
		moving[name] = true
	}
	for i := range inventory.Groups {
		g := &inventory.Groups[i]
		if moving[g.Name] {
			jump := at(o.To) - at(g.Version)
			if g.Version != o.From || jump <= 0 || g.MaxMinorStep > 0 && jump > int(g.MaxMinorStep) {
				t.Fatalf("group %s at %s, limit %d, is sent from %s to %s", g.Name, g.Version, g.MaxMinorStep, o.From, o.To)
			}
			g.Version = o.To
		}
		if !skewAllows(at(g.Version), at(inventory.ControlPlane)) {
			t.Fatalf("group %s at %s is not legal beside a control plane at %s", g.Name, g.Version, inventory.ControlPlane)
		}
	}
}
