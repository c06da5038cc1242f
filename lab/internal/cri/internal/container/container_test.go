//go:build linux

package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
)

// TestMain makes the test's program a shim, too.
func TestMain(m *testing.M) {
	if status, ok := RunChild(os.Args); ok {
		os.Exit(status)
	}
	os.Exit(m.Run())
}

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// create makes a container that is removed at the end of the test.
func create(t *testing.T, spec Spec) *Container {
	t.Helper()
	hosts.Require(t)
	spec.Log = filepath.Join(t.TempDir(), "pod", "0.log")
	spec.Env = append([]string{searchPath}, spec.Env...)
	dir := t.TempDir()
	c, err := Create(dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Open(dir).Remove(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func always() error { return nil }

func shell(script string) Spec { return Spec{Args: []string{"bash", "-c", script}} }

func start(t *testing.T, spec Spec) *Container {
	t.Helper()
	c := create(t, spec)
	if err := c.Start("/proc/self/exe", always); err != nil {
		t.Fatal(err)
	}
	return c
}

// read returns the state as a later process sees it.
func read(t *testing.T, c *Container) (started, Status) {
	t.Helper()
	run, status, err := Open(c.dir).read()
	if err != nil {
		t.Fatal(err)
	}
	return run, status
}

// exit returns the status when the shim has ended.
func exit(t *testing.T, c *Container) Status {
	t.Helper()
	run, status := read(t, c)
	if h, err := run.Shim.open(); err == nil {
		defer h.close()
		if !h.wait(time.Minute) {
			t.Fatalf("the container runs: %+v", status)
		}
	}
	_, status = read(t, c)
	if status.State != Exited || status.FinishedAt.IsZero() {
		t.Errorf("%+v", status)
	}
	return status
}

// logLines returns the log without times.
func logLines(t *testing.T, c *Container) []string {
	t.Helper()
	spec, err := readSpec(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(spec.Log)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		stamp, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if _, err := time.Parse(time.RFC3339Nano, stamp); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		lines = append(lines, rest)
	}
	return lines
}

func execute(t *testing.T, c *Container, script string) string {
	t.Helper()
	var out bytes.Buffer
	code, err := c.Exec(t.Context(), Execution{Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out})
	if err != nil || code != 0 {
		t.Fatalf("%s: %d, %v\n%s", script, code, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

// waits is a script that tells in the file $READY that it is at its end, and waits for signals.
const waits = `; tail -f /dev/null & touch "$READY" || exit; while :; do wait; done`

// startReady starts a script, and returns when it waits.
func startReady(t *testing.T, script string, spec Spec) *Container {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "container-") //nolint:usetesting // Also with a read-only root.
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ready := filepath.Join(dir, "ready")
	spec.Args, spec.Env = []string{"bash", "-c", script + waits}, append(spec.Env, "READY="+ready)
	c := start(t, spec)
	execute(t, c, `until test -e "$READY"; do read -t 0.01 <> <(:) || :; done`)
	return c
}

func TestExitAndLog(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for name, c := range map[string]struct {
		spec   Spec
		code   int
		reason string
		log    []string
	}{
		"success":   {shell("echo out; echo err >&2"), 0, ReasonCompleted, []string{"stdout F out", "stderr F err"}},
		"failure":   {shell("exit 7"), 7, ReasonError, nil},
		"signal":    {shell("{ bash -c 'kill -KILL $$' ; } 2>/dev/null; exit $?"), 137, ReasonError, nil},
		"no line":   {shell("printf a"), 0, ReasonCompleted, []string{"stdout F a"}},
		"long line": {shell("printf %016384d 0 | tr 0 x; echo y"), 0, ReasonCompleted, []string{"stdout P " + long, "stdout F y"}},
		"first process": {
			shell("echo $$; cd /proc; echo [0-9]*"), 0, ReasonCompleted, []string{"stdout F 1", "stdout F 1"},
		},
		"environment": {
			Spec{Args: []string{"env"}, Env: []string{"A=b c"}}, 0, ReasonCompleted,
			[]string{"stdout F " + searchPath, "stdout F A=b c"},
		},
		"working directory": {Spec{Args: []string{"pwd"}, Dir: "/usr"}, 0, ReasonCompleted, []string{"stdout F /usr"}},
		"no input":          {shell("wc -c"), 0, ReasonCompleted, []string{"stdout F 0"}},
		"nothing inherited": {shell("cd /proc/1/fd; for f in *; do [[ ! -e $f ]] || echo $f; done"), 0, ReasonCompleted, []string{"stdout F 0", "stdout F 1", "stdout F 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			container := start(t, c.spec)
			status := exit(t, container)
			if status.ExitCode != c.code || status.Reason != c.reason || status.StartedAt.IsZero() {
				t.Errorf("%+v", status)
			}
			if diff := cmp.Diff(c.log, logLines(t, container)); name != "success" && diff != "" {
				t.Error(diff)
			} else if got := logLines(t, container); len(got) != len(c.log) {
				t.Error(got) // The order of two streams is not known.
			}
		})
	}
}

func TestStartFails(t *testing.T) {
	empty := t.TempDir()
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"no program":     {Spec{Args: []string{"no-such-program"}}, "no-such-program"},
		"no file":        {Spec{Args: []string{"/no/such/file"}}, "/no/such/file: no such file"},
		"no command":     {Spec{}, "no command"},
		"not executable": {Spec{Args: []string{"/etc/passwd"}}, "/etc/passwd: permission denied"},
		"a folder":       {Spec{Args: []string{"/etc"}}, "/etc: permission denied"},
		"no directory":   {Spec{Args: []string{"true"}, Dir: "/no/such"}, "working directory"},
		"no source": {
			Spec{Args: []string{"true"}, Mounts: []Mount{{Source: empty + "/none", Target: "/mnt"}}}, empty + "/none",
		},
		"a folder on a file": {
			Spec{Args: []string{"true"}, Mounts: []Mount{{Source: empty, Target: "/etc/passwd"}}}, "/etc/passwd",
		},
	} {
		t.Run(name, func(t *testing.T) {
			container := create(t, c.spec)
			err := container.Start("/proc/self/exe", always)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			_, status := read(t, container)
			if status.State != Exited || status.ExitCode != codeStartError || status.Reason != ReasonStartError ||
				!strings.Contains(status.Message, c.want) {
				t.Errorf("%+v", status)
			}
			if err := container.Start("/proc/self/exe", always); err == nil || !strings.Contains(err.Error(), "started before") {
				t.Errorf("the second start: %v", err)
			}
		})
	}
	t.Run("no shim", func(t *testing.T) {
		for _, program := range []string{"/no/such/file", "/bin/true"} {
			container := create(t, shell(""))
			if err := container.Start(program, always); err == nil {
				t.Errorf("%s started", program)
			}
			if _, status := read(t, container); status.Reason != ReasonStartError {
				t.Errorf("%+v", status)
			}
		}
	})
}

func TestAContainerOfAnotherProcess(t *testing.T) {
	c := create(t, shell("exec sleep 1000"))
	if _, status := read(t, c); status.State != Created {
		t.Errorf("%+v", status)
	}
	if err := Open(c.dir).Stop(unix.SIGTERM, time.Minute); err != nil {
		t.Errorf("stopping a container that was not started: %v", err)
	}
	if err := c.Start("/proc/self/exe", always); err != nil {
		t.Fatal(err)
	}
	later := Open(c.dir)
	if _, status := read(t, later); status.State != Running || status.StartedAt.IsZero() {
		t.Errorf("%+v", status)
	}
	if err := later.Start("/proc/self/exe", always); err == nil {
		t.Error("it was started twice")
	}
	if err := later.Stop(unix.SIGKILL, 0); err != nil {
		t.Error(err)
	}
	if status := exit(t, c); status.ExitCode != 137 || status.Reason != ReasonError {
		t.Errorf("%+v", status)
	}
	if err := errors.Join(later.Remove(), c.Remove()); err != nil {
		t.Error(err)
	}
}

func TestStop(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		signal unix.Signal
		grace  time.Duration
		code   int
	}{
		"obeys":       {"trap 'exit 3' TERM", unix.SIGTERM, time.Minute, 3},
		"other":       {"trap 'exit 4' QUIT", unix.SIGQUIT, time.Minute, 4},
		"no handler":  {":", unix.SIGTERM, time.Millisecond, 137},
		"ignores":     {"trap '' TERM", unix.SIGTERM, time.Millisecond, 137},
		"no grace":    {"trap 'exit 3' TERM", unix.SIGTERM, 0, 137},
		"left behind": {"trap 'exit 3' TERM; setsid sleep 1000 & disown", unix.SIGTERM, time.Minute, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			container := startReady(t, c.script, Spec{})
			if err := container.Stop(c.signal, c.grace); err != nil {
				t.Error(err)
			}
			if _, status := read(t, container); status.State != Exited || status.ExitCode != c.code {
				t.Errorf("%+v", status)
			}
		})
	}
}

// TestFrozen stops a container in which nothing reacts.
func TestFrozen(t *testing.T) {
	for name, c := range map[string]struct {
		freeze func(started) process
		reason string
	}{
		"container": {func(run started) process { return run.Main }, ReasonError},
		"shim":      {func(run started) process { return run.Shim }, ReasonUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			container := startReady(t, "trap 'exit 3' TERM", Spec{})
			run, _ := read(t, container)
			if err := send(c.freeze(run), unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			if err := container.Stop(unix.SIGTERM, time.Millisecond); err != nil {
				t.Error(err)
			}
			if _, status := read(t, container); status.State != Exited || status.ExitCode != 137 || status.Reason != c.reason {
				t.Errorf("%+v", status)
			}
		})
	}
}

func TestAContainerDiesWithItsShim(t *testing.T) {
	for name, spec := range map[string]Spec{"root": {}, "user": {User: User{UID: 65534, GID: 65534}}} {
		t.Run(name, func(t *testing.T) {
			c := startReady(t, "sleep 1000 & disown", spec)
			run, _ := read(t, c)
			main, err := run.Main.open()
			if err != nil {
				t.Fatal(err)
			}
			defer main.close()
			if err := send(run.Shim, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if !main.wait(time.Minute) {
				t.Error("the container outlived its shim")
			}
			if status := exit(t, c); status.ExitCode != 137 || status.Reason != ReasonUnknown {
				t.Errorf("%+v", status)
			}
			if _, err := c.Exec(t.Context(), Execution{Args: []string{"true"}}); !errors.Is(err, ErrNotRunning) {
				t.Error(err)
			}
			if err := c.ReopenLog(); !errors.Is(err, ErrNotRunning) {
				t.Error(err)
			}
		})
	}
}

func TestShimsIgnoreOtherSignals(t *testing.T) {
	c := startReady(t, "trap 'exit 3' TERM", Spec{})
	run, _ := read(t, c)
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		if err := send(run.Shim, signal); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(run.Main, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := exit(t, c); status.ExitCode != 3 {
		t.Errorf("%+v", status)
	}
}

func TestMounts(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"a/sub", "b", "at"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"a/file", "a/sub/file", "b/file", "single"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := startReady(t, ":", Spec{ReadOnlyRoot: true, Mounts: []Mount{
		{Source: dir + "/a", Target: dir + "/at"},
		{Source: dir + "/at", Target: dir + "/at/sub", ReadOnly: true}, // the host's, not the container's
		{Source: dir + "/b", Target: dir + "/new/folder", ReadOnly: true},
		{Source: dir + "/single", Target: dir + "/other/file"},
	}})
	for _, step := range [][2]string{
		{"cat at/file new/folder/file other/file", "a/fileb/filesingle"},
		{"ls -A at/sub", ""},
		{"echo x >at/written; cat at/written", "x"},
		{"echo y >other/file; cat other/file", "y"},
		{"touch new/folder/x 2>&1 || true", "touch: cannot touch 'new/folder/x': Read-only file system"},
		{"touch at/sub/x 2>&1 || true", "touch: cannot touch 'at/sub/x': Read-only file system"},
		{"touch here 2>&1 || true", "touch: cannot touch 'here': Read-only file system"},
		{"cat /proc/self/comm", "cat"},
	} {
		if got := execute(t, c, "cd "+dir+"; "+step[0]); got != step[1] {
			t.Errorf("%s: %q, want %q", step[0], got, step[1])
		}
	}
	for file, want := range map[string]string{"a/written": "x\n", "single": "y\n", "other/file": ""} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
			t.Errorf("on the host, %s: %q, %v", file, got, err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("the host has mounts of a container: %v", err)
	}
}

func TestUser(t *testing.T) {
	user := User{UID: 1234, GID: 2345, Groups: []uint32{3456}}
	c := startReady(t, "id -u", Spec{User: user, NoNewPrivileges: true})
	const want = "1234 2345 2345 3456"
	if got := execute(t, c, "echo $(id -u) $(id -g) $(id -G)"); got != want {
		t.Errorf("exec: %s", got)
	}
	if got := execute(t, c, "grep -c '^NoNewPrivs:.*1' /proc/1/status"); got != "1" {
		t.Error(got)
	}
	if diff := cmp.Diff([]string{"stdout F 1234"}, logLines(t, c)); diff != "" {
		t.Error(diff)
	}
}

func TestReopenLog(t *testing.T) {
	c := startReady(t, `trap 'echo "after"; touch "$READY.2"' USR1; echo "before"`, Spec{})
	run, _ := read(t, c)
	spec, err := readSpec(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(spec.Log, spec.Log+".1"); err != nil {
		t.Fatal(err)
	}
	if err := c.ReopenLog(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(spec.Log); err != nil {
		t.Error(err)
	}
	// The shim opens the file soon. Entries until then are in the old one.
	for i := 0; len(logLines(t, c)) == 0; i++ {
		if err := send(run.Main, unix.SIGUSR1); err != nil || i == 1e6 {
			t.Fatal(err)
		}
		execute(t, c, `until test -e "$READY.2"; do read -t 0.01 <> <(:) || :; done; rm "$READY.2"`)
	}
	if got := logLines(t, c)[0]; got != "stdout F after" {
		t.Error(got)
	}
	if old, err := os.ReadFile(spec.Log + ".1"); err != nil || !strings.Contains(string(old), "before") {
		t.Errorf("%s, %v", old, err)
	}
	if err := os.RemoveAll(filepath.Dir(spec.Log)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Dir(spec.Log), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.ReopenLog(); err == nil {
		t.Error("a log was opened in a file")
	}
	if _, status := read(t, c); status.State != Running {
		t.Errorf("%+v", status)
	}
}

func TestExec(t *testing.T) {
	c := startReady(t, ":", Spec{Env: []string{"A=b"}, Dir: "/usr"})
	for name, x := range map[string]struct {
		args           []string
		stdin          string
		code           int
		stdout, stderr string
	}{
		"output":      {args: []string{"bash", "-c", "echo $A; pwd; echo err >&2"}, stdout: "b\n/usr\n", stderr: "err\n"},
		"code":        {args: []string{"bash", "-c", "exit 9"}, code: 9},
		"signal":      {args: []string{"bash", "-c", "kill -KILL $$"}, code: 137},
		"input":       {args: []string{"tr", "a", "b"}, stdin: "banana", stdout: "bbnbnb"},
		"unread":      {args: []string{"true"}, stdin: strings.Repeat("x", 1<<20)},
		"same family": {args: []string{"bash", "-c", "test -e /proc/1 && tr '\\0' ' ' </proc/1/cmdline | cut -c1-4"}, stdout: "bash\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code, err := c.Exec(t.Context(), Execution{Args: x.args, Stdin: strings.NewReader(x.stdin), Stdout: &out, Stderr: &errs})
			if err != nil || code != x.code || out.String() != x.stdout || errs.String() != x.stderr {
				t.Errorf("%d, %v, %q, %q", code, err, out.String(), errs.String())
			}
		})
	}
	for _, args := range [][]string{nil, {""}, {"no-such-program"}, {"/etc/passwd"}} {
		if code, err := c.Exec(t.Context(), Execution{Args: args}); err == nil {
			t.Errorf("%q: status %d", args, code)
		}
	}
}

func TestExecEndsWithItsContext(t *testing.T) {
	c := startReady(t, ":", Spec{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	began := writerFunc(func(text []byte) (int, error) { cancel(); return len(text), nil })
	_, err := c.Exec(ctx, Execution{Args: []string{"bash", "-c", "sleep 1000 & echo begun; wait"}, Stdout: began})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	execute(t, c, "while pgrep -r R,S,D -x sleep >/dev/null; do :; done")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(text []byte) (int, error) { return f(text) }

func TestExecOnATerminal(t *testing.T) {
	c := startReady(t, ":", Spec{})
	var out bytes.Buffer
	sizes := make(chan Size, 1)
	sizes <- Size{Width: 132, Height: 43}
	script := "until [[ $(stty size) = '43 132' ]]; do :; done; read line; test -t 1 && echo got $line; exit 5"
	code, err := c.Exec(t.Context(), Execution{
		Args: []string{"bash", "-c", script}, Terminal: true, Sizes: sizes, Stdin: strings.NewReader("hello\n"), Stdout: &out,
	})
	if err != nil || code != 5 || !strings.Contains(out.String(), "got hello") {
		t.Errorf("%d, %v, %q", code, err, out.String())
	}
}

func TestANumberThatIsUsedAgain(t *testing.T) {
	self, err := nameProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	self.Ticks++
	if _, err := self.open(); !errors.Is(err, unix.ESRCH) {
		t.Errorf("another process was opened: %v", err)
	}
	if err := errors.Join(send(self, unix.SIGKILL), end(self, 0)); err != nil {
		t.Error(err)
	}
}

func TestParseStat(t *testing.T) {
	fields := make([]string, 0, 50)
	for i := 3; i < 53; i++ {
		fields = append(fields, strconv.Itoa(i))
	}
	got, err := parseStat("1 (a) b (c) " + strings.Join(fields, " "))
	want := stat{user: 14, system: 15, ticks: 22, pages: 24}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, broken := range []string{"", "1 (a) S 1", fmt.Sprint("1 (a) ", strings.Repeat("x ", 50))} {
		if _, err := parseStat(broken); err == nil {
			t.Errorf("%q was parsed", broken)
		}
	}
}
