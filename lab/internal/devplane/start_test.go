package devplane

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/devplane/isolationtest"
)

// The test binary is also the supervisor, and a process that starts a plane and is killed.
const (
	superviseArg = "supervise-for-tests"
	startArg     = "start-for-tests"
)

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	switch {
	case flag.Arg(0) == startArg:
		_, err = Start(context.Background(), Config{
			StateDir: flag.Arg(1), AssetsDir: flag.Arg(2), SupervisorArgs: []string{superviseArg}, Isolation: Isolation(flag.Arg(3)),
			Without: []string{InMemoryManager},
		})
	case flag.Arg(0) == superviseArg && flag.Arg(1) == ProbeFlag:
		err = Probe()
	case flag.Arg(0) == superviseArg:
		err = Supervise(context.Background(), flag.Arg(1))
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// fakeAssets are binaries that are shell scripts: enough to see how a start fails.
func fakeAssets(t *testing.T, apiServer string) string {
	t.Helper()
	dir := t.TempDir()
	for _, binary := range binaries() {
		script := "#!/bin/sh\nexec sleep 600\n"
		if binary.name == APIServer {
			script = "#!/bin/sh\n" + apiServer + "\n"
		}
		path := filepath.Join(dir, binDir, binary.name)
		write(t, path, script)
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	managers := []managerAssets{{Name: CoreManager, FeatureGates: []string{"ClusterTopology", "InPlaceUpdates", "MachinePool", "RuntimeSDK"}}}
	if err := writeJSON(filepath.Join(dir, assetsFile), assets{Managers: managers}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// eachIsolation runs a test in namespaces and without.
func eachIsolation(t *testing.T, test func(t *testing.T, isolation Isolation)) {
	t.Helper()
	for name, isolation := range map[string]Isolation{"isolated": IsolationRequired, "shared": IsolationNone} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if isolation == IsolationRequired {
				if possible, why := isolationtest.Possible(t.Context()); !possible {
					t.Skip(why)
				}
			}
			test(t, isolation)
		})
	}
}

func TestStartReportsAChildThatEnds(t *testing.T) {
	t.Parallel()
	eachIsolation(t, func(t *testing.T, isolation Isolation) {
		t.Helper()
		state := filepath.Join(t.TempDir(), "state")
		var events []Event
		_, err := Start(t.Context(), Config{
			StateDir: state, AssetsDir: fakeAssets(t, "echo no such flag >&2; exit 3"), SupervisorArgs: []string{superviseArg},
			Isolation: isolation, Without: []string{InMemoryManager}, Progress: func(e Event) { events = append(events, e) },
		})
		var failed *ChildError
		if !errors.As(err, &failed) || failed.Name != APIServer || failed.Exit.Code != 3 || !slices.Equal(failed.Exit.LogTail, []string{"no such flag"}) {
			t.Fatalf("error is %v, want one with the name, exit status 3 and the log", err)
		}
		warned := slices.ContainsFunc(events, func(e Event) bool { return e.Warning })
		if warned != (isolation == IsolationNone) {
			t.Errorf("warned is %v: %v", warned, events)
		}
		if _, err := Connect(t.Context(), state); err == nil {
			t.Error("a plane that did not start can be connected to")
		}
		if path, err := LogFile(state, APIServer); err != nil || strings.Join(logTail(path), "") != "no such flag" {
			t.Errorf("the log is not there any more: %s, %v", path, err)
		}
		if err := RemoveState(state); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(state); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the state is still there: %v", err)
		}
	})
}

// neverReady is an API server that says that it runs, and never serves.
const neverReady = `touch "$(dirname "$0")/running"; exec sleep 600`

func awaitRunning(t *testing.T, assetsDir string) {
	t.Helper()
	await(t, "the API server", func() bool {
		_, err := os.Stat(filepath.Join(assetsDir, binDir, "running"))
		return err == nil
	})
}

func TestStartIsCancelled(t *testing.T) {
	t.Parallel()
	eachIsolation(t, func(t *testing.T, isolation Isolation) {
		t.Helper()
		assetsDir := fakeAssets(t, neverReady)
		state := filepath.Join(t.TempDir(), "state")
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("the user has lost patience")
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			awaitRunning(t, assetsDir)
			cancel(reason)
		}()
		defer func() { <-stopped }()
		_, err := Start(ctx, Config{
			StateDir: state, AssetsDir: assetsDir, SupervisorArgs: []string{superviseArg}, Isolation: isolation, Without: []string{InMemoryManager},
		})
		if !errors.Is(err, reason) {
			t.Errorf("error is %v, want the reason", err)
		}
		// The lock is free only when the supervisor, and with it every child, has gone.
		if err := RemoveState(state); err != nil {
			t.Error(err)
		}
	})
}

