//go:build linux

package kubeadm_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testRestore restores the snapshot that the upgrade of a machine took on an empty host, as
// docs/etcd-restore.md has it. The new cluster has what was written before the snapshot.
func (m *machine) testRestore(ctx context.Context, t *testing.T, before *corev1.ConfigMap) {
	t.Helper()
	const saved, authorities = "/root/snapshot.db", "/root/pki.tar"
	empty := m.world.newMachine(ctx, t, "restored")
	m.run(ctx, t, "tar -cf "+authorities+" -C /etc/kubernetes/pki "+
		"ca.crt ca.key front-proxy-ca.crt front-proxy-ca.key sa.key sa.pub etcd/ca.crt etcd/ca.key")
	snapshot := strings.TrimSpace(m.run(ctx, t, "ls /var/lib/windlass/snapshots/*.db"))
	for from, to := range map[string]string{snapshot: saved, authorities: authorities} {
		content, err := m.Read(from)
		if err != nil {
			t.Fatal(err)
		}
		empty.Write(to, content)
	}
	m.PowerCut()

	empty.run(ctx, t, "mkdir -p /etc/kubernetes/pki && tar -xf "+authorities+" -C /etc/kubernetes/pki")
	peer := "https://" + net.JoinHostPort(empty.Address(), "2380")
	empty.run(ctx, t, fmt.Sprintf("etcdutl snapshot restore %s --data-dir /var/lib/etcd --name %s "+
		"--initial-cluster %[2]s=%s --initial-advertise-peer-urls %[3]s "+
		"--bump-revision 1000000000 --mark-compacted", saved, empty.name, peer))
	c := empty.initialize(ctx, t, "--ignore-preflight-errors", "DirAvailable--var-lib-etcd")
	c.awaitNode(ctx, t, empty.name, m.world.from.Version)
	empty.checkVersions(ctx, t, 1, m.world.from)

	c.check(ctx, t, before)
	after := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: before.Namespace, Name: "after",
	}}
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(after), after); !apierrors.IsNotFound(err) {
		t.Errorf("the snapshot is from before the upgrade, and has what was written after it: %v", err)
	}
	lost := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
	if err := c.client.Delete(ctx, lost); err != nil {
		t.Errorf("the Node of the lost machine: %v", err)
	}
	c.write(ctx, t, "restored")
}
