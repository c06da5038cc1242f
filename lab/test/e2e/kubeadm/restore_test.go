//go:build linux

package kubeadm_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restorePage has the commands of docs/etcd-restore.md, in order.
type restorePage struct {
	// save saves the authorities of a cluster, restore restores a snapshot on an empty host, and
	// forget removes a Node of the old cluster.
	save, restore, forget string
}

// readRestorePage reads the commands of the page, with values in the place of words in upper case.
func readRestorePage(t *testing.T, values map[string]string) restorePage {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repository, "docs", "etcd-restore.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```sh\n(.*?\n)```\n").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 3 {
		t.Fatalf("docs/etcd-restore.md has %d blocks of commands, want 3", len(blocks))
	}
	for _, block := range blocks {
		for word, value := range values {
			pattern := regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`)
			block[1] = pattern.ReplaceAllLiteralString(block[1], value)
		}
	}
	return restorePage{save: blocks[0][1], restore: blocks[1][1], forget: blocks[2][1]}
}

// TestRestorePage runs the first commands of the page on a folder, and looks at the others: all
// words in upper case have values, and bash can parse them.
func TestRestorePage(t *testing.T) {
	const pki = "/etc/kubernetes/pki"
	values := map[string]string{
		"NAME": "host", "ADDRESS": "10.0.0.1", "ENDPOINT": "10.0.0.1", "LOST": "lost",
	}
	page := readRestorePage(t, values)
	dir := t.TempDir()
	for name := range strings.FieldsSeq("ca front-proxy-ca etcd/ca sa") {
		for _, ending := range []string{".crt", ".key", ".pub"} {
			path := filepath.Join(dir, pki, name+ending)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(name+ending), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	save := strings.ReplaceAll(page.save, pki, dir+pki)
	run := exec.CommandContext(t.Context(), "bash", "-c", "umask 022; cd "+dir+"; "+save)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", save, err, out)
	}
	info, err := os.Stat(filepath.Join(dir, "pki.tar"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("others can read the keys: %v, %v", info, err)
	}
	for _, commands := range []string{page.restore, page.forget} {
		for _, word := range regexp.MustCompile(`\b[A-Z]{4,}\b`).FindAllString(commands, -1) {
			if word != "KUBECONFIG" {
				t.Errorf("%s has no value in\n%s", word, commands)
			}
		}
		parse := exec.CommandContext(t.Context(), "bash", "-n", "-c", commands)
		if out, err := parse.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, commands)
		}
	}
}

// testRestore restores the snapshot that the upgrade of a machine took on an empty host, with the
// commands of docs/etcd-restore.md. The new cluster has what was written before the snapshot.
func (m *machine) testRestore(ctx context.Context, t *testing.T, before *corev1.ConfigMap) {
	t.Helper()
	empty := m.world.newMachine(ctx, t, "restored")
	page := readRestorePage(t, map[string]string{
		"NAME": empty.name, "ADDRESS": empty.Address(), "ENDPOINT": empty.Address(), "LOST": m.name,
		"v1.35.4": m.world.from.Version.String(),
	})
	const folder, begin = "/root/", "set -eu\numask 022\ncd /root\n"
	m.run(ctx, t, begin+page.save)
	if mode := m.run(ctx, t, "stat -c %a /root/pki.tar"); strings.TrimSpace(mode) != "600" {
		t.Errorf("the saved keys have the mode %s", mode)
	}
	snapshot := strings.TrimSpace(m.run(ctx, t, "ls /var/lib/windlass/snapshots/*.db"))
	for from, to := range map[string]string{snapshot: "snapshot.db", folder + "pki.tar": "pki.tar"} {
		content, err := m.Read(from)
		if err != nil {
			t.Fatal(err)
		}
		empty.Write(folder+to, content)
	}
	m.PowerCut()

	empty.run(ctx, t, begin+page.restore)
	c := empty.connect(t)
	c.awaitNode(ctx, t, empty.name, m.world.from.Version)
	empty.checkVersions(ctx, t, 1, m.world.from)

	c.check(ctx, t, before)
	after := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: before.Namespace, Name: "after",
	}}
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(after), after); !apierrors.IsNotFound(err) {
		t.Errorf("the snapshot is from before the upgrade, and has what was written after it: %v", err)
	}
	empty.run(ctx, t, begin+page.forget)
	lost := &corev1.Node{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: m.name}, lost); !apierrors.IsNotFound(err) {
		t.Errorf("the Node of the lost machine: %v", err)
	}
	c.write(ctx, t, "restored")
}
