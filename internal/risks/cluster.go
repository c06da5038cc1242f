package risks

import (
	"slices"

	"github.com/windlass-dev/windlass/pkg/version"
)

// ClusterFact is a fact of a workload cluster, or of its control plane object, that a matcher can
// require.
type ClusterFact string

// The facts that matchers can require.
const (
	// HasDevices: it has a DeviceClass or a ResourceClaim.
	HasDevices ClusterFact = "HasDevices"
	// KubeletClientUnbound: the API server's client certificate for kubelets has no rights without
	// its group, and Cluster API does not bind it.
	KubeletClientUnbound ClusterFact = "KubeletClientUnbound"
	// Traefik2Values: the values of the packaged Traefik are for Traefik 2 alone.
	Traefik2Values ClusterFact = "Traefik2Values"
	// DqliteDatastore: the control plane object of Canonical Kubernetes asks for k8s-dqlite.
	DqliteDatastore ClusterFact = "DqliteDatastore"
	// K0sPinnedImages: a configuration of k0s names versions of images.
	K0sPinnedImages ClusterFact = "K0sPinnedImages"
	// NginxImagesMissing: RKE2's ingress-nginx is in use, and its images come from archives without
	// them.
	NginxImagesMissing ClusterFact = "NginxImagesMissing"
)

var clusterFacts = []ClusterFact{
	"", HasDevices, KubeletClientUnbound, Traefik2Values, DqliteDatastore, K0sPinnedImages,
	NginxImagesMissing,
}

// Answer says whether a fact holds. The zero Answer is not known.
type Answer struct {
	Known, Holds bool
	// Seen is what shows that it holds, such as the name of an object; empty if that is the
	// condition of the risk itself.
	Seen string
}

// answer returns what is known of the fact that a matcher requires.
func (m Matcher) answer(f Facts) Answer { return f.Cluster[m.Cluster] }

// matchesFact reports whether the cluster's fact holds. One that is not known does.
func (m Matcher) matchesFact(f Facts) bool {
	a := m.answer(f)
	return !a.Known || a.Holds
}

// confirms reports whether facts show that a risk which matches concerns the cluster. A floor and a
// block ask for another version, which every cluster can choose: their condition does not count.
func (m Matcher) confirms(r *Risk, f Facts) bool {
	a := m.answer(f)
	return r.Condition == "" || r.Kind != Warning || a.Known && a.Holds || m.Machines.isSeen(f)
}

// isSeen reports whether a machine matches by what it reports, not by what is unknown.
func (m MachineMatcher) isSeen(f Facts) bool {
	shows := func(p Pattern, text string) bool {
		return p.IsZero() || text != "" && p.matches(text)
	}
	return m != (MachineMatcher{}) && slices.ContainsFunc(f.Hosts, func(h Host) bool {
		return shows(m.Kernel, h.Kernel) && shows(m.Runtime, h.Runtime) && shows(m.OS, h.OS) &&
			(!m.SystemVerification || !h.Unverified)
	})
}

// Unknown returns the facts of the cluster that are not known and that decide about risks of steps,
// sorted.
func (s *Set) Unknown(f Facts, steps []Step) []ClusterFact {
	var asked []ClusterFact
	for _, found := range s.OfAll(f, steps) {
		for _, m := range found.Match {
			if m.Cluster != "" && !f.Cluster[m.Cluster].Known {
				asked = append(asked, m.Cluster)
			}
		}
	}
	slices.Sort(asked)
	return slices.Compact(asked)
}

// bindsKubeletClient are the first KubeadmControlPlane providers of their minors that bind the
// certificate; all later minors do.
var bindsKubeletClient = []version.Version{
	version.MustParse("v1.11.11"), version.MustParse("v1.12.8"), version.MustParse("v1.13.2"),
}

// UnboundKubeletClient returns the fact KubeletClientUnbound for the version of the provider of
// KubeadmControlPlane, zero if it is not known, and for what is known of the ClusterRoleBinding.
func UnboundKubeletClient(provider version.Version, bound Answer) Answer {
	latest := bindsKubeletClient[len(bindsKubeletClient)-1]
	binds := slices.ContainsFunc(bindsKubeletClient, func(first version.Version) bool {
		return !provider.IsZero() && version.Compare(provider, first) != version.Less &&
			(first == latest || provider.Minor() == first.Minor())
	})
	switch {
	case binds, bound.Known && bound.Holds:
		return Answer{Known: true}
	case !bound.Known, provider.IsZero():
		return Answer{}
	}
	return Answer{
		Known: true, Holds: true,
		Seen: "KubeadmControlPlane's provider is " + provider.String() +
			", and there is no such ClusterRoleBinding",
	}
}
