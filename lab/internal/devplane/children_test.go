package devplane

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/devplane/internal/procs"
)

// newChildSet is a set whose children end with the test.
func newChildSet(t *testing.T) (set *childSet, changes *atomic.Int64) {
	t.Helper()
	l := layout{dir: t.TempDir()}
	if err := os.MkdirAll(l.logs(), 0o700); err != nil {
		t.Fatal(err)
	}
	changes = &atomic.Int64{}
	ctx, cancel := context.WithCancel(t.Context())
	set = &childSet{
		spawner: procs.NewSpawner(), layout: l, ctx: ctx,
		changed: func() { changes.Add(1) }, launched: func() {}, log: slog.New(slog.DiscardHandler),
		// Restarts do not keep the tests waiting.
		after: func(time.Duration) <-chan time.Time { return time.After(0) },
	}
	t.Cleanup(func() {
		cancel()
		set.stopAll(time.Millisecond, func(string) bool { return true })
	})
	return set, changes
}

func shell(name, script string) Child {
	return Child{Name: name, Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ()}
}

func (s *childSet) mustAdd(t *testing.T, c Child) *child {
	t.Helper()
	if _, err := s.add(t.Context(), c, ChildStatus{}); err != nil {
		t.Fatal(err)
	}
	added, err := s.find(c.Name)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

// await polls, because what is awaited is another process's doing.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
}

func TestChildLifecycle(t *testing.T) {
	t.Parallel()
	set, changes := newChildSet(t)
	c := set.mustAdd(t, shell("a", "echo started; exec sleep 600"))
	status := set.statusOf(c)
	if status.State != ChildReady || status.PID == 0 || status.Starts != 1 {
		t.Fatalf("after add: %+v", status)
	}
	before := changes.Load()
	if again, err := set.start(t.Context(), c); err != nil || again.PID != status.PID {
		t.Errorf("starting one that runs: %+v, %v", again, err)
	}
	if changes.Load() != before {
		t.Error("starting one that runs changed something")
	}
	await(t, "output", func() bool { return len(logTail(status.LogFile)) == 1 })

	killed := set.kill(c)
	if killed.State != ChildExited || killed.PID != 0 || !killed.LastExit.Expected || killed.LastExit.Signal != "killed" {
		t.Errorf("after kill: %+v, exit %+v", killed, killed.LastExit)
	}
	if killed.crashed() {
		t.Error("a kill on request counts as a crash")
	}
	if again, err := set.start(t.Context(), c); err != nil || again.State != ChildReady || again.Starts != 2 {
		t.Errorf("after another start: %+v, %v", again, err)
	}
	stopped := set.stop(c, 0)
	if stopped.State != ChildStopped || stopped.LastExit.Signal != "terminated" || !stopped.LastExit.Expected {
		t.Errorf("after stop: %+v, exit %+v", stopped, stopped.LastExit)
	}
	if again := set.stop(c, 0); again.State != ChildStopped {
		t.Errorf("after stopping again: %+v", again)
	}
	if again := set.kill(c); again.State != ChildStopped {
		t.Errorf("after killing one that is stopped: %+v", again)
	}
}

func TestChildCrashes(t *testing.T) {
	t.Parallel()
	set, _ := newChildSet(t)
	gate := filepath.Join(t.TempDir(), "gate")
	c := set.mustAdd(t, shell("a", "while [ ! -e "+gate+" ]; do sleep 0.01; done; echo one; echo two >&2; exit 3"))
	write(t, gate, "")
	await(t, "the crash", func() bool { return set.statusOf(c).crashed() })
	exit := set.statusOf(c).LastExit
	if exit.Code != 3 || exit.Expected || strings.Join(exit.LogTail, ",") != "one,two" {
		t.Errorf("exit is %+v", exit)
	}
}

