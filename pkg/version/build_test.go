package version_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/pkg/version"
)

// TestDistributions has versions that distributions have released, or report, from old to new. A version
// list is a set, so no two of a list may be without an order.
func TestDistributions(t *testing.T) {
	t.Parallel()
	for distribution, list := range map[string]string{
		"kubeadm":      "v1.32.0-alpha.3 v1.32.0-beta.0 v1.32.0-rc.0 v1.32.0-rc.2 v1.32.0 v1.32.10 v1.33.1",
		"Talos":        "v1.33.0-rc.1 v1.33.0 v1.33.1 v1.34.0-beta.0 v1.34.0",
		"Canonical":    "v1.30.12 v1.31.8 v1.32.5 v1.33.1",
		"K3s":          "v1.30.13+k3s1 v1.31.1-rc1+k3s1 v1.31.1+k3s1 v1.33.1+k3s1 v1.33.1+k3s2 v1.33.7+k3s1 v1.34.3+k3s1",
		"RKE2":         "v1.30.4+rke2r1 v1.31.2-rc1+rke2r1 v1.31.2-rc2+rke2r1 v1.31.2+rke2r1 v1.33.1+rke2r2 v1.33.1+rke2r10",
		"k0s":          "v1.30.0+k0s.0 v1.33.1+k0s.0 v1.33.1+k0s.1 v1.33.2+k0s.0 v1.33.2+k0s.10",
		"k0s, images":  "v1.30.0-k0s.0 v1.33.1-k0s.0 v1.33.1+k0s.1 v1.33.2-k0s.0 v1.33.2-k0s.10",
		"EKS Distro":   "v1.32.9-eks-1-32-30 v1.33.5-eks-1-33-9 v1.33.5-eks-1-33-17 v1.34.1-eks-1-34-3",
		"GKE":          "v1.31.2-gke.100 v1.31.2-gke.1600 v1.31.3-gke.20",
		"Tanzu":        "v1.31.2+vmware.1 v1.31.2+vmware.10 v1.31.4+vmware.1",
		"and a plain":  "v1.33.1 v1.33.1+k0s.0 v1.33.2 v1.33.2-k0s.1",
		"another spec": "v1.33.1 v1.33.1-eks-1-33-1 v1.33.2",
	} {
		var versions []version.Version
		for v := range strings.FieldsSeq(list) {
			versions = append(versions, version.MustParse(v))
		}
		for i, a := range versions {
			for j, b := range versions {
				want := version.Equal
				if i != j {
					want = map[bool]version.Ordering{true: version.Less, false: version.Greater}[i < j]
				}
				if got := version.Compare(a, b); got != want {
					t.Errorf("%s: Compare(%s, %s) = %d, want %d", distribution, a, b, got, want)
				}
			}
		}
	}
	for _, pair := range [][2]string{
		{"v1.33.1+k0s.0", "v1.33.1-k0s.0"}, {"v1.33.1+rke2r10", "v1.33.1-rke2r10"}, {"v1.33.1+k3s1", "v1.33.1-k3s1"},
	} {
		if got := version.Compare(version.MustParse(pair[0]), version.MustParse(pair[1])); got != version.Equal {
			t.Errorf("%s and %s are spellings of one build, but Compare gives %d", pair[0], pair[1], got)
		}
	}
}

func TestIsReachedBy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		asked, reported string
		want            bool
	}{
		{"v1.33.1", "v1.33.1-k0s.0", true},
		{"v1.33.1", "v1.33.1+k0s.0", true},
		{"v1.33.1+k0s.0", "v1.33.1-k0s.0", true},
		{"v1.33.1+k0s.1", "v1.33.1-k0s.0", false},
		{"v1.33.1+k0s.0", "v1.33.1+k0s.1", true},
		{"v1.33.1", "v1.33.0-k0s.0", false},
		{"v1.33.1", "v1.34.0", true},
		{"v1.33.1+b", "v1.33.1+a", false},
		{"v1.33.1", "v1.33.1-rc.1", false},
		{"v1.33.1-rc.1", "v1.33.1", true},
	} {
		if got := version.MustParse(c.asked).IsReachedBy(version.MustParse(c.reported)); got != c.want {
			t.Errorf("%s, and %s is reported: %t, want %t", c.asked, c.reported, got, c.want)
		}
	}
}
