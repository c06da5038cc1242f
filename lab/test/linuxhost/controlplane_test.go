//go:build linux

package linuxhost_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	testhosts "github.com/windlass-dev/windlass/lab/internal/hosts"
)

// TestHostThatCannotReadTheCluster: nothing is brought to a control plane host that cannot read
// kubeadm's configuration in the cluster, and its node is not drained. Once it can, the same
// attempt continues.
func TestHostThatCannotReadTheCluster(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	const down = "/etc/stand-in/api.down"
	w.host.Write(down, nil)
	const want = "ConfigUnreadable: step kubeadm-upgrade: the ConfigMap kube-system/kubeadm-config " +
		"cannot be read with the host's kubectl and admin.conf: the connection to the server was refused"
	p := w.until(t, false, nil)
	if p.Failure == nil || !strings.HasPrefix(p.Failure.String(), want) ||
		p.Job.State != linuxhost.NoJob {
		t.Fatalf("%+v, want %s, and no job", p, want)
	}
	if w.node.drains != 0 {
		t.Error("the node was drained")
	}
	w.host.Remove(down)
	w.mustFinish(t)
	w.mustBeWhole(t)
}
