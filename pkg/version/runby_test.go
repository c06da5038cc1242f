package version_test

import (
	"testing"

	"github.com/windlass-dev/windlass/pkg/version"
)

func TestRunBy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wanted, kubelet string
		want            bool
	}{
		{"v1.31.2", "v1.31.2", true},
		{"v1.31.2", "v1.31.2+k3s1", true},
		{"v1.31.2", "v1.31.2-eks-7f9249a", true},
		{"v1.31.2", "v1.31.2-gke.100", true},
		{"v1.31.0", "v1.31.0-rc.1", false},
		{"v1.31.0-rc.1", "v1.31.0", false},
		{"v1.31.0-rc.1", "v1.31.0-rc.1+dirty", true},
		{"v1.31.2+rke2r2", "v1.31.2+rke2r2", true},
		{"v1.31.2+rke2r2", "v1.31.2+rke2r1", false},
		{"v1.31.2+rke2r2", "v1.31.2", false},
		{"v1.31.2", "v1.31.2-rc1+k3s1", false},
		{"v1.33.1-k0s.0", "v1.33.1+k0s.0", true},
		{"v1.33.1+k0s.0", "v1.33.1+k0s.1", false},
		// Kubelets of k0s, and of images of EKS Anywhere, do not say which build they are.
		{"v1.33.1+k0s.0", "v1.33.1+k0s", true},
		{"v1.33.1+k0s.0", "v1.33.2+k0s", false},
		{"v1.33.1+rke2r1", "v1.33.1+k0s", false},
		{"v1.30.7-eks-1-30-26", "v1.30.7-eks-68cabf3", true},
		{"v1.33.1+k0s.0", "v1.33.1-eks-68cabf3", false},
		{"v1.33.5-eks-1-33-17", "v1.33.5-eks-1-33-9", false},
		{"v1.31.2", "v1.31.3", false},
		{"v1.31.2", "v1.30.2", false},
	} {
		if got := version.MustParse(c.wanted).RunBy(version.MustParse(c.kubelet)); got != c.want {
			t.Errorf("%s run by a kubelet %s: %t, want %t", c.wanted, c.kubelet, got, c.want)
		}
	}
}
