package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Component is a program of Kubernetes.
type Component string

// The components.
const (
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	Kubelet           Component = "kubelet"
	Proxy             Component = "kube-proxy"
	// Kubeadm has gates of its own, in a ClusterConfiguration. It refuses an unknown one only when it
	// makes the first machine of a cluster, so findings about them are warnings.
	Kubeadm Component = "kubeadm"
)

// Components returns all components, in the order of reports.
func Components() []Component {
	return []Component{APIServer, ControllerManager, Scheduler, Kubelet, Proxy, Kubeadm}
}

// Kind is what a setting is.
type Kind string

// The kinds.
const (
	Flag Kind = "flag"
	Gate Kind = "gate"
	// Field is a field of a KubeletConfiguration.
	Field Kind = "field"
)

// Use is a setting that a component is given.
type Use struct {
	// Object is what gives it, such as KubeadmControlPlane prod, and Path where in it.
	Object, Path string
	Component    Component
	Kind         Kind
	// Name is that of a flag, without dashes, or of a gate, or the path of a field.
	Name string
	// Value is that of a gate. It is empty for all others.
	Value string
	// Machines names the machines that get it; empty if all may. Two that are given to different machines
	// have nothing to do with each other.
	Machines string
	// Running says that a component of the version From runs with it.
	Running bool
	// Passing says that the upgrade may replace what gives the setting, so a finding is a warning.
	Passing bool
}

// Upgrade is the versions that an upgrade goes through.
type Upgrade struct {
	// From is the version that runs; zero if it is unknown. To is the target.
	From, To version.Version
}

// minors returns the minors that the components become, in order, or run if To is of the same minor.
func (u Upgrade) minors() []version.Minor {
	from, to := u.From.Minor(), u.To.Minor()
	steps, known := from.Lag(to)
	if u.From.IsZero() || !known || steps == 0 || steps > maxMinor {
		return []version.Minor{to}
	}
	var all []version.Minor
	for from != to {
		from = from.Next()
		all = append(all, from)
	}
	return all
}

// Gap is a minor of an upgrade that the built-in catalog does not describe: nobody knows which
// settings its components have.
type Gap struct {
	// Newer says that the minor is newer than the catalog, or of another major. Otherwise it is older.
	Newer bool
	// Message and Fix are for people.
	Message, Fix string
}

func (g Gap) String() string { return g.Message + ". Fix: " + g.Fix }

// Gaps returns the first minor of the upgrade that is older than the catalog, and the first one that
// is newer. There is none if the catalog describes all of them.
func (u Upgrade) Gaps() []Gap {
	gap := func(m version.Minor, fix string) Gap {
		return Gap{Fix: fix, Message: fmt.Sprintf("the settings of %s are not known to this release, "+
			"which knows %s to %s", m, Oldest(), Newest())}
	}
	var gaps []Gap
	minors := u.minors()
	if first := minors[0]; first.Major == Major && first.Before(Oldest()) {
		gaps = append(gaps, gap(first, "compare the settings with the release notes of the minors before "+
			Oldest().String()))
	}
	isNewer := func(m version.Minor) bool { return Newest().Before(m) || m.Major != Major }
	if at := slices.IndexFunc(minors, isNewer); at >= 0 {
		newer := gap(minors[at], "compare the settings with the release notes, or use a release of "+
			"Windlass that knows this version")
		newer.Newer = true
		gaps = append(gaps, newer)
	}
	return gaps
}

// Problem is what is wrong with a use.
type Problem string

// The problems.
const (
	// Removed: an older minor knows the setting, and the version does not.
	Removed Problem = "Removed"
	// TooNew: only a newer minor knows it.
	TooNew Problem = "TooNew"
	// Unrecognized: no minor of the catalog knows it.
	Unrecognized Problem = "Unrecognized"
	// Locked: the version accepts only the other value.
	Locked Problem = "Locked"
	// Needed: the gate turns off what another one needs, which is on.
	Needed Problem = "Needed"
	// Needy: the gate needs another one, which is off.
	Needy Problem = "Needy"
	// Mismatched: packages are of another version than the machines.
	Mismatched Problem = "Mismatched"
)

// Finding is a use of a setting that a version lacks.
type Finding struct {
	Use
	Problem Problem
	// At is the first minor of the upgrade that lacks the setting, and Since the first one without it
	// from which on it lacks it; zero for Unrecognized.
	At, Since version.Minor
	// Other is the other gate if the problem is Needed or Needy.
	Other string
	// Warning says that the upgrade may succeed all the same: the component ignores the setting, runs
	// with it although the catalog does not have it, or may not get it.
	Warning bool
}

// Check returns what is wrong with uses, sorted: errors first. Minors that the catalog does not
// describe are left out; see [Upgrade.Gaps].
func Check(u Upgrade, uses []Use) []Finding { return catalog().Check(u, uses) }