func TestStartOfTheParentThatIsKilled(t *testing.T) {
	t.Parallel()
	eachIsolation(t, func(t *testing.T, isolation Isolation) {
		t.Helper()
		assetsDir := fakeAssets(t, neverReady)
		state := filepath.Join(t.TempDir(), "state")
		parent := exec.CommandContext(t.Context(), os.Args[0], startArg, state, assetsDir, string(isolation))
		if err := parent.Start(); err != nil {
			t.Fatal(err)
		}
		awaitRunning(t, assetsDir)
		plane, err := Connect(t.Context(), state)
		if err != nil {
			t.Fatal(err)
		}
		status, err := plane.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := parent.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = parent.Wait() // killed, as it should be
		await(t, "the end of all processes", func() bool { return len(running(status)) == 0 })
		await(t, "the end of the lock", func() bool { return unlocked(layout{dir: state}) })
	})
}

// running lists the processes of a status that still run.
func running(status Status) []int {
	pids := []int{status.PID}
	for _, child := range status.Children {
		pids = append(pids, child.PID)
	}
	return slices.DeleteFunc(pids, func(pid int) bool {
		_, err := processStart(pid)
		return err != nil
	})
}

func TestSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	eachIsolation(t, func(t *testing.T, isolation Isolation) {
		t.Helper()
		assetsDir := fakeAssets(t, neverReady)
		state := filepath.Join(t.TempDir(), "state")
		failed := make(chan error, 1)
		go func() {
			_, err := Start(t.Context(), Config{
				StateDir: state, AssetsDir: assetsDir, SupervisorArgs: []string{superviseArg}, Isolation: isolation, Without: []string{InMemoryManager},
			})
			failed <- err
		}()
		awaitRunning(t, assetsDir)
		plane, err := Connect(t.Context(), state)
		if err != nil {
			t.Fatal(err)
		}
		status, err := plane.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(running(status)) != 2 {
			t.Fatalf("processes %v run, want the supervisor and the API server: %+v", running(status), status)
		}
		mustBeChild(t, status.PID, os.Getpid())
		supervisor, err := os.FindProcess(status.PID)
		if err != nil {
			t.Fatal(err)
		}
		if err := supervisor.Kill(); err != nil {
			t.Fatal(err)
		}
		var gone *NotRunningError
		if err := <-failed; !errors.As(err, &gone) {
			t.Errorf("Start returns %v, want a NotRunningError", err)
		}
		await(t, "the end of all processes", func() bool { return len(running(status)) == 0 })
		if _, err := Connect(t.Context(), state); !errors.As(err, &gone) || !gone.Stale {
			t.Errorf("Connect returns %v, want a NotRunningError about leftovers", err)
		}
		if err := RemoveState(state); err != nil {
			t.Error(err)
		}
	})
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	assetsDir := fakeAssets(t, "exit 1")
	config := func() Config {
		return Config{
			StateDir: filepath.Join(t.TempDir(), "state"), AssetsDir: assetsDir, SupervisorArgs: []string{superviseArg}, Without: []string{InMemoryManager},
		}
	}
	refuses := func(config Config, want string) {
		t.Helper()
		if _, err := Start(t.Context(), config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start returns %v, want an error with %q", err, want)
		}
	}

	unbuilt := config()
	unbuilt.AssetsDir = t.TempDir()
	refuses(unbuilt, "build the plane first")

	gate := config()
	gate.FeatureGates = map[string]bool{"Teleportation": true}
	refuses(gate, "knows the feature gates Teleportation")

	locked := config()
	if err := os.MkdirAll(locked.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	lock := lockState(t, layout{dir: locked.StateDir})
	defer func() { _ = lock.Close() }()
	refuses(locked, "a management cluster is running on")

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	port := config()
	tcp, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("address is a %T", listener.Addr())
	}
	port.Port = tcp.AddrPort().Port()
	refuses(port, "address already in use")

	broken := config()
	broken.SupervisorPath, broken.Isolation = "/bin/false", IsolationNone
	refuses(broken, "the supervisor did not start")
}

// spawnSupervisor starts a supervisor whose API server is never ready, without waiting for it.
func spawnSupervisor(t *testing.T, state string) *Plane {
	t.Helper()
	config, err := Config{
		StateDir: state, AssetsDir: fakeAssets(t, neverReady), SupervisorPath: os.Args[0], SupervisorArgs: []string{superviseArg},
		Isolation: IsolationNone, Without: []string{InMemoryManager},
	}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s := &starter{config: config, layout: layout{dir: config.StateDir}, started: time.Now()}
	defer s.close()
	if err := s.claim(); err != nil {
		t.Fatal(err)
	}
	if err := s.isolate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	plane, err := s.spawn()
	if err != nil {
		t.Fatal(err)
	}
	return plane
}

