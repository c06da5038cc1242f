//go:build linux

package kubeadm_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
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

	cmd, stderr := update.command(ctx)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.run(ctx, t, fmt.Sprintf(`cd /etc/kubernetes
until [ -e manifests/%[1]s.yaml ] && ls tmp/kubeadm-backup-manifests-*/%[1]s.yaml; do
  sleep 0.05
done >/dev/null 2>&1
while pgrep -x %[1]s >/dev/null; do sleep 0.05; done`, pod))
	m.PowerCut()
	m.Write("/etc/kubernetes/manifests/"+pod+".yaml", nil)
	m.Write("/etc/kubernetes/pki/"+key, nil)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	err := cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Fatalf("exit code %d, want %d: %v\n%s", code, exitInterrupted, err, stderr)
	}

	m.Boot()
	update.run(ctx, t, 0)
	m.checkUpgraded(ctx, t, c)
	c.check(ctx, t, before)
	if saved := m.run(ctx, t, "ls /var/lib/windlass/snapshots"); strings.Count(saved, "\n") != 1 {
		t.Errorf("there are these snapshots:\n%s", saved)
	}
}