// Check is the function of the same name for this catalog.
func (c Catalog) Check(u Upgrade, uses []Use) []Finding {
	var found []Finding
	set := newGateValues(uses)
	for _, use := range uses {
		for _, minor := range u.minors() {
			f, ok := c.judge(u, use, set, minor)
			if !ok {
				continue
			}
			_, before := c.judge(u, use, set, u.From.Minor())
			// The catalog does not describe the build that runs.
			builtElsewhere := use.Running && before
			mayRead := f.Kind == API && f.Problem == Unrecognized
			f.Warning = f.Kind == Field || f.Component == Kubeadm || builtElsewhere || f.Passing || mayRead
			found = append(found, f)
			break
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(compareBool(a.Warning, b.Warning),
			slices.Index(Components(), a.Component)-slices.Index(Components(), b.Component),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Object, b.Object), cmp.Compare(a.Path, b.Path))
	})
	return slices.Compact(found)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// judge returns what is wrong with a use in a minor of an upgrade, beside the gates that are set; ok is
// false for nothing.
func (c Catalog) judge(u Upgrade, use Use, set gateValues, minor version.Minor) (f Finding, ok bool) {
	switch use.Kind {
	case API:
		return examineAPI(use, minor)
	case Fixed:
		return examineFixed(use, set, minor)
	case Packages:
		return examinePackages(use, u, minor)
	case Flag, Gate, Field:
	}
	return c.examine(use, set, minor)
}

// examine is judge for what the catalog has.
func (c Catalog) examine(use Use, set gateValues, minor version.Minor) (f Finding, ok bool) {
	if !c.describes(minor) {
		return f, false
	}
	e := c.entries[key{use.Component, use.Kind, use.Name}]
	f = Finding{Use: use, At: minor}
	at := func(minor uint32) version.Minor { return version.Minor{Major: Major, Minor: minor} }
	if e.known.has(minor.Minor) {
		on, err := strconv.ParseBool(use.Value)
		locks := e.lockedOff
		if !on {
			locks = e.lockedOn
		}
		if err == nil && locks.has(minor.Minor) {
			f.Problem, f.Since = Locked, at(c.since(minor.Minor, locks.has))
			return f, true
		}
		n, ok := c.broken(use, set, minor)
		if !ok {
			return f, false
		}
		f.Problem, f.Other, f.Since = Needy, n.other, at(c.since(minor.Minor, n.known.has))
		if n.other == use.Name {
			f.Problem, f.Other = Needed, n.gate
		}
		return f, true
	}
	lacks := func(m uint32) bool { return !e.known.has(m) }
	since := c.since(minor.Minor, lacks)
	next, later := e.known.first(minor.Minor)
	switch {
	case since > c.oldest:
		f.Problem, f.Since = Removed, at(since)
	case later:
		f.Problem, f.Since = TooNew, at(next)
	default:
		f.Problem = Unrecognized
	}
	return f, true
}

// since returns the first of the minors up to one for all of which is holds.
func (c Catalog) since(minor uint32, is func(uint32) bool) uint32 {
	for minor > c.oldest && is(minor-1) {
		minor--
	}
	return minor
}

// Setting names what a use sets, for people: --cloud-provider, or the gate Foo=true.
func (u Use) Setting() string {
	name := text.Bound(u.Name, maxNameBytes)
	switch u.Kind {
	case Flag:
		return "the flag --" + name
	case Field:
		return "the field " + name
	case API:
		return "the file's API " + name
	case Fixed:
		return "the value " + name
	case Packages:
		return "packages of " + name
	case Gate:
	}
	if _, err := strconv.ParseBool(u.Value); err == nil {
		name += "=" + u.Value
	}
	return "the feature gate " + name
}

// maxNameBytes bounds what is shown of the name of a setting.
const maxNameBytes = 100

// ID identifies a finding in lists of those that are accepted: the component and the setting, such
// as kube-apiserver/--cloud-provider, kubelet/SomeGate, kubelet/.someField, or for the API of a file
// kube-scheduler/GROUP/VERSION/KIND.
func (f Finding) ID() string {
	name := text.Bound(f.Name, maxNameBytes)
	switch f.Kind {
	case Flag:
		name = "--" + name
	case Field:
		name = "." + name
	case Packages:
		name = "packages=" + name
	case Gate, API, Fixed:
	}
	return string(f.Component) + "/" + name
}

// Subject is where the setting is.
func (f Finding) Subject() string {
	return strings.TrimSuffix(f.Object+", "+f.Path, ", ")
}

