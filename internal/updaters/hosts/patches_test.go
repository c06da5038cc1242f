package hosts_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/inplace"
)

// TestPatchesThatAreRefused: a host gets all patches of a config, or no update. A file without its
// name in the answer would be one that kubeadm takes as it finds it.
func TestPatchesThatAreRefused(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	const folder, patch = "/etc/kubernetes/p", "/etc/kubernetes/p/etcd.json"
	inSecret := fields{"secret": fields{"name": "n", "key": "k"}}
	for name, tt := range map[string]struct {
		files   []any
		allowed []string
		// want is in the answer; empty for an update that begins.
		want string
	}{
		"numbers":                  {files: []any{fields{"path": folder + "/kubeletconfiguration.yaml", "content": "maxPods: 50"}}},
		"a static pod's host":      {files: []any{fields{"path": patch, "content": "spec: {hostPID: true}"}}, want: patch + ": the patch for kubeadm sets spec.hostPID"},
		"any content is allowed":   {files: []any{fields{"path": patch, "content": "spec: {hostPID: true}"}}, allowed: []string{"/etc/kubernetes", patch}},
		"a Secret":                 {files: []any{fields{"path": folder + "/a/etcd.yaml", "contentFrom": inSecret}}, want: folder + "/a/etcd.yaml: its content is in a Secret"},
		"a Secret, and no patch":   {files: []any{fields{"path": folder + "/README", "contentFrom": inSecret}}},
		"two entries":              {files: []any{fields{"path": patch, "content": "[]"}, fields{"path": patch, "content": "[1]"}}, want: patch + " has two entries"},
		"another spelling":         {files: []any{fields{"path": folder + "//etcd.json", "content": "[]"}}, want: "is not a clean absolute path"},
		"a field of another world": {files: []any{fields{"path": "/etc/kubernetes/x", "content": "x", "immutable": true}}, want: "files has a field that is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := newWorld(t), request("a-1")
			w.config.AllowedPathPrefixes = tt.allowed
			r.Desired.BootstrapConfig.Object = kubeadmConfig(fields{
				"files": tt.files, "joinConfiguration": fields{"patches": fields{"directory": folder}},
			})
			answer := w.updater(t).UpdateMachine(t.Context(), r)
			if tt.want == "" {
				if answer.Outcome != inplace.InProgress {
					t.Errorf("the answer is %+v", answer)
				}
				return
			}
			if answer.Outcome != inplace.Fails || !strings.HasPrefix(answer.Message, "FileRefused: ") || !strings.Contains(answer.Message, tt.want) {
				t.Errorf("the answer is %+v", answer)
			}
			if w.execs > 0 {
				t.Errorf("%d scripts ran", w.execs)
			}
		})
	}
}

// TestConfigThatNobodyKnows: without the Machine's config, kubeadm would upgrade the host without the
// patches in it.
func TestConfigThatNobodyKnows(t *testing.T) {
	t.Parallel()
	older := kubeadmConfig(map[string]any{})
	older.SetAPIVersion("bootstrap.cluster.x-k8s.io/v1beta1")
	for name, tt := range map[string]struct {
		config runtime.RawExtension
		// ref is the name of the config that the Machine refers to, want the answer; empty for an
		// update that begins.
		ref, want string
	}{
		"a Machine without one": {},
		"it is gone": {ref: "m-config", want: "HostSetupInvalid: the Machine's bootstrap config m-config " +
			"is gone, so nobody knows the patches for kubeadm, which would upgrade the host without them. " +
			"Fix: create the config again and annotate the Machine with windlass.dev/update-retry, or end " +
			"the update with windlass.dev/update-abandon"},
		"another version": {ref: "m-config", config: runtime.RawExtension{Object: older}, want: "HostSetupInvalid: " +
			"the bootstrap config is a KubeadmConfig of bootstrap.cluster.x-k8s.io/v1beta1, so nobody knows " +
			"the patches for kubeadm, which would upgrade the host without them. Fix: use a KubeadmConfig " +
			"of bootstrap.cluster.x-k8s.io/v1beta2, or replace the Machine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := newWorld(t), request("a-1")
			r.Desired.BootstrapConfig = tt.config
			r.Desired.Machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{Name: tt.ref}
			want := inplace.Answer{Outcome: inplace.Fails, Message: tt.want}
			answer := w.updater(t).UpdateMachine(t.Context(), r)
			switch {
			case tt.want != "":
				checkAnswer(t, answer, want)
			case answer.Outcome != inplace.InProgress:
				t.Errorf("the answer is %+v", answer)
			}
			if tt.want != "" && w.execs > 0 {
				t.Errorf("%d scripts ran", w.execs)
			}
		})
	}
}
