package settings_test

import (
	"testing"

	"github.com/windlass-dev/windlass/internal/settings"
)

// TestNodeName: a name that is made on the machine is none for all machines.
func TestNodeName(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ kind, content, want string }{
		"RKE2":          {"RKE2ConfigTemplate", `{spec: {template: {spec: {agentConfig: {nodeName: historian-0}}}}}`, "historian-0"},
		"K3s":           {"KThreesConfig", `{spec: {agentConfig: {nodeName: historian-0}}}`, "historian-0"},
		"kubeadm":       {"KubeadmConfigTemplate", `{spec: {template: {spec: {joinConfiguration: {nodeRegistration: {name: a}}}}}}`, "a"},
		"cloud-init":    {"KubeadmConfigTemplate", `{spec: {template: {spec: {joinConfiguration: {nodeRegistration: {name: "{{ ds.meta_data.local_hostname }}"}}}}}}`, ""},
		"a command":     {"KubeadmConfig", `{spec: {joinConfiguration: {nodeRegistration: {name: "$(hostname)"}}}}`, ""},
		"none":          {"KubeadmConfig", `{spec: {joinConfiguration: {}}}`, ""},
		"another shape": {"RKE2Config", `{spec: {agentConfig: [a]}}`, ""},
		"another kind":  {"TalosConfig", `{spec: {agentConfig: {nodeName: a}}}`, ""},
	} {
		if got := settings.NodeName(settings.Object{Kind: tt.kind, Content: decode(t, tt.content)}); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
