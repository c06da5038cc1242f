package hosts_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters/hosts"
	"github.com/windlass-dev/windlass/pkg/version"
)

// planted is a key that nobody may ever see.
const planted = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktcGxhbnRlZA\n-----END OPENSSH PRIVATE KEY-----\n"

var (
	machine = types.NamespacedName{Namespace: "default", Name: "m"}
	start   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// world is one Machine with its host, which answers scripts as a real one would, and the management cluster.
type world struct {
	mu      sync.Mutex
	now     time.Time
	config  v1alpha1.HostConfig
	kind    v1alpha1.InProcessKind
	machine hosts.Machine
	secrets map[string]map[string][]byte
	maps    map[string]map[string]string
	// readError fails all reads of the management cluster.
	readError error

	// authorities are in the Cluster's kubeconfig; hostAuthorities and hostNode are what the host's kubelet has.
	authorities, hostAuthorities, hostNode string
	// providerID is the Node's.
	providerID    string
	providerError error

	bundle     linuxhost.Bundle
	target     hosts.Target
	connectErr error
	// execErr fails the next scripts, by number from 1; output takes the place of what a script prints.
	execErr  error
	garbage  string
	execs    int
	closed   int
	installs string
	// files are files of the host, by path.
	files map[string]string
	// apiServer is the version of the API server that the kubelet talks to; empty if it does not tell.
	apiServer string
	// roles are the facts of a control plane; none for a worker.
	roles []string
	// freeKB is what is left in the folder of binaries.
	freeKB string
	// done are the steps that are done, for each operation; free are operations whose jobs end at once.
	done map[string]map[string]bool
	free map[string]bool
	// cut says that kubeadm was cut short, until its files are put back.
	cut bool
	// cordoned says that the host has the record of an upgrade that cordoned the node.
	cordoned bool
	// exit is how jobs of a step end; missing are those that end well.
	exit   map[string]int
	output string
	job    job
	works  int
	// starts are the steps whose jobs were started, in order.
	starts  []string
	node    inplace.Node
	records []record
}

type job struct {
	operation, step, attempt, manifest, state, proof string
	exit                                             int
	ended                                            time.Time
}

// record is one call of the log.
type record struct {
	entries []linuxhost.LogEntry
	ended   bool
}

func digestLine(v, name string) string {
	return strings.Repeat("ab", 32) + "  " + v + "/linux/amd64/" + name + "\n"
}

// manifest has kubeadm and the kubelet of the suite's versions.
func manifest() string {
	var lines strings.Builder
	for _, v := range []string{porttest.UpdaterFrom, porttest.UpdaterTo, porttest.UpdaterNext} {
		lines.WriteString(digestLine(v, "kubeadm") + digestLine(v, "kubelet"))
	}
	return lines.String()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	authority := certificate(t, "kubernetes")
	return &world{
		authorities: authority, hostAuthorities: authority, hostNode: certificate(t, "system:node:node-m"),
		now: start, kind: v1alpha1.KubeadmUpdater, installs: porttest.UpdaterFrom, freeKB: "9000000",
		config: v1alpha1.HostConfig{
			SSH: &v1alpha1.HostSSH{SecretName: "{cluster}-ssh"},
			Binaries: v1alpha1.HostBinaries{
				URL: "https://mirror.example/{version}/bin/linux/{arch}/{name}", Digests: v1alpha1.HostDigests{Manifest: manifest()},
			},
		},
		machine: hosts.Machine{Cluster: porttest.UpdaterCluster, Node: "node-m", ProviderID: "id://m", Addresses: clusterv1.MachineAddresses{
			{Type: clusterv1.MachineExternalIP, Address: "203.0.113.1"}, {Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"},
		}},
		providerID: "id://m",
		secrets:    map[string]map[string][]byte{porttest.UpdaterCluster + "-ssh": {"ssh-privatekey": []byte(planted), "known_hosts": []byte("m ssh-ed25519 AAAA")}},
		maps:       map[string]map[string]string{},
		done:       map[string]map[string]bool{}, free: map[string]bool{}, exit: map[string]int{},
		files: map[string]string{"/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\nmaxPods: 110\n"},
		node:  inplace.Node{Exists: true, Ready: true, Kubelet: version.MustParse(porttest.UpdaterFrom)},
	}
}

func notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, name)
}

