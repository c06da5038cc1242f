//go:build linux

// Package updater runs `windlass updater` as users do: on hosts with sshd, and against the simulated updater.
package updater

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	testhosts "github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/pkg/version"
)

// runHost is a host with sshd and stand-ins for Kubernetes' programs, and the files that a run needs.
type runHost struct {
	*testhosts.Host

	windlass, folder, bundle, digests string
	to                                version.Version
	distribution                      linuxhost.Distribution
}

// k3sArchive is the archive of images of a release of K3s.
const k3sArchive = "k3s-airgap-images-amd64.tar.zst"

// startRunHost makes a host that runs the unit, and a bundle with the binaries of the version that it is to have.
func startRunHost(t *testing.T, d linuxhost.Distribution, from, to string, files map[string][]byte, unit string) *runHost {
	t.Helper()
	testhosts.Require(t)
	paths, err := programs.Build()
	if err != nil {
		t.Fatal(err)
	}
	r := &runHost{windlass: paths.Windlass, folder: t.TempDir(), to: version.MustParse(to), distribution: d}
	for name, content := range runStandIns(t, from) {
		files[d.Folder()+"/"+name] = content
	}
	var bundle, manifest bytes.Buffer
	archive := tar.NewWriter(&bundle)
	release := runStandIns(t, to)
	if d == linuxhost.K3s {
		release[k3sArchive] = bytes.Repeat([]byte("images"), 1<<20)
	}
	for _, name := range slices.Sorted(maps.Keys(release)) {
		content := release[name]
		name = linuxhost.BinaryName(r.to, "amd64", name)
		sum := sha256.Sum256(content)
		fmt.Fprintf(&manifest, "%s  %s\n", hex.EncodeToString(sum[:]), name)
		if err := archive.WriteHeader(&tar.Header{Name: "./" + name, Size: int64(len(content)), Mode: 0o755, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	r.bundle, r.digests = r.write(t, "bundle.tar", bundle.Bytes()), r.write(t, "SHA256SUMS", manifest.Bytes())
	r.Host = testhosts.Start(t, testhosts.Options{Files: files, Enable: []string{unit}})
	return r
}

// TestMain runs the tests, and removes the program.
func TestMain(m *testing.M) {
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}

func runStandIns(t *testing.T, v string) map[string][]byte {
	t.Helper()
	programs, err := testhosts.StandIn(v)
	if err != nil {
		t.Fatal(err)
	}
	return programs
}

func (r *runHost) write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(r.folder, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs the command; what it prints goes to out and notes. The end of ctx interrupts it.
func (r *runHost) start(ctx context.Context, t *testing.T, address, user string, out, notes io.Writer, args ...string) error {
	t.Helper()
	return r.startVerb(ctx, t, "run", address, user, out, notes, args...)
}

// startVerb is start for any command about one host.
func (r *runHost) startVerb(ctx context.Context, t *testing.T, verb, address, user string, out, notes io.Writer, args ...string) error {
	t.Helper()
	cmd := exec.CommandContext(ctx, r.windlass, append([]string{
		"updater", strings.ToLower(string(r.distribution)), verb,
		"--host", address, "--user", user, "--to", r.to.String(), "--digests", r.digests, "--bundle", r.bundle,
		"--identity", r.write(t, "key", r.Key(user)), "--known-hosts", r.write(t, "known_hosts", r.KnownHosts()),
	}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Env = append(os.Environ(), "KUBECONFIG=")
	cmd.Stdout, cmd.Stderr = out, notes
	err := cmd.Run()
	if ctx.Err() != nil && cmd.ProcessState != nil {
		return &exec.ExitError{ProcessState: cmd.ProcessState}
	}
	return err
}

// mustExit checks how the command ended, and that the last line on standard error begins with want.
func mustExit(t *testing.T, err error, code cli.ExitCode, notes, want string) {
	t.Helper()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != int(code) || !strings.Contains(notes, "windlass: "+want) {
		t.Errorf("it ends with %v, want exit code %d\n%s\nwant %s", err, code, notes, want)
	}
}

// oneNodeAPI is an API server of a cluster with one node and no pods. The node reports what tells its version.
type oneNodeAPI struct {
	mu       sync.Mutex
	node     corev1.Node
	kubelet  func() string
	cordoned int
}

func (a *oneNodeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node.Status.NodeInfo.KubeletVersion = a.kubelet()
	switch {
	case r.URL.Path == "/api/v1/pods":
		reply(w, &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}})
	case r.URL.Path == "/api/v1/nodes":
		reply(w, &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []corev1.Node{a.node}})
	case r.Method == http.MethodPatch:
		var patch struct {
			Spec struct{ Unschedulable bool }
		}
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if a.node.Spec.Unschedulable = patch.Spec.Unschedulable; a.node.Spec.Unschedulable {
			a.cordoned++
		}
		reply(w, &a.node)
	default:
		reply(w, &a.node)
	}
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // a client that has gone notices itself
}

// startOneNodeAPI serves the node of a host, and returns a kubeconfig for it.
func startOneNodeAPI(t *testing.T, r *runHost) (a *oneNodeAPI, kubeconfig string) {
	t.Helper()
	a = &oneNodeAPI{kubelet: func() string {
		told, _ := r.Read("/run/stand-in-kubelet")
		return strings.TrimSpace(string(told))
	}, node: corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "worker-1"},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: r.Address()}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}}
	server := httptest.NewTLSServer(a)
	t.Cleanup(server.Close)
	return a, r.write(t, "kubeconfig", kubeconfigOf(server))
}

