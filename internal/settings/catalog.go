package settings

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Major is that of all minors in the catalog.
const Major = 1

//go:embed catalog.txt
var catalogText string

// catalog has the settings of all components.
var catalog = sync.OnceValue(func() Catalog {
	c, err := ParseCatalog(catalogText)
	if err != nil {
		panic(err) // A test parses it.
	}
	return c
})

// Catalog is which settings the components of a range of minors have.
type Catalog struct {
	// oldest and newest are the first and the last minor. Each one between them is known.
	oldest, newest uint32
	entries        map[key]entry
	// needs is the entries of that kind, in the order of the text.
	needs map[Component][]need
}

// key identifies a setting.
type key struct {
	component Component
	kind      Kind
	name      string
}

// entry is the minors that know a setting, and those that lock a gate to a value.
type entry struct{ known, lockedOn, lockedOff minors }

// minors is a set of minors: bit n stands for minor n.
type minors uint64

// maxMinor is the last minor that minors can hold.
const maxMinor = 63

func (m minors) has(minor uint32) bool { return minor <= maxMinor && m>>minor&1 == 1 }

// first returns the first minor of m from one on; false if there is none.
func (m minors) first(from uint32) (minor uint32, ok bool) {
	for minor = from; minor <= maxMinor; minor++ {
		if m.has(minor) {
			return minor, true
		}
	}
	return 0, false
}

// AllServers stands in a catalog for all components but kubeadm.
const AllServers = "servers"

// allServers is a list of them, as a catalog has it.
const allServers = string(APIServer + "," + ControllerManager + "," + Scheduler + "," + Kubelet + "," + Proxy)

// ParseCatalog parses a catalog. Its first line is "minors OLDEST-NEWEST". Each other line that is
// not empty and no comment is COMPONENTS KIND NAME RANGES [on=RANGES] [off=RANGES]. COMPONENTS are
// separated by commas, or AllServers. RANGES are the minors that know the setting, such as 28-31,33; on and off are
// those that lock a gate to true or false. Lines whose KIND is needs are other: see there.
func ParseCatalog(text string) (Catalog, error) {
	c := Catalog{entries: map[key]entry{}, needs: make(map[Component][]need)}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if err := addLine(&c, fields); err != nil {
			return Catalog{}, fmt.Errorf("the line %q of the catalog: %w", strings.TrimSpace(line), err)
		}
	}
	if c.oldest == 0 || c.newest < c.oldest {
		return Catalog{}, errors.New("the catalog has no line \"minors OLDEST-NEWEST\"")
	}
	return c, nil
}

// addLine adds the settings, or the range of minors, of one line to a catalog.
func addLine(c *Catalog, fields []string) (err error) {
	if fields[0] == "minors" && len(fields) == 2 {
		c.oldest, c.newest, err = parseRange(fields[1])
		return err
	}
	if len(fields) < 4 {
		return fmt.Errorf("it has %d words, want COMPONENTS KIND NAME RANGES", len(fields))
	}
	var e entry
	if e.known, err = parseMinors(fields[3]); err != nil {
		return err
	}
	for _, lock := range fields[4:] {
		value, ranges, _ := strings.Cut(lock, "=")
		into := map[string]*minors{"on": &e.lockedOn, "off": &e.lockedOff}[value]
		if into == nil {
			return fmt.Errorf("%q is no lock", lock)
		}
		if *into, err = parseMinors(ranges); err != nil {
			return err
		}
	}
	components := fields[0]
	if components == AllServers {
		components = allServers
	}
	for component := range strings.SplitSeq(components, ",") {
		k := key{Component(component), Kind(fields[1]), fields[2]}
		c.entries[k] = e
		if gate, other, found := strings.Cut(k.name, "/"); found && k.kind == needs {
			c.needs[k.component] = append(c.needs[k.component], need{gate, other, e})
		}
	}
	return nil
}

func parseMinors(ranges string) (m minors, err error) {
	for part := range strings.SplitSeq(ranges, ",") {
		first, last, err := parseRange(part)
		if err != nil {
			return 0, err
		}
		for minor := first; minor <= last; minor++ {
			m |= 1 << minor
		}
	}
	return m, nil
}

func parseRange(text string) (first, last uint32, err error) {
	from, to, found := strings.Cut(text, "-")
	if !found {
		to = from
	}
	a, errFrom := strconv.ParseUint(from, 10, 32)
	b, errTo := strconv.ParseUint(to, 10, 32)
	if errFrom != nil || errTo != nil || a > b || b > maxMinor {
		return 0, 0, fmt.Errorf("%q is no range of minors", text)
	}
	return uint32(a), uint32(b), nil
}

// BuiltIn returns the catalog in catalog.txt.
func BuiltIn() Catalog { return catalog() }

// Lines returns the settings that a component has in a minor, sorted: "flag NAME", "field PATH",
// "gate NAME", or "gate NAME BOOL" for one that is locked to that value, and "needs GATE/OTHER".
func (c Catalog) Lines(component Component, minor uint32) []string {
	var lines []string
	for k, e := range c.entries {
		if k.component != component || !e.known.has(minor) {
			continue
		}
		line := string(k.kind) + " " + k.name
		switch {
		case e.lockedOn.has(minor):
			line += " true"
		case e.lockedOff.has(minor):
			line += " false"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// describes reports whether the catalog has a minor.
func (c Catalog) describes(m version.Minor) bool {
	return m.Major == Major && m.Minor >= c.oldest && m.Minor <= c.newest
}

// Newest returns the last minor of the built-in catalog.
func Newest() version.Minor { return version.Minor{Major: Major, Minor: catalog().newest} }

// Oldest returns the first minor of the built-in catalog.
func Oldest() version.Minor { return version.Minor{Major: Major, Minor: catalog().oldest} }
