package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// generator makes one input. Two thirds of the inputs stay as a legal chain is built; the others are bent afterwards.
type generator struct{ *rand.Rand }

// newGenerator gives input number index of a seed its own source, so that it can be made again by itself.
func newGenerator(seed, index uint64) generator {
	return generator{rand.New(rand.NewPCG(seed, index))}
}

// chance is true with probability p.
func (g generator) chance(p float64) bool { return g.Float64() < p }

func pick[T any](g generator, items ...T) T { return items[g.IntN(len(items))] }

const (
	// Kubelets up to v1.24 may lag less than newer ones. A part of the inputs starts among them.
	oldStart, oldStarts = 24, 4
	newStart, newStarts = 28, 9
)

func (g generator) input() input {
	start := newStart + g.IntN(newStarts)
	if g.chance(0.15) {
		start = oldStart + g.IntN(oldStarts)
	}
	span := pick(g, 0, 0, 1, 1, 2, 3, 3, 4, 4, 5, 6, 7)
	in := input{source: pick(g, fromNextMinor, fromList, fromList, fromResponse, fromResponse)}
	if in.source == fromNextMinor {
		span = pick(g, 0, 1, 1, 1, 2)
	}
	offered := g.catalogue(start-5, start+span+1)
	now := g.indexOfMinor(offered, start)
	goal := g.indexOfMinor(offered, start+span)
	now, goal = min(now, goal), max(now, goal)
	in.controlPlane, in.target = offered[now], offered[goal]
	in.groups = g.groups(offered[:now+1], in.controlPlane)
	switch in.source {
	case fromNextMinor:
	case fromList:
		in.list = slices.Clone(offered[g.IntN(now+1):])
	case fromResponse:
		in.list = g.route(offered, now, goal)
		in.workers = g.stops(in)
	}
	if g.chance(0.33) {
		for range 1 + g.IntN(2) {
			g.bend(&in, offered)
		}
	}
	return in
}

// catalogue makes all versions on offer, in order, at least one for every minor.
func (g generator) catalogue(from, to int) []kver {
	style := pick(g, "", "", "", "", "rke2", "rke2", "vmware", "vmware", "mixed")
	var offered []kver
	for minor := from; minor <= to; minor++ {
		patch := g.IntN(3)
		for range 1 + g.IntN(3) {
			k := kver{major: 1, minor: minor, patch: patch}
			if g.chance(0.08) {
				k.pre = pick(g, "alpha.1", "alpha.3", "beta.0", "rc.0", "rc.1", "rc.10")
			}
			for n := range g.builds(style) {
				k.build = g.build(style, n)
				offered = append(offered, k)
			}
			patch += 1 + g.IntN(3)
		}
	}
	return slices.Compact(offered)
}

func (g generator) builds(style string) int {
	if style == "" {
		return 1
	}
	return 1 + g.IntN(3)
}

func (g generator) build(style string, n int) string {
	switch style {
	case "rke2":
		return fmt.Sprintf("rke2r%d", n+1)
	case "vmware":
		return fmt.Sprintf("vmware.%d", n+1)
	case "mixed":
		return g.anyBuild()
	default:
		return ""
	}
}

func (g generator) anyBuild() string {
	return pick(g, "", "rke2r1", "rke2r2", "vmware.1", "vmware.2", "vmware.10", "vmware.1.2", "7", "12", "c0ffee", "k3s1", "k3s1.2")
}

func (g generator) indexOfMinor(offered []kver, minor int) int {
	var of []int
	for i, k := range offered {
		if k.minor == minor {
			of = append(of, i)
		}
	}
	return pick(g, of...)
}

// groups makes worker groups at or below the control plane.
func (g generator) groups(reached []kver, controlPlane kver) []group {
	gs := make([]group, pick(g, 0, 1, 1, 1, 2, 2, 2, 3, 3))
	limited := g.chance(0.06)
	for i := range gs {
		lag := pick(g, 0, 0, 0, 0, 1, 1, 2, 2, 3)
		gs[i] = group{at: reached[g.indexOfMinor(reached, controlPlane.minor-lag)], pool: g.chance(0.3)}
		if lag == 0 && g.chance(0.6) {
			gs[i].at = controlPlane
		}
		if limited && g.chance(0.7) {
			gs[i].limit = 1 + g.IntN(3)
		}
	}
	return gs
}

