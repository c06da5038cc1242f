package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// drawRoute draws what a control plane could go through: patches, pre-releases and builds with and without an order,
// one minor at a time, the current version first.
func drawRoute(t *rapid.T) []version.Version {
	minor := rapid.IntRange(23, 30).Draw(t, "first minor")
	var route []version.Version
	last := rapid.IntRange(0, 6).Draw(t, "minors") + minor
	for ; minor <= last; minor++ {
		for _, release := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"0-rc.0", "0-rc.1", "0", "1", "2"}), 1, 3, rapid.ID).Draw(t, "releases") {
			builds := rapid.SampledFrom([][]string{{""}, {"+rke2r1", "+rke2r2"}, {"+b", "+a"}, {"+vmware.1", "+vmware.2"}}).Draw(t, "builds")
			for _, build := range builds {
				route = append(route, version.MustParse(fmt.Sprintf("v1.%d.%s%s", minor, release, build)))
			}
		}
	}
	return version.Sorted(route)
}

// drawRequest draws a legal route with groups at or behind its first version.
func drawRequest(t *rapid.T) plan.Request {
	route := drawRoute(t)
	request := plan.Request{
		Inventory: plan.Inventory{ControlPlane: route[0]},
		Target:    route[len(route)-1],
		Source:    plan.Response{ControlPlane: route[1:]},
		Policy:    plan.Policy{Workers: rapid.SampledFrom([]plan.Workers{plan.WorkersShared, plan.WorkersPerGroup}).Draw(t, "workers")},
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "groups") {
		behind := rapid.Uint32Range(0, 2).Draw(t, "behind")
		at := route[0]
		if behind > 0 {
			at = version.MustParse(fmt.Sprintf("v1.%d.7+other", route[0].Minor().Minor-behind))
		}
		request.Inventory.Groups = append(request.Inventory.Groups, plan.Group{
			Name: fmt.Sprintf("g%d", i), Version: at,
			Kind:         rapid.SampledFrom([]plan.GroupKind{plan.MachineDeployment, plan.MachinePool}).Draw(t, "kind"),
			MaxMinorStep: rapid.Uint32Range(0, 3).Draw(t, "limit"),
		})
	}
	return request
}

func TestEveryPlanIsLegalAndResumable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := drawRequest(t)
		p, err := plan.Compute(request)
		if err != nil {
			if known, ok := errors.AsType[*plan.Error](err); !ok || known.Rule != plan.RuleTransition {
				t.Fatalf("a legal route with workers in reach of it has no plan: %v", err)
			}
			return
		}
		for i, o := range p.Operations {
			remaining := request
			if given, ok := remaining.Source.(plan.Response); ok {
				given.ControlPlane = after(given.ControlPlane, request.Inventory.ControlPlane)
				remaining.Source = given
			}
			again, err := plan.Compute(remaining)
			if err != nil || sequence(again.Operations) != sequence(p.Operations[i:]) {
				t.Fatalf("replanning before operation %d of %q gives %q, %v", i, sequence(p.Operations), sequence(again.Operations), err)
			}
			carryOut(t, &request.Inventory, o)
			if o.Kind == plan.ControlPlaneUpgrade {
				request.Inventory.WorkersUpgrading = i+1 < len(p.Operations) && p.Operations[i+1].Kind == plan.WorkersUpgrade
			}
		}
		for _, g := range request.Inventory.Groups {
			if g.Version != request.Target {
				t.Fatalf("%q leaves %s at %s", sequence(p.Operations), g.Name, g.Version)
			}
		}
	})
}

// after returns what a control plane at current still has to go through.
func after(route []version.Version, current version.Version) []version.Version {
	for i, v := range route {
		if v == current {
			return route[i+1:]
		}
	}
	return route
}

func carryOut(t *rapid.T, inventory *plan.Inventory, o plan.Operation) {
	if o.Kind == plan.ControlPlaneUpgrade {
		inventory.ControlPlane = o.To
	} else if o.To != inventory.ControlPlane {
		t.Fatalf("workers go to %s while the control plane is at %s", o.To, inventory.ControlPlane)
	}
	groups := append([]plan.Group(nil), inventory.Groups...)
	for i := range groups {
		for _, name := range o.Groups {
			if groups[i].Name == name {
				if c := version.Compare(o.To, groups[i].Version); c == version.Less || c == version.Equal || groups[i].Version != o.From {
					t.Fatalf("group %s at %s is sent from %s to %s", name, groups[i].Version, o.From, o.To)
				}
				groups[i].Version = o.To
			}
		}
		if !version.KubernetesSkew().Allows(groups[i].Version.Minor(), inventory.ControlPlane.Minor()) {
			t.Fatalf("group %s at %s is not legal beside a control plane at %s", groups[i].Name, groups[i].Version, inventory.ControlPlane)
		}
	}
	inventory.Groups = groups
}

func TestOwnAnswerIsAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := drawRequest(t)
		request.Policy.Workers = plan.WorkersShared
		p, err := plan.Compute(request)
		if err != nil {
			return
		}
		request.Source = plan.Response{ControlPlane: p.ControlPlane, Workers: p.Workers}
		again, err := plan.Compute(request)
		if err != nil {
			t.Fatalf("control plane %s, workers %s is refused: %v", list(p.ControlPlane), list(p.Workers), err)
		}
		if list(again.ControlPlane) != list(p.ControlPlane) || list(again.Workers) != list(p.Workers) {
			t.Fatalf("%s and %s became %s and %s", list(p.ControlPlane), list(p.Workers), list(again.ControlPlane), list(again.Workers))
		}
	})
}

func TestTheListsOrderDoesNotMatterWhereVersionsHaveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		versions := rapid.SliceOfNDistinct(rapid.StringMatching(`v1\.(29|3[0-3])\.[0-9](-rc\.[0-2])?(\+vmware\.[0-3])?`), 2, 12, rapid.ID).Draw(t, "versions")
		ordered, err := version.ParseList(versions)
		if err != nil {
			t.Fatal(err)
		}
		shuffled := rapid.Permutation(ordered).Draw(t, "shuffled")
		request := plan.Request{Inventory: plan.Inventory{ControlPlane: v("v1.28.0")}, Target: version.Sorted(ordered)[len(ordered)-1]}
		request.Source = plan.VersionList(ordered)
		a, errA := plan.Compute(request)
		request.Source = plan.VersionList(shuffled)
		b, errB := plan.Compute(request)
		if diff := cmp.Diff(a, b); diff != "" || (errA == nil) != (errB == nil) {
			t.Fatalf("the order of the list changed the plan (%v, %v):\n%s", errA, errB, diff)
		}
	})
}

func TestGraphWithoutRulesIsAVersionList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := drawRequest(t)
		request.Inventory.Groups = nil
		response, ok := request.Source.(plan.Response)
		if !ok {
			t.Fatalf("the source is a %T", request.Source)
		}
		versions := response.ControlPlane
		request.Source = plan.VersionList(versions)
		fromList, errList := plan.Compute(request)
		request.Source = plan.Graph{Versions: versions}
		fromGraph, errGraph := plan.Compute(request)
		if list(fromList.ControlPlane) != list(fromGraph.ControlPlane) || (errList == nil) != (errGraph == nil) {
			t.Fatalf("list: %s, %v; graph: %s, %v", list(fromList.ControlPlane), errList, list(fromGraph.ControlPlane), errGraph)
		}
	})
}

// FuzzCompute feeds the planner with anything that parses: it must answer or refuse, and what it answers must hold.
func FuzzCompute(f *testing.F) {
	f.Add("v1.29.0", "v1.33.0", chain29to33, "", "v1.29.0 v1.28.0", uint8(0), uint32(0), false)
	f.Add("v1.30.1+rke2r1", "v1.30.1+rke2r2", "v1.30.1+rke2r2", "v1.30.1+rke2r2", "v1.30.1+rke2r1", uint8(1), uint32(1), true)
	f.Add("v1.29.0", "v1.4000000000.0", "v1.4000000000.0", "", "v1.29.0", uint8(2), uint32(4000000000), false)
	f.Fuzz(func(t *testing.T, controlPlane, target, listed, workers, fleet string, source uint8, limit uint32, begun bool) {
		current, err := version.Parse(controlPlane)
		if err != nil {
			return
		}
		goal, err := version.Parse(target)
		if err != nil {
			return
		}
		versions, err := version.ParseList(strings.Fields(listed))
		if err != nil {
			return
		}
		stops, err := version.ParseList(strings.Fields(workers))
		if err != nil {
			return
		}
		request := plan.Request{Inventory: plan.Inventory{ControlPlane: current, WorkersUpgrading: begun}, Target: goal}
		for i, s := range strings.Fields(fleet) {
			at, err := version.Parse(s)
			if err != nil {
				return
			}
			request.Inventory.Groups = append(request.Inventory.Groups, plan.Group{Name: fmt.Sprint(i), Version: at, MaxMinorStep: limit})
		}
		switch source % 4 {
		case 0:
			request.Source = plan.VersionList(versions)
		case 1:
			request.Source = plan.Response{ControlPlane: versions, Workers: stops}
		case 2:
			request.Source = plan.Graph{Versions: versions, Floors: []plan.Floor{{Before: goal.Minor(), AtLeast: current}}}
		default:
			request.Source = plan.NextMinor{}
		}
		p, err := plan.Compute(request)
		if len(plan.Explain(request).Lines) == 0 {
			t.Fatalf("nothing explains %+v", request)
		}
		if err != nil {
			if _, ok := errors.AsType[*plan.Error](err); !ok {
				t.Fatalf("%v is not a *plan.Error", err)
			}
			return
		}
		if n := len(p.ControlPlane); current != goal && (n == 0 || p.ControlPlane[n-1] != goal) {
			t.Fatalf("the control plane goes through %s and not to %s", list(p.ControlPlane), goal)
		}
	})
}
