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

// TestRestartWaitsForMembers has another member of etcd die after kubeadm has run. The kubelet,
// which would restart the host's member, is not restarted in this attempt or the next one. Nothing
// fails or is done again. Once all members are healthy, the upgrade continues by itself.
func TestRestartWaitsForMembers(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.upTo(t, linuxhost.Restart)
	drains := w.node.drains
	w.host.MustRun("mv /usr/bin/etcdctl /usr/bin/etcdctl-of-a-member")
	w.host.Write("/usr/bin/etcdctl", []byte(`#!/bin/sh
echo https://10.0.0.9:2379 is unhealthy: refused >&2
echo Error: unhealthy cluster >&2
exit 1
`))
	const held = "the kubelet v1.36.3 is not restarted, because it would restart etcd, and another " +
		"member of etcd is not healthy: https://10.0.0.9:2379 is unhealthy: refused. Fix: "
	for _, attempt := range []string{"first", "second"} {
		w.upgrade.Attempt = attempt
		for range 3 {
			p, err := linuxhost.Advance(t.Context(), w.upgrade)
			if err != nil || p.Step != linuxhost.Restart || !strings.HasPrefix(p.Message, held) {
				t.Fatalf("%v, %+v, want it to wait: %s", err, p, held)
			}
		}
	}
	if node := w.node.Look(t.Context()); node.Kubelet.String() != "v1.35.4" || !node.Ready {
		t.Errorf("the node is %+v", node)
	}
	w.host.MustRun("mv /usr/bin/etcdctl-of-a-member /usr/bin/etcdctl")
	w.mustFinish(t)
	w.mustBeWhole(t)
	if w.node.drains != drains {
		t.Errorf("the node was drained %d times, %d times before", w.node.drains, drains)
	}
	if began := w.host.MustRun("grep -c ' begin ' /var/log/stand-in-kubeadm.log"); began != "1\n" {
		t.Errorf("kubeadm began %s times", began)
	}
}
