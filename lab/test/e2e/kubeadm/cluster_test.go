//go:build linux

package kubeadm_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
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

// testUpgrade upgrades a control plane of one machine with the command that a person would use. Its
// host has no etcdctl, so etcd is saved by the one in etcd's own container. A PodDisruptionBudget
// holds the drain of its Node until it is deleted. Then the snapshot is restored on another host.
// The cluster has settings that are not kubeadm's defaults, and keeps them.
func (w *world) testUpgrade(ctx context.Context, t *testing.T) {
	t.Helper()
	m := w.newMachine(ctx, t, "only", w.addMirror, func(o *hosts.Options) {
		delete(o.Links, "/usr/bin/etcdctl")
		delete(o.Links, "/usr/bin/crictl")
	})
	c := m.initialize(ctx, t, "--service-cidr", "10.128.0.0/12")
	c.awaitNode(ctx, t, "only", w.from.Version)
	m.checkVersions(ctx, t, 1, w.from)
	c.configure(ctx, t, "kubelet-config", "maxPods", 99.0)
	c.configure(ctx, t, "kube-proxy", "configSyncPeriod", "20m0s")
	before, config := c.write(ctx, t, "before"), c.config(ctx, t)
	update := m.newUpdate(ctx, t)

	m.checkRefused(ctx, t, update)
	m.run(ctx, t, "ln -s "+w.store.Program(w.from.Version, "crictl")+" /usr/bin/crictl")
	patched := m.addPatch(ctx, t, update)
	web := c.createWeb(ctx, t, w.from)
	unpulled := m.checkPrefetch(ctx, t, update)
	web.checkDrain(ctx, t, m, update)
	m.checkUpgraded(ctx, t, c, 1)
	unpulled()
	patched()
	c.check(ctx, t, before)

	c.write(ctx, t, "after")
	t.Run("restore", func(t *testing.T) { m.testRestore(ctx, t, before, config) })
}

// addPatch gives the host a patch for kubeadm. The upgrade is refused until the command says what
// happens to patches. What it returns sees that the new manifest is patched.
func (m *machine) addPatch(ctx context.Context, t *testing.T, u *update) (patched func()) {
	t.Helper()
	const folder, mark = "/etc/kubernetes/patches", "example.com/patched: by-a-person"
	m.run(ctx, t, "mkdir "+folder+"; printf 'metadata:\n  annotations:\n    "+mark+"\n' >"+
		folder+"/kube-scheduler0+merge.yaml")
	lines := u.run(ctx, t, exitRefused, "--dry-run")
	refused := lines[len(lines)-1].Error.Message
	if !strings.Contains(refused, "FileRefused") || !strings.Contains(refused, "--patches "+folder) {
		t.Errorf("it ends with %q, want FileRefused, and --patches", refused)
	}
	u.args = append(u.args, "--patches", folder)
	return func() {
		t.Helper()
		m.run(ctx, t, "grep '"+mark+"' /etc/kubernetes/manifests/kube-scheduler.yaml")
	}
}

// checkRefused sees that a host without etcdctl and crictl is refused before anything is done.
func (m *machine) checkRefused(ctx context.Context, t *testing.T, u *update) {
	t.Helper()
	const reason = "ToolMissing: step etcd-snapshot: the host has neither etcdctl nor crictl"
	for _, args := range [][]string{{"--dry-run"}, nil} {
		lines := u.run(ctx, t, exitRefused, args...)
		if last := lines[len(lines)-1].Error; !strings.Contains(last.Message, reason) {
			t.Errorf("it ends with %+v, want %s", last, reason)
		}
	}
	if left := m.run(ctx, t, "ls -A /var/lib/windlass"); left != "" {
		t.Errorf("a refused upgrade leaves on the host: %s", left)
	}
}

// components are the static pods of a control plane.
var components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// checkUpgraded sees that everything of the machine and all members of etcd are at the newer
// release at once, without waiting.
func (m *machine) checkUpgraded(ctx context.Context, t *testing.T, c *cluster, members int) {
	t.Helper()
	m.checkVersions(ctx, t, members, m.world.to)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
	c.get(ctx, t, node)
	if at := node.Status.NodeInfo.KubeletVersion; at != m.world.to.Version.String() {
		t.Errorf("the kubelet reports %s, want %s", at, m.world.to.Version)
	}
	if node.Spec.Unschedulable {
		t.Error("the Node is cordoned")
	}
	for _, image := range m.world.to.Images {
		if !slices.Contains(components, image.Name()) {
			continue
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: image.Name() + "-" + m.name,
		}}
		c.get(ctx, t, pod)
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if !ready || !strings.HasSuffix(pod.Spec.Containers[0].Image, ":"+image.Tag) {
			t.Errorf("static pod %s is Ready: %t, with image %s; want tag %s",
				pod.Name, ready, pod.Spec.Containers[0].Image, image.Tag)
		}
		if image.Name() != "etcd" {
			checkProxy(t, pod.Name, pod.Spec)
		}
	}
	proxy := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: "kube-proxy",
	}}
	c.get(ctx, t, proxy)
	checkProxy(t, proxy.Name, proxy.Spec.Template.Spec)
}

// checkProxy sees that an upgrade has kept the proxies that kubeadm once found in its environment.
func checkProxy(t *testing.T, name string, pod corev1.PodSpec) {
	t.Helper()
	want := corev1.EnvVar{Name: "NO_PROXY", Value: noProxy}
	if env := pod.Containers[0].Env; !slices.Contains(env, want) {
		t.Errorf("%s has the variables %+v, want %+v", name, env, want)
	}
}

// write writes an object, and returns it as the API server has it.
func (c *cluster) write(ctx context.Context, t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Data:       map[string]string{"written": name},
	}
	if err := c.client.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// get reads an object by its name.
func (c *cluster) get(ctx context.Context, t *testing.T, object client.Object) {
	t.Helper()
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
}

// check sees that the cluster has what was written.
func (c *cluster) check(ctx context.Context, t *testing.T, written *corev1.ConfigMap) {
	t.Helper()
	is := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: written.Namespace, Name: written.Name,
	}}
	c.get(ctx, t, is)
	if is.UID != written.UID || !maps.Equal(is.Data, written.Data) {
		t.Errorf("ConfigMap %s has UID %s and %v, want %s and %v",
			is.Name, is.UID, is.Data, written.UID, written.Data)
	}
}
