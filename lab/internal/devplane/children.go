package devplane

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/devplane/internal/procs"
)

const (
	readyPollPeriod  = 25 * time.Millisecond
	readyPollTimeout = 2 * time.Second

	firstRestartDelay = 100 * time.Millisecond
	lastRestartDelay  = 10 * time.Second
	// A process that ran this long is not in a crash loop: its next restart has the shortest delay again.
	restartStable = 10 * time.Second
	// A child that did not become ready this often in a row is not restarted any more.
	maxFailedStarts = 5
)

// childSet owns the child processes of a supervisor.
type childSet struct {
	spawner *procs.Spawner
	layout  layout
	// tls verifies children's serving certificates during readiness checks.
	tls *tls.Config
	// changed is called after every change of a child's status. It must not take the set's lock.
	changed func()
	// launched is called, without the lock, after a process was started.
	launched func()
	log      *slog.Logger
	// after is time.After, for the delays before restarts.
	after func(time.Duration) <-chan time.Time
	// ctx ends with the supervisor; restarts stop then.
	ctx context.Context //nolint:containedctx // restarts happen long after the call that began the child

	mu    sync.Mutex
	order []*child
}

// child is one process over all its starts.
type child struct {
	// op serialises starts.
	op   sync.Mutex
	spec Child // with references replaced

	// The fields below are guarded by the set's lock.
	status   ChildStatus
	proc     *procs.Process
	recorded chan struct{} // closed once the end of proc is in status
	asked    ChildState    // the state that an operation wants proc to end in; empty when it should run
	delay    time.Duration // before the next restart
	failures int           // starts in a row that did not get to readiness
	cause    string        // why the supervisor ends proc; empty when nobody is to end it, or somebody has asked
	removed  bool          // not among the children any more: never started again
}

// add registers a child whose references are replaced already, and starts it.
func (s *childSet) add(ctx context.Context, spec Child, status ChildStatus) (ChildStatus, error) {
	c, err := s.register(spec, status)
	if err != nil {
		return ChildStatus{}, err
	}
	return s.start(ctx, c)
}

// register makes a child that does not run yet. Children are reported in the order of registration.
func (s *childSet) register(spec Child, status ChildStatus) (*child, error) {
	c := &child{spec: spec, status: status}
	c.status.Name, c.status.LogFile, c.status.State = spec.Name, s.layout.log(spec.Name), ChildStopped
	c.status.Command = append([]string{spec.Path}, spec.Args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.order, func(other *child) bool { return other.spec.Name == spec.Name }) {
		return nil, errTaken(spec.Name)
	}
	s.order = append(s.order, c)
	return c, nil
}

func errTaken(name string) error {
	return fmt.Errorf("there is a child %q already: start it, or choose another name", name)
}

func (s *childSet) find(name string) (*child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, c := range s.order {
		if c.spec.Name == name {
			return c, nil
		}
		names = append(names, c.spec.Name)
	}
	return nil, fmt.Errorf("there is no child %q; there are %s", name, strings.Join(names, ", "))
}

// checkFree is an error while a child other than newcomer runs in the place of a stock manager: that manager, or one that replaces it.
func (s *childSet) checkFree(manager, newcomer string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.order {
		if cmp.Or(c.spec.Replaces, c.spec.Name) == manager && c.spec.Name != newcomer && c.proc != nil {
			return fmt.Errorf("%s is running: stop it before another takes its place", c.spec.Name)
		}
	}
	return nil
}

func (s *childSet) snapshot() []ChildStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]ChildStatus, 0, len(s.order))
	for _, c := range s.order {
		out = append(out, c.status)
	}
	return out
}

// start starts the process unless it runs, and waits until it is ready.
func (s *childSet) start(ctx context.Context, c *child) (ChildStatus, error) {
	c.op.Lock()
	defer c.op.Unlock()
	s.mu.Lock()
	stopping, recorded := c.status.State == ChildStopping, c.recorded
	if c.proc == nil {
		c.failures, c.delay = 0, 0 // whoever asks for a start has reason to believe that it works now
	}
	s.mu.Unlock()
	if stopping {
		<-recorded // a stop ends in bounded time
	}
	if err := s.launch(c, ChildStopped, ChildExited, ChildRestarting); err != nil {
		return s.statusOf(c), err
	}
	s.launched()
	if s.statusOf(c).State == ChildReady {
		return s.statusOf(c), nil
	}
	// A child that was not ready in time may still be starting: wait for it once more.
	err := s.awaitReady(ctx, c)
	return s.statusOf(c), err
}

func (s *childSet) statusOf(c *child) ChildStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.status
}

