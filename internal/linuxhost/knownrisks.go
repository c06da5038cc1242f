package linuxhost

import (
	"fmt"
	"slices"

	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// externalAuthority is the known risk that refuseAuthorities decides about.
const externalAuthority = "kubeadm-129-external-ca"

// KnownRisks returns the known risks of the upgrade that the host can answer for: those of its
// versions, its member of etcd, its kernel and its container runtime, but not those of the size of
// a control plane. There is none once kubeadm has begun.
func KnownRisks(g Goal, f Facts) []string {
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
		if risk.ID == externalAuthority || !isAnswered(risk.Risk, facts) {
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
		return m.Etcd != (risks.EtcdMatcher{}) && f.Etcd != risks.Stacked ||
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
