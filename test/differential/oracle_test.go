package differential

import (
	"errors"
	"fmt"
	"slices"
)

// verdict is what the oracle says about an input: why there is no legal plan, or what a legal plan must look like.
type verdict struct {
	err error
	way
	// fewest is the number of worker stops that a plan needs at least, when no list of stops was given.
	fewest int
}

// judge applies the rules to an input in normal form. It follows the reference of the GenerateUpgradePlan hook, the
// proposal "Chained and efficient upgrades", and https://kubernetes.io/releases/version-skew-policy/.
func judge(in input) verdict {
	list, err := selectRoute(in)
	if err == nil {
		err = checkRoute(in, list)
	}
	if err != nil {
		return verdict{err: err}
	}
	v := verdict{way: in.wayOver(list)}
	if v.err = checkGroups(in, v.way); v.err != nil {
		return v
	}
	if in.source == fromResponse && len(in.workers) > 0 {
		v.err = v.checkStops(in.groups, in.workers)
		v.fewest = len(in.workers)
		return v
	}
	v.fewest, v.err = v.fewestStops(in.groups)
	return v
}

func (in input) wayOver(list []kver) way {
	w := way{route: append([]kver{in.controlPlane}, list...)}
	if in.source == fromList {
		w.listed = in.list
	}
	return w
}

func selectRoute(in input) ([]kver, error) {
	if in.source == fromResponse {
		return in.list, nil
	}
	if in.controlPlane == in.target {
		return nil, nil
	}
	if in.source == fromNextMinor {
		if in.controlPlane.lag(in.target) > 1 {
			return nil, errors.New("the next minor at most")
		}
		return []kver{in.target}, nil
	}
	at := slices.Index(in.list, in.target)
	if at < 0 {
		return nil, errors.New("the target is not in the list")
	}
	if compare(in.controlPlane, in.target) == unordered && slices.Index(in.list, in.controlPlane) > at {
		return nil, errors.New("the list puts the target before the current version")
	}
	var route []kver
	for minor := in.controlPlane.minor + 1; minor < in.target.minor; minor++ {
		// The list is in order, so the last of a minor is its latest.
		for _, k := range slices.Backward(in.list) {
			if k.minor == minor && k.major == in.target.major {
				route = append(route, k)
				break
			}
		}
	}
	return append(route, in.target), nil
}

// checkRoute holds the rules for controlPlaneUpgrades.
func checkRoute(in input, list []kver) error {
	if in.controlPlane == in.target {
		if len(list) > 0 {
			return errors.New("the control plane is at the target already")
		}
		return nil
	}
	if len(list) == 0 || list[len(list)-1] != in.target {
		return errors.New("the last version is not the target")
	}
	for i, k := range list {
		previous := in.controlPlane
		if i > 0 {
			previous = list[i-1]
		}
		step := previous.lag(k)
		switch {
		case k.major != previous.major:
			return fmt.Errorf("%s: another major", k)
		case !after(k, in.controlPlane) || slices.ContainsFunc(list[:i], func(earlier kver) bool { return !after(k, earlier) }):
			// Neighbours alone would not do: builds without an order between two others hide that the second is older.
			return fmt.Errorf("%s: not greater than what comes before", k)
		case step < 0 || step > 1:
			return fmt.Errorf("%s: a minor is skipped", k)
		case compare(k, in.target) == newer:
			return fmt.Errorf("%s: newer than the target", k)
		}
	}
	return nil
}

// after reports whether a may follow b in a list: it is greater, or another build of the same release.
func after(a, b kver) bool {
	c := compare(a, b)
	return c == newer || c == unordered
}

func checkGroups(in input, w way) error {
	for _, g := range in.groups {
		if !skewAllows(g.at, in.controlPlane) {
			return fmt.Errorf("group at %s: illegal beside a control plane at %s", g.at, in.controlPlane)
		}
		if g.at != in.target && !w.behind(g.at, w.last()) {
			return fmt.Errorf("group at %s: newer than the target", g.at)
		}
	}
	return nil
}