func TestChildEndsBeforeItIsReady(t *testing.T) {
	t.Parallel()
	set, _ := newChildSet(t)
	c := shell("a", "echo no config >&2; exit 2")
	c.Ready.TCP = "127.0.0.1:1"
	_, err := set.add(t.Context(), c, ChildStatus{})
	var failed *ChildError
	if !errors.As(err, &failed) || failed.Name != "a" || failed.Exit.Code != 2 || strings.Join(failed.Exit.LogTail, "") != "no config" {
		t.Errorf("error is %v, want one with the exit and the log", err)
	}
}

func TestChildIsNotReadyInTime(t *testing.T) {
	t.Parallel()
	set, _ := newChildSet(t)
	c := shell("a", "echo waiting; exec sleep 600")
	c.Ready = Readiness{TCP: "127.0.0.1:1", Timeout: 150 * time.Millisecond}
	status, err := set.add(t.Context(), c, ChildStatus{})
	if err == nil || !strings.Contains(err.Error(), "a was not ready within 150ms") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error is %v", err)
	}
	if status.State != ChildStarting {
		t.Errorf("state is %s, want %s: it may become ready yet", status.State, ChildStarting)
	}
}

func TestChildReadiness(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	set, _ := newChildSet(t)
	added := make(chan error, 1)
	c := shell("a", "exec sleep 600")
	c.Ready.URL = server.URL + "/readyz"
	go func() {
		_, err := set.add(t.Context(), c, ChildStatus{})
		added <- err
	}()
	await(t, "the process", func() bool { s := set.snapshot(); return len(s) == 1 && s[0].PID != 0 })
	if state := set.snapshot()[0].State; state != ChildStarting {
		t.Errorf("state is %s before the answer", state)
	}
	ready.Store(true)
	if err := <-added; err != nil {
		t.Error(err)
	}
	if state := set.snapshot()[0].State; state != ChildReady {
		t.Errorf("state is %s after the answer", state)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	b := shell("b", "exec sleep 600")
	b.Ready.TCP = listener.Addr().String()
	set.mustAdd(t, b)
}

func TestChildIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	set, _ := newChildSet(t)
	spec := shell("a", "trap '' TERM; echo ready; while :; do sleep 0.01; done")
	spec.StopTimeout = 50 * time.Millisecond
	c := set.mustAdd(t, spec)
	await(t, "the trap", func() bool { return len(logTail(set.statusOf(c).LogFile)) == 1 })
	if status := set.stop(c, 0); status.State != ChildStopped || status.LastExit.Signal != "killed" {
		t.Errorf("after stop: %+v, exit %+v", status, status.LastExit)
	}
}

func TestChildIsRestarted(t *testing.T) {
	t.Parallel()
	set, _ := newChildSet(t)
	spec := shell("a", "exec sleep 600")
	spec.Restart = RestartAlways
	c := set.mustAdd(t, spec)
	killed := set.kill(c)
	first := killed.LastExit
	if killed.crashed() {
		t.Errorf("a child that is restarted counts as crashed: %+v", killed)
	}
	await(t, "the restart", func() bool { s := set.statusOf(c); return s.State == ChildReady && s.Starts == 2 })
	if first == nil || first.Signal != "killed" {
		t.Errorf("first exit is %+v", first)
	}
}

func TestStopCancelsARestart(t *testing.T) {
	t.Parallel()
	set, _ := newChildSet(t)
	waiting, due := make(chan struct{}), make(chan time.Time)
	set.after = func(time.Duration) <-chan time.Time {
		close(waiting)
		return due
	}
	spec := shell("a", "exec sleep 600")
	spec.Restart = RestartAlways
	c := set.mustAdd(t, spec)
	set.kill(c)
	<-waiting
	if status := set.statusOf(c); status.State != ChildRestarting {
		t.Fatalf("after kill: %+v", status)
	}
	if status := set.stop(c, 0); status.State != ChildStopped {
		t.Fatalf("after kill and stop: %+v", status)
	}
	if again := set.tryRestart(c, 1); again {
		t.Error("another restart is due")
	}
	if status := set.statusOf(c); status.State != ChildStopped || status.Starts != 1 {
		t.Errorf("a stopped child was restarted: %+v", status)
	}
}

