package updatercmd

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	cryptossh "golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/linuxhost"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/transport/ssh"
	"github.com/windlass-dev/windlass/pkg/version"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestRunTracker(t *testing.T) {
	order := []linuxhost.Name{"fetch-kubelet", linuxhost.Drain, linuxhost.KubeadmUpgrade, linuxhost.NodeReady}
	running := func(step linuxhost.Name, since string) linuxhost.Progress {
		return linuxhost.Progress{Step: step, Message: "step " + string(step) + " runs since " + since, Job: linuxhost.Job{Step: step, State: linuxhost.JobRunning}}
	}
	for _, test := range []struct {
		name string
		seen []linuxhost.Progress
		want []runChange
	}{
		{name: "a step that runs is told once", seen: []linuxhost.Progress{{Step: "fetch-kubelet"}, running("fetch-kubelet", "1s"), running("fetch-kubelet", "2s")},
			want: []runChange{{Step: "fetch-kubelet", State: linuxhost.LogRunning}}},
		{name: "the next one ends it", seen: []linuxhost.Progress{{Step: "fetch-kubelet"}, {Step: linuxhost.Drain, Message: "draining the node: one pod"}, {Step: linuxhost.Drain, Message: "draining the node: no pod"}},
			want: []runChange{
				{Step: "fetch-kubelet", State: linuxhost.LogRunning}, {Step: "fetch-kubelet", State: linuxhost.LogDone},
				{Step: linuxhost.Drain, State: linuxhost.LogWaiting, Message: "draining the node: one pod"}, {Step: linuxhost.Drain, State: linuxhost.LogWaiting, Message: "draining the node: no pod"},
			}},
		{name: "going back does not end it", seen: []linuxhost.Progress{{Step: linuxhost.KubeadmUpgrade}, {Step: "fetch-kubelet"}},
			want: []runChange{{Step: linuxhost.KubeadmUpgrade, State: linuxhost.LogRunning}, {Step: "fetch-kubelet", State: linuxhost.LogRunning}}},
		{name: "a failure does not end others", seen: []linuxhost.Progress{{Step: "fetch-kubelet"}, {
			Step: linuxhost.KubeadmUpgrade, Failure: &linuxhost.Failure{Reason: linuxhost.StepFailed, Step: linuxhost.KubeadmUpgrade, Message: "exit code 1"},
			Job: linuxhost.Job{Step: linuxhost.KubeadmUpgrade, State: linuxhost.JobEnded, ExitCode: 1, Output: strings.Repeat("line\n", 30)},
		}},
			want: []runChange{{Step: "fetch-kubelet", State: linuxhost.LogRunning}, {
				Step: linuxhost.KubeadmUpgrade, State: linuxhost.LogFailed, Message: "StepFailed: exit code 1", Quoted: true,
				Output: strings.TrimSuffix(strings.Repeat("line\n", maxOutputLines), "\n"),
			}}},
		{name: "what a step says to programs is told once", seen: []linuxhost.Progress{{
			Step: "fetch-kubelet", Failure: &linuxhost.Failure{Reason: linuxhost.WrongDigest, Step: "fetch-kubelet", Message: "it is another file"},
			Job: linuxhost.Job{Step: "fetch-kubelet", State: linuxhost.JobEnded, ExitCode: 1, Output: "one\nwindlass-reason WrongDigest: it is another file\n"},
		}},
			want: []runChange{{Step: "fetch-kubelet", State: linuxhost.LogFailed, Message: "WrongDigest: it is another file", Output: "one"}}},
		{name: "a job that vanished is started again", seen: []linuxhost.Progress{
			{Step: "fetch-kubelet"}, running("fetch-kubelet", "1s"),
			{Step: "fetch-kubelet", Job: linuxhost.Job{Step: "fetch-kubelet", State: linuxhost.JobVanished}}, running("fetch-kubelet", "1s"),
		},
			want: []runChange{
				{Step: "fetch-kubelet", State: linuxhost.LogRunning},
				{Step: "fetch-kubelet", State: linuxhost.LogRunning, Message: "started again: it ended without a result"},
			}},
		{name: "a job of an earlier run that vanished is none of this one", seen: []linuxhost.Progress{
			{Step: "fetch-kubelet", Job: linuxhost.Job{Step: "fetch-kubelet", State: linuxhost.JobVanished}}, running("fetch-kubelet", "1s"),
		},
			want: []runChange{{Step: "fetch-kubelet", State: linuxhost.LogRunning}}},
		{name: "the end", seen: []linuxhost.Progress{{Step: linuxhost.NodeReady, Message: "the node is not Ready"}, {Done: true}},
			want: []runChange{{Step: linuxhost.NodeReady, State: linuxhost.LogWaiting, Message: "the node is not Ready"}, {Step: linuxhost.NodeReady, State: linuxhost.LogDone}}},
		{name: "nothing to do", seen: []linuxhost.Progress{{Done: true}}},
		{name: "somebody else's upgrade", seen: []linuxhost.Progress{
			{Message: "another upgrade of this host, to a, runs step drain since 1s", Job: linuxhost.Job{Operation: "a", Step: linuxhost.Drain, State: linuxhost.JobRunning}},
			{Message: "another upgrade of this host, to a, runs step drain since 2s", Job: linuxhost.Job{Operation: "a", Step: linuxhost.Drain, State: linuxhost.JobRunning}},
		}, want: []runChange{{State: linuxhost.LogWaiting, Message: "another upgrade of this host, to a, runs step drain"}}},
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

// TestAdvice: a failure has one fix.
func TestAdvice(t *testing.T) {
	for _, test := range []struct {
		failure linuxhost.Failure
		want    string
	}{
		{
			linuxhost.Failure{Reason: linuxhost.EtcdUnhealthy, Message: "x. Fix: repair the member"},
			"Then run the same command again; completed steps stay done",
		},
		{
			linuxhost.Failure{Reason: linuxhost.DiskFull, Message: "x"},
			"Completed steps stay done. Fix: correct the cause, and run the same command again; it continues from there",
		},
		{
			linuxhost.Failure{Reason: linuxhost.StepFailed, Message: "x"},
			"Completed steps stay done. Fix: run the same command again; it continues from there",
		},
	} {
		if diff := cmp.Diff(test.want, computeAdvice(test.failure)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.failure, diff)
		}
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
	const wrongCluster = "--kubeconfig: its cluster has no nodes, so it is probably not the cluster of the host, "
	if _, err := selectNode(nil, "10.0.0.1"); !strings.HasPrefix(fmt.Sprint(err), wrongCluster) {
		t.Errorf("without nodes: %v", err)
	}
	for _, test := range []struct{ host, want, problem string }{
		{host: "10.0.0.1", want: "a"},
		{host: "fd00::1", want: "a"},
		{host: "A", want: "a"},
		{host: "10.0.0.2", problem: "--node: several nodes have the name or address 10.0.0.2: b, c. "},
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
	// lost says that the connection is lost; another one must be made.
	lost bool
	// controlPlane says that the host runs a control plane, without etcd.
	controlPlane bool
	// clusterProblem is why the host cannot read the version of its cluster.
	clusterProblem string
	// checked is what each check prints.
	checked string
	// facts are more facts of the host.
	facts map[string]string
	// done says that all steps are done; cordoned that an earlier run cordoned the node.
	done, cordoned bool
}

var checkNames = regexp.MustCompile(`(?m)^(?:CHECKS=')?([a-z-]+) [0-9]+ lines$`)

func (h *scriptedHost) Exec(_ context.Context, c port.HostCommand) (port.HostResult, error) {
	h.calls++
	if h.lost {
		return port.HostResult{}, lost()
	}
	if len(h.errs) > 0 {
		err := h.errs[0]
		if h.errs = h.errs[1:]; err != nil {
			h.lost = port.ReasonOfHost(err) == port.HostLost
			return port.HostResult{}, err
		}
	}
	var out strings.Builder
	switch {
	case strings.HasSuffix(c.Script, "fact end yes\n"):
		facts := map[string]string{
			"time": "1000", "arch": "x86_64", "installed": "Kubernetes v1.35.4", "service": "kubelet", "writable": "yes", "free-kb": "1000", "free-state-kb": "1000",
		}
		if h.controlPlane {
			facts["control-plane"], facts["kubectl"] = "yes", "yes"
			facts["cluster-problem"] = h.clusterProblem
			if h.clusterProblem == "" {
				facts["cluster"] = "v1.35.4"
			}
		}
		if h.cordoned {
			facts["cordoned"] = "yes"
		}
		if h.job != "" {
			facts["job"], facts["job-state"], facts["job-started"] = h.job, "running", "990"
		}
		maps.Copy(facts, h.facts)
		for key, value := range facts {
			fmt.Fprintf(&out, "%s %s\n", key, base64.StdEncoding.EncodeToString([]byte(value)))
		}
		out.WriteString("end " + base64.StdEncoding.EncodeToString([]byte("yes")) + "\n")
	case strings.HasSuffix(c.Script, "echo end\n"):
		for _, name := range checkNames.FindAllStringSubmatch(c.Script, -1) {
			exit := map[bool]string{true: " 0 ", false: " 1 "}[h.done]
			printed := base64.StdEncoding.EncodeToString([]byte(h.checked))
			out.WriteString(name[1] + exit + printed + "\n")
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
	// verb is the command; empty for run.
	verb string
}

func (r *scriptedRun) run(t *testing.T, h *scriptedHost, maxPauses int, args ...string) error {
	t.Helper()
	return r.runFrom(t, h, maxPauses, "--binaries-folder", "/srv", args...)
}

func (r *scriptedRun) runFrom(t *testing.T, h *scriptedHost, maxPauses int, source, from string, args ...string) error {
	t.Helper()
	folder := t.TempDir()
	now := midnight
	timeout := make(chan time.Time, 1)
	tools := runTools{
		clock: cli.Clock{Now: func() time.Time { return now }, After: func(d time.Duration) <-chan time.Time {
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
		reach: func(ssh.Options) (port.Host, error) {
			h.lost, h.closed = false, false
			return h, nil
		},
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
	verb := r.verb
	if verb == "" {
		verb = "run"
	}
	cmd := newHost(linuxhost.Kubeadm, "kubeadm", tools)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{verb, "--host", "10.0.0.7", "--to", "v1.36.3", "--digests", digests, source, from}, args...))
	cmd.SetOut(&r.out)
	cmd.SetErr(&r.notes)
	err := cmd.ExecuteContext(t.Context())
	if !h.closed {
		t.Error("the connection stays open")
	}
	return err
}

func exitCodeOfRun(err error) cli.ExitCode {
	if coded, ok := errors.AsType[*cli.ExitError](err); ok {
		return coded.Code
	}
	return cli.ExitFailure
}

func lost() error {
	return &port.HostError{Reason: port.HostLost, Host: "10.0.0.7:22", Err: io.ErrUnexpectedEOF}
}

func TestRunGoesOnAfterALostConnection(t *testing.T) {
	h := &scriptedHost{errs: []error{nil, nil, lost(), lost(), lost(), lost(), lost(), lost()}}
	var r scriptedRun
	err := r.run(t, h, 10, "--no-drain")
	if code := exitCodeOfRun(err); code != cli.ExitUnfinished {
		t.Errorf("exit code %d: %v", code, err)
	}
	if want := "--timeout has passed: step fetch-kubeadm continues on the host, and the next one does not begin. Fix: run the same command again to continue; add --dry-run to see the progress"; err.Error() != want {
		t.Errorf("it ends with %q, not %q", err, want)
	}
	wantNotes := `windlass: note: the node is neither drained nor watched, as --no-drain says: its pods stay, and nobody waits until it is Ready
windlass: note: HostConnectionLost: host 10.0.0.7:22: unexpected EOF; it is tried again
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
		rule  port.HostReason
	}{
		{name: "a host that was never reached", errs: []error{unreachable, unreachable, unreachable, nil}, calls: firstTries, rule: port.HostUnreachable},
		{name: "a host that is not trusted", errs: []error{untrusted, nil}, calls: 1, rule: port.HostNotTrusted},
		{name: "a host that is not trusted any longer", errs: []error{nil, nil, untrusted, nil}, calls: 3, rule: port.HostNotTrusted},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := &scriptedHost{errs: test.errs}
			var r scriptedRun
			err := r.run(t, h, 100, "--no-drain", "-o", "json")
			if code := exitCodeOfRun(err); code != cli.ExitFailure || !strings.HasPrefix(fmt.Sprint(err), string(test.rule)+": host 10.0.0.7:22: ") || h.calls != test.calls {
				t.Errorf("exit code %d after %d calls: %v", code, h.calls, err)
			}
			lines := strings.Split(strings.TrimSpace(r.out.String()), "\n")
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, `{"error":{"rule":"`+string(test.rule)+`","message":"host 10.0.0.7:22: `) {
				t.Errorf("it prints %s", last)
			}
		})
	}
}

func TestRunEndsWhileTheHostDoesNotAnswer(t *testing.T) {
	// Facts, checks, and a start; then nothing.
	h := &scriptedHost{errs: append(make([]error, 6), slices.Repeat([]error{lost()}, 100)...)}
	var r scriptedRun
	err := r.run(t, h, 20, "--no-drain")
	want := "--timeout has passed: the host has not answered for 1m18s; it is unknown whether step fetch-kubeadm still runs there. " +
		"Fix: run the same command again to continue; add --dry-run to see the progress"
	if code := exitCodeOfRun(err); code != cli.ExitUnfinished || err.Error() != want {
		t.Errorf("exit code %d: %v", code, err)
	}
	const lost = "windlass: note: HostConnectionLost: host 10.0.0.7:22: unexpected EOF; it "
	_, notes, _ := strings.Cut(r.notes.String(), "\n")
	if diff := cmp.Diff(lost+"is tried again\n"+lost+"has been tried again for 32s\n"+lost+"has been tried again for 1m2s\n", notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func TestRunLooksIntoTheBundleFirst(t *testing.T) {
	bundle := filepath.Join(t.TempDir(), "bundle.tar")
	var content bytes.Buffer
	archive := tar.NewWriter(&content)
	if err := errors.Join(archive.WriteHeader(&tar.Header{Name: "v1.36.3/linux/amd64/kubeadm", Typeflag: tar.TypeReg}), archive.Close(), os.WriteFile(bundle, content.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--no-drain", "--dry-run"}, {"--no-drain"}} {
		h := &scriptedHost{}
		var r scriptedRun
		err := r.runFrom(t, h, 100, "--bundle", bundle, args...)
		if want := "--bundle: the bundle " + bundle + " has no file v1.36.3/linux/amd64/kubelet"; exitCodeOfRun(err) != cli.ExitFailure || fmt.Sprint(err) != want || h.job != "" || r.out.Len() > 0 {
			t.Errorf("%v: it began %q, printed %q, and ended with %v", args, h.job, r.out.String(), err)
		}
	}
}

func TestRunShowsWhatRuns(t *testing.T) {
	running, installed := version.MustParse("v1.35.4"), version.MustParse("v1.36.3")
	goal := linuxhost.Goal{Distribution: linuxhost.Kubeadm, Version: installed}
	report := linuxhost.Report{
		Facts: linuxhost.Facts{Installed: installed, Running: running, Job: linuxhost.Job{Operation: goal.Operation(), Step: linuxhost.Restart, State: linuxhost.JobRunning}},
		Steps: []linuxhost.StepState{{Step: linuxhost.Step{Name: "install-kubelet"}, Done: true}, {Step: linuxhost.Step{Name: linuxhost.Restart}}},
	}
	plan := computePlan(goal, report, true)
	plan.Host = "10.0.0.7"
	var out bytes.Buffer
	if err := (runPrinter{LinePrinter: cli.LinePrinter{Out: &out}}).plan(plan); err != nil {
		t.Fatal(err)
	}
	if want := "Host 10.0.0.7, at v1.35.4 (v1.36.3 is in place, and waits for a restart), to v1.36.3\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("it prints %q, not %q", out.String(), want)
	}
	want := []plannedStep{{Step: "install-kubelet", State: stepDone}, {Step: linuxhost.Restart, State: stepRunning}}
	if diff := cmp.Diff(want, plan.Steps); diff != "" || plan.From != "v1.35.4" {
		t.Errorf("from %s; steps (-want +got):\n%s", plan.From, diff)
	}
	report.Facts.Job.Operation = "another"
	if got := computePlan(goal, report, true).Steps[1].State; got != stepToDo {
		t.Errorf("another operation's step is %q", got)
	}
}

func TestRunDryRunBeginsNothing(t *testing.T) {
	h := &scriptedHost{}
	var r scriptedRun
	const url = "https://mirror.example/{version}/{name}"
	if err := r.runFrom(t, h, 100, "--binaries-url", url, "--no-drain", "--dry-run", "-o", "json"); err != nil {
		t.Fatal(err)
	}
	if h.job != "" {
		t.Errorf("it began %s", h.job)
	}
	if !strings.Contains(r.notes.String(), "note: whether "+url+" has them is seen when they are fetched: ") {
		t.Errorf("it notes %s", r.notes.String())
	}
	if got := strings.Count(r.out.String(), "\n"); got != 1 || !strings.Contains(r.out.String(), `{"step":"node-ready","state":"left out",`) {
		t.Errorf("it prints %s", r.out.String())
	}
}

// TestRunLooksForFilesOnTheHostFirst: files that --binaries-folder lacks end a run before it
// begins.
func TestRunLooksForFilesOnTheHostFirst(t *testing.T) {
	for _, args := range [][]string{{"--no-drain", "--dry-run"}, {"--no-drain"}} {
		h := &scriptedHost{checked: "missing /srv/x\n"}
		var r scriptedRun
		err := r.run(t, h, 100, args...)
		const want = "DownloadFailed: step fetch-kubeadm: the host has no file /srv/x, /srv/x"
		if exitCodeOfRun(err) != cli.ExitRefused || !strings.Contains(fmt.Sprint(err), want) || h.job != "" {
			t.Errorf("%v: it began %q, and ended with %v", args, h.job, err)
		}
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