func kubeconfigOf(server *httptest.Server) []byte {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, certificate-authority-data: %s}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
users: [{name: test, user: {}}]
current-context: test
`, server.URL, base64.StdEncoding.EncodeToString(ca))
}

// awaitedText is a writer, and tells when a text was written to it.
type awaitedText struct {
	all     bytes.Buffer
	text    string
	written func()
}

func (w *awaitedText) Write(p []byte) (int, error) {
	n, err := w.all.Write(p)
	if strings.Contains(w.all.String(), w.text) {
		w.written()
	}
	return n, err
}

// runState lists all that an upgrade could change.
const runState = "find /usr/bin /etc/kubernetes /etc/systemd /var/lib/kubelet /var/lib/windlass -printf '%p %s\\n' 2>/dev/null | sort"

func TestRunOnAHost(t *testing.T) {
	r := startRunHost(t, linuxhost.Kubeadm, "v1.35.4", "v1.36.3", map[string][]byte{
		"/etc/systemd/system/kubelet.service": []byte("[Service]\nExecStart=/usr/bin/kubelet\nRestart=always\nRestartSec=1\n[Install]\nWantedBy=multi-user.target\n"),
		"/etc/kubernetes/kubelet.conf":        []byte("clusters:\n- cluster:\n    server: https://balancer.example:6443\n"),
	}, "kubelet")
	api, kubeconfig := startOneNodeAPI(t, r)
	var notes bytes.Buffer
	run := func(ctx context.Context, out io.Writer, args ...string) error {
		notes.Reset()
		return r.start(ctx, t, r.Address(), testhosts.Ops, out, &notes, append(args, "--kubeconfig", kubeconfig)...)
	}

	t.Log("a dry run changes nothing")
	r.MustRun("rm -rf /var/lib/windlass")
	before := r.MustRun(runState)
	var out bytes.Buffer
	if err := run(t.Context(), &out, "--dry-run"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Host " + r.Address() + ", at v1.35.4, to v1.36.3; its node is worker-1\n", "| fetch-kubelet ", "| uncordon "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("without %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "| done ") {
		t.Errorf("something is done already:\n%s", out.String())
	}
	if diff := cmp.Diff(before, r.MustRun(runState)); diff != "" || api.cordoned != 0 {
		t.Errorf("the node was cordoned %d times, and the host was changed (-before +after):\n%s", api.cordoned, diff)
	}

	t.Log("a step that fails")
	r.Write("/etc/stand-in/kubeadm.fail", []byte("no more certificates; password=hunter2"))
	out.Reset()
	err := run(t.Context(), &out)
	want := "host " + r.Address() + " was not brought to v1.36.3: StepFailed: step kubeadm-upgrade: exit code 1: error execution phase: no more certificates; password=[masked]; " +
		"Node worker-1 is cordoned, and stays so: until that has succeeded. Completed steps stay done. Fix: run the same command again; it continues from there"
	mustExit(t, err, cli.ExitRefused, notes.String(), want+"\n")
	if !strings.Contains(out.String(), "failed   StepFailed\n") || !strings.Contains(out.String(), "         error execution phase: no more certificates; password=[masked]\n") {
		t.Errorf("it prints\n%s", out.String())
	}
	r.Remove("/etc/stand-in/kubeadm.fail")

	t.Log("an interruption")
	r.Write("/etc/stand-in/kubeadm.hang", nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = run(ctx, &awaitedText{text: " kubeadm-upgrade    running", written: cancel})
	mustExit(t, err, cli.ExitUnfinished, notes.String(),
		"interrupted: step kubeadm-upgrade continues on the host, and the next one does not begin; Node worker-1 is cordoned")
	r.Remove("/etc/stand-in/kubeadm.hang")

	t.Log("the rest")
	out.Reset()
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| fetch-kubelet ", " install-kubelet    done\n", " uncordon           done\n", "  done: host " + r.Address() + " is at v1.36.3\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("without %q:\n%s", want, out.String())
		}
	}
	if told := r.MustRun("/usr/bin/kubelet --version; cat /run/stand-in-kubelet"); !strings.Contains(told, "v1.36.3") || strings.Contains(told, "v1.35.4") {
		t.Errorf("the host runs %s", told)
	}
	if api.node.Spec.Unschedulable || api.cordoned != 1 {
		t.Errorf("the node was cordoned %d times, and is cordoned: %t", api.cordoned, api.node.Spec.Unschedulable)
	}

	t.Log("nothing to do")
	out.Reset()
	if err := run(t.Context(), &out, "-o", "json"); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), `"state":"to do"`) || !strings.Contains(out.String(), `"state":"done","message":"host `+r.Address()+` is at v1.36.3"}`) {
		t.Errorf("it prints %s", out.String())
	}

	t.Log("a node that is cordoned already")
	api.node.Spec.Unschedulable = true
	out.Reset()
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if stays := "Node worker-1 is cordoned, and stays so: it was so before; an earlier upgrade may have " +
		"cordoned it. Fix: kubectl uncordon\n"; !strings.Contains(out.String(), stays) {
		t.Errorf("without %q:\n%s", stays, out.String())
	}
}

func TestRunOnAHostWhoseConnectionsDrop(t *testing.T) {
	r := startRunHost(t, linuxhost.K3s, "v1.35.4+k3s1", "v1.36.3+k3s1", map[string][]byte{
		"/etc/systemd/system/k3s-agent.service": []byte("[Service]\nExecStart=/usr/local/bin/k3s agent\nRestart=always\nRestartSec=1\n[Install]\nWantedBy=multi-user.target\n"),
	}, "k3s-agent")
	var out, notes bytes.Buffer
	address := r.DropConnectionsEvery(2 * time.Second)
	if err := r.start(t.Context(), t, address, "root", &out, &notes, "--no-drain", "--timeout", "5m"); err != nil {
		t.Fatalf("%v; it prints\n%s%s", err, out.String(), notes.String())
	}
	if told := r.MustRun("cat /run/stand-in-k3s"); strings.TrimSpace(told) != "v1.36.3+k3s1" {
		t.Errorf("the host runs %s", told)
	}
	if !strings.Contains(notes.String(), "; it is tried again\n") {
		t.Errorf("no connection was lost:\n%s", notes.String())
	}
}

// TestPrefetch: the binaries are on the host before its upgrade, and its node is as before. The
// upgrade then finds them. One with another digest is refused.
func TestPrefetch(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	r := startRunHost(t, linuxhost.K3s, "v1.35.4+k3s1", "v1.36.3+k3s1", map[string][]byte{
		"/etc/systemd/system/k3s-agent.service": []byte("[Service]\nExecStart=/usr/local/bin/k3s agent\nRestart=always\n[Install]\nWantedBy=multi-user.target\n"),
	}, "k3s-agent")
	const state = "sha256sum /usr/local/bin/k3s; systemctl show --property MainPID k3s-agent; " +
		"ls /var/lib/rancher/k3s/agent/images 2>&1; true"
	before := r.MustRun(state)
	var out, notes bytes.Buffer
	if err := r.startVerb(t.Context(), t, "prefetch", r.Address(), "root", &out, &notes); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), notes.String())
	}
	if !strings.Contains(out.String(), "has what an upgrade to v1.36.3+k3s1 needs; its node works as before") || strings.Contains(out.String(), "restart") {
		t.Errorf("it prints\n%s", out.String())
	}
	if after := r.MustRun(state); after != before {
		t.Errorf("the host was\n%s and is\n%s", before, after)
	}
	out.Reset()
	if err := r.start(t.Context(), t, r.Address(), "root", &out, &notes, "--no-drain", "--dry-run"); err != nil {
		t.Fatalf("%v\n%s", err, notes.String())
	}
	for _, step := range []string{"fetch-k3s", "fetch-" + k3sArchive} {
		if got := regexp.MustCompile(`\| ` + step + ` +\| done `).FindString(out.String()); got == "" {
			t.Errorf("the upgrade does not find %s:\n%s", step, out.String())
		}
	}
	r.MustRun("echo x >>" + linuxhost.StateFolder + "/binaries/v1.36.3-k3s1/k3s")
	digests := r.write(t, "DIGESTS", must(os.ReadFile(r.digests)))
	r.digests = r.write(t, "SHA256SUMS", bytes.Replace(must(os.ReadFile(r.digests)), must(os.ReadFile(r.digests))[:8], []byte("00000000"), 1))
	notes.Reset()
	err := r.startVerb(t.Context(), t, "prefetch", r.Address(), "root", &out, &notes)
	mustExit(t, err, cli.ExitRefused, notes.String(), "host "+r.Address()+" was not brought to v1.36.3+k3s1: WrongDigest: step fetch-k3s: ")
	r.digests = digests
	if err := r.start(t.Context(), t, r.Address(), "root", &out, &notes, "--no-drain"); err != nil {
		t.Fatalf("%v\n%s", err, notes.String())
	}
	if size := r.MustRun("stat -c %s /var/lib/rancher/k3s/agent/images/" + k3sArchive); size != "6291456\n" {
		t.Errorf("the archive in its place has %s bytes", size)
	}
}

func must(content []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return content
}

// TestPrefetchOfImages: a registry that refuses is told ahead of the upgrade, and the node works as
// before. A prefetch that was killed continues, and one that is done asks no registry.
func TestPrefetchOfImages(t *testing.T) {
	t.Parallel()
	r := startRunHost(t, linuxhost.Kubeadm, "v1.35.4", "v1.36.3", map[string][]byte{
		"/etc/systemd/system/kubelet.service": []byte("[Service]\nExecStart=/usr/bin/kubelet\n" +
			"Restart=always\nRestartSec=1\n[Install]\nWantedBy=multi-user.target\n"),
		"/etc/kubernetes/kubelet.conf":  []byte("    server: https://balancer.example:6443\n"),
		"/etc/stand-in/cluster-version": []byte("v1.36.3"),
		"/etc/stand-in/registry":        []byte("unexpected status: 403 Forbidden; token=hunter2\n"),
		"/usr/local/bin/crictl": []byte(`#!/bin/bash
