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
	server := newAPI(func(answers map[string]string) {
		answers[maps+"kubeadm-config"] = `{"data": {"ClusterConfiguration": ` +
			`"apiServer: {extraArgs: [{name: cloud-provider, value: external}]}"}}`
		answers[maps+"kubelet-config"] = `{"data": {"kubelet": "featureGates: {NoSuchGate: true}"}}`
		answers[maps+"kube-proxy"] = `{"data": {"config.conf": "featureGates: {NoSuchGate: false}"}}`
		answers["/api/v1/nodes/n/proxy/configz"] = `{"kubeletconfig": {"featureGates": {"KubeletTracing": false}}}`
	})
	for name, test := range map[string]struct {
		edit func(*preflight.Settings)
		want []string
	}{
		"all": {want: []string{
			"Failed ConfigMap kube-system/kube-proxy, config.conf.featureGates",
			"Failed ConfigMap kube-system/kubeadm-config, ClusterConfiguration.apiServer.extraArgs",
			"Failed ConfigMap kube-system/kubelet-config, kubelet.featureGates",
			"Warned Node n, configz",
		}},
		"a control plane that writes its own, kept machines, one accepted": {
			edit: func(s *preflight.Settings) {
				s.ControlPlaneWrites, s.Kept, s.Accepted = true, true, []string{"kubelet/NoSuchGate"}
			},
			want: []string{
				"Failed ConfigMap kube-system/kube-proxy, config.conf.featureGates",
				"Failed Node n, configz",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := look(t, server.ServeHTTP)
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
