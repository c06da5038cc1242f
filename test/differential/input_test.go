package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// source says where an input's versions come from.
type source int

const (
	fromNextMinor source = iota
	fromList
	fromResponse
)

// group is a worker group of an input.
type group struct {
	at kver
	// pool makes it a MachinePool.
	pool bool
	// limit is the most minors that its update method can do at once; 0 is no limit.
	limit int
}

// input is one random case.
type input struct {
	controlPlane, target kver
	groups               []group
	source               source
	// list is ClusterClass.spec.kubernetesVersions (fromList), or controlPlaneUpgrades (fromResponse).
	list []kver
	// workers is workersUpgrades (fromResponse).
	workers []kver
}

func (in input) clone() input {
	in.groups, in.list, in.workers = slices.Clone(in.groups), slices.Clone(in.list), slices.Clone(in.workers)
	return in
}

// spelled is the input with a v before every version.
func (in input) spelled() input {
	n := in.clone()
	n.controlPlane, n.target, n.list, n.workers = in.controlPlane.canon(), in.target.canon(), canons(in.list), canons(in.workers)
	for i := range n.groups {
		n.groups[i].at = n.groups[i].at.canon()
	}
	return n
}

// normal is the input with a v before every version, and with the list of versions in increasing order: the form that
// both planners agree to read.
func (in input) normal() input {
	n := in.spelled()
	if n.source == fromList {
		sortVersions(n.list)
	}
	return n
}

// sortVersions sorts by insertion, which leaves versions without an order of their own as they stand.
func sortVersions(list []kver) {
	for i := range list {
		for j := i; j > 0 && compare(list[j-1], list[j]) == newer; j-- {
			list[j-1], list[j] = list[j], list[j-1]
		}
	}
}

func (in input) request() (plan.Request, error) {
	var r plan.Request
	var err error
	if r.Inventory.ControlPlane, err = version.Parse(in.controlPlane.String()); err != nil {
		return r, err
	}
	if r.Target, err = version.Parse(in.target.String()); err != nil {
		return r, err
	}
	for i, g := range in.groups {
		at, err := version.Parse(g.at.String())
		if err != nil {
			return r, err
		}
		kind := plan.MachineDeployment
		if g.pool {
			kind = plan.MachinePool
		}
		r.Inventory.Groups = append(r.Inventory.Groups, plan.Group{
			Name: fmt.Sprintf("group-%d", i), Kind: kind, Version: at, MaxMinorStep: uint32(g.limit),
		})
	}
	list, err := version.ParseList(strs(in.list))
	if err != nil {
		return r, err
	}
	workers, err := version.ParseList(strs(in.workers))
	if err != nil {
		return r, err
	}
	switch in.source {
	case fromNextMinor:
		r.Source = plan.NextMinor{}
	case fromList:
		r.Source = plan.VersionList(list)
	case fromResponse:
		r.Source = plan.Response{ControlPlane: list, Workers: workers}
	}
	return r, nil
}

// String prints the input as a case of the table in TestWorkedCases.
func (in input) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "{\n\tcontrolPlane: %q, target: %q,\n", in.controlPlane, in.target)
	if len(in.groups) > 0 {
		items := make([]string, 0, len(in.groups))
		for _, g := range in.groups {
			item := g.at.String()
			if g.limit > 0 {
				item += fmt.Sprintf(",maxMinorStep=%d", g.limit)
			}
			if g.pool {
				item += ",kind=MachinePool"
			}
			items = append(items, item)
		}
		fmt.Fprintf(&b, "\tgroups: %s,\n", literal(items))
	}
	switch in.source {
	case fromNextMinor:
	case fromList:
		fmt.Fprintf(&b, "\tversions: %s,\n", literal(strs(in.list)))
	case fromResponse:
		fmt.Fprintf(&b, "\tresponse: true, controlPlaneUpgrades: %s, workersUpgrades: %s,\n", literal(strs(in.list)), literal(strs(in.workers)))
	}
	b.WriteString("}")
	return b.String()
}

// literal is items as a Go expression.
func literal(items []string) string {
	if len(items) == 0 {
		return "nil"
	}
	return fmt.Sprintf("[]string{%s}", strings.Join(quoted(items), ", "))
}

func quoted(items []string) []string {
	q := make([]string, 0, len(items))
	for _, item := range items {
		q = append(q, fmt.Sprintf("%q", item))
	}
	return q
}
