//go:build linux

package linuxhost_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/transport/ssh"
	testhosts "github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestMain runs more tests at once than there are processors: hosts mostly wait, for services that must stay up and for one another.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// The versions that a world goes from and to, for each distribution.
var versions = map[linuxhost.Distribution][2]string{
	linuxhost.Kubeadm: {"v1.35.4", "v1.36.3"}, linuxhost.RKE2: {"v1.35.4+rke2r1", "v1.36.3+rke2r1"}, linuxhost.K3s: {"v1.35.4+k3s1", "v1.36.3+k3s1"},
}

// world is a host with sshd and stand-ins for Kubernetes' programs, and the upgrade of it.
type world struct {
	host    *testhosts.Host
	node    *standInNode
	upgrade linuxhost.Upgrade
	digests map[string]string
	// server says that the host has a member of etcd, which the upgrade saves.
	server bool
	// address is where the upgrade reaches the host.
	address string
}

const (
	// syncHang makes what a job syncs hang before it is synced, if its paths match the pattern of bash in
	// the file, or the file is empty; hanging tells that something does.
	syncHang = "/etc/stand-in/sync.hang"
	hanging  = "/run/sync-hanging"
)

// newWorld makes a host of a distribution; a control plane where server is set.
func newWorld(t *testing.T, d linuxhost.Distribution, server bool) *world {
	t.Helper()
	from, to := versions[d][0], versions[d][1]
	files := map[string][]byte{}
	w := &world{digests: map[string]string{}, server: server}
	var manifest strings.Builder
	for name, content := range standIn(t, from) {
		files[d.Folder()+"/"+name] = content
	}
	for name, content := range standIn(t, to) {
		files["/opt/binaries/"+linuxhost.BinaryName(version.MustParse(to), "amd64", name)] = content
		sum := sha256.Sum256(content)
		w.digests[name] = hex.EncodeToString(sum[:])
		fmt.Fprintf(&manifest, "%s  %s\n", w.digests[name], linuxhost.BinaryName(version.MustParse(to), "amd64", name))
	}
	unit := "kubelet"
	if d == linuxhost.Kubeadm {
		kubeadmFiles(files, server)
	} else {
		unit = rancherFiles(files, d, server)
	}
	w.host = testhosts.Start(t, testhosts.Options{Files: files, Enable: []string{unit}})
	w.host.MustRun(`cp /usr/bin/sync /usr/bin/sync.real && cat >/usr/bin/sync.new <<'S' && chmod 755 /usr/bin/sync.new && mv /usr/bin/sync.new /usr/bin/sync
#!/bin/bash
case "$*" in */job.new/*|*/job/exit.new) exec /usr/bin/sync.real "$@" ;; esac
if [ -e ` + syncHang + ` ] && pattern=$(cat ` + syncHang + `) && [[ "$*" = ${pattern:-*} ]]; then echo "$*" >` + hanging + `; while [ -e ` + syncHang + ` ]; do read -r -t 0.05 _ <>/run/nobody-writes; done; fi
exec /usr/bin/sync.real "$@"
S
`)
	w.host.MustRun("mkfifo /run/nobody-writes 2>/dev/null; true")
	digests, err := linuxhost.ParseManifest(manifest.String())
	if err != nil {
		t.Fatal(err)
	}
	w.node = &standInNode{host: w.host, path: "/run/stand-in-" + unit}
	if d != linuxhost.Kubeadm {
		w.node.path = "/run/stand-in-" + string(d)
	}
	w.upgrade = linuxhost.Upgrade{
		Goal: linuxhost.Goal{
			Distribution: d, Version: version.MustParse(to), Digests: digests, Source: linuxhost.Source{HostFolder: "/opt/binaries"}, Snapshot: true, Drain: true,
			Settle: time.Second,
		},
		Node: w.node, Attempt: "first",
	}
	if d == linuxhost.Kubeadm {
		w.upgrade.Goal.Files = []linuxhost.File{{Path: "/etc/kubernetes/patches/kubeletconfiguration.yaml", Content: []byte("maxPods: 50\n"), Permissions: "0600"}}
		w.upgrade.Goal.KubeletArgs = []linuxhost.Arg{{Name: "max-pods", Value: "50"}}
		w.upgrade.Goal.Before, w.upgrade.Goal.After = []string{"echo before >>/var/log/commands"}, []string{"echo after >>/var/log/commands"}
		w.upgrade.Goal.PatchesFolder = "/etc/kubernetes/patches"
	}
	if d != linuxhost.Kubeadm {
		w.upgrade.Goal.DropRemoved = true
		w.upgrade.Goal.Arguments = []linuxhost.ComponentArguments{{
			Key: "kubelet-arg", Args: []linuxhost.Arg{{Name: "max-pods", Value: "50"}},
		}}
	}
	w.reach(t, w.host.Address())
	return w
}

func standIn(t *testing.T, v string) map[string][]byte {
	t.Helper()
	programs, err := testhosts.StandIn(v)
	if err != nil {
		t.Fatal(err)
	}
	return programs
}