func (w *world) options() hosts.Options {
	return hosts.Options{
		Kind: w.kind, Config: w.config, Nodes: w, Log: w, Now: w.clock, Bundle: w.bundle,
		Pause: func(_ context.Context, d time.Duration) { w.pass(d) },
		Machine: func(_ context.Context, name types.NamespacedName) (hosts.Machine, error) {
			if name != machine {
				return hosts.Machine{}, notFound(name.Name)
			}
			return w.machine, w.readError
		},
		Secret: func(_ context.Context, name types.NamespacedName) (map[string][]byte, error) {
			if w.secrets[name.Name] == nil {
				return nil, notFound(name.Name)
			}
			return maps.Clone(w.secrets[name.Name]), w.readError
		},
		ConfigMap: func(_ context.Context, name types.NamespacedName) (map[string]string, error) {
			if w.maps[name.Name] == nil {
				return nil, notFound(name.Name)
			}
			return maps.Clone(w.maps[name.Name]), w.readError
		},
		ProveNode: func(context.Context, types.NamespacedName, string) (string, []byte, error) {
			if w.readError != nil {
				return "", nil, w.readError
			}
			return w.providerID, []byte(w.authorities), w.providerError
		},
		Connect: func(_ context.Context, to hosts.Target) (port.Host, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.target = to
			return w, w.connectErr
		},
	}
}

func (w *world) updater(t *testing.T) *hosts.Updater {
	t.Helper()
	u, err := hosts.New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// Node implements hosts.Nodes.
func (w *world) Node(context.Context, types.NamespacedName, string) inplace.Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.node
}

// Record implements hosts.Log.
func (w *world) Record(_ context.Context, _ types.NamespacedName, entries []linuxhost.LogEntry, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records = append(w.records, record{entries: entries, ended: ended})
}

// Close implements port.Host.
func (w *world) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed++
	return nil
}

var (
	checkName    = regexp.MustCompile(`(?m)^(?:CHECKS=')?([a-z-]+) [0-9]+ lines$`)
	patchedFiles = regexp.MustCompile(`(?m)^PATCHED='([^']+)'$`)
	startID      = regexp.MustCompile(`(?m)^ID='(\S+) (\S+) (\S+) (\S+)'$`)
	proofLine    = regexp.MustCompile(`(?m)^PROOF='(\S*)'$`)
)

// Exec implements port.Host.
func (w *world) Exec(_ context.Context, c port.HostCommand) (port.HostResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.execs++
	if w.execErr != nil {
		return port.HostResult{}, w.execErr
	}
	if w.garbage != "" {
		return port.HostResult{Stdout: []byte(w.garbage)}, nil
	}
	switch id := startID.FindStringSubmatch(c.Script); {
	case id != nil:
		w.start(id[1:])
		w.job.proof = proofLine.FindStringSubmatch(c.Script)[1]
		return port.HostResult{}, nil
	case strings.HasSuffix(c.Script, "mark \"done\" yes\n"):
		return port.HostResult{}, nil
	case strings.HasSuffix(c.Script, "rm -f \"$KEEP/cordoned\"\n"):
		w.cordoned = false
		return port.HostResult{}, nil
	case strings.Contains(c.Script, "fact node-certificate"):
		encode := base64.StdEncoding.EncodeToString
		return port.HostResult{Stdout: fmt.Appendf(nil, "node-certificate %s\nauthorities %s\nproof %s\nend %s\n",
			encode([]byte(w.hostNode)), encode([]byte(w.hostAuthorities)), encode([]byte(w.job.proof)), encode([]byte("yes")))}, nil
	case strings.HasSuffix(c.Script, "fact end yes\n"):
		return port.HostResult{Stdout: []byte(w.patched(c.Script) + w.facts())}, nil
	case strings.HasSuffix(c.Script, "echo end\n"):
		return port.HostResult{Stdout: []byte(w.checks(c.Script))}, nil
	}
	return port.HostResult{ExitCode: 1, Stderr: "no such script"}, nil
}

