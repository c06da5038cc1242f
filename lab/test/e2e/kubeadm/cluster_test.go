//go:build linux

package kubeadm_test

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testJoin creates a cluster, kills processes of its control plane, and adds a second machine to
// it.
func (w *world) testJoin(ctx context.Context, t *testing.T) {
	t.Helper()
	first, second := w.newMachine(ctx, t, "first"), w.newMachine(ctx, t, "second")
	c := first.initialize(ctx, t)
	c.awaitNode(ctx, t, "first", w.from.Version)
	first.checkVersions(ctx, t, 1, w.from)
	for _, app := range []string{"kube-proxy", "kube-dns"} {
		c.awaitPod(ctx, t, client.MatchingLabels{"k8s-app": app}, 0)
	}
	for _, component := range []string{"kube-scheduler", "etcd"} {
		first.run(ctx, t, "pkill -KILL -x "+component)
		c.awaitPod(ctx, t, client.MatchingLabels{"component": component}, 1)
	}

	second.join(ctx, t, first)
	c.awaitNode(ctx, t, "second", w.from.Version)
	second.checkVersions(ctx, t, 2, w.from)
}

// testUpgrade upgrades a control plane of one machine, as kubeadm's documentation tells people to
// do.
func (w *world) testUpgrade(ctx context.Context, t *testing.T) {
	t.Helper()
	m := w.newMachine(ctx, t, "only")
	c := m.initialize(ctx, t)
	c.awaitNode(ctx, t, "only", w.from.Version)
	m.checkVersions(ctx, t, 1, w.from)

	m.install(ctx, t, "kubeadm", w.to)
	m.run(ctx, t, "kubeadm upgrade apply --yes "+w.to.Version.String())
	m.checkVersions(ctx, t, 1, w.to)

	// A kubelet of another minor restarts the static pods, so that the API server is away for a while.
	m.install(ctx, t, "kubelet", w.to)
	m.run(ctx, t, "systemctl restart kubelet")
	c.awaitNode(ctx, t, "only", w.to.Version)
	for _, component := range []string{
		"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd",
	} {
		c.awaitPod(ctx, t, client.MatchingLabels{"component": component}, 0)
	}
}
