package preflight_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestCheckMachines: kubeadm asks for a kernel, so other distributions do not. All kubelets ask for a
// container runtime.
func TestCheckMachines(t *testing.T) {
	t.Parallel()
	var node corev1.Node
	node.Name = "n"
	for name, test := range map[string]struct {
		to, kernel, runtime string
		want                clustercheck.Outcome
	}{
		"kubeadm":            {to: "v1.33.5", kernel: "4.18.0-553.el8.x86_64", want: clustercheck.Failed},
		"kubeadm, a warning": {to: "v1.34.8", kernel: "4.18.0-553.el8.x86_64", want: clustercheck.Warned},
		"a new kernel":       {to: "v1.33.5", kernel: "6.8.0-79-generic", want: clustercheck.Passed},
		"RKE2":               {to: "v1.33.5+rke2r1", kernel: "4.18.0-553.el8.x86_64", want: clustercheck.Passed},
		"K3s":                {to: "v1.33.5+k3s1", kernel: "4.18.0-553.el8.x86_64", want: clustercheck.Passed},
		"K3s, its containerd": {
			to: "v1.36.1+k3s1", kernel: "6.8.0", runtime: "containerd://1.7.24", want: clustercheck.Warned,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := node.DeepCopy()
			node.Status.NodeInfo.KernelVersion = test.kernel
			node.Status.NodeInfo.ContainerRuntimeVersion = test.runtime
			u := preflight.Upgrade{To: version.MustParse(test.to)}
			found := preflight.CheckMachines(u, risks.Facts{}.DistributionOf(u.To), []corev1.Node{*node}, nil)
			if len(found) != 1 || found[0].Outcome != test.want {
				t.Errorf("got %+v, want %s", found, test.want)
			}
		})
	}
}
