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
type Host struct {
	Kernel, Runtime, OS string
	// Unverified says that kubeadm ignores its check SystemVerification there.
	Unverified bool
}

// HostOf returns what a Node reports. Nothing is known without it.
func HostOf(info *corev1.NodeSystemInfo) Host {
	if info == nil {
		return Host{}
	}
	return Host{
		Kernel: info.KernelVersion, Runtime: info.ContainerRuntimeVersion, OS: info.OSImage,
	}
}

// Kinds returns the kinds of machines, each once, sorted.
func Kinds(hosts []Host) []Host {
	hosts = slices.Clone(hosts)
	slices.SortFunc(hosts, func(a, b Host) int {
		return cmp.Or(cmp.Compare(a.Kernel, b.Kernel), cmp.Compare(a.Runtime, b.Runtime),
			cmp.Compare(a.OS, b.OS), compareBool(a.Unverified, b.Unverified))
	})
	return slices.Compact(hosts)
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

// matches reports whether a cluster has such a machine; it may have if none is known.
func (m MachineMatcher) matches(f Facts) bool {
	return len(f.Hosts) == 0 || slices.ContainsFunc(f.Hosts, func(h Host) bool {
		return m.Kernel.matches(h.Kernel) && m.Runtime.matches(h.Runtime) && m.OS.matches(h.OS) &&
			(!m.SystemVerification || !h.Unverified)
	})
}
