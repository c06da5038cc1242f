package settings

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Machine is what a kubelet needs beside its settings. The zero value meets everything.
type Machine struct {
	// CgroupV1 says that the machine has cgroups of version 1 only, and CgroupV1Allowed that the
	// kubelet's configuration has failCgroupV1: false.
	CgroupV1, CgroupV1Allowed bool
	// KubeletArgs says that the kubelet gets its settings from kubelet-arg, as with RKE2 and K3s.
	KubeletArgs bool
	// InPlace says that kubeadm upgrades the machine. Otherwise a new machine like it joins.
	InPlace bool
	// Unverified says that kubeadm ignores its check SystemVerification, which asks for the kernel.
	Unverified bool
	// Runtime is the container runtime as a Node reports it, such as containerd://1.7.24. Kernel is
	// the kernel's release. Both may be empty.
	Runtime, Kernel string
}

// Requirement is what a version needs and a machine lacks.
type Requirement struct {
	// ID is the name by which it is accepted.
	ID, Message, Fix string
	// Warning says that the kubelet starts all the same.
	Warning bool
}

func (r Requirement) String() string {
	return r.Message + ". Fix: " + r.Fix + "; accept it by the name " + r.ID
}

// The names of requirements.
const (
	CgroupV2   = "cgroup-v2"
	Containerd = "containerd-2"
	Kernel     = "kernel"
)

// The first minors that kubelets do not start with, by their released sources. Those with a containerd
// of version 1 are announced for v1.38: the kubelet then has no fallback for a runtime without
// RuntimeConfig. It was announced for v1.36, and deferred twice.
var (
	cgroupV2From    = version.Minor{Major: 1, Minor: 35}
	containerdWarns = version.Minor{Major: 1, Minor: 36}
	containerdFrom  = version.Minor{Major: 1, Minor: 38}
)

// CheckMachine returns what a minor needs and a machine lacks.
func CheckMachine(to version.Minor, m Machine) []Requirement {
	var wants []Requirement
	if m.CgroupV1 && !m.CgroupV1Allowed && !to.Before(cgroupV2From) {
		allow := "failCgroupV1: false in the kubelet's configuration and let kubeadm ignore " +
			"SystemVerification"
		if m.KubeletArgs {
			allow = "kubelet-arg: [fail-cgroupv1=false]"
		}
		wants = append(wants, Requirement{
			ID: CgroupV2,
			Message: fmt.Sprintf("the machine has cgroups of version 1, with which kubelets of %s and "+
				"later do not start", cgroupV2From),
			Fix: "boot it with cgroups of version 2 (systemd.unified_cgroup_hierarchy=1), or set " + allow,
		})
	}
	if strings.HasPrefix(m.Runtime, "containerd://1.") && !to.Before(containerdWarns) {
		wants = append(wants, Requirement{
			ID: Containerd, Warning: to.Before(containerdFrom),
			Message: fmt.Sprintf("the container runtime is %s; kubelets of %s are announced not to start "+
				"without containerd 2", text.Bound(m.Runtime, maxNameBytes), containerdFrom),
			Fix: "update containerd to version 2 in time",
		})
	}
	if r, lacks := checkKernel(to, m); lacks && !m.Unverified {
		wants = append(wants, r)
	}
	return wants
}

// CheckMachine returns what the minors of an upgrade need and a machine lacks: of each requirement the
// first one that is no warning, or else the first one.
func (u Upgrade) CheckMachine(m Machine) []Requirement {
	var wants []Requirement
	for _, minor := range u.minors() {
		for _, want := range CheckMachine(minor, m) {
			at := slices.IndexFunc(wants, func(r Requirement) bool { return r.ID == want.ID })
			switch {
			case at < 0:
				wants = append(wants, want)
			case wants[at].Warning && !want.Warning:
				wants[at] = want
			}
		}
	}
	return wants
}

// SystemVerification is kubeadm's name for its check of the machine.
const SystemVerification = "SystemVerification"

// IgnoresVerification reports whether the machines that an object makes join although kubeadm's check
// SystemVerification fails. That counts for joining only: a cluster's first machine is there already.
func IgnoresVerification(o Object) bool {
	spec := o.Content["spec"]
	if inner := below(spec, "template", "spec"); inner != nil {
		spec = inner
	}
	switch o.Kind {
	case "KubeadmControlPlane", "KubeadmControlPlaneTemplate":
		spec = below(spec, "kubeadmConfigSpec")
	case "KubeadmConfig", "KubeadmConfigTemplate":
	default:
		return false
	}
	names := wordsOf(below(spec, "joinConfiguration", "nodeRegistration", "ignorePreflightErrors"))
	return IgnoresCheck(names, SystemVerification)
}

// IgnoresCheck reports whether kubeadm ignores that a check fails if it is given names to ignore. It
// compares them without case, and takes all for every check.
func IgnoresCheck(names []string, check string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return strings.EqualFold(name, check) || strings.EqualFold(name, "all")
	})
}

// printedByContainerd is the version in what containerd prints: containerd, the source of the build,
// the version with or without a v, and a commit.
var printedByContainerd = regexp.MustCompile(`^containerd \S+ v?(\d+\.\d+\S*)`)

// ParseContainerd returns the runtime, as a Node reports it, of what containerd --version prints; empty
// for another text.
func ParseContainerd(printed string) string {
	match := printedByContainerd.FindStringSubmatch(printed)
	if match == nil {
		return ""
	}
	return "containerd://" + match[1]
}

// kernelRelease is the start of a kernel's release.
var kernelRelease = regexp.MustCompile(`^(\d{1,4})\.(\d{1,4})`)

// checkKernel compares a kernel with the oldest one that kubeadm's SystemVerification lists: 4.19 for
// v1.32, and 5.4 for v1.34, from which on another one is only a warning. Of the kernels 5.x kubeadm
// then lists 5.4, 5.10 and 5.15; distributions support others. kubeadm join looks at the kernel in all
// of these, kubeadm upgrade from v1.33 on. Sources: k8s.io/system-validators as kubeadm v1.31 to v1.36
// require it, RunUpgradeChecks of kubeadm, and kubernetes#129462.
func checkKernel(to version.Minor, m Machine) (r Requirement, lacks bool) {
	match := kernelRelease.FindStringSubmatch(m.Kernel)
	if match == nil {
		return r, false
	}
	major, _ := strconv.Atoi(match[1])
	minor, _ := strconv.Atoi(match[2])
	at := func(n uint32) bool { return !to.Before(version.Minor{Major: 1, Minor: n}) }
	isBefore := func(a, b int) bool { return major < a || major == a && minor < b }
	var listed string
	warns, fix := at(34), "update the kernel"
	switch {
	case warns && isBefore(5, 4):
		listed = "5.4 and later"
	case at(32) && !warns && isBefore(4, 19):
		listed = "4.19 and later"
		fix += ", or let kubeadm ignore SystemVerification (nodeRegistration.ignorePreflightErrors)"
	default:
		return r, false
	}
	return Requirement{
		ID: Kernel, Warning: warns || m.InPlace && !at(33),
		Message: fmt.Sprintf("the kernel is %s; kubeadm of %s supports %s",
			text.Bound(m.Kernel, maxNameBytes), to, listed),
		Fix: fix,
	}, true
}