// A restart that cannot work is tried a few times, with growing delays, and then the plane counts as failed.
func TestRestartGivesUp(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil       func(t *testing.T, binary string, ready net.Listener)
		timeout     time.Duration
		starts      int
		wantMessage string
	}{
		"no binary": {
			spoil: func(t *testing.T, binary string, _ net.Listener) {
				t.Helper()
				if err := os.Remove(binary); err != nil {
					t.Fatal(err)
				}
			},
			starts: 1, wantMessage: "no such file",
		},
		"never ready": {
			spoil: func(t *testing.T, _ string, ready net.Listener) {
				t.Helper()
				if err := ready.Close(); err != nil {
					t.Fatal(err)
				}
			},
			timeout: 100 * time.Millisecond, starts: 1 + maxFailedStarts, wantMessage: "was not ready within",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, _ := newChildSet(t)
			delays := make(chan time.Duration, 2*maxFailedStarts)
			set.after = func(d time.Duration) <-chan time.Time {
				delays <- d
				return time.After(0)
			}
			ready, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ready.Close() }()
			binary := filepath.Join(t.TempDir(), "binary")
			write(t, binary, "#!/bin/sh\nexec sleep 600\n")
			if err := os.Chmod(binary, 0o700); err != nil {
				t.Fatal(err)
			}
			c := set.mustAdd(t, Child{
				Name: "a", Path: binary, Env: os.Environ(), Restart: RestartAlways,
				Ready: Readiness{TCP: ready.Addr().String(), Timeout: time.Minute},
			})
			c.spec.Ready.Timeout = tt.timeout
			tt.spoil(t, binary, ready)
			set.kill(c)
			await(t, "the last attempt", func() bool { return set.statusOf(c).crashed() })
			status := set.statusOf(c)
			if status.Starts != tt.starts || status.PID != 0 || !strings.Contains(status.LastExit.Message, tt.wantMessage) {
				t.Errorf("status is %+v, exit %+v", status, status.LastExit)
			}
			phase, message := computePhase(PhaseRunning, "", set.snapshot())
			if phase != PhaseFailed || !strings.Contains(message, tt.wantMessage) {
				t.Errorf("the plane is %s: %s", phase, message)
			}
			for i, want := 0, firstRestartDelay; i < maxFailedStarts; i, want = i+1, 2*want {
				if got := <-delays; got != want {
					t.Errorf("delay %d is %s, want %s", i, got, want)
				}
			}
			if len(delays) > 0 {
				t.Errorf("%d attempts more than wanted", len(delays))
			}
		})
	}
}

func TestStartDuringStop(t *testing.T) {
	t.Parallel()
	set, _ := newChildSet(t)
	c := set.mustAdd(t, shell("a", "trap 'sleep 0.1; exit 0' TERM; echo ready; while :; do sleep 0.01; done"))
	await(t, "the trap", func() bool { return len(logTail(set.statusOf(c).LogFile)) == 1 })
	stopped := make(chan struct{})
	go func() {
		set.stop(c, 0)
		close(stopped)
	}()
	await(t, "the stop", func() bool { return set.statusOf(c).State != ChildReady })
	status, err := set.start(t.Context(), c)
	if err != nil || status.Starts != 2 {
		t.Errorf("start during a stop: %+v, %v", status, err)
	}
	<-stopped
}

func TestNamesOfChildren(t *testing.T) {
	t.Parallel()
	set, _ := newChildSet(t)
	set.mustAdd(t, shell("b", "exec sleep 600"))
	set.mustAdd(t, shell("a", "exec sleep 600"))
	if _, err := set.add(t.Context(), shell("a", ""), ChildStatus{}); err == nil || !strings.Contains(err.Error(), `a child "a" already`) {
		t.Errorf("a second child of the same name: %v", err)
	}
	if _, err := set.find("c"); err == nil || !strings.Contains(err.Error(), "there are b, a") {
		t.Errorf("a child that there is not: %v", err)
	}
	if s := set.snapshot(); s[0].Name != "b" || s[1].Name != "a" {
		t.Errorf("children are not in the order in which they were added: %v", s)
	}
}

