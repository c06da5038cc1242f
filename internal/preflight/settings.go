package preflight

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/text"
)

// maxUnreadBytes bounds what is shown of sources that could not be read.
const maxUnreadBytes = 1024

// Settings are those of the components of a cluster.
type Settings struct {
	Uses []settings.Use
	// Accepted are names of findings that are left out; see [settings.Finding.ID].
	Accepted []string
	// Unread says which sources of settings could not be read, and why.
	Unread []Unread
	// Unasked says which kubelets did not tell their feature gates; empty for none. What they are given
	// is in the other sources, unless it is configured on the host alone.
	Unasked string
	// ControlPlaneWrites says that a KubeadmControlPlane replaces the configuration of kubeadm in the
	// cluster by its own.
	ControlPlaneWrites bool
	// Kept are the names of Nodes whose machines an UpdatePolicy keeps, so their own files stay.
	Kept []string
	// Unverified are those where kubeadm's check SystemVerification is ignored.
	Unverified []string
}

// Unread is an error of reading, and who read.
type Unread struct {
	User clustercheck.User
	Err  error
}

// CheckMachines finds what the upgrade needs of the machines and Nodes report to lack: a version of
// the container runtime, and of the kernel. A control plane goes through each minor on the way.
func CheckMachines(
	u Upgrade, of risks.Distribution, nodes []corev1.Node, s Settings,
) []clustercheck.Finding {
	type lack struct{ id, message, fix string }
	on, warns := map[lack][]string{}, map[lack]bool{}
	for i := range nodes {
		name, info := nodes[i].Name, nodes[i].Status.NodeInfo
		machine := settings.Machine{
			Runtime: info.ContainerRuntimeVersion,
			InPlace: slices.Contains(s.Kept, name), Unverified: slices.Contains(s.Unverified, name),
		}
		if of == risks.Kubeadm {
			machine.Kernel = info.KernelVersion // It is kubeadm that asks for a kernel.
		}
		upgrade := settings.Upgrade{To: u.To}
		if _, isControlPlane := nodes[i].Labels[controlPlaneLabel]; isControlPlane {
			upgrade.From = u.From
		}
		for _, want := range upgrade.CheckMachine(machine) {
			if !slices.Contains(s.Accepted, want.ID) {
				l := lack{want.ID, want.Message, want.Fix}
				on[l], warns[l] = append(on[l], name), want.Warning
			}
		}
	}
	r := report{id: MachineRequirements}
	for l, names := range on {
		outcome := clustercheck.Failed
		if warns[l] {
			outcome = clustercheck.Warned
		}
		slices.Sort(names)
		subject := "Node " + text.JoinSome(names, maxNodes, ", ")
		r.add(outcome, subject, l.fix+"; accept it by the name "+l.id, "%s", l.message)
	}
	return r.finish("the kernel and the container runtime of %s are enough for %s",
		text.Count(len(nodes), "Node"), u.To.Minor())
}

// controlPlaneLabel is on Nodes of control planes that kubeadm makes, and others.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// maxNodes is how many Nodes a subject names.
const maxNodes = 5

// CheckSettings finds settings that the versions of the upgrade lack.
func CheckSettings(u Upgrade, s Settings) []clustercheck.Finding {
	r := report{id: RemovedSettings}
	upgrade := settings.Upgrade{From: u.From, To: u.To}
	for _, f := range settings.Accepted(settings.Check(upgrade, s.Uses), s.Accepted) {
		outcome := clustercheck.Failed
		if f.Warning {
			outcome = clustercheck.Warned
		}
		r.add(outcome, f.Subject(), f.Fix(), "%s", f.Message())
	}
	for _, gap := range upgrade.Gaps() {
		outcome := clustercheck.Warned
		if gap.Newer {
			outcome = clustercheck.NotChecked
		}
		r.add(outcome, "", gap.Fix, "%s", gap.Message)
	}
	if s.Unasked != "" {
		r.warn("", "see whether the hosts' own files have settings that the target lacks", "%s", s.Unasked)
	}
	unread := map[string][]string{}
	for _, u := range s.Unread {
		fix := clustercheck.FixUnread(u.User, u.Err)
		unread[fix] = append(unread[fix], u.Err.Error())
	}
	for _, fix := range slices.Sorted(maps.Keys(unread)) {
		r.add(clustercheck.NotChecked, "", fix, "%s",
			text.Bound(strings.Join(unread[fix], "; "), maxUnreadBytes))
	}
	return r.finish("%s checked: %s has all of them",
		text.Count(len(s.Uses), "setting"), u.To.Minor())
}
