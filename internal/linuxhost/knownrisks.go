package linuxhost

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/untrusted"
	"github.com/windlass-dev/windlass/pkg/version"
)

// otherNodeName is the known risk of a worker whose Node has another name than its host.
const otherNodeName = "kubeadm-134-node-name"

// concerns are known risks whose condition the host answers, by their names: whether an upgrade of it
// is concerned.
var concerns = map[string]func(g Goal, f Facts, drains bool) bool{
	// refuseAuthorities and refuseSettings decide about these.
	"kubeadm-129-external-ca":       func(Goal, Facts, bool) bool { return false },
	"kubelet-135-cgroup-v1":         func(Goal, Facts, bool) bool { return false },
	"kubeadm-135-empty-flags":       func(g Goal, f Facts, _ bool) bool { return !keepsFlags(g, f) },
	"kubelet-131-container-restart": func(_ Goal, _ Facts, drains bool) bool { return !drains },
	otherNodeName:                   func(_ Goal, f Facts, _ bool) bool { return !f.ControlPlane && otherName(f) != "" },
	"k3s-132-old-agents": func(_ Goal, f Facts, _ bool) bool {
		lists := f.Rancher.lists(f.Service)
		return !slices.Contains(lists.Values(settings.FlannelKey), "none") &&
			!slices.ContainsFunc(lists.Uses(f.ControlPlane), func(u settings.Use) bool {
				return u.Component == settings.APIServer && u.Name == "AuthorizeNodeWithSelectors" && u.Value == "false"
			})
	},
}

// otherName returns the name by which the kubelet registers its Node if it is not the host's, as kubeadm writes
// that: without space, in lower case. It is empty otherwise.
func otherName(f Facts) (name string) {
	for _, a := range settings.ArgsOf(flagWords(f.KubeletFlags)) {
		if a.Name == "--hostname-override" {
			name = a.Value
		}
	}
	if name == strings.ToLower(strings.TrimSpace(f.HostName)) {
		return ""
	}
	return name
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
// a control plane. There is none once kubeadm has begun. drains says that the node is drained, oldest is
// the oldest version of the cluster's Nodes; zero if unknown.
func KnownRisks(g Goal, f Facts, drains bool, oldest version.Version) []string {
	if f.Begun {
		return nil
	}
	facts := risks.Facts{
		Distribution: risks.Distribution(g.Distribution), PinnedEtcd: risks.EtcdOfTag(f.etcdTag()),
		Hosts:   []risks.Host{{Kernel: f.Config.Kernel, Runtime: machineOf(g, f).Runtime}},
		Cluster: make(map[risks.ClusterFact]risks.Answer),
	}
	facts.Cluster[risks.NginxImagesMissing] = nginxImages(g, f)
	switch {
	case f.Member:
		facts.Etcd = risks.Stacked
	case f.ControlPlane:
		facts.Etcd = risks.External
	}
	var notes []string
	step := risks.Step{
		From: f.Installed, To: g.Version, Workers: !f.ControlPlane, Oldest: oldest,
	}
	for _, risk := range risks.BuiltIn().Of(facts, step) {
		if concern, decides := concerns[risk.ID]; decides && !concern(g, f, drains) ||
			!isAnswered(risk.Risk, facts) {
			continue
		}
		condition := ""
		switch {
		case risk.ID == otherNodeName:
			condition = fmt.Sprintf(" It concerns this host: it is named %.64q, and its Node %.253q.",
				strings.TrimSpace(f.HostName), otherName(f))
		case risk.Seen != "":
			condition = " It concerns this host: " + risk.Seen + "."
		case risk.Condition != "":
			condition = " Concerns " + risk.Condition + "."
		}
		notes = append(notes, fmt.Sprintf("known risk %s.%s Fix: %s (%s)", risk, condition,
			risk.Fix, risk.Sources[0]))
	}
	return notes
}

// nginxImages tells whether a server of RKE2 runs the packaged ingress-nginx, and has archives of images
// without its images as their only source.
func nginxImages(g Goal, f Facts) risks.Answer {
	if g.Distribution != RKE2 || !f.ControlPlane || f.Rancher.Unread != "" {
		return risks.Answer{}
	}
	const archive = "rke2-images-ingress-nginx"
	lists := f.Rancher.lists(f.Service)
	isArchive := func(b binary) bool { return strings.HasPrefix(b.name, archive) }
	supplied := f.Archives == "" || strings.Contains(f.Archives, archive) ||
		slices.ContainsFunc(g.Digests.archives(g, f.Arch), isArchive) || f.Rancher.Registries ||
		len(lists.Values(settings.DefaultRegistryKey)) > 0 ||
		len(lists.Values(settings.PrivateRegistryKey)) > 0
	if supplied || !runsNginx(lists) {
		return risks.Answer{Known: true}
	}
	return risks.Answer{
		Known: true, Holds: true, Seen: "it has archives of images (" + f.Archives + "), its " +
			"configuration has no registry, and " + archive + " is not among them",
	}
}

// runsNginx reports whether a server of RKE2 before v1.36 runs the packaged ingress-nginx: by default.
func runsNginx(lists settings.RancherLists) bool {
	controllers := lists.Values(settings.IngressControllerKey)
	return (len(controllers) == 0 || slices.Contains(controllers, "ingress-nginx")) &&
		!slices.Contains(lists.Values(settings.DisableKey), "rke2-ingress-nginx")
}

// isAnswered reports whether the host tells all that a risk depends on.
func isAnswered(r *risks.Risk, f risks.Facts) bool {
	host := f.Hosts[0]
	return !slices.ContainsFunc(r.Match, func(m risks.Matcher) bool {
		return m.Cluster != "" && !f.Cluster[m.Cluster].Known || m.Etcd != (risks.EtcdMatcher{}) && f.Etcd != risks.Stacked ||
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