// start starts a job, whose ID has four words.
func (w *world) start(id []string) {
	w.starts = append(w.starts, id[1])
	w.job = job{operation: id[0], step: id[1], attempt: id[2], manifest: id[3], state: "running"}
	if w.free[w.job.operation] {
		w.endJob()
	}
}

func (w *world) endJob() {
	w.job.state, w.job.exit, w.job.ended = "ended", w.exit[w.job.step], w.now
	if w.job.exit != 0 {
		return
	}
	if w.done[w.job.operation] == nil {
		w.done[w.job.operation] = map[string]bool{}
	}
	w.done[w.job.operation][w.job.step] = true
	w.cut = w.cut && w.job.step != string(linuxhost.KubeadmRecover)
	if w.job.step == string(linuxhost.Restart) {
		w.installs, _, _ = strings.Cut(w.job.operation, "-")
		w.node.Kubelet = version.MustParse(w.installs)
		w.works++
	}
}

// advance ends the job that runs, and all that follow it in its operation.
func (w *world) advance() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Minute)
	if w.job.state == "running" {
		w.free[w.job.operation] = true
		w.endJob()
	}
}

func (w *world) checks(script string) string {
	var b strings.Builder
	for _, name := range checkName.FindAllStringSubmatch(script, -1) {
		operation := regexp.MustCompile(`/op/([a-z0-9.-]+)`).FindStringSubmatch(script)
		status := 1
		if w.done[operation[1]][name[1]] {
			status = 0
		}
		fmt.Fprintf(&b, "%s %d \n", name[1], status)
	}
	return b.String() + "end\n"
}

// patched answers for the files that the goal's patches for kubeadm change.
func (w *world) patched(script string) string {
	var b strings.Builder
	if found := patchedFiles.FindStringSubmatch(script); found != nil {
		for line := range strings.Lines(found[1]) {
			target, path, _ := strings.Cut(strings.TrimSpace(line), " ")
			if content, ok := w.files[path]; ok {
				fmt.Fprintf(&b, "patched-%s %s\n", target, base64.StdEncoding.EncodeToString([]byte(content)))
			}
		}
	}
	return b.String()
}

func (w *world) facts() string {
	var b strings.Builder
	fact := func(key, value string) {
		fmt.Fprintf(&b, "%s %s\n", key, base64.StdEncoding.EncodeToString([]byte(value)))
	}
	fact("time", fmt.Sprint(w.now.Unix()))
	for key, value := range map[string]string{
		"arch": "x86_64", "installed": "Kubernetes " + w.installs, "service": "kubelet", "writable": "yes", "free-kb": w.freeKB, "free-state-kb": "9000000", "need-kb": "100000",
	} {
		fact(key, value)
	}
	for key, is := range map[string]bool{"cut": w.cut, "cordoned": w.cordoned} {
		if is {
			fact(key, "yes")
		}
	}
	for _, key := range w.roles {
		fact(key, "yes")
	}
	if w.roles != nil {
		fact("cluster", w.installs)
	}
	if w.apiServer != "" {
		fact("api-server", w.apiServer)
	}
	if w.job.state != "" {
		fact("job", strings.Join([]string{w.job.operation, w.job.step, w.job.attempt, w.job.manifest}, " "))
		fact("job-state", w.job.state)
		fact("job-started", fmt.Sprint(start.Unix()))
		fact("job-exit", fmt.Sprint(w.job.exit))
		fact("job-ended", fmt.Sprint(w.job.ended.Unix()))
		fact("job-output", w.output)
	}
	fact("end", "yes")
	return b.String()
}