// A plane belongs to the process that started it, not to the handle, which that process may drop.
func TestLifelineOutlivesTheHandle(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	collected := make(chan struct{})
	fd, before := func() (int, syscall.Stat_t) {
		plane := spawnSupervisor(t, state)
		runtime.AddCleanup(plane, func(done chan struct{}) { close(done) }, collected)
		fd := int(plane.lifeline.Fd())
		return fd, statFD(t, fd)
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		plane, err := Connect(ctx, state)
		if err != nil {
			t.Fatal(err)
		}
		if err := plane.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	await(t, "the collection of the handle", func() bool {
		runtime.GC()
		select {
		case <-collected:
			return true
		default:
			return false
		}
	})
	runtime.GC() // what only the handle referred to is closed by now, or in this round
	if after := statFD(t, fd); after.Ino != before.Ino || after.Dev != before.Dev {
		t.Error("the lifeline was closed with the handle")
	}
}

// An orderly end leaves nothing that would be taken for a crash.
func TestOrderlyStopIsNoCrash(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	plane := spawnSupervisor(t, state)
	if err := plane.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ended *NotRunningError
	if _, err := Connect(t.Context(), state); !errors.As(err, &ended) || ended.Stale {
		t.Errorf("Connect returns %v, want a NotRunningError without leftovers", err)
	}
	if _, err := plane.Status(t.Context()); !errors.As(err, &ended) || ended.Stale {
		t.Errorf("Status returns %v, want a NotRunningError without leftovers", err)
	}
	if err := plane.Stop(t.Context()); err != nil {
		t.Errorf("a second stop: %v", err)
	}
	if err := RemoveState(state); err != nil {
		t.Error(err)
	}
}

// The API server of this plane has been started, with its certificates, but never serves.
func TestAddChildBeforeThePlaneIsUp(t *testing.T) {
	t.Parallel()
	plane := spawnSupervisor(t, filepath.Join(t.TempDir(), "state"))
	defer func() {
		if err := plane.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	awaitChild(t, plane)
	if _, err := plane.AddChild(t.Context(), Child{Name: "early", Path: "/bin/true"}); err == nil || !strings.Contains(err.Error(), "not up yet") {
		t.Errorf("AddChild returns %v, want that the plane is not up yet", err)
	}
	for _, name := range reservedNames() {
		// Past the check on this side, as another client would.
		err := plane.call(t.Context(), http.MethodPost, "/v1/children", Child{Name: name, Path: "/bin/true"}, nil)
		if err == nil || !strings.Contains(err.Error(), "is taken") {
			t.Errorf("a child of the name %s: %v", name, err)
		}
	}
}

// Without the state directory neither socket nor record leads to the supervisor any more.
func TestStopWithoutTheStateDirectory(t *testing.T) {
	t.Parallel()
	for name, detached := range map[string]bool{"attached": false, "detached": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := filepath.Join(t.TempDir(), "state")
			plane := spawnSupervisor(t, state)
			awaitChild(t, plane) // nothing is written to the directory after that
			if detached {
				if err := (&starter{config: Config{Detached: true}}).letGo(plane); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.RemoveAll(state); err != nil {
				t.Fatal(err)
			}
			if err := plane.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if plane.supervisor.alive() {
				t.Error("the supervisor is still there")
			}
		})
	}
}

// A supervisor that does not react is killed once ctx has ended.
func TestStopHeedsItsContext(t *testing.T) {
	t.Parallel()
	plane := spawnSupervisor(t, filepath.Join(t.TempDir(), "state"))
	mustBeChild(t, plane.supervisor.PID, os.Getpid())
	if err := syscall.Kill(plane.supervisor.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := plane.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if plane.supervisor.alive() {
		t.Error("the supervisor is still there")
	}
}

// awaitChild waits until the API server has been started.
func awaitChild(t *testing.T, plane *Plane) {
	t.Helper()
	status, err := plane.Status(t.Context())
	for err == nil && (len(status.Children) == 0 || status.Children[0].Starts == 0) {
		status, err = plane.Watch(t.Context(), status.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// mustBeChild keeps a test from sending a signal to somebody else's process.
func mustBeChild(t *testing.T, pid, parent int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "ppid=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		t.Fatalf("looking for the parent of process %d: %v", pid, err)
	}
	if got := strings.TrimSpace(string(out)); got != strconv.Itoa(parent) {
		t.Fatalf("the parent of process %d is %s and not %d: it is left alone", pid, got, parent)
	}
}

func statFD(t *testing.T, fd int) syscall.Stat_t {
	t.Helper()
	var out syscall.Stat_t
	if err := syscall.Fstat(fd, &out); err != nil {
		t.Fatalf("the descriptor %d is closed: %v", fd, err)
	}
	return out
}
