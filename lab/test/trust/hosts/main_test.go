//go:build linux

// Package hosts_test tests what a tenant can have an updater for Linux hosts do: with an extension
// as a process, an API server, and hosts with sshd.
package hosts_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

func TestMain(m *testing.M) { wire.Main(m) }

const (
	machineName = "m-0"
	loginSecret = "hosts"
	// mirror is the folder on hosts with the programs of the newer version.
	mirror = "/opt/mirror"
)

// world is a Machine of a pool, an Updater for its host, and the extension.
type world struct {
	plane     *wire.Plane
	pool      *wire.Pool
	extension *wire.Process
	updater   *v1alpha1.Updater
	// patches is the folder with patches for kubeadm that configs name; empty for none.
	patches string
}

// newWorld registers an Updater that selects the pool's namespace. change edits it first.
func newWorld(t *testing.T, change func(*v1alpha1.HostConfig)) *world {
	t.Helper()
	plane := wire.Start(t)
	w := &world{plane: plane, pool: plane.NewPool(t, machineName)}
	config := &v1alpha1.HostConfig{
		SSH:      &v1alpha1.HostSSH{User: "root", SecretName: loginSecret},
		Binaries: v1alpha1.HostBinaries{HostFolder: mirror, Digests: v1alpha1.HostDigests{Manifest: manifest(t)}},
	}
	if change != nil {
		change(config)
	}
	w.updater = &v1alpha1.Updater{
		ObjectMeta: metav1.ObjectMeta{Name: w.pool.Namespace},
		Spec: v1alpha1.UpdaterSpec{
			InProcess:         &v1alpha1.InProcessUpdater{Kind: v1alpha1.KubeadmUpdater, Host: config},
			Transitions:       v1alpha1.Transitions{MaxMinors: 1},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.pool.Namespace}},
		},
	}
	plane.Create(t, w.updater)
	w.extension = plane.Run(t)
	return w
}

// restart makes a change between the end of the extension and a new start, which remembers nothing.
func (w *world) restart(t *testing.T, change func()) {
	t.Helper()
	w.extension.Kill(t)
	change()
	w.extension = w.plane.Run(t)
}

// standIns are the programs of a version.
func standIns(t *testing.T, version string) map[string][]byte {
	t.Helper()
	programs, err := hosts.StandIn(version)
	if err != nil {
		t.Fatal(err)
	}
	return programs
}

func programPath(name string) string {
	return wire.To + "/linux/" + runtime.GOARCH + "/" + name
}

func manifest(t *testing.T) string {
	t.Helper()
	var lines strings.Builder
	for name, content := range standIns(t, wire.To) {
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(content), programPath(name))
	}
	return lines.String()
}

// startHost makes a worker as kubeadm leaves it, whose cluster has an authority.
func startHost(t *testing.T, node string, authority *loopback.Authority) *hosts.Host {
	t.Helper()
	files := map[string][]byte{
		"/etc/systemd/system/kubelet.service":             []byte("[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\nRestartSec=1\n[Install]\nWantedBy=multi-user.target\n"),
		"/var/lib/kubelet/config.yaml":                    []byte("kind: KubeletConfiguration\n"),
		"/var/lib/kubelet/kubeadm-flags.env":              []byte("KUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.1\"\n"),
		"/var/lib/kubelet/pki/kubelet-client-current.pem": identity(t, authority, "system:node:"+node),
		"/etc/kubernetes/pki/ca.crt":                      authority.PEM,
		"/etc/kubernetes/kubelet.conf": []byte("clusters:\n- cluster:\n    certificate-authority: /etc/kubernetes/pki/ca.crt\n    server: https://127.0.0.1:1\n" +
			"users:\n- user:\n    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem\n"),
	}
	for name, content := range standIns(t, wire.From) {
		files["/usr/bin/"+name] = content
	}
	for name, content := range standIns(t, wire.To) {
		files[mirror+"/"+programPath(name)] = content
	}
	return hosts.Start(t, hosts.Options{Name: node, Files: files, Enable: []string{"kubelet"}})
}

// identity is a certificate and its key in one file, as the kubelet keeps them.
func identity(t *testing.T, authority *loopback.Authority, name string) []byte {
	t.Helper()
	issued := authority.Issue(t, name, time.Now().Add(time.Hour))
	return slices.Concat(issued.Certificate, issued.Key)
}

