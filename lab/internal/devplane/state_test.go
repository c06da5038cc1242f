package devplane

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPrepareStateDir(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	l := layout{dir: dir}
	if err := prepareStateDir(l); err != nil {
		t.Fatalf("a new directory: %v", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("mode is %v, want 0700", info.Mode().Perm())
	}
	write(t, filepath.Join(dir, "letter.txt"), "mine")
	if err := prepareStateDir(l); err == nil {
		t.Error("somebody's directory was accepted")
	}
	write(t, l.lock(), "")
	if err := prepareStateDir(l); err != nil {
		t.Errorf("a directory that a plane has used: %v", err)
	}
}

func TestStateIsProtected(t *testing.T) {
	t.Parallel()
	l := layout{dir: filepath.Join(t.TempDir(), "state")}
	write(t, l.lock(), "")
	write(t, l.record(), "{}")
	if err := os.Chmod(l.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := secureState(l, os.Geteuid()+1); err == nil {
		t.Error("another user's directory was accepted")
	}
	if err := checkFile(l.record(), os.Geteuid()+1); err == nil {
		t.Error("another user's record was accepted")
	}
	if err := prepareStateDir(l); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("mode is %v, want 0700", info.Mode().Perm())
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	write(t, elsewhere, "{}")
	for _, path := range []string{l.lock(), l.record()} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(elsewhere, path); err != nil {
			t.Fatal(err)
		}
		if err := prepareStateDir(l); err == nil {
			t.Errorf("%s is a link, and was accepted", path)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		write(t, path, "{}")
	}
}

// A directory that is not a plane's keeps its permissions.
func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	t.Parallel()
	l := layout{dir: t.TempDir()}
	write(t, filepath.Join(l.dir, "letter.txt"), "mine")
	if err := os.Chmod(l.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := prepareStateDir(l); err == nil {
		t.Error("somebody's directory was accepted")
	}
	info, err := os.Stat(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o755 {
		t.Errorf("mode is %v", info.Mode().Perm())
	}
}

// The mask belongs to the process, so this test does not run beside others.
func TestListenPrivate(t *testing.T) { //nolint:paralleltest // see above
	t.Chdir(t.TempDir()) // a socket's name is short
	const path = "socket"
	listener, err := listenPrivate(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm()&othersMode != 0 {
		t.Errorf("mode is %v: others can connect", info.Mode().Perm())
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func lockState(t *testing.T, l layout) *os.File {
	t.Helper()
	lock, ok, err := acquireLock(l)
	if err != nil || !ok {
		t.Fatalf("locking: %v, %v", ok, err)
	}
	return lock
}

func TestLock(t *testing.T) {
	t.Parallel()
	l := layout{dir: t.TempDir()}
	lock := lockState(t, l)
	if _, ok, err := acquireLock(l); ok || err != nil {
		t.Fatalf("locked twice: %v, %v", ok, err)
	}
	var running *RunningError
	if err := RemoveState(l.dir); !errors.As(err, &running) {
		t.Errorf("RemoveState on a running plane: %v, want a RunningError", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lockState(t, l).Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLockOfTheDead takes the lock of a supervisor that was killed and still ends, and not that of
// one that lives.
func TestLockOfTheDead(t *testing.T) {
	t.Parallel()
	start, err := processStart(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		supervisor processID
		ok         bool
	}{
		"ended":    {supervisor: processID{PID: os.Getpid(), Start: "another"}, ok: true},
		"lives":    {supervisor: processID{PID: os.Getpid(), Start: start}},
		"starting": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := layout{dir: t.TempDir()}
			lock := lockState(t, l)
			if err := writeJSON(l.record(), record{Supervisor: test.supervisor}); err != nil {
				t.Fatal(err)
			}
			// The kernel ends the threads of a process one after another.
			if test.ok {
				ending := time.AfterFunc(100*time.Millisecond, func() { _ = lock.Close() })
				defer ending.Stop()
			}
			defer func() { _ = lock.Close() }() // It may be closed already.
			file, ok, err := awaitLock(l)
			if ok != test.ok || err != nil {
				t.Fatalf("awaitLock gives %v, %v, want %v", ok, err, test.ok)
			}
			if ok {
				_ = file.Close() // Nothing was written.
			}
		})
	}
}

func TestRemoveState(t *testing.T) {
	t.Parallel()
	if err := RemoveState(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("a directory that does not exist: %v", err)
	}

	foreign := t.TempDir()
	write(t, filepath.Join(foreign, "letter.txt"), "mine")
	if err := RemoveState(foreign); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"letter.txt"}, names(t, foreign)); diff != "" {
		t.Errorf("somebody's directory (-want +got):\n%s", diff)
	}

	used := layout{dir: filepath.Join(t.TempDir(), "state")}
	for _, path := range []string{used.lock(), used.record(), used.kubeconfig(), used.log("a"), filepath.Join(used.apiServer(), "etcd", "data")} {
		write(t, path, "not even JSON")
	}
	if err := RemoveState(used.dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(used.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", names(t, used.dir))
	}

	shared := layout{dir: filepath.Join(t.TempDir(), "state")}
	write(t, shared.lock(), "")
	write(t, shared.kubeconfig(), "")
	write(t, filepath.Join(shared.dir, "letter.txt"), "mine")
	if err := RemoveState(shared.dir); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"letter.txt"}, names(t, shared.dir)); diff != "" {
		t.Errorf("a directory with a file of somebody's (-want +got):\n%s", diff)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}
	return out
}

// A process id alone is no identity: the process that has it now may be another.
func TestProcessID(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "/bin/sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	start, err := processStart(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	id := processID{PID: cmd.Process.Pid, Start: start}
	if !id.alive() {
		t.Error("the process counts as ended")
	}
	if other := (processID{PID: id.PID, Start: "another"}); other.alive() {
		t.Error("a process with another start counts as the same")
	}

	// A stale record ends what it names, and only that.
	l := layout{dir: t.TempDir()}
	lock := lockState(t, l)
	defer func() { _ = lock.Close() }()
	if err := writeJSON(l.record(), record{Supervisor: processID{PID: os.Getpid(), Start: "another"}, Children: []processID{id}}); err != nil {
		t.Fatal(err)
	}
	if err := cleanStale(l); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
	if id.alive() {
		t.Error("the process still counts as alive")
	}
	if (processID{}).alive() {
		t.Error("no process counts as alive")
	}
}