// route picks the control plane's versions: at least one of every minor between, any number within.
func (g generator) route(offered []kver, now, goal int) []kver {
	var list []kver
	for i := now + 1; i <= goal; i++ {
		lastOfMinor := i+1 < len(offered) && offered[i+1].minor != offered[i].minor
		had := offered[i].minor == offered[now].minor || len(list) > 0 && list[len(list)-1].minor == offered[i].minor
		if i == goal || lastOfMinor && !had || g.chance(0.25) {
			list = append(list, offered[i])
		}
	}
	return list
}

// stops picks stops of workers, or leaves them to be inferred.
func (g generator) stops(in input) []kver {
	if g.chance(0.45) {
		return nil
	}
	w := in.wayOver(in.list)
	var some, all []kver
	for position, k := range w.route {
		if slices.ContainsFunc(in.groups, func(gr group) bool { return w.behind(gr.at, position) }) {
			all = append(all, k)
			if position == w.last() || g.chance(0.5) {
				some = append(some, k)
			}
		}
	}
	if len(some) > 0 && w.checkStops(in.groups, some) == nil {
		return some
	}
	return all
}

// bend changes an input in one place.
func (g generator) bend(in *input, offered []kver) {
	switch pick(g, "list", "list", "list", "workers", "workers", "group", "target", "bare", "major", "done") {
	case "list":
		in.list = g.bendList(in.list, offered)
	case "workers":
		if in.source == fromResponse {
			in.workers = g.bendList(in.workers, offered)
		}
	case "group":
		g.bendGroup(in, offered)
	case "target":
		in.target = pick(g, offered...)
		if g.chance(0.5) && len(in.list) > 0 {
			in.target = pick(g, in.list...)
		}
	case "bare":
		g.bendSpelling(in)
	case "major":
		k := g.anyVersion(in)
		k.major = pick(g, 0, 2)
	case "done":
		// The control plane is there already, and only workers are left.
		in.controlPlane = in.target
		if g.chance(0.7) && in.source == fromResponse {
			in.list = nil
		}
	}
}

func (g generator) bendList(list, offered []kver) []kver {
	list = slices.Clone(list)
	if len(list) == 0 {
		return []kver{pick(g, offered...)}
	}
	i := g.IntN(len(list))
	switch pick(g, "drop", "swap", "repeat", "beyond", "insert", "build", "build", "move") {
	case "drop":
		return slices.Delete(list, i, i+1)
	case "swap":
		j := g.IntN(len(list))
		list[i], list[j] = list[j], list[i]
	case "repeat":
		return slices.Insert(list, g.IntN(len(list)+1), list[i])
	case "beyond":
		return append(list, offered[len(offered)-1])
	case "insert":
		return slices.Insert(list, i, pick(g, offered...))
	case "build":
		list[i].build = g.anyBuild()
	case "move":
		k := list[i]
		list = slices.Delete(list, i, i+1)
		return slices.Insert(list, g.IntN(len(list)+1), k)
	}
	return list
}

func (g generator) bendGroup(in *input, offered []kver) {
	if len(in.groups) == 0 {
		in.groups = []group{{at: pick(g, offered...)}}
		return
	}
	gr := &in.groups[g.IntN(len(in.groups))]
	switch pick(g, "any", "build", "target", "patch") {
	case "any":
		gr.at = pick(g, offered...)
	case "build":
		gr.at = in.controlPlane
		gr.at.build = g.anyBuild()
	case "target":
		gr.at = in.target
	case "patch":
		gr.at.patch++
	}
}

func (g generator) bendSpelling(in *input) {
	if g.chance(0.5) {
		g.anyVersion(in).bare = true
		return
	}
	for i := range in.list {
		in.list[i].bare = true
	}
	in.target.bare = g.chance(0.5)
}

// anyVersion is one of an input's versions, to change it.
func (g generator) anyVersion(in *input) *kver {
	places := []*kver{&in.controlPlane, &in.target}
	for i := range in.groups {
		places = append(places, &in.groups[i].at)
	}
	for i := range in.list {
		places = append(places, &in.list[i])
	}
	for i := range in.workers {
		places = append(places, &in.workers[i])
	}
	return pick(g, places...)
}
