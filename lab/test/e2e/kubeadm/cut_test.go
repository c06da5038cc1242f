//go:build linux

package kubeadm_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// testPowerCut cuts the power of a control plane of one machine in the middle of "kubeadm upgrade
// apply": a static pod has a new manifest, and its old process has ended. The manifest and a renewed
// key are empty then, because kubeadm does not sync them. After the boot the same command continues,
// and nothing is lost.
func (w *world) testPowerCut(ctx context.Context, t *testing.T, pod, key string) {
	t.Helper()
	if os.Getenv("WINDLASS_LONG") != "1" {
		t.Skip("long; set WINDLASS_LONG=1")
	}
	t.Parallel()
	m := w.newMachine(ctx, t, "only", w.addMirror)
	c := m.initialize(ctx, t)
	c.awaitNode(ctx, t, "only", w.from.Version)
	before := c.write(ctx, t, "before")
	update := m.newUpdate(ctx, t)

	update.cut(ctx, t, pod, key, "upgrade apply", func() {})
	update.run(ctx, t, 0)
	m.checkUpgraded(ctx, t, c, 1)
	c.check(ctx, t, before)
	if saved := m.run(ctx, t, "ls /var/lib/windlass/snapshots"); strings.Count(saved, "\n") != 1 {
		t.Errorf("there are these snapshots:\n%s", saved)
	}
}

// testPowerCuts cuts the power of two of three machines of a control plane, one after the other: of
// the first one in "kubeadm upgrade apply", while etcd restarts, and of the second one in "kubeadm
// upgrade node", while the API server restarts. A client writes at the third one: etcd keeps its
// quorum. After each boot the same command continues. At the end each member of etcd has all that
// was acknowledged.
func (w *world) testPowerCuts(ctx context.Context, t *testing.T) {
	t.Helper()
	if os.Getenv("WINDLASS_LONG") != "1" {
		t.Skip("long; set WINDLASS_LONG=1")
	}
	t.Parallel()
	var machines []*machine
	for _, name := range []string{"first", "second", "third"} {
		machines = append(machines, w.newMachine(ctx, t, name, w.addMirror))
	}
	first, second, third := machines[0], machines[1], machines[2]
	c := first.initialize(ctx, t)
	c.awaitNode(ctx, t, first.name, w.from.Version)
	for _, m := range machines[1:] {
		m.join(ctx, t, first)
		c.awaitNode(ctx, t, m.name, w.from.Version)
	}
	third.checkVersions(ctx, t, len(machines), w.from)
	before := c.write(ctx, t, "before")
	writer := third.startWriter(ctx, t)
	checkWrites := func() { writer.checkGoesOn(ctx, t) }

	update := first.newUpdate(ctx, t)
	update.cut(ctx, t, "etcd", "etcd/server.key", "upgrade apply", checkWrites)
	update.run(ctx, t, 0)
	c.check(ctx, t, before)
	between := c.write(ctx, t, "between")

	update = second.newUpdate(ctx, t)
	update.cut(ctx, t, "kube-apiserver", "apiserver.key", "upgrade node", checkWrites)
	update.run(ctx, t, 0)
	writer.check(ctx, t, machines...)

	third.newUpdate(ctx, t).run(ctx, t, 0)
	for _, m := range machines {
		m.checkUpgraded(ctx, t, c, len(machines))
	}
	for _, written := range []*corev1.ConfigMap{before, between} {
		c.check(ctx, t, written)
	}
}

// cut begins an update, and cuts the power of the host while a command of kubeadm restarts a static
// pod. The pod's manifest and a key are empty then. It calls whileOff before the host boots, and
// returns when it has booted.
func (u *update) cut(
	ctx context.Context, t *testing.T, pod, key, kubeadm string, whileOff func(),
) {
	t.Helper()
	m := u.machine
	cmd, stderr := u.command(ctx)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	running := m.run(ctx, t, fmt.Sprintf(`cd /etc/kubernetes
until [ -e manifests/%[1]s.yaml ] && ls tmp/kubeadm-backup-manifests-*/%[1]s.yaml; do
  sleep 0.05
done >/dev/null 2>&1
while pgrep -x %[1]s >/dev/null; do sleep 0.05; done
pgrep -a kubeadm`, pod))
	m.PowerCut()
	m.Write("/etc/kubernetes/manifests/"+pod+".yaml", nil)
	m.Write("/etc/kubernetes/pki/"+key, nil)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	err := cmd.Wait()
	if !strings.Contains(running, kubeadm) {
		t.Errorf("when the power was cut kubeadm ran %q, want %s", running, kubeadm)
	}
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Fatalf("exit code %d, want %d: %v\n%s", code, exitInterrupted, err, stderr)
	}
	whileOff()
	m.Boot()
}
