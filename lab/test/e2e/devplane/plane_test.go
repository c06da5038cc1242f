package devplane_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/devplane/isolationtest"
)

// TestPlane does in one plane what leaves it as it was.
//
//nolint:tparallel // Its parts are one after another: some stop what others need.
func TestPlane(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	plane := start(t, b.config(t))
	possible, why := isolationtest.Possible(t.Context())
	t.Logf("isolation possible: %v %s, exercised: %v", possible, why, statusOf(t, plane).Isolated)
	if possible && !statusOf(t, plane).Isolated {
		t.Error("this system permits namespaces, and the plane is not isolated")
	}
	c := newClient(t, plane)
	t.Run("webhooks", func(t *testing.T) { testWebhooks(t, c) })
	t.Run("garbage", func(t *testing.T) { testGarbage(t, c) })
	t.Run("cluster", func(t *testing.T) { testCluster(t, c) })
	t.Run("dial", func(t *testing.T) { testDial(t, plane) })
	t.Run("crash", func(t *testing.T) { testCrash(t, plane) })
	t.Run("child", func(t *testing.T) { testChild(t, plane) })
	t.Run("replace", func(t *testing.T) {
		testReplace(t, plane, b)
		testWebhooks(t, c)
	})
	t.Run("memory", func(t *testing.T) {
		status := statusOf(t, plane)
		t.Logf("supervisor: %d MiB", status.ResidentBytes>>20)
		for _, child := range status.Children {
			t.Logf("%s: %d MiB", child.Name, child.ResidentBytes>>20)
		}
	})
}

// testDial reads a manager's metrics, which are served inside only.
func testDial(t *testing.T, plane *devplane.Plane) {
	t.Helper()
	address := ""
	for _, arg := range childOf(t, plane, devplane.CoreManager).Command {
		if value, ok := strings.CutPrefix(arg, "--diagnostics-address="); ok {
			address = value
		}
	}
	inside := &http.Client{Transport: &http.Transport{DialContext: plane.DialContext, DisableKeepAlives: true}}
	text := get(t, inside, "http://"+address+"/metrics")
	if !strings.Contains(text, "controller_runtime_reconcile_total") {
		t.Errorf("%d bytes without the metrics of a manager", len(text))
	}
	if _, err := plane.DialContext(t.Context(), "tcp", "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("dialing a closed port: %v", err)
	}
	if statusOf(t, plane).Isolated {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
			t.Errorf("%s is open in this machine's network", address)
		}
	}
}

func get(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s answers %s, %v", url, response.Status, err)
	}
	return string(data)
}

// testCrash kills a manager behind the supervisor's back.
func testCrash(t *testing.T, plane *devplane.Plane) {
	t.Helper()
	before := childOf(t, plane, devplane.KubeadmBootstrapManager)
	mustBeChild(t, before.PID, statusOf(t, plane).PID)
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var crashed *devplane.ChildError
	if err := plane.Wait(t.Context()); !errors.As(err, &crashed) || crashed.Name != before.Name {
		t.Fatalf("Wait returns %v, want the crash of %s", err, before.Name)
	}
	if text := crashed.Error(); !strings.Contains(text, "killed") || !strings.Contains(text, before.LogFile) || len(crashed.Exit.LogTail) == 0 {
		t.Errorf("the error says too little: %s", text)
	}
	if status := statusOf(t, plane); status.Phase != devplane.PhaseFailed || !strings.Contains(status.Message, before.Name) {
		t.Errorf("status is %s: %s", status.Phase, status.Message)
	}
	after, err := plane.StartChild(t.Context(), before.Name)
	if err != nil || after.State != devplane.ChildReady || after.Starts != before.Starts+1 || after.PID == before.PID {
		t.Errorf("after another start: %+v, %v", after, err)
	}
	if status := statusOf(t, plane); status.Phase != devplane.PhaseRunning {
		t.Errorf("status is %s: %s", status.Phase, status.Message)
	}
}

// testChild adds a child with everything that a child can ask for, and kills it many times.
func testChild(t *testing.T, plane *devplane.Plane) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const address = "127.0.0.1:$(PORT_https)"
	child := devplane.Child{
		Name: "server", Path: self, Args: []string{serveRole, address, "$(CERT_DIR)"},
		Ports: []string{"https"}, ServingCertificate: true, Ready: devplane.Readiness{URL: "https://" + address + "/"},
	}
	first, err := plane.AddChild(t.Context(), child)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plane.AddChild(t.Context(), child); err == nil {
		t.Error("a second child of the same name was added")
	}
	for range 5 {
		killed, err := plane.KillChild(t.Context(), child.Name)
		if err != nil || killed.State != devplane.ChildExited || !killed.LastExit.Expected {
			t.Fatalf("after a kill: %+v, %v", killed, err)
		}
		if phase := statusOf(t, plane).Phase; phase != devplane.PhaseRunning {
			t.Errorf("phase is %s after a kill on request", phase)
		}
		again, err := plane.StartChild(t.Context(), child.Name)
		if err != nil || again.Ports["https"] != first.Ports["https"] {
			t.Fatalf("after another start: %+v, %v", again, err)
		}
	}
	if stopped, err := plane.StopChild(t.Context(), child.Name); err != nil || stopped.State != devplane.ChildStopped || stopped.Starts != 6 {
		t.Errorf("after a stop: %+v, %v", stopped, err)
	}
	if _, err := plane.StartChild(t.Context(), "nobody"); err == nil || !strings.Contains(err.Error(), child.Name) {
		t.Errorf("starting a child that there is not: %v", err)
	}
	bad := devplane.Child{Name: "bad", Path: self, Args: []string{"$(PORT_https)"}}
	if _, err := plane.AddChild(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "PORT_https") {
		t.Errorf("a reference to a port that the child does not have: %v", err)
	}
}