func TestNothingStartsOnceThePlaneStops(t *testing.T) {
	t.Parallel()
	set, _ := newChildSet(t)
	ctx, cancel := context.WithCancel(t.Context())
	set.ctx = ctx
	cancel()
	if _, err := set.add(t.Context(), shell("a", "exec sleep 600"), ChildStatus{}); err == nil {
		t.Error("a child was started")
	}
}

// lockedContext tells whether its end is looked at while the set is locked.
type lockedContext struct {
	context.Context
	set      *childSet
	unlocked *atomic.Bool
}

func (c lockedContext) Err() error {
	if c.set.mu.TryLock() {
		c.unlocked.Store(true)
		c.set.mu.Unlock()
	}
	return c.Context.Err()
}

// A process that is started after a look at the context and before the lock would be missed by the stop of all children.
func TestLaunchLooksAtTheContextWithTheLock(t *testing.T) {
	t.Parallel()
	set, _ := newChildSet(t)
	c, err := set.register(shell("a", "exec sleep 600"), ChildStatus{})
	if err != nil {
		t.Fatal(err)
	}
	var unlocked atomic.Bool
	set.ctx = lockedContext{Context: set.ctx, set: set, unlocked: &unlocked}
	if err := set.launch(c, ChildStopped); err != nil {
		t.Fatal(err)
	}
	if unlocked.Load() {
		t.Error("the context was looked at without the lock")
	}
}

func TestRemovedChild(t *testing.T) {
	t.Parallel()
	set, _ := newChildSet(t)
	spec := shell("a", "exec sleep 600")
	spec.Restart = RestartAlways
	c := set.mustAdd(t, spec)
	if status := set.remove(c); status.State != ChildStopped || status.PID != 0 {
		t.Errorf("after the removal: %+v", status)
	}
	if _, err := set.find("a"); err == nil || len(set.snapshot()) != 0 {
		t.Error("the child is still among the children")
	}
	if _, err := set.start(t.Context(), c); err == nil {
		t.Error("who has found the child before can start it after its removal")
	}
	if status := set.statusOf(set.mustAdd(t, spec)); status.State != ChildReady || status.Starts != 1 {
		t.Errorf("another child with its name: %+v", status)
	}
}

func TestLogTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	if tail := logTail(path); tail != nil {
		t.Errorf("tail of a log that does not exist: %q", tail)
	}
	write(t, path, strings.Repeat("filler\n", 10_000)+"last but one\n"+strings.Repeat("x", 2*logTailLineLength)+"\n")
	tail := logTail(path)
	if len(tail) != logTailLines || tail[logTailLines-2] != "last but one" {
		t.Errorf("tail is %q", tail)
	}
	if last := tail[logTailLines-1]; !strings.HasSuffix(last, " ...") || len(last) > logTailLineLength+4 {
		t.Errorf("the long line has %d bytes", len(last))
	}
	write(t, path, "")
	if tail := logTail(path); tail != nil {
		t.Errorf("tail of an empty log: %q", tail)
	}
}

func TestCrashOfARestartedChild(t *testing.T) {
	t.Parallel()
	set, _ := newChildSet(t)
	gate := filepath.Join(t.TempDir(), "gate")
	spec := shell("a", "while [ ! -e "+gate+" ]; do sleep 0.01; done; rm "+gate+"; exit 3")
	spec.Restart = RestartAlways
	c := set.mustAdd(t, spec)
	write(t, gate, "")
	await(t, "the restart", func() bool {
		s := set.statusOf(c)
		if s.crashed() {
			t.Error("the plane would count as failed")
		}
		return s.Starts == 2 && s.State == ChildReady
	})
	if exit := set.statusOf(c).LastExit; exit.Code != 3 || exit.Expected {
		t.Errorf("exit is %+v", exit)
	}
}