// login creates the Secret by which all of the given hosts are reached, with the key of the first.
func (w *world) login(t *testing.T, all ...*hosts.Host) {
	t.Helper()
	var known bytes.Buffer
	for _, host := range all {
		known.Write(host.KnownHosts())
		for _, other := range all {
			// One login for the hosts of all tenants, as sites have it.
			host.Write("/etc/ssh/keys/root", bytes.Join([][]byte{publicKey(t, other), publicKey(t, host)}, nil))
		}
	}
	w.plane.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.pool.Namespace, Name: loginSecret},
		Data:       map[string][]byte{"ssh-privatekey": all[0].Key("root"), "known_hosts": known.Bytes()},
	})
}

// publicKey is the line for authorized_keys of a host's root.
func publicKey(t *testing.T, host *hosts.Host) []byte {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(host.Key("root"))
	if err != nil {
		t.Fatal(err)
	}
	return ssh.MarshalAuthorizedKey(signer.PublicKey())
}

// address sets the Machine's address.
func (w *world) address(t *testing.T, address string) {
	t.Helper()
	machine := w.pool.Machine(t, machineName)
	patch := client.MergeFrom(machine.DeepCopy())
	machine.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: address}}
	if err := w.plane.Client.Status().Patch(t.Context(), machine, patch); err != nil {
		t.Fatal(err)
	}
}

// begin asks as Cluster API asks, moves the Machine to a config with files, and calls UpdateMachine
// until accept returns true.
func (w *world) begin(t *testing.T, files []bootstrapv1.File, accept func(wire.Answer) bool) wire.Answer {
	t.Helper()
	w.setFiles(t, files...)
	if answer := w.extension.Call(t, wire.CanUpdateMachineSet, w.pool.Question(t)); answer.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Fatalf("CanUpdateMachineSet answers %+v", answer)
	}
	config := &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{Namespace: w.pool.Namespace, Name: machineName}}
	w.plane.Get(t, config)
	w.configure(&config.Spec, files)
	if err := w.plane.Client.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	w.pool.Move(t, machineName)
	return w.update(t, accept)
}

// update calls UpdateMachine until accept returns true.
func (w *world) update(t *testing.T, accept func(wire.Answer) bool) wire.Answer {
	t.Helper()
	for range 60 {
		answer := w.extension.Call(t, wire.UpdateMachine, w.pool.Update(t, machineName))
		t.Logf("UpdateMachine answers %+v", answer)
		if accept(answer) {
			return answer
		}
		w.extension.Wait(t, answer)
	}
	t.Fatal("no answer was accepted")
	return wire.Answer{}
}

// listenSSH serves SSH on loopback, with a key that nobody has pinned. It accepts every key of a
// client, and counts the attempts.
func listenSSH(t *testing.T) (netip.AddrPort, *atomic.Int32) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	attempts := new(atomic.Int32)
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
			attempts.Add(1)
			return &ssh.Permissions{}, nil
		},
	}
	config.AddHostKey(signer)
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			// The client ends the handshake where it does not trust the key.
			_, _, _, _ = ssh.NewServerConn(connection, config)
			_ = connection.Close()
		}
	}()
	return netip.MustParseAddrPort(listener.Addr().String()), attempts
}

// snapshot lists what a script could have changed on a host.
func snapshot(t *testing.T, host *hosts.Host) string {
	t.Helper()
	return host.MustRun(`find /etc /opt /root /home /usr/bin /usr/local /var/lib/windlass /var/lib/kubelet -xdev -printf '%p %y %m %U %s %T@\n' 2>/dev/null | sort`)
}

// setFiles gives the pool's new template files.
func (w *world) setFiles(t *testing.T, files ...bootstrapv1.File) {
	t.Helper()
	template := &bootstrapv1.KubeadmConfigTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.pool.Namespace, Name: "new"}}
	w.plane.Get(t, template)
	w.configure(&template.Spec.Template.Spec, files)
	if err := w.plane.Client.Update(t.Context(), template); err != nil {
		t.Fatal(err)
	}
}

func (w *world) configure(spec *bootstrapv1.KubeadmConfigSpec, files []bootstrapv1.File) {
	spec.Files, spec.JoinConfiguration.Patches.Directory = files, w.patches
}