// skewAllows: kubelet is never newer in minors, lags two minors, or three from kubelet v1.25 on (KEP-3935).
func skewAllows(kubelet, controlPlane kver) bool {
	lag := kubelet.lag(controlPlane)
	return kubelet.major == controlPlane.major && lag >= 0 && (lag <= 2 || lag == 3 && kubelet.minor >= 25)
}

// way is the control plane's route, the current version first, and what decides between versions without an order.
type way struct {
	route []kver
	// listed is ClusterClass.spec.kubernetesVersions.
	listed []kver
}

func (w way) last() int { return len(w.route) - 1 }

// behind reports whether workers at a version are upgraded by going to a position of the route. Where versions have no
// order of their own, the route decides when it holds both, and then the ClusterClass's list. A version that neither holds
// came before: workers follow the control plane.
func (w way) behind(at kver, position int) bool {
	to := w.route[position]
	if c := compare(at, to); c != unordered {
		return c == older
	}
	if on := slices.Index(w.route, at); on >= 0 {
		return on < position
	}
	if listedAt, listedTo := slices.Index(w.listed, at), slices.Index(w.listed, to); listedAt >= 0 && listedTo >= 0 {
		return listedAt < listedTo
	}
	return true
}

// checkStops holds the rules for workersUpgrades, by playing them: the control plane goes its way, and at every stop the
// groups that are behind it follow.
func (w way) checkStops(groups []group, stops []kver) error {
	at := slices.Clone(groups)
	pending := slices.ContainsFunc(at, func(g group) bool { return w.behind(g.at, w.last()) })
	if !pending {
		return errors.New("nothing to upgrade, but stops are listed")
	}
	next := 0
	for position, controlPlane := range w.route {
		for _, g := range at {
			if !skewAllows(g.at, controlPlane) {
				return fmt.Errorf("group at %s when the control plane is at %s", g.at, controlPlane)
			}
		}
		if next == len(stops) || stops[next] != controlPlane {
			continue
		}
		moved := false
		for i, g := range at {
			if !w.behind(g.at, position) {
				continue
			}
			if g.limit > 0 && g.at.lag(controlPlane) > g.limit {
				return fmt.Errorf("group at %s cannot jump to %s", g.at, controlPlane)
			}
			at[i].at, moved = controlPlane, true
		}
		if !moved {
			return fmt.Errorf("stop %s: no group is behind it", controlPlane)
		}
		next++
	}
	if next < len(stops) {
		return fmt.Errorf("stop %s: not on the control plane's way, or out of order", stops[next])
	}
	for _, g := range at {
		if w.behind(g.at, w.last()) {
			return fmt.Errorf("group left at %s", g.at)
		}
	}
	return nil
}

// fewestStops tries every way to stop. After a stop every group is there, unless it was ahead of it already, so the
// place of the last stop is all that needs remembering.
func (w way) fewestStops(groups []group) (int, error) {
	const impossible = 1 << 20
	memo := map[int]int{}
	var from func(last int) int
	from = func(last int) int {
		if known, ok := memo[last]; ok {
			return known
		}
		at := slices.Clone(groups)
		pending := false
		for i := range at {
			if last >= 0 && w.behind(at[i].at, last) {
				at[i].at = w.route[last]
			}
			pending = pending || w.behind(at[i].at, w.last())
		}
		best := impossible
		position := max(last, 0)
		for ; position <= w.last(); position++ {
			if slices.ContainsFunc(at, func(g group) bool { return !skewAllows(g.at, w.route[position]) }) {
				break
			}
			if position > last && w.canMove(at, position) {
				best = min(best, 1+from(position))
			}
		}
		if !pending && position > w.last() {
			best = 0
		}
		memo[last] = best
		return best
	}
	n := from(-1)
	if n >= impossible {
		return 0, errors.New("workers cannot follow")
	}
	return n, nil
}

// canMove reports whether a stop moves some group, and no group further than it can go.
func (w way) canMove(at []group, position int) bool {
	moved := false
	for _, g := range at {
		if !w.behind(g.at, position) {
			continue
		}
		if g.limit > 0 && g.at.lag(w.route[position]) > g.limit {
			return false
		}
		moved = true
	}
	return moved
}