// Message says what is wrong: component, setting, and since which version.
func (f Finding) Message() string {
	var problem string
	switch f.Problem {
	case Removed:
		problem = fmt.Sprintf("is removed in %s", f.Since)
	case TooNew:
		problem = fmt.Sprintf("exists only from %s on, and the upgrade goes through %s", f.Since, f.At)
	case Locked:
		problem = fmt.Sprintf("is locked to the other value since %s", f.Since)
	case Needed:
		problem = fmt.Sprintf("turns off what the gate %s needs since %s", f.Other, f.Since)
	case Needy:
		problem = fmt.Sprintf("needs the gate %s since %s, which is off by default", f.Other, f.Since)
	case Unrecognized:
		problem = fmt.Sprintf("is unknown to %s", f.At)
	case Mismatched:
		return fmt.Sprintf("new machines install kubeadm and the kubelet of %s, and an upgrade to %s "+
			"does not change that; they join with another version than their Machine has, or not at all",
			text.Bound(f.Name, maxNameBytes), f.At)
	}
	return fmt.Sprintf("%s of %s %s", f.Setting(), f.Component, problem) + f.outcome()
}

// outcome says what the component does.
func (f Finding) outcome() string {
	switch {
	case f.Kind == Field:
		return "; the kubelet ignores the field"
	case f.Component == Kubeadm:
		return "; kubeadm init refuses it, and other commands of kubeadm print a warning"
	case f.Kind == API && f.Problem == Unrecognized:
		return "; the component does not start if it does not know it"
	case f.Passing:
		return "; the component would not start with it, unless the upgrade replaces the setting"
	case f.Warning:
		return " as released, although the component runs with it today"
	}
	return "; the component would not start"
}

// Fix says what a person can do.
func (f Finding) Fix() string {
	fix := "remove it before the upgrade"
	switch {
	case f.Problem == Mismatched:
		return "have the commands and files install the new version, together with the version of the " +
			"object, or use an image that has it; accept it by the name " + f.ID()
	case f.Kind == API:
		fix = f.fixAPI()
	case f.Kind == Fixed:
		known, _ := findRejected(f.Component, f.Name)
		fix = known.fix
	case f.Problem == Removed && f.Kind == Flag:
		fix += f.keptElsewhere()
	case f.Problem == Locked:
		fix = "remove it, or set it to the other value, before the upgrade"
	case f.Problem == Needed || f.Problem == Needy:
		fix = fmt.Sprintf("remove it, or set %s=%t, too, before the upgrade", f.Other, f.Problem == Needy)
	case f.Problem == TooNew:
		fix = fmt.Sprintf("remove it, and set it again once %s runs", f.Since)
	case f.Problem == Unrecognized && f.Kind != Field:
		fix = "remove it, or correct its spelling, before the upgrade"
	}
	return fix + "; accept it by the name " + f.ID() + " if this build has it"
}

// keptElsewhere names the components for which the flag is not to be removed, because they still have it.
func (f Finding) keptElsewhere() string {
	var others []string
	for _, c := range Components() {
		if catalog().entries[key{c, Flag, f.Name}].known.has(f.At.Minor) {
			others = append(others, string(c))
		}
	}
	if len(others) == 0 {
		return ""
	}
	return ", but keep it where it is set for " + strings.Join(others, " or ")
}

// fixAPI says which API the file can have.
func (f Finding) fixAPI() string {
	_, use, _ := findAPI(f.Component, f.Name)
	switch f.Problem {
	case Removed:
		return fmt.Sprintf("write the file as %s of %s before the upgrade", use.kind, use.version)
	case TooNew:
		return fmt.Sprintf("write the file in an older API until %s runs", f.Since)
	case Unrecognized, Locked, Needed, Needy, Mismatched:
	}
	return "correct its apiVersion and kind"
}

// Accepted returns findings without those that are accepted by name.
func Accepted(found []Finding, names []string) []Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool {
		return slices.Contains(names, f.ID())
	})
}

// Errors returns the findings that are no warnings.
func Errors(found []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.Warning })
}

// LacksArg reports whether a version accepts nothing of an argument of a component, and nobody has
// accepted it by name. One that the version would ignore, or may not get, does not count, and a gate
// that only other gates make wrong does not either.
func LacksArg(v version.Version, accepted []string, c Component, arg Arg) bool {
	uses := FromArgs(Place{}, c, []Arg{arg})
	found := slices.DeleteFunc(Errors(Accepted(Check(Upgrade{To: v}, uses), accepted)),
		func(f Finding) bool { return f.Problem == Needed || f.Problem == Needy })
	return len(uses) > 0 && len(found) == len(uses)
}

// Describe says what is wrong, in one line for at most three findings, and what to do about the first.
func Describe(found []Finding) string {
	words := text.Some{Most: 3}
	for _, f := range found {
		words.Add(f.Subject() + ": " + f.Message())
	}
	return words.Join("; ") + ". Fix: " + found[0].Fix()
}
