//go:build linux

package kubeadm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/node"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/pkg/version"
)

// machine is a host for a control plane.
type machine struct {
	*hosts.Host
	world *world
	name  string
}

// newMachine boots a host with the older release. Options are changed before.
func (w *world) newMachine(
	ctx context.Context, t *testing.T, name string, change ...func(*hosts.Options),
) *machine {
	t.Helper()
	options := node.Options{
		Name: name, Store: w.store, Version: w.from.Version, Runtime: w.runtime,
	}.Host()
	for _, f := range change {
		f(&options)
	}
	m := &machine{Host: hosts.Start(t, options), world: w, name: name}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, unit := range []string{"kubelet", "containerd"} {
			journal := m.Journal(unit)
			end := journal[max(0, len(journal)-10_000):]
			t.Logf("the end of the journal of %s on %s:\n%s", unit, name, end)
		}
		containers, err := m.Run(context.WithoutCancel(ctx), "crictl ps --all")
		t.Logf("containers on %s: %v\n%s", name, err, containers)
	})
	return m
}

// run runs a script as root in the host, and returns what it prints.
func (m *machine) run(ctx context.Context, t *testing.T, script string) string {
	t.Helper()
	began := time.Now()
	output, err := m.Run(ctx, script)
	if err != nil {
		t.Fatalf("host %s: %s: %v\n%s", m.name, script, err, output)
	}
	t.Logf("%s: %.40s: %s", m.name, script, time.Since(began).Round(time.Second/10))
	return output
}

const (
	// token and certificateKey are what machines join with.
	token          = "abcdef.0123456789abcdef"
	certificateKey = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	// noProxy is in the environment of machines' first kubeadm, which stores it in static pods.
	noProxy = "*.svc, it's 10.0.0.0/8"
)

// initialize creates a cluster on the host, with further flags.
func (m *machine) initialize(ctx context.Context, t *testing.T, flags ...string) *cluster {
	t.Helper()
	m.run(ctx, t, fmt.Sprintf(
		"NO_PROXY=\"%s\" kubeadm init --kubernetes-version %s --control-plane-endpoint %s:6443 "+
			"--token %s --upload-certs --certificate-key %s %s",
		noProxy, m.world.from.Version, m.Address(), token, certificateKey, strings.Join(flags, " ")))
	return m.connect(t)
}

// connect returns the cluster that "kubeadm init" has created on the host.
func (m *machine) connect(t *testing.T) *cluster {
	t.Helper()
	c, err := client.NewWithWatch(m.config(t), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{client: c}
}

// config returns what leads to the cluster of the host, as its administrator.
func (m *machine) config(t *testing.T) *rest.Config {
	t.Helper()
	kubeconfig, err := m.Read("/etc/kubernetes/admin.conf")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// join adds the host to the control plane of another's cluster.
func (m *machine) join(ctx context.Context, t *testing.T, first *machine) {
	t.Helper()
	m.run(ctx, t, fmt.Sprintf(
		"NO_PROXY=\"%s\" kubeadm join %s:6443 --token %s "+
			"--discovery-token-unsafe-skip-ca-verification --control-plane --certificate-key %s",
		noProxy, first.Address(), token, certificateKey))
}

// checkVersions compares what the API server of the host and all members of etcd report with a
// release.
func (m *machine) checkVersions(
	ctx context.Context, t *testing.T, members int, release kube.Release,
) {
	t.Helper()
	const config = "--kubeconfig /etc/kubernetes/admin.conf "
	kubectl := "kubectl " + config + "--server https://" + m.Address() + ":6443 "
	var served struct{ GitVersion string }
	m.decode(ctx, t, kubectl+"get --raw /version", &served)
	if served.GitVersion != release.Version.String() {
		t.Errorf("the API server of %s reports %s, want %s", m.name, served.GitVersion, release.Version)
	}
	var statuses []struct{ Status struct{ Version string } }
	etcdctl := m.world.store.Program(release.Version, "etcdctl")
	m.decode(ctx, t, "cd /etc/kubernetes/pki/etcd && "+etcdctl+
		" --cacert ca.crt --cert healthcheck-client.crt --key healthcheck-client.key "+
		"endpoint status --cluster --write-out json", &statuses)
	if len(statuses) != members {
		t.Errorf("etcd has %d members, want %d", len(statuses), members)
	}
	for _, s := range statuses {
		if want := release.EtcdVersion(); s.Status.Version != want {
			t.Errorf("a member of etcd reports %s, want %s", s.Status.Version, want)
		}
	}
}

func (m *machine) decode(ctx context.Context, t *testing.T, script string, into any) {
	t.Helper()
	output := m.run(ctx, t, script)
	if err := json.Unmarshal([]byte(output), into); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, output)
	}
}

// cluster is what a client sees through the first host's API server.
type cluster struct{ client client.WithWatch }

// awaitNode waits until a host's Node is Ready at a version.
func (c *cluster) awaitNode(ctx context.Context, t *testing.T, name string, v version.Version) {
	t.Helper()
	await(ctx, t, c, &corev1.NodeList{}, func(node *corev1.Node) string {
		if at := node.Status.NodeInfo.KubeletVersion; at != v.String() {
			return "its kubelet is at " + at
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return fmt.Sprintf("its conditions are %+v", node.Status.Conditions)
	}, setup.Named(name))
}

// awaitPod waits until a pod with labels is Ready, and its container was restarted so often at
// least.
func (c *cluster) awaitPod(
	ctx context.Context, t *testing.T, labels client.MatchingLabels, restarts int32,
) {
	t.Helper()
	await(ctx, t, c, &corev1.PodList{}, func(pod *corev1.Pod) string {
		for _, status := range pod.Status.ContainerStatuses {
			if status.Ready && status.RestartCount >= restarts {
				return ""
			}
		}
		return fmt.Sprintf("pod %s: %+v", pod.Name, pod.Status)
	}, labels, client.InNamespace("kube-system"))
}

// await waits for an object as [setup.Await] does, also through restarts of the API server.
func await[T client.Object](
	ctx context.Context, t *testing.T, c *cluster, list client.ObjectList, check func(T) string,
	options ...client.ListOption,
) {
	t.Helper()
	for {
		_, err := setup.Await(ctx, c.client, list, check, options...)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(time.Second / 10):
		}
	}
}
