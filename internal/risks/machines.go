package risks

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Pattern is a regular expression of Go.
type Pattern struct{ compiled *regexp.Regexp }

// String returns the expression.
func (p Pattern) String() string {
	if p.compiled == nil {
		return ""
	}
	return p.compiled.String()
}

// IsZero reports whether there is none.
func (p Pattern) IsZero() bool { return p.compiled == nil }

// UnmarshalText compiles an expression.
func (p *Pattern) UnmarshalText(text []byte) (err error) {
	if len(text) > MaxTextBytes {
		return fmt.Errorf("a pattern has %d bytes, and %d is the most", len(text), MaxTextBytes)
	}
	if p.compiled, err = regexp.Compile(string(text)); err != nil {
		return fmt.Errorf("compiling a pattern: %w", err)
	}
	return nil
}

// matches reports whether a text matches. One that is not known does.
func (p Pattern) matches(text string) bool {
	return p.IsZero() || text == "" || p.compiled.MatchString(text)
}

// Host is what a Node reports of its machine. Empty fields are not known.
type Host struct{ Kernel, Runtime, OS string }

// HostsOf returns the kinds of machines, each once, sorted. An entry may be nil.
func HostsOf(nodes []*corev1.NodeSystemInfo) []Host {
	var hosts []Host
	for _, info := range nodes {
		if info != nil {
			hosts = append(hosts, Host{
				Kernel: info.KernelVersion, Runtime: info.ContainerRuntimeVersion, OS: info.OSImage,
			})
		}
	}
	slices.SortFunc(hosts, func(a, b Host) int {
		return cmp.Or(cmp.Compare(a.Kernel, b.Kernel), cmp.Compare(a.Runtime, b.Runtime),
			cmp.Compare(a.OS, b.OS))
	})
	return slices.Compact(hosts)
}

// matches reports whether a cluster has such a machine; it may have if none is known.
func (m MachineMatcher) matches(f Facts) bool {
	return len(f.Hosts) == 0 || slices.ContainsFunc(f.Hosts, func(h Host) bool {
		return m.Kernel.matches(h.Kernel) && m.Runtime.matches(h.Runtime) && m.OS.matches(h.OS)
	})
}