// testReplace puts another process in the place of the core manager, as one does with a manager of one's own.
func testReplace(t *testing.T, plane *devplane.Plane, b binaries) {
	t.Helper()
	child := devplane.Child{
		Name: "own-core", Path: filepath.Join(b.assets, "bin", devplane.CoreManager), Replaces: devplane.CoreManager,
		Args: []string{
			"--leader-elect=false", "--webhook-port=$(WEBHOOK_PORT)", "--webhook-cert-dir=$(WEBHOOK_CERT_DIR)", "--health-addr=127.0.0.1:$(PORT_health)",
			"--diagnostics-address=127.0.0.1:$(PORT_metrics)", "--feature-gates=ClusterTopology=true,RuntimeSDK=true",
		},
		Ports: []string{"health", "metrics"}, Ready: devplane.Readiness{URL: "http://127.0.0.1:$(PORT_health)/readyz"},
	}
	if _, err := plane.AddChild(t.Context(), child); err == nil || !strings.Contains(err.Error(), "stop it before") {
		t.Errorf("replacing a manager that runs: %v", err)
	}
	if _, err := plane.StopChild(t.Context(), devplane.CoreManager); err != nil {
		t.Fatal(err)
	}
	if _, err := plane.AddChild(t.Context(), child); err != nil {
		t.Fatal(err)
	}
}

// TestTwoPlanes runs two at the same time, kills the supervisor of one, and starts it anew in the same place.
func TestTwoPlanes(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	if possible, why := isolationtest.Possible(t.Context()); !possible {
		t.Skip(why)
	}
	first, second := b.config(t), b.config(t)
	first.Isolation, second.Isolation = devplane.IsolationRequired, devplane.IsolationRequired
	first.Detached = true
	var planes [2]*devplane.Plane
	var errs [2]error
	var group sync.WaitGroup
	for i, config := range []devplane.Config{first, second} {
		group.Go(func() { planes[i], errs[i] = devplane.Start(t.Context(), config) })
	}
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, planes[1], second.StateDir) })

	marker := object("v1", "ConfigMap", "default", "marker")
	create(t, newClient(t, planes[0]), marker.DeepCopy())
	create(t, newClient(t, planes[1]), marker.DeepCopy()) // it would exist already if they were one

	var running1 *devplane.RunningError
	if _, err := devplane.Start(t.Context(), first); !errors.As(err, &running1) {
		t.Errorf("a second start in the same place: %v, want a RunningError", err)
	}
	status := statusOf(t, planes[0])
	mustBeChild(t, status.PID, os.Getpid())
	if err := syscall.Kill(status.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the end of all processes", func() (bool, error) { return len(running(status)) == 0, nil })
	var ended *devplane.NotRunningError
	if err := planes[0].Wait(t.Context()); !errors.As(err, &ended) || !ended.Stale {
		t.Errorf("Wait returns %v, want that the supervisor has ended", err)
	}
	again := start(t, first)
	create(t, newClient(t, again), marker.DeepCopy()) // a new plane is empty
	if phase := statusOf(t, planes[1]).Phase; phase != devplane.PhaseRunning {
		t.Errorf("the other plane is %s", phase)
	}
}

// TestParentIsKilled kills the process that an attached plane belongs to.
func TestParentIsKilled(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config := b.config(t)
	parent := exec.CommandContext(t.Context(), self, startRole, b.Lab, config.StateDir, b.assets)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("the parent says %q, %v", line, err)
	}
	plane, err := devplane.Connect(t.Context(), config.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	status := statusOf(t, plane)
	if got := len(running(status)); got != 6 {
		t.Errorf("%d processes run, want 6", got)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed, as it should be
	eventually(t, 20*time.Second, "the end of all processes", func() (bool, error) { return len(running(status)) == 0, nil })
	// A process whose first thread has ended looks dead, while its other threads still hold the lock.
	eventually(t, 10*time.Second, "the end of the lock", func() (bool, error) {
		err := devplane.RemoveState(config.StateDir)
		return err == nil, err
	})
}

// TestWithoutNamespaces shares this machine's network.
func TestWithoutNamespaces(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	config := b.config(t)
	config.Isolation = devplane.IsolationNone
	var warnings []string
	config.Progress = func(e devplane.Event) {
		if e.Warning {
			warnings = append(warnings, e.Message)
		}
	}
	plane := start(t, config)
	if len(warnings) != 1 || !strings.Contains(warnings[0], "19000") {
		t.Errorf("warnings are %q, want one about the ports", warnings)
	}
	testWebhooks(t, newClient(t, plane))
	other := b.config(t)
	other.Isolation = devplane.IsolationNone
	if _, err := devplane.Start(t.Context(), other); err == nil || !strings.Contains(err.Error(), "19000") {
		t.Errorf("a second plane without namespaces: %v, want a refusal about port 19000", err)
	}
	status := statusOf(t, plane)
	mustBeChild(t, status.PID, os.Getpid())
	if err := syscall.Kill(status.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the end of all processes", func() (bool, error) { return len(running(status)) == 0, nil })
}
