//go:build linux

package kubeadm_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// restorePage has the commands of docs/etcd-restore.md, in order.
type restorePage struct {
	// save saves the authorities of a cluster, restore restores a snapshot on an empty host, forget
	// removes a Node of the old cluster, and join prints how further control plane machines join.
	save, restore, forget, join string
}

// readRestorePage reads the commands of the page, with values in the place of words in upper case.
func readRestorePage(t *testing.T, values map[string]string) restorePage {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repository, "docs", "etcd-restore.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```sh\n(.*?\n)```\n").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 4 {
		t.Fatalf("docs/etcd-restore.md has %d blocks of commands, want 4", len(blocks))
	}
	for _, block := range blocks {
		for word, value := range values {
			pattern := regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`)
			block[1] = pattern.ReplaceAllLiteralString(block[1], value)
		}
	}
	return restorePage{
		save: blocks[0][1], restore: blocks[1][1], forget: blocks[2][1], join: blocks[3][1],
	}
}

// TestRestorePage runs the first commands of the page on a folder, and looks at the others: all
// words in upper case have values, and bash can parse them.
func TestRestorePage(t *testing.T) {
	const pki = "/etc/kubernetes/pki"
	values := map[string]string{
		"NAME": "host", "ADDRESS": "10.0.0.1", "ENDPOINT": "10.0.0.1:6443", "LOST": "lost",
	}
	page := readRestorePage(t, values)
	dir := t.TempDir()
	const kubectl = "kubectl() { echo \"# $*\"; }\n"
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
	run := exec.CommandContext(t.Context(), "bash", "-c", "umask 022; cd "+dir+"\n"+kubectl+save)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", save, err, out)
	}
	info, err := os.Stat(filepath.Join(dir, "pki.tar"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("others can read the keys: %v, %v", info, err)
	}
	for _, flag := range []string{" --bump-revision 1000000000 ", " --mark-compacted\n"} {
		if !strings.Contains(page.restore, flag) {
			t.Errorf("clients that watch do not notice older data: no%sin\n%s", flag, page.restore)
		}
	}
	config, err := os.ReadFile(filepath.Join(dir, "kubeadm.yaml"))
	for name, key := range configMaps {
		key = strings.ReplaceAll(key, ".", `\.`)
		if want := " configmap " + name + " -o jsonpath={.data." + key + "}\n\n---\n"; err != nil ||
			!strings.Contains(string(config), want) {
			t.Errorf("kubeadm.yaml has no%s%v\n%s", want, err, config)
		}
	}
	for _, commands := range []string{page.restore, page.forget, page.join} {
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

// configMaps have kubeadm's configuration of a cluster, each at a key.
var configMaps = map[string]string{
	"kubeadm-config": "ClusterConfiguration", "kubelet-config": "kubelet", "kube-proxy": "config.conf",
}

// config returns kubeadm's configuration of the cluster: ConfigMap -> field -> value.
func (c *cluster) config(ctx context.Context, t *testing.T) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for name, key := range configMaps {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: name,
		}}
		c.get(ctx, t, object)
		fields := map[string]any{}
		if err := yaml.Unmarshal([]byte(object.Data[key]), &fields); err != nil {
			t.Fatal(err)
		}
		all[name] = fields
	}
	return all
}

// configure sets a field of kubeadm's configuration.
func (c *cluster) configure(ctx context.Context, t *testing.T, name, field string, value any) {
	t.Helper()
	fields := c.config(ctx, t)[name]
	fields[field] = value
	content, err := yaml.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: name,
	}}
	c.get(ctx, t, object)
	object.Data[configMaps[name]] = string(content)
	if err := c.client.Update(ctx, object); err != nil {
		t.Fatal(err)
	}
}

// checkServices sees that the API server of the host has a certificate for its own Service.
func (m *machine) checkServices(ctx context.Context, t *testing.T, c *cluster) {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: "kubernetes",
	}}
	c.get(ctx, t, service)
	content, err := m.Read("/etc/kubernetes/pki/apiserver.crt")
	if err != nil {
		t.Fatal(err)
	}
	chain, err := cert.ParseCertsPEM(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := chain[0].VerifyHostname(service.Spec.ClusterIP); err != nil {
		t.Errorf("pods cannot trust the API server: %v", err)
	}
}

// checkRevision sees that clients which knew the cluster before the restore must read it again: no
// revision from then is served, and none is used again.
func (c *cluster) checkRevision(ctx context.Context, t *testing.T, before *corev1.ConfigMap) {
	t.Helper()
	const bump = 1_000_000_000
	now := &corev1.ConfigMapList{}
	if err := c.client.List(ctx, now); err != nil {
		t.Fatal(err)
	}
	if at, err := strconv.Atoi(now.ResourceVersion); err != nil || at < bump {
		t.Errorf("the cluster is at revision %s, want %d or more: %v", now.ResourceVersion, bump, err)
	}
	err := c.client.List(ctx, &corev1.ConfigMapList{}, &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: before.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	}})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("revision %s from before the restore is not compacted: %v", before.ResourceVersion, err)
	}
}

// testRestore restores the snapshot that the upgrade of a machine took on an empty host, with the
// commands of docs/etcd-restore.md. The new cluster has what was written before the snapshot, and
// the configuration from then.
func (m *machine) testRestore(
	ctx context.Context, t *testing.T, before *corev1.ConfigMap, config map[string]map[string]any,
) {
	t.Helper()
	empty := m.world.newMachine(ctx, t, "restored")
	page := readRestorePage(t, map[string]string{
		"NAME": empty.name, "ADDRESS": empty.Address(), "ENDPOINT": empty.Address() + ":6443",
		"LOST": m.name, "v1.35.4": m.world.from.Version.String(),
	})
	const folder, begin = "/root/", "set -eu\numask 022\ncd /root\n"
	m.run(ctx, t, begin+page.save)
	if mode := m.run(ctx, t, "stat -c %a /root/pki.tar"); strings.TrimSpace(mode) != "600" {
		t.Errorf("the saved keys have the mode %s", mode)
	}
	snapshot := strings.TrimSpace(m.run(ctx, t, "ls /var/lib/windlass/snapshots/*.db"))
	for from, to := range map[string]string{
		snapshot: "snapshot.db", folder + "pki.tar": "pki.tar", folder + "kubeadm.yaml": "kubeadm.yaml",
	} {
		content, err := m.Read(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(empty.Root()+folder+to, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.PowerCut()

	empty.run(ctx, t, begin+page.restore)
	c := empty.connect(t)
	c.awaitNode(ctx, t, empty.name, m.world.from.Version)
	empty.checkVersions(ctx, t, 1, m.world.from)
	config["kubeadm-config"]["controlPlaneEndpoint"] = empty.Address() + ":6443"
	if diff := cmp.Diff(config, c.config(ctx, t)); diff != "" {
		t.Errorf("kubeadm's configuration before the upgrade (-) and after the restore (+):\n%s", diff)
	}
	empty.checkServices(ctx, t, c)

	c.check(ctx, t, before)
	after := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: before.Namespace, Name: "after",
	}}
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(after), after); !apierrors.IsNotFound(err) {
		t.Errorf("the snapshot is from before the upgrade, and has what was written after it: %v", err)
	}
	c.checkRevision(ctx, t, before)
	empty.run(ctx, t, begin+page.forget)
	lost := &corev1.Node{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: m.name}, lost); !apierrors.IsNotFound(err) {
		t.Errorf("the Node of the lost machine: %v", err)
	}
	const asControlPlane = " --control-plane --certificate-key "
	if join := empty.run(ctx, t, begin+page.join); !strings.Contains(join, asControlPlane) {
		t.Errorf("further machines do not join as control planes: %s", join)
	}
	c.write(ctx, t, "restored")
}
