package hosts_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/core/inplace"
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
