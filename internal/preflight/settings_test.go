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
		from, to, kernel, runtime string
		controlPlane              bool
		settings                  preflight.Settings
		want                      clustercheck.Outcome
	}{
		"kubeadm joins, v1.32": {to: "v1.32.0", kernel: "4.18.0-553.el8_10.x86_64", want: clustercheck.Failed},
		"kubeadm does not look in place": {
			to: "v1.32.0", kernel: "4.18.0-553.el8_10.x86_64", settings: preflight.Settings{Kept: []string{"n"}},
			want: clustercheck.Warned,
		},
		"kubeadm ignores it": {
			to: "v1.32.0", kernel: "4.18.0-553.el8_10.x86_64", settings: preflight.Settings{Unverified: []string{"n"}},
			want: clustercheck.Passed,
		},
		"another machine ignores it": {
			to: "v1.32.0", kernel: "4.18.0-553.el8_10.x86_64", settings: preflight.Settings{Unverified: []string{"m"}},
			want: clustercheck.Failed,
		},
		"a control plane on the way": {
			from: "v1.31.4", to: "v1.35.0", kernel: "4.18.0-553.el8_10.x86_64", controlPlane: true, want: clustercheck.Failed,
		},
		"a worker that skips these": {from: "v1.31.4", to: "v1.34.0", kernel: "4.18.0-553.el8_10.x86_64", want: clustercheck.Warned},
		"kubeadm":                   {to: "v1.33.5", kernel: "4.18.0-553.el8.x86_64", want: clustercheck.Failed},
		"kubeadm, a warning":        {to: "v1.34.8", kernel: "4.18.0-553.el8.x86_64", want: clustercheck.Warned},
		"a new kernel":              {to: "v1.33.5", kernel: "6.8.0-79-generic", want: clustercheck.Passed},
		"RKE2":                      {to: "v1.33.5+rke2r1", kernel: "4.18.0-553.el8.x86_64", want: clustercheck.Passed},
		"K3s":                       {to: "v1.33.5+k3s1", kernel: "4.18.0-553.el8.x86_64", want: clustercheck.Passed},
		"K3s, its containerd": {
			to: "v1.36.1+k3s1", kernel: "6.8.0", runtime: "containerd://1.7.24", want: clustercheck.Warned,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := node.DeepCopy()
			node.Status.NodeInfo.KernelVersion = test.kernel
			node.Status.NodeInfo.ContainerRuntimeVersion = test.runtime
			if test.controlPlane {
				node.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
			}
			u := preflight.Upgrade{To: version.MustParse(test.to)}
			if test.from != "" {
				u.From = version.MustParse(test.from)
			}
			found := preflight.CheckMachines(u, risks.Facts{}.DistributionOf(u.To), []corev1.Node{*node}, test.settings)
			if len(found) != 1 || found[0].Outcome != test.want {
				t.Errorf("got %+v, want %s", found, test.want)
			}
		})
	}
}
