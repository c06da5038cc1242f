package probe_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestPreflightSettings finds settings that the target lacks in kubeadm's ConfigMaps and in running
// kubelets.
func TestPreflightSettings(t *testing.T) {
	t.Parallel()
	const maps = "/api/v1/namespaces/kube-system/configmaps/"
	const configz = `{"kubeletconfig": {"featureGates": {"KubeletTracing": false}}}`
	bare := newAPI(func(answers map[string]string) {
		answers["/api/v1/nodes/n/proxy/configz"] = configz
		answers[maps+"kubelet-config"] = `{"data": {}}`
	})
	server := newAPI(func(answers map[string]string) {
		answers[maps+"kubeadm-config"] = `{"data": {"ClusterConfiguration": ` +
			`"apiServer: {extraArgs: [{name: cloud-provider, value: external}]}"}}`
		answers[maps+"kubelet-config"] = `{"data": {"kubelet": "featureGates: {NoSuchGate: true}"}}`
		answers[maps+"kube-proxy"] = `{"data": {"config.conf": "featureGates: {NoSuchGate: false}"}}`
		answers["/api/v1/nodes/n/proxy/configz"] = configz
	})
	for name, test := range map[string]struct {
		edit func(*preflight.Settings)
		// none says that kubeadm has not made the cluster.
		none bool
		want []string
	}{
		"all": {want: []string{
			"Failed ConfigMap kube-system/kube-proxy, config.conf.featureGates",
			"Failed ConfigMap kube-system/kubeadm-config, ClusterConfiguration.apiServer.extraArgs",
			"Failed ConfigMap kube-system/kubelet-config, kubelet.featureGates",
			"Warned Node n, configz",
		}},
		"a control plane that writes its own, kept machines whose file is written, one accepted": {
			edit: func(s *preflight.Settings) {
				s.ControlPlaneWrites, s.Kept = true, []string{"n"}
				s.Accepted = []string{"kubelet/NoSuchGate"}
			},
			want: []string{
				"Failed ConfigMap kube-system/kube-proxy, config.conf.featureGates",
				"Warned Node n, configz",
			},
		},
		"kept machines of another distribution": {
			edit: func(s *preflight.Settings) { s.Kept = []string{"m", "n"} }, none: true,
			want: []string{"Failed Node n, configz"},
		},
		"machines of another distribution that are not kept": {
			edit: func(s *preflight.Settings) { s.Kept = []string{"m"} }, none: true,
			want: []string{"Warned Node n, configz"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := look(t, server.ServeHTTP)
			if test.none {
				o = look(t, bare.ServeHTTP)
			}
			o.Upgrade = preflight.Upgrade{
				From: version.MustParse("v1.32.4"), To: version.MustParse("v1.36.1"),
			}
			if test.edit != nil {
				test.edit(&o.Settings)
			}
			var got []string
			for _, f := range run(t, o) {
				if f.ID == preflight.RemovedSettings {
					got = append(got, string(f.Outcome)+" "+f.Subject)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
