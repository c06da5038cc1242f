package procs

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is also the process that the tests kill: roles other than the tests' are chosen by this variable.
const roleVariable = "WINDLASS_PROCS_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(m.Run())
	case "parent":
		runParent()
	case "init":
		runInit()
	default:
		panic("unknown role " + role)
	}
}

// runParent starts a child, prints its pid, and waits to be killed.
func runParent() {
	process, err := NewSpawner().Start(Spec{Path: "/bin/sh", Args: []string{"-c", "exec sleep 600"}, LogFile: os.DevNull})
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(os.Stdout, process.PID)
	<-process.Done()
}

// runInit starts a child that leaves an orphan, and succeeds once the orphan has been collected.
func runInit() {
	dir, err := os.MkdirTemp("", "procs")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log := filepath.Join(dir, "log")
	process, err := NewSpawner().Start(Spec{Path: "/bin/sh", Args: []string{"-c", "sleep 0.05 & echo $!"}, Env: os.Environ(), LogFile: log})
	if err != nil {
		panic(err)
	}
	<-process.Done()
	text, err := os.ReadFile(log)
	if err != nil {
		panic(err)
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		panic(err)
	}
	if !await(func() bool { return gone(orphan) }) {
		panic(fmt.Sprintf("the orphan %d was not collected", orphan))
	}
}

// await polls, because what is awaited is another process's doing.
func await(condition func() bool) bool {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); <-ticker.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// gone reports whether a process, ended or not, is no longer in the process table.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func start(t *testing.T, script string) (process *Process, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "log")
	process, err := NewSpawner().Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ(), LogFile: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Signal(syscall.SIGKILL)
		<-process.Done()
	})
	return process, log
}

func TestExit(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]Exit{
		"exit 0":        {Code: 0},
		"exit 7":        {Code: 7},
		"kill -KILL $$": {Code: -1, Signal: syscall.SIGKILL},
		"kill -TERM $$": {Code: -1, Signal: syscall.SIGTERM},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			process, _ := start(t, script)
			<-process.Done()
			if got := process.Exit(); got != want {
				t.Errorf("exit is %+v, want %+v", got, want)
			}
			if err := process.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("signal to a process that has ended: %v", err)
			}
		})
	}
}

func TestLogIsAppended(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	spawner := NewSpawner()
	for _, script := range []string{"echo one", "echo two >&2"} {
		process, err := spawner.Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, LogFile: log})
		if err != nil {
			t.Fatal(err)
		}
		<-process.Done()
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(text), "one\ntwo\n"; got != want {
		t.Errorf("log is %q, want %q", got, want)
	}
}

func TestSignalReachesTheGroup(t *testing.T) {
	t.Parallel()
	// The shell waits for a child of its own; both must end.
	process, log := start(t, "sleep 600 & echo $!; wait")
	child := readPID(t, log)
	if err := process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-process.Done()
	awaitEnd(t, child)
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	spawner := NewSpawner()
	dir := t.TempDir()
	if _, err := spawner.Start(Spec{Path: filepath.Join(dir, "none"), LogFile: filepath.Join(dir, "log")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a binary that does not exist: %v", err)
	}
	if _, err := spawner.Start(Spec{Path: "/bin/sh", LogFile: filepath.Join(dir, "none", "log")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a log in a directory that does not exist: %v", err)
	}
}

// readPID waits for the process id that a script writes first.
func readPID(t *testing.T, log string) int {
	t.Helper()
	var line string
	written := await(func() bool {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		var complete bool
		line, _, complete = strings.Cut(string(text), "\n")
		return complete
	})
	pid, err := strconv.Atoi(line)
	if !written || err != nil {
		t.Fatalf("the script has written %q, not a process id", line)
	}
	return pid
}

// awaitEnd waits until a process has ended; one that nobody collects counts, it is its new parent's.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	if !await(func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	}) {
		t.Fatalf("process %d still runs", pid)
	}
}

// asRole is a command that runs this binary in a role.
func asRole(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return cmd
}

func TestChildrenDieWithTheirParent(t *testing.T) {
	t.Parallel()
	skipUnlessLinux(t)
	parent := asRole(t, "parent")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed, as it should be
	awaitEnd(t, child)
}