// kubeadmFiles are what kubeadm leaves on a host.
func kubeadmFiles(files map[string][]byte, server bool) {
	files["/etc/systemd/system/kubelet.service"] = []byte("[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\nRestartSec=1\n[Install]\nWantedBy=multi-user.target\n")
	files["/etc/systemd/system/kubelet.service.d/10-kubeadm.conf"] = []byte("[Service]\nEnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\n" +
		"ExecStart=\nExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS\n")
	files["/var/lib/kubelet/kubeadm-flags.env"] = []byte("KUBELET_KUBEADM_ARGS=\"--max-pods=110 --node-ip=10.0.0.1\"\n")
	files["/var/lib/kubelet/config.yaml"] = []byte("kind: KubeletConfiguration\nmaxPods: 110\n")
	files["/etc/kubernetes/kubelet.conf"] = []byte("clusters:\n- cluster:\n    server: https://balancer.example:6443\n")
	if !server {
		return
	}
	files["/etc/kubernetes/manifests/kube-apiserver.yaml"] = []byte("spec:\n  containers:\n  - command:\n    - kube-apiserver\n    - --advertise-address=10.0.0.1\n" +
		"    - --secure-port=6443\n    image: registry.k8s.io/kube-apiserver:v1.35.4\n")
	files["/etc/stand-in/cluster-version"] = []byte("v1.35.4")
	files["/etc/kubernetes/manifests/etcd.yaml"] = []byte("spec: {}\n")
	files["/usr/bin/etcdctl"] = []byte("#!/bin/bash\nset -e\ncase \"$*\" in *\" health\") exit ;; esac\nfor to; do :; done\nsize=$(grep -c . /var/log/etcdctl 2>/dev/null || true)\necho \"$*\" >>/var/log/etcdctl\n" +
		"{ echo BEGIN \"${size:-0}\"; head -c 20000 /dev/zero | tr '\\0' x; echo END; } >\"$to\"\n")
}

// hostToken is in the configuration of RKE2 and K3s. It must be nowhere else.
const hostToken = "K10abcdefabcdef::server:0123456789abcdef"

// rancherFiles are what an installation of RKE2 or K3s leaves on a host. It gives the unit.
func rancherFiles(files map[string][]byte, d linuxhost.Distribution, server bool) string {
	files["/etc/rancher/"+string(d)+"/config.yaml"] = []byte("token: " + hostToken +
		"\nkubelet-arg:\n- max-pods=110\n- cloud-provider=external\n")
	unit, verb := string(d)+"-agent", "agent"
	if server {
		verb = "server"
		unit = map[bool]string{true: "rke2-server", false: "k3s"}[d == linuxhost.RKE2]
		files["/var/lib/rancher/"+string(d)+"/server/db/etcd/name"] = []byte("x")
	}
	files["/etc/systemd/system/"+unit+".service"] = []byte("[Service]\nExecStart=" + d.Folder() + "/" + string(d) + " " + verb +
		"\nRestart=always\nRestartSec=1\n[Install]\nWantedBy=multi-user.target\n")
	return unit
}

// reach has the upgrade reach the host at an address, with a connection of its own.
func (w *world) reach(t *testing.T, address string) {
	t.Helper()
	w.address, w.upgrade.Host = address, w.dial(t, "root", address)
}

func (w *world) dial(t *testing.T, user, address string) port.Host {
	t.Helper()
	host, err := ssh.New(ssh.Options{
		Login:          ssh.Login{Address: address, User: user, PrivateKeys: [][]byte{w.host.Key(user)}, KnownHosts: w.host.KnownHosts()},
		ConnectTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	return host
}

// until advances the upgrade until it is done, has failed, or stop says so. Errors of the transport are borne where the test cuts connections.
func (w *world) until(t *testing.T, bears bool, stop func(linuxhost.Progress) bool) linuxhost.Progress {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	var last linuxhost.Progress
	var failed error
	for {
		p, err := linuxhost.Advance(ctx, w.upgrade)
		switch {
		case ctx.Err() != nil:
			t.Fatalf("it does not end: %+v, %v", last, failed)
		case err != nil && !bears:
			t.Fatalf("%v, after %+v", err, last)
		case err != nil:
			failed = err
			w.reach(t, w.address)
		case p.Done || p.Failure != nil || stop != nil && stop(p):
			return p
		default:
			last = p
		}
		<-pace.C
	}
}

// mustFinish takes the upgrade to its end.
func (w *world) mustFinish(t *testing.T) {
	t.Helper()
	if p := w.until(t, false, nil); p.Failure != nil {
		t.Fatalf("%s\n%s", p.Failure, p.Job.Output)
	}
}

// awaitFile waits until a file is there, for what a job on the host does.
func (w *world) awaitFile(t *testing.T, path string) {
	t.Helper()
	if out, err := w.host.Run(t.Context(), "for _ in $(seq 4000); do [ -e "+path+" ] && exit 0; sleep 0.05; done; tail -n 20 /var/lib/windlass/job/*; exit 1"); err != nil {
		t.Fatalf("there is no %s: %v\n%s", path, err, out)
	}
}

// standInNode is the node that a stand-in for the kubelet would have registered: it is Ready, at the version that runs.
type standInNode struct {
	host     *testhosts.Host
	path     string
	cordoned bool
	drains   int
	notReady string
	// last is what ran last: the cluster keeps it.
	last version.Version
}

func (n *standInNode) Look(context.Context) inplace.Node {
	running, err := n.host.Read(n.path)
	if err != nil {
		return inplace.Node{Exists: true, NotReady: "nothing runs", Kubelet: n.last, Unschedulable: n.cordoned}
	}
	v, err := version.Parse(strings.TrimSpace(string(running)))
	if err != nil {
		return inplace.Node{Unknown: err.Error()}
	}
	n.last = v
	return inplace.Node{Exists: true, Ready: n.notReady == "", NotReady: n.notReady, Kubelet: v, Unschedulable: n.cordoned}
}

// Drain is done when it is asked a second time.
func (n *standInNode) Drain(context.Context) (port.DrainStatus, error) {
	n.cordoned = true
	n.drains++
	return port.DrainStatus{Done: n.drains%2 == 0, Message: "one pod is left"}, nil
}

func (n *standInNode) Uncordon(context.Context) error {
	n.cordoned = false
	return nil
}