// launch starts the process when the child is in one of the given states. It holds the lock all the while: a stop finds the child either
// not started, and its state then keeps a restart away, or with a process to end.
func (s *childSet) launch(c *child, from ...ChildState) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// With the lock: the stop of all children takes it after the end of ctx, and so sees what was started before.
	if s.ctx.Err() != nil {
		return errors.New("the plane is stopping")
	}
	if c.removed {
		return fmt.Errorf("starting %s: it was removed", c.spec.Name)
	}
	if !slices.Contains(from, c.status.State) {
		return nil
	}
	proc, err := s.spawner.Start(procs.Spec{
		Path: c.spec.Path, Args: c.spec.Args, Env: c.spec.Env, Dir: cmp.Or(c.spec.Dir, s.layout.dir), LogFile: c.status.LogFile,
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w", c.spec.Name, err)
	}
	c.proc, c.recorded, c.asked, c.cause = proc, make(chan struct{}), "", ""
	c.status.State, c.status.PID, c.status.StartedAt = ChildStarting, proc.PID, time.Now()
	c.status.Starts++
	go s.watch(c, proc, c.recorded)
	s.changed()
	return nil
}

// watch records the end of one process and restarts the child when its policy says so.
func (s *childSet) watch(c *child, proc *procs.Process, recorded chan struct{}) {
	<-proc.Done()
	ended := proc.Exit()
	exit := &Exit{Code: ended.Code, At: time.Now(), LogTail: logTail(c.status.LogFile)}
	if ended.Signal != 0 {
		exit.Signal = ended.Signal.String()
	}
	s.mu.Lock()
	exit.Expected, exit.Message = c.asked != "", c.cause
	if c.status.State == ChildStarting && !exit.Expected {
		c.failures++
	}
	c.status.State = ChildExited
	switch {
	case c.asked == ChildStopped:
		c.status.State = ChildStopped
	case c.spec.Restart == RestartAlways && c.failures < maxFailedStarts:
		c.status.State = ChildRestarting
	}
	c.status.LastExit, c.status.PID, c.proc = exit, 0, nil
	if exit.At.Sub(c.status.StartedAt) >= restartStable && c.failures == 0 {
		c.delay = 0
	}
	restart, starts := c.status.State == ChildRestarting, c.status.Starts
	s.mu.Unlock()
	close(recorded)
	s.changed()
	if restart {
		s.restart(c, starts)
	}
}

// restart starts a child again after a delay, unless something else has happened to it by then.
func (s *childSet) restart(c *child, starts int) {
	for again := true; again; {
		s.mu.Lock()
		delay := max(c.delay, firstRestartDelay)
		c.delay = min(2*delay, lastRestartDelay)
		s.mu.Unlock()
		select {
		case <-s.ctx.Done():
			return
		case <-s.after(delay):
		}
		again = s.tryRestart(c, starts)
	}
}

// tryRestart reports whether it is to be called again: when there is no process, and so no watcher to see to the next restart.
func (s *childSet) tryRestart(c *child, starts int) (again bool) {
	c.op.Lock()
	defer c.op.Unlock()
	if s.statusOf(c).Starts != starts {
		return false // somebody has started it meanwhile, and that process has its own watcher
	}
	if err := s.launch(c, ChildRestarting); err != nil {
		return s.recordFailedLaunch(c, err)
	}
	if s.statusOf(c).State != ChildStarting {
		return false
	}
	s.launched()
	if err := s.awaitReady(s.ctx, c); err != nil {
		s.endUnready(c, err)
	}
	return false
}

// recordFailedLaunch shows as an exit that no process could be started, and reports whether to try again.
func (s *childSet) recordFailedLaunch(c *child, err error) (again bool) {
	s.mu.Lock()
	if s.ctx.Err() != nil || c.status.State != ChildRestarting {
		s.mu.Unlock()
		return false
	}
	c.failures++
	c.status.LastExit = &Exit{Code: -1, Message: err.Error(), At: time.Now(), LogTail: logTail(c.status.LogFile)}
	again = c.failures < maxFailedStarts
	if !again {
		c.status.State = ChildExited
	}
	s.mu.Unlock()
	s.log.Error("A child was not restarted", "child", c.spec.Name, "again", again, "error", err)
	s.changed()
	return again
}

// endUnready ends a process that was restarted and is not ready in time, so that its watcher restarts it once more.
func (s *childSet) endUnready(c *child, err error) {
	var late *notReadyError
	if s.ctx.Err() != nil || !errors.As(err, &late) {
		return // it has ended, or ends with the plane
	}
	s.mu.Lock()
	proc, recorded := c.proc, c.recorded
	if proc == nil || c.status.State != ChildStarting {
		s.mu.Unlock()
		return
	}
	c.cause = late.reason()
	s.mu.Unlock()
	s.log.Error("A restarted child is not ready and is ended", "child", c.spec.Name, "error", late.reason())
	terminate(proc, recorded, syscall.SIGTERM, cmp.Or(c.spec.StopTimeout, defaultStopTimeout))
}

// notReadyError says that a process runs and does not become ready.
type notReadyError struct {
	cause, last error
	logFile     string
	tail        string
}

func (e *notReadyError) reason() string { return fmt.Sprintf("%s: %s", e.cause, e.last) }
func (e *notReadyError) Error() string {
	return fmt.Sprintf("%s (log: %s)\n%s", e.reason(), e.logFile, e.tail)
}
func (e *notReadyError) Unwrap() []error { return []error{e.cause, e.last} }