image=/var/lib/images/${2//\//%}
mkdir -p /var/lib/images
case "$1" in
  images) echo 'registry.k8s.io/kube-proxy   v1.35.4   aec12dadf56dd   51.6MB' ;;
  inspecti) [ -e "$image" ] ;;
  pull)
    echo "$2" >>/var/log/pulled
    [ ! -e /etc/stand-in/registry ] || { cat /etc/stand-in/registry; exit 1; }
    while [ -e /etc/stand-in/registry.hang ]; do sleep 0.05; done
    : >"$image" ;;
esac
`),
	}, "kubelet")
	const state = "sha256sum /usr/bin/kube*; systemctl show --property MainPID kubelet; " +
		"ls /var/lib/windlass/keep /var/lib/kubelet 2>&1; true"
	var out, notes bytes.Buffer
	prefetch := func(ctx context.Context, out io.Writer) error {
		notes.Reset()
		return r.startVerb(ctx, t, "prefetch", r.Address(), "root", out, &notes)
	}
	before := r.MustRun("mkdir -p /var/lib/windlass/keep; " + state)
	mustExit(t, prefetch(t.Context(), &out), cli.ExitRefused, notes.String(), "host "+r.Address()+
		" was not brought to v1.36.3: RegistryRefused: step pull-images: the host lacks the image "+
		"registry.k8s.io/kube-proxy:v1.36.3, and cannot pull it: unexpected status: 403 Forbidden")
	if told := out.String() + notes.String(); strings.Contains(told, "hunter2") {
		t.Errorf("a secret is in\n%s", told)
	}
	r.Remove("/etc/stand-in/registry")
	r.Write("/etc/stand-in/registry.hang", nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := prefetch(ctx, &awaitedText{text: " pull-images        running", written: cancel})
	mustExit(t, err, cli.ExitUnfinished, notes.String(), "interrupted: step pull-images continues on the host")
	r.Remove("/etc/stand-in/registry.hang")
	for range 2 {
		if err := prefetch(t.Context(), &out); err != nil {
			t.Fatalf("%v\n%s", err, notes.String())
		}
	}
	proxy := strings.Count(r.MustRun("cat /var/log/pulled"), "kube-proxy")
	if after := r.MustRun(state); after != before || proxy != 2 {
		t.Errorf("kube-proxy was pulled %d times, and the host was\n%s and is\n%s", proxy, before, after)
	}
}
