//go:build linux

package hosts_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/pkg/version"
)

// release is the programs of a version.
type release struct {
	version          version.Version
	kubeadm, kubelet []byte
}

// programs are the contents by the name of the program.
func (r release) programs() map[string][]byte {
	return map[string][]byte{"kubeadm": r.kubeadm, "kubelet": r.kubelet}
}

// path is where a program of the release stands in a mirror, and in a manifest of digests.
func (r release) path(name string) string {
	return fmt.Sprintf("%s/linux/%s/%s", r.version, runtime.GOARCH, name)
}

// digests is the manifest of the release.
func (r release) digests() string {
	var manifest strings.Builder
	for name, content := range r.programs() {
		fmt.Fprintf(&manifest, "%s  %s\n", digestOf(content), r.path(name))
	}
	return manifest.String()
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

const (
	// mirror is the folder on hosts with the programs of the release that they are upgraded to.
	mirror = "/opt/mirror"
	// diskSize is room for three copies of the programs, besides those that are there at first.
	diskSize = 1 << 30
	// runtimeEndpoint is that of the container runtime.
	runtimeEndpoint = "unix:///run/containerd/containerd.sock"
)

// The units are those of Kubernetes' packages. The last file is the test's own: PID 1 of the hosts knows no order of units.
var units = map[string]string{
	"/etc/systemd/system/containerd.service": "[Unit]\nDescription=containerd container runtime\n[Service]\nExecStart=/usr/local/bin/containerd\nRestart=always\nRestartSec=5\n[Install]\nWantedBy=multi-user.target\n",
	"/etc/systemd/system/kubelet.service":    "[Unit]\nDescription=kubelet: The Kubernetes Node Agent\nStartLimitInterval=0\n[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\nRestartSec=10\n[Install]\nWantedBy=multi-user.target\n",
	"/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`,
	"/etc/systemd/system/kubelet.service.d/20-after-containerd.conf": "[Service]\nExecStartPre=/bin/bash -c 'until [ -S /run/containerd/containerd.sock ]; do sleep 0.05; done'\n",
}

// machine is a host with a node of the older release.
type machine struct {
	*hosts.Host
	plane *plane
	name  string
	node  *corev1.Node
}

// newMachine makes a host as "kubeadm join" leaves it, and boots it. Its kubelet has further arguments. It returns when the node is Ready.
func (p *plane) newMachine(ctx context.Context, t *testing.T, name string, args ...string) *machine {
	t.Helper()
	m := &machine{Host: hosts.Start(t, hosts.Options{Name: name, Size: diskSize, Enable: []string{"containerd", "kubelet"}, Off: true}), plane: p, name: name}
	t.Cleanup(func() {
		if t.Failed() {
			journal := m.Journal("kubelet")
			t.Logf("the end of the kubelet's journal on %s:\n%s", name, journal[max(0, len(journal)-10_000):])
		}
	})
	args = append([]string{"--container-runtime-endpoint=" + runtimeEndpoint, "--node-ip=" + m.Address(), "--provider-id=" + m.providerID()}, args...)
	certificate, key := p.ca.kubelet(t, name)
	for path, content := range map[string]string{
		"/etc/kubernetes/pki/ca.crt":                      string(p.ca.pem) + string(p.RESTConfig().CAData),
		"/etc/kubernetes/kubelet.conf":                    fmt.Sprintf(kubeconfig, p.port, name),
		"/var/lib/kubelet/config.yaml":                    kubeletConfig,
		"/var/lib/kubelet/kubeadm-flags.env":              fmt.Sprintf("KUBELET_KUBEADM_ARGS=%q\n", strings.Join(args, " ")),
		"/var/lib/kubelet/pki/kubelet-client-current.pem": string(certificate) + string(key),
	} {
		m.Write(path, []byte(content))
	}
	for path, content := range units {
		m.Write(path, []byte(content))
	}
	for program, content := range p.from.programs() {
		m.Write("/usr/bin/"+program, content)
	}
	// By this name the kubelet is nothing but a container runtime.
	m.Write("/usr/local/bin/containerd", p.from.kubelet)
	for program, content := range p.to.programs() {
		m.Write(mirror+"/"+p.to.path(program), content)
	}
	m.Forward(p.port)
	m.Boot()
	m.node = m.awaitNode(ctx, t, p.from.version)
	return m
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: e2e
  cluster:
    certificate-authority: /etc/kubernetes/pki/ca.crt
    server: https://127.0.0.1:%d
users:
- name: system:node:%[2]s
  user:
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
contexts:
- name: system:node:%[2]s@e2e
  context: {cluster: e2e, user: system:node:%[2]s}
current-context: system:node:%[2]s@e2e
`

func (m *machine) providerID() string { return "e2e://" + m.name }

// awaitNode waits until the node is Ready at a version.
func (m *machine) awaitNode(ctx context.Context, t *testing.T, v version.Version) *corev1.Node {
	t.Helper()
	return await(ctx, t, m.plane, fmt.Sprintf("waiting for Node %s to be Ready at %s", m.name, v), &corev1.NodeList{}, func(node *corev1.Node) string {
		if at := node.Status.NodeInfo.KubeletVersion; at != v.String() {
			return "its kubelet is at " + at
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return fmt.Sprintf("its conditions are %+v", node.Status.Conditions)
	}, setup.Named(m.name))
}

// addPod puts a pod on the node, and waits until the kubelet has taken it on. Its container does not start: the stand-in of a runtime has no images.
func (m *machine) addPod(ctx context.Context, t *testing.T) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "on-" + m.name},
		Spec: corev1.PodSpec{
			NodeName: m.name, Containers: []corev1.Container{{Name: "app", Image: "example.com/app:v1"}},
			TerminationGracePeriodSeconds: new(int64(1)),
		},
	}
	m.plane.create(ctx, t, pod)
	return await(ctx, t, m.plane, "waiting for the pod on Node "+m.name, &corev1.PodList{}, func(pod *corev1.Pod) string {
		if pod.Status.HostIP != m.Address() || pod.Status.PodIP == "" {
			return fmt.Sprintf("it is %+v", pod.Status)
		}
		return ""
	}, setup.Named(pod.Name))
}

// checkUpgraded sees that the host and its node are those of before, at the newer release, and that kubeadm brought what the cluster says.
func (m *machine) checkUpgraded(ctx context.Context, t *testing.T, maxPods int64) {
	t.Helper()
	node := m.awaitNode(ctx, t, m.plane.to.version)
	if node.UID != m.node.UID {
		t.Errorf("the Node has UID %s, had %s: it is another one", node.UID, m.node.UID)
	}
	if node.Spec.Unschedulable {
		t.Error("the Node is cordoned")
	}
	if pods := node.Status.Capacity.Pods().Value(); pods != maxPods {
		t.Errorf("the Node takes %d pods, want %d", pods, maxPods)
	}
	for program, content := range m.plane.to.programs() {
		installed, err := m.Read("/usr/bin/" + program)
		if err != nil {
			t.Fatal(err)
		}
		if digestOf(installed) != digestOf(content) {
			t.Errorf("%s on the host is not that of %s", program, m.plane.to.version)
		}
	}
	config, err := m.Read("/var/lib/kubelet/config.yaml")
	if want := fmt.Sprintf("maxPods: %d", clusterMaxPods); err != nil || !strings.Contains(string(config), want) {
		t.Errorf("kubeadm did not bring the cluster's kubelet-config with %s to the host: %v\n%s", want, err, config)
	}
}

// run runs a script as root in the host, and gives what it prints.
func (m *machine) run(ctx context.Context, t *testing.T, script string) string {
	t.Helper()
	output, err := m.Run(ctx, script)
	if err != nil {
		t.Fatalf("host %s: %v", m.name, err)
	}
	return output
}

// files lists the files on the host that an upgrade could change, with what would tell a change. What a kubelet keeps of pods it may write at any time.
func (m *machine) files(ctx context.Context, t *testing.T) string {
	t.Helper()
	return m.run(ctx, t, `find /etc /opt /root /home /usr/bin /usr/local/bin /usr/lib/systemd /var/lib/windlass /var/lib/kubelet -xdev \
  -path /var/lib/kubelet/pods -prune -o -type f -printf '%p %m %U %G %s %T@ %i\n' 2>/dev/null | sort`)
}
