package settings

import (
	"strconv"

	"github.com/windlass-dev/windlass/pkg/version"
)

// needs is the kind of the lines of a catalog that say which gate can be on only while another one
// is: a component of v1.35 or newer ends otherwise. The name of such a setting is GATE/OTHER, and it
// is locked to true where both are on by default, and to false where both are off.
const needs = "needs"

// need is one such line.
type need struct {
	gate, other string
	entry
}

// gateValue is a gate that is set to a value: by an object, or for machines.
type gateValue struct {
	component        Component
	object, machines string
	name             string
	value            bool
}

// gateValues are the gates that uses set.
type gateValues map[gateValue]bool

// anyMachines is the key of what some use sets, for whatever machines.
const anyMachines = "*"

func newGateValues(uses []Use) gateValues {
	set := gateValues{}
	for _, u := range uses {
		value, err := strconv.ParseBool(u.Value)
		if u.Kind != Gate || err != nil {
			continue
		}
		for _, v := range []gateValue{
			{object: u.Object}, {machines: u.Machines}, {machines: anyMachines},
		} {
			v.component, v.name, v.value = u.Component, u.Name, value
			set[v] = true
		}
	}
	return set
}

// anywhere reports whether a use for the same machines, or for all, sets a gate of a use's component to a
// value. A use for all machines is met by one for any.
func (g gateValues) anywhere(use Use, name string, value bool) bool {
	has := func(machines string) bool {
		return g[gateValue{component: use.Component, machines: machines, name: name, value: value}]
	}
	if use.Machines == "" {
		return has(anyMachines)
	}
	return has(use.Machines) || has("")
}

// beside reports whether the object of a use sets another gate to a value.
func (g gateValues) beside(use Use, name string, value bool) bool {
	return g[gateValue{component: use.Component, object: use.Object, name: name, value: value}]
}

// setsMany reports whether a gate sets others: what is on then depends on their stages.
func (g gateValues) setsMany(use Use) bool {
	for _, name := range []string{"AllAlpha", "AllBeta"} {
		if g.anywhere(use, name, true) || g.anywhere(use, name, false) {
			return true
		}
	}
	return false
}

// broken returns a need that a use breaks in a minor: it turns off what a gate needs that is on, or
// turns on a gate whose other one is off by default. Gates that other objects set count where they
// meet the need.
func (c Catalog) broken(use Use, set gateValues, minor version.Minor) (n need, ok bool) {
	value, err := strconv.ParseBool(use.Value)
	if use.Kind != Gate || err != nil || set.setsMany(use) {
		return n, false
	}
	for _, n := range c.needs[use.Component] {
		if n.known.has(minor.Minor) && n.brokenBy(use, value, set, minor.Minor) {
			return n, true
		}
	}
	return n, false
}

func (n need) brokenBy(use Use, value bool, set gateValues, minor uint32) bool {
	switch {
	case value && n.gate == use.Name:
		return n.lockedOff.has(minor) && !set.anywhere(use, n.other, true)
	case !value && n.other == use.Name:
		isOn := n.lockedOn.has(minor) || set.beside(use, n.gate, true)
		return isOn && !set.anywhere(use, n.gate, false)
	}
	return false
}
