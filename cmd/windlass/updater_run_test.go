package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	cryptossh "golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/core/hosts"
	"github.com/windlass-dev/windlass/internal/host/ssh"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/updater/hoststep"
)

func TestRunTracker(t *testing.T) {
	order := []hosts.Name{"fetch-kubelet", hosts.Drain, hosts.KubeadmUpgrade, hosts.NodeReady}
	running := func(step hosts.Name, since string) hoststep.Progress {
		return hoststep.Progress{Step: step, Message: "step " + string(step) + " runs since " + since, Job: hosts.Job{Step: step, State: hosts.JobRunning}}
	}
	for _, test := range []struct {
		name string
		seen []hoststep.Progress
		want []runChange
	}{
		{name: "a step that runs is told once", seen: []hoststep.Progress{{Step: "fetch-kubelet"}, running("fetch-kubelet", "1s"), running("fetch-kubelet", "2s")},
			want: []runChange{{Step: "fetch-kubelet", State: hosts.LogRunning}}},
		{name: "the next one ends it", seen: []hoststep.Progress{{Step: "fetch-kubelet"}, {Step: hosts.Drain, Message: "the node is drained: one pod"}, {Step: hosts.Drain, Message: "the node is drained: no pod"}},
			want: []runChange{
				{Step: "fetch-kubelet", State: hosts.LogRunning}, {Step: "fetch-kubelet", State: hosts.LogDone},
				{Step: hosts.Drain, State: hosts.LogWaiting, Message: "the node is drained: one pod"}, {Step: hosts.Drain, State: hosts.LogWaiting, Message: "the node is drained: no pod"},
			}},
		{name: "going back does not end it", seen: []hoststep.Progress{{Step: hosts.KubeadmUpgrade}, {Step: "fetch-kubelet"}},
			want: []runChange{{Step: hosts.KubeadmUpgrade, State: hosts.LogRunning}, {Step: "fetch-kubelet", State: hosts.LogRunning}}},
		{name: "a failure does not end others", seen: []hoststep.Progress{{Step: "fetch-kubelet"}, {
			Step: hosts.KubeadmUpgrade, Failure: &hosts.Failure{Reason: hosts.StepFailed, Step: hosts.KubeadmUpgrade, Message: "exit code 1"},
			Job: hosts.Job{Step: hosts.KubeadmUpgrade, State: hosts.JobEnded, ExitCode: 1, Output: strings.Repeat("line\n", 30)},
		}},
			want: []runChange{{Step: "fetch-kubelet", State: hosts.LogRunning}, {
				Step: hosts.KubeadmUpgrade, State: hosts.LogFailed, Message: "StepFailed: exit code 1", Output: strings.TrimSuffix(strings.Repeat("line\n", maxOutputLines), "\n"),
			}}},
		{name: "the end", seen: []hoststep.Progress{{Step: hosts.NodeReady, Message: "the node is not Ready"}, {Done: true}},
			want: []runChange{{Step: hosts.NodeReady, State: hosts.LogWaiting, Message: "the node is not Ready"}, {Step: hosts.NodeReady, State: hosts.LogDone}}},
		{name: "nothing to do", seen: []hoststep.Progress{{Done: true}}},
		{name: "somebody else's upgrade", seen: []hoststep.Progress{
			{Message: "another upgrade of this host, to a, runs step drain since 1s", Job: hosts.Job{Operation: "a", Step: hosts.Drain, State: hosts.JobRunning}},
			{Message: "another upgrade of this host, to a, runs step drain since 2s", Job: hosts.Job{Operation: "a", Step: hosts.Drain, State: hosts.JobRunning}},
		}, want: []runChange{{State: hosts.LogWaiting, Message: "another upgrade of this host, to a, runs step drain"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tracker := runTracker{order: order}
			var got []runChange
			for _, p := range test.seen {
				got = append(got, tracker.observe(p)...)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelectNode(t *testing.T) {
	node := func(name string, addresses ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		return n
	}
	nodes := []corev1.Node{node("a", "10.0.0.1", "fd00::1"), node("b", "10.0.0.2"), node("c", "10.0.0.2")}
	for _, test := range []struct{ host, want, problem string }{
		{host: "10.0.0.1", want: "a"},
		{host: "fd00::1", want: "a"},
		{host: "A", want: "a"},
		{host: "10.0.0.2", problem: "--node: several nodes have the name or address 10.0.0.2: b, c; "},
		{host: "10.0.0.3", problem: "--node: none of the 3 nodes "},
	} {
		got, err := selectNode(nodes, test.host)
		if problem := fmt.Sprint(err); got != test.want || test.problem != "" && !strings.HasPrefix(problem, test.problem) || test.problem == "" && err != nil {
			t.Errorf("%s: %q, %v", test.host, got, err)
		}
	}
}

func TestHostOf(t *testing.T) {
	for address, want := range map[string]string{"10.0.0.1": "10.0.0.1", "10.0.0.1:2222": "10.0.0.1", "web-1": "web-1", "fd00::1": "fd00::1", "[fd00::1]:22": "fd00::1", "[fd00::1]": "fd00::1"} {
		if got := hostOf(address); got != want {
			t.Errorf("hostOf(%q) = %q, not %q", address, got, want)
		}
	}
}

// scriptedHost answers as a host that kubeadm made, on which nothing is done, and where every step runs without an end.
type scriptedHost struct {
	// errs are what the next calls give, one each; nil is an answer.
	errs   []error
	calls  int
	job    string
	closed bool
}

var checkNames = regexp.MustCompile(`printf '([a-z-]+) %s %s\\n'`)

func (h *scriptedHost) Exec(_ context.Context, c port.HostCommand) (port.HostResult, error) {
	h.calls++
	if len(h.errs) > 0 {
		err := h.errs[0]
		if h.errs = h.errs[1:]; err != nil {
			return port.HostResult{}, err
		}
	}
	var out strings.Builder
	switch {
	case strings.HasSuffix(c.Script, "fact end yes\n"):
		facts := map[string]string{
			"time": "1000", "arch": "x86_64", "installed": "Kubernetes v1.35.4", "service": "kubelet", "writable": "yes", "free-kb": "1000", "free-state-kb": "1000",
		}
		if h.job != "" {
			facts["job"], facts["job-state"], facts["job-started"] = h.job, "running", "990"
		}
		for key, value := range facts {
			fmt.Fprintf(&out, "%s %s\n", key, base64.StdEncoding.EncodeToString([]byte(value)))
		}
		out.WriteString("end " + base64.StdEncoding.EncodeToString([]byte("yes")) + "\n")
	case strings.HasSuffix(c.Script, "echo end\n"):
		for _, name := range checkNames.FindAllStringSubmatch(c.Script, -1) {
			out.WriteString(name[1] + " 1 \n")
		}
		out.WriteString("end\n")
	default:
		h.job = strings.Trim(strings.TrimPrefix(strings.SplitN(c.Script, "\n", 2)[0], "id="), "'")
	}
	return port.HostResult{Stdout: []byte(out.String())}, nil
}

func (h *scriptedHost) Close() error {
	h.closed = true
	return nil
}

// scriptedRun runs the command on a scripted host, with a clock that goes on whenever it is waited for. The run ends when it has paused as often as said.
type scriptedRun struct {
	out, notes bytes.Buffer
	pauses     []time.Duration
}

func (r *scriptedRun) run(t *testing.T, h *scriptedHost, maxPauses int, args ...string) error {
	t.Helper()
	folder := t.TempDir()
	now := midnight
	timeout := make(chan time.Time, 1)
	tools := runTools{
		clock: upgradeClock{now: func() time.Time { return now }, after: func(d time.Duration) <-chan time.Time {
			if d == defaultRunTimeout {
				return timeout
			}
			c := make(chan time.Time, 1)
			if r.pauses = append(r.pauses, d); len(r.pauses) == maxPauses {
				timeout <- now
				return c
			}
			now = now.Add(d)
			c <- now
			return c
		}},
		attempt: func() string { return "attempt" },
		home:    func() (string, error) { return folder, nil },
		reach:   func(ssh.Options) (port.Host, error) { return h, nil },
	}
	key := filepath.Join(folder, ".ssh", "id_ed25519")
	if err := os.MkdirAll(filepath.Dir(key), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, newTestKey(t), 0o600); err != nil {
		t.Fatal(err)
	}
	digests := filepath.Join(folder, "SHA256SUMS")
	var manifest strings.Builder
	for _, name := range []string{"kubeadm", "kubelet"} {
		fmt.Fprintf(&manifest, "%064d  v1.36.3/linux/amd64/%s\n", 0, name)
	}
	if err := os.WriteFile(digests, []byte(manifest.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := newUpdaterHostCommand(hosts.Kubeadm, "kubeadm", tools)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"run", "--host", "10.0.0.7", "--to", "v1.36.3", "--digests", digests, "--binaries-folder", "/srv"}, args...))
	cmd.SetOut(&r.out)
	cmd.SetErr(&r.notes)
	err := cmd.ExecuteContext(t.Context())
	if !h.closed {
		t.Error("the connection stays open")
	}
	return err
}

func exitCodeOfRun(err error) int {
	if coded, ok := errors.AsType[*exitError](err); ok {
		return coded.code
	}
	return exitFailure
}

func lost() error {
	return &port.HostError{Reason: port.HostLost, Host: "10.0.0.7:22", Err: io.ErrUnexpectedEOF}
}

func TestRunGoesOnAfterALostConnection(t *testing.T) {
	h := &scriptedHost{errs: []error{nil, nil, lost(), lost(), lost(), lost(), lost(), lost()}}
	var r scriptedRun
	err := r.run(t, h, 10, "--no-drain")
	if code := exitCodeOfRun(err); code != exitUnfinished {
		t.Errorf("exit code %d: %v", code, err)
	}
	if want := "--timeout has passed: step fetch-kubeadm goes on on the host, and the next one is not begun; to go on, give the same command again; to see how far it is, add --dry-run"; err.Error() != want {
		t.Errorf("it ends with %q, not %q", err, want)
	}
	wantNotes := `windlass: note: the node is neither drained nor watched, as --no-drain says: its pods stay, and nobody waits until it is Ready
windlass: note: reading the host's facts: host 10.0.0.7:22: unexpected EOF; it is tried again
windlass: note: there is an answer again, after 17s
`
	if diff := cmp.Diff(wantNotes, r.notes.String()); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	wantPauses := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second, runPace, runPace, runPace, runPace}
	if diff := cmp.Diff(wantPauses, r.pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	if want := "    17s  fetch-kubeadm      running\n"; !strings.HasSuffix(r.out.String(), want) {
		t.Errorf("it prints %q at the end, not %q", r.out.String(), want)
	}
}

func TestRunGivesUp(t *testing.T) {
	unreachable := &port.HostError{Reason: port.HostUnreachable, Host: "10.0.0.7:22", Err: errors.New("connecting: connection refused")}
	untrusted := &port.HostError{Reason: port.HostNotTrusted, Host: "10.0.0.7:22", Err: errors.New("the host shows another key")}
	for _, test := range []struct {
		name  string
		errs  []error
		calls int
	}{
		{name: "a host that was never reached", errs: []error{unreachable, unreachable, unreachable, nil}, calls: firstTries},
		{name: "a host that is not trusted", errs: []error{untrusted, nil}, calls: 1},
		{name: "a host that is not trusted any longer", errs: []error{nil, nil, untrusted, nil}, calls: 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := &scriptedHost{errs: test.errs}
			var r scriptedRun
			err := r.run(t, h, 100, "--no-drain")
			if code := exitCodeOfRun(err); code != exitFailure || !strings.Contains(fmt.Sprint(err), "host 10.0.0.7:22: ") || h.calls != test.calls {
				t.Errorf("exit code %d after %d calls: %v", code, h.calls, err)
			}
		})
	}
}

func TestRunDryRunBeginsNothing(t *testing.T) {
	h := &scriptedHost{}
	var r scriptedRun
	if err := r.run(t, h, 100, "--no-drain", "--dry-run", "-o", "json"); err != nil {
		t.Fatal(err)
	}
	if h.job != "" {
		t.Errorf("it began %s", h.job)
	}
	if got := strings.Count(r.out.String(), "\n"); got != 1 || !strings.Contains(r.out.String(), `{"step":"node-ready","state":"left out",`) {
		t.Errorf("it prints %s", r.out.String())
	}
}

// newTestKey makes a private key for SSH.
func newTestKey(t *testing.T) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := cryptossh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}
