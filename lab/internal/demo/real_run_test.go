//go:build linux

package demo

import (
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
)

// The version is that of the kubelet that runs, not of the one that is installed.
func TestAskKubelet(t *testing.T) {
	const unit = "[Service]\nExecStart=/usr/bin/kubelet\n"
	files := map[string][]byte{"/etc/systemd/system/kubelet.service": []byte(unit)}
	paths := map[string]string{"v1.35.4": "/usr/bin/kubelet", "v1.36.3": "/opt/next"}
	for version, path := range paths {
		programs, err := hosts.StandIn(version)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = programs["kubelet"]
	}
	h := hosts.Start(t, hosts.Options{Files: files})
	if version, err := askKubelet(t.Context(), h.Run); err == nil {
		t.Errorf("no kubelet runs, and %s was returned", version)
	}
	h.MustRun("systemctl start kubelet; until [ -e /run/stand-in-kubelet ]; do sleep 0.01; done")
	for _, step := range []struct{ script, want string }{
		{"mv /opt/next /usr/bin/kubelet", "v1.35.4"},
		{"rm /run/stand-in-kubelet; systemctl restart kubelet; " +
			"until [ -e /run/stand-in-kubelet ]; do sleep 0.01; done", "v1.36.3"},
	} {
		h.MustRun(step.script)
		if version, err := askKubelet(t.Context(), h.Run); err != nil || version != step.want {
			t.Errorf("after %q: %q, %v; want %s", step.script, version, err, step.want)
		}
	}
}
