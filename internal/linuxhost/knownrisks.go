package linuxhost

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// concerns are known risks whose condition the host answers, by their names: whether an upgrade of it
// is concerned.
var concerns = map[string]func(g Goal, f Facts, drains bool) bool{
	// refuseAuthorities and refuseSettings decide about these.
	"kubeadm-129-external-ca":       func(Goal, Facts, bool) bool { return false },
	"kubelet-135-cgroup-v1":         func(Goal, Facts, bool) bool { return false },
	"kubeadm-135-empty-flags":       func(g Goal, f Facts, _ bool) bool { return !keepsFlags(g, f) },
	"kubelet-131-container-restart": func(_ Goal, _ Facts, drains bool) bool { return !drains },
}

// keepsFlags reports whether kubeadm's file with the kubelet's arguments has one that kubeadm upgrade
// does not remove.
func keepsFlags(g Goal, f Facts) bool {
	return slices.ContainsFunc(settings.ArgsOf(flagWords(f.KubeletFlags)), func(a settings.Arg) bool {
		return !kubeadmsToRemove(g, a)
	})
}

// KnownRisks returns the known risks of the upgrade that the host can answer for: those of its
// versions, its member of etcd, its kernel and its container runtime, but not those of the size of
// a control plane. There is none once kubeadm has begun. drains says that the node is drained.
func KnownRisks(g Goal, f Facts, drains bool) []string {
	if f.Begun {
		return nil
	}
	facts := risks.Facts{
		Distribution: risks.Distribution(g.Distribution), PinnedEtcd: risks.EtcdOfTag(f.etcdTag()),
		Hosts: []risks.Host{{Kernel: f.Config.Kernel, Runtime: machineOf(g, f).Runtime}},
	}
	switch {
	case f.Member:
		facts.Etcd = risks.Stacked
	case f.ControlPlane:
		facts.Etcd = risks.External
	}
	var notes []string
	step := risks.Step{From: f.Installed, To: g.Version, Workers: !f.ControlPlane}
	for _, risk := range risks.BuiltIn().Of(facts, step) {
		if concern, decides := concerns[risk.ID]; decides && !concern(g, f, drains) ||
			!isAnswered(risk.Risk, facts) {
			continue
		}
		condition := ""
		if risk.Condition != "" {
			condition = " Concerns " + risk.Condition + "."
		}
		notes = append(notes, fmt.Sprintf("known risk %s.%s Fix: %s (%s)", risk, condition,
			risk.Fix, risk.Sources[0]))
	}
	return notes
}

// isAnswered reports whether the host tells all that a risk depends on.
func isAnswered(r *risks.Risk, f risks.Facts) bool {
	host := f.Hosts[0]
	return !slices.ContainsFunc(r.Match, func(m risks.Matcher) bool {
		return m.Cluster != "" || m.Etcd != (risks.EtcdMatcher{}) && f.Etcd != risks.Stacked ||
			m.ControlPlane.MinMachines+m.ControlPlane.MaxMachines > 0 ||
			!m.Machines.Kernel.IsZero() && host.Kernel == "" ||
			!m.Machines.Runtime.IsZero() && host.Runtime == "" || !m.Machines.OS.IsZero()
	})
}

// etcdTag is the tag of the image of etcd that kubeadm's configuration asks for; empty for
// kubeadm's.
func (f Facts) etcdTag() string {
	var cluster struct {
		Etcd struct {
			Local struct {
				ImageTag string `json:"imageTag"`
			} `json:"local"`
		} `json:"etcd"`
	}
	if untrusted.Object.UnmarshalYAML([]byte(f.Config.Cluster), &cluster) != nil {
		return ""
	}
	return cluster.Etcd.Local.ImageTag
}
