package risks

import (
	"strings"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Distribution is what a control plane is made of.
type Distribution string

// The distributions that matchers can name.
const (
	Kubeadm   Distribution = "kubeadm"
	K3s       Distribution = "k3s"
	RKE2      Distribution = "rke2"
	K0s       Distribution = "k0s"
	EKSD      Distribution = "eks-d"
	Talos     Distribution = "talos"
	Canonical Distribution = "canonical"
	// Other is one that no matcher names, such as a managed control plane.
	Other Distribution = "other"
)

var distributions = []Distribution{Kubeadm, K3s, RKE2, K0s, EKSD, Talos, Canonical, Other}

// kinds are those of control plane objects of providers.
var kinds = map[string]Distribution{
	"KubeadmControlPlane": Kubeadm, "KThreesControlPlane": K3s, "RKE2ControlPlane": RKE2,
	"K0sControlPlane": K0s, "K0smotronControlPlane": K0s,
	"TalosControlPlane": Talos, "CK8sControlPlane": Canonical,
}

// DistributionOfKind returns the distribution that a kind of control plane makes, Other for a kind
// that is not known, and none without a kind.
func DistributionOfKind(kind string) Distribution {
	if kind == "" {
		return ""
	}
	if d, known := kinds[kind]; known {
		return d
	}
	return Other
}

// words are what the builds of distributions contain.
var words = []struct {
	word string
	of   Distribution
}{{"k3s", K3s}, {"rke2r", RKE2}, {"k0s", K0s}, {"eks-", EKSD}}

// DistributionOf returns the distribution of a version: what its build names, else what is known of
// the cluster, else kubeadm.
func (f Facts) DistributionOf(v version.Version) Distribution {
	spelled := v.String()
	if _, suffix, has := strings.Cut(strings.Replace(spelled, "+", "-", 1), "-"); has {
		for _, w := range words {
			if strings.HasPrefix(suffix, w.word) {
				return w.of
			}
		}
	}
	if f.Distribution != "" {
		return f.Distribution
	}
	return Kubeadm
}