// awaitReady polls until the child is ready, has ended, or its time is over.
func (s *childSet) awaitReady(ctx context.Context, c *child) error {
	timeout := c.spec.Ready.Timeout
	if timeout == 0 {
		timeout = defaultReadyTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%s was not ready within %s", c.spec.Name, timeout))
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel) //nolint:contextcheck // the end of the supervisor ends the wait as well
	defer stop()
	s.mu.Lock()
	recorded := c.recorded
	s.mu.Unlock()
	probe := s.probe(c.spec.Ready)
	ticker := time.NewTicker(readyPollPeriod)
	defer ticker.Stop()
	var lastErr error
	for {
		err := probe(ctx)
		if err == nil {
			return s.markReady(c)
		}
		if deadline, _ := ctx.Deadline(); lastErr == nil || time.Now().Before(deadline) {
			lastErr = err // unless it only says that the time is over
		}
		select {
		case <-recorded:
			return s.exitError(c)
		case <-ctx.Done():
			return &notReadyError{cause: context.Cause(ctx), last: lastErr, logFile: c.status.LogFile, tail: tailText(c.status.LogFile)}
		case <-ticker.C:
		}
	}
}

// markReady does so unless the process has ended since it answered.
func (s *childSet) markReady(c *child) error {
	s.mu.Lock()
	if c.status.State != ChildStarting {
		s.mu.Unlock()
		return s.exitError(c)
	}
	c.status.State, c.failures = ChildReady, 0
	s.mu.Unlock()
	s.changed()
	return nil
}

func (s *childSet) exitError(c *child) error {
	status := s.statusOf(c)
	if status.LastExit == nil {
		return fmt.Errorf("%s was stopped", status.Name)
	}
	return &ChildError{Name: status.Name, Exit: *status.LastExit, LogFile: status.LogFile}
}

// probe returns the check that a Readiness asks for.
func (s *childSet) probe(ready Readiness) func(context.Context) error {
	switch {
	case ready.URL != "":
		client := &http.Client{
			Timeout:   readyPollTimeout,
			Transport: &http.Transport{TLSClientConfig: s.tls, DisableKeepAlives: true},
		}
		return func(ctx context.Context) error { return probeURL(ctx, client, ready.URL) }
	case ready.TCP != "":
		return func(ctx context.Context) error {
			d := net.Dialer{Timeout: readyPollTimeout}
			conn, err := d.DialContext(ctx, "tcp", ready.TCP)
			if err != nil {
				return err
			}
			return conn.Close()
		}
	default:
		return func(context.Context) error { return nil }
	}
}

func probeURL(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// stop ends the process in order; killTimeout overrides the child's StopTimeout unless it is 0.
func (s *childSet) stop(c *child, killTimeout time.Duration) ChildStatus {
	// Without c.op: a start may hold it while it waits for readiness, and gives up when the process ends.
	s.end(c, ChildStopped, syscall.SIGTERM, cmp.Or(killTimeout, c.spec.StopTimeout, defaultStopTimeout))
	s.mu.Lock()
	if c.proc == nil {
		c.status.State = ChildStopped // also cancels a restart that is due
	}
	s.mu.Unlock()
	s.changed()
	return s.statusOf(c)
}

// remove stops a child and forgets it, so that its name is free again. Its log stays.
func (s *childSet) remove(c *child) ChildStatus {
	// Before the stop, so that a start that waits for its turn finds it.
	s.mu.Lock()
	c.removed = true
	s.mu.Unlock()
	status := s.stop(c, 0)
	s.mu.Lock()
	s.order = slices.DeleteFunc(s.order, func(other *child) bool { return other == c })
	s.mu.Unlock()
	s.changed()
	return status
}

// kill ends the process as a crash would.
func (s *childSet) kill(c *child) ChildStatus {
	s.end(c, ChildExited, syscall.SIGKILL, defaultStopTimeout)
	return s.statusOf(c)
}

func (s *childSet) end(c *child, asked ChildState, signal syscall.Signal, killAfter time.Duration) {
	s.mu.Lock()
	proc, recorded := c.proc, c.recorded
	if proc == nil {
		s.mu.Unlock()
		return
	}
	c.asked, c.cause = asked, ""
	if asked == ChildStopped {
		c.status.State = ChildStopping
	}
	s.mu.Unlock()
	s.changed()
	terminate(proc, recorded, signal, killAfter)
}

// terminate returns when the end of the process is in the child's status.
func terminate(proc *procs.Process, recorded <-chan struct{}, signal syscall.Signal, killAfter time.Duration) {
	_ = proc.Signal(signal) // it fails only when the process has ended, which is what is wanted
	select {
	case <-recorded:
	case <-time.After(killAfter):
		_ = proc.Signal(syscall.SIGKILL)
		<-recorded
	}
}

// stopAll stops the named children at the same time.
func (s *childSet) stopAll(grace time.Duration, which func(name string) bool) {
	s.mu.Lock()
	all := slices.Clone(s.order)
	s.mu.Unlock()
	var group sync.WaitGroup
	for _, c := range all {
		if which(c.spec.Name) {
			group.Go(func() { s.stop(c, grace) })
		}
	}
	group.Wait()
}
