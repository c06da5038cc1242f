package devplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Descriptors that the supervisor inherits.
const (
	lockFD = 3 + iota
	listenerFD
	lifelineFD
	startedFD
	peerNamespaceFD // only with a Veth
)

// supervisorConfig is what Start writes for the supervisor.
type supervisorConfig struct {
	Config   Config
	Isolated bool
}

// Start brings a plane up and returns once it is healthy: the API server serves, the CRDs and webhooks are installed, all managers
// and children are ready. On failure everything is stopped again, and the error has the last log lines of the part that failed
// (a [ChildError]); logs stay in the state directory. A state directory on which a plane runs is a [RunningError]. What a crashed plane
// has left there is removed.
//
// When ctx ends during the start, the plane is stopped; afterwards ctx has no effect.
func Start(ctx context.Context, config Config) (*Plane, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("the plane's configuration is not valid: %w", err)
	}
	if config.SupervisorPath == "" {
		if config.SupervisorPath, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("finding the supervisor's binary: %w", err)
		}
	}
	built, err := readAssets(config.AssetsDir)
	if err != nil {
		return nil, err
	}
	if err := built.validateGates(config.FeatureGates); err != nil {
		return nil, err
	}
	s := &starter{config: config, layout: layout{dir: config.StateDir}, started: time.Now()}
	defer s.close()
	if err := s.claim(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, config.StartTimeout,
		fmt.Errorf("the plane was not up within %s", config.StartTimeout))
	defer cancel()
	return s.start(ctx)
}

type starter struct {
	config  Config
	layout  layout
	started time.Time
	// files are the supervisor's, by descriptor; closed here once it has them.
	lock, listener, lifeline, ready, peer *os.File
	attributes                            *syscall.SysProcAttr
	isolated                              bool
}

func (s *starter) close() {
	for _, file := range []*os.File{s.lock, s.listener, s.lifeline, s.ready, s.peer} {
		if file != nil {
			_ = file.Close() // only read from here, or inherited by now
		}
	}
}

func (s *starter) report(event Event) {
	if s.config.Progress != nil {
		event.Elapsed = time.Since(s.started)
		s.config.Progress(event)
	}
}

// claim takes the state directory and cleans it.
func (s *starter) claim() error {
	if err := prepareStateDir(s.layout); err != nil {
		return err
	}
	lock, ok, err := awaitLock(s.layout)
	if err != nil {
		return err
	}
	if !ok {
		return runningError(s.layout)
	}
	s.lock = lock
	if err := cleanStale(s.layout); err != nil {
		return err
	}
	for _, dir := range []string{s.layout.logs(), s.layout.certs(), s.layout.temp(), s.layout.apiServer()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making the state directory: %w", err)
		}
	}
	return nil
}

func (s *starter) start(ctx context.Context) (*Plane, error) {
	if err := s.isolate(ctx); err != nil {
		return nil, err
	}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	var err error
	if s.config.Veth != nil {
		if s.peer, err = openPeerNamespace(s.config.Veth.PeerNamespace); err != nil {
			return nil, err
		}
	}
	plane, err := s.spawn()
	if err != nil {
		return nil, err
	}
	if err := s.follow(ctx, plane); err != nil {
		// The caller's ctx may have ended; the stop has a limit of its own.
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		return nil, errors.Join(err, plane.Stop(stopCtx))
	}
	return plane, nil
}

// listen opens the way to the API server in the user's namespace: a listener stays in the namespace that it was made in.
func (s *starter) listen(ctx context.Context) error {
	var lc net.ListenConfig
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(s.config.Port)))
	listener, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening on %s for the API server: %w", address, err)
	}
	defer func() { _ = listener.Close() }() // the duplicate stays open
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return fmt.Errorf("listening on %s: unexpected listener %T", address, listener)
	}
	if s.listener, err = tcp.File(); err != nil {
		return fmt.Errorf("passing the listener on: %w", err)
	}
	return nil
}

// spawn starts the supervisor and waits until it answers on its socket.
func (s *starter) spawn() (*Plane, error) {
	err := writeJSON(s.layout.config(), supervisorConfig{Config: s.config, Isolated: s.isolated})
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(s.layout.log(supervisorName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the supervisor's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the supervisor has its own descriptor
	lifelineRead, lifelineWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making the lifeline: %w", err)
	}
	s.lifeline = lifelineRead
	startedRead, startedWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a pipe: %w", err), lifelineWrite.Close())
	}
	s.ready = startedWrite
	defer func() { _ = startedRead.Close() }() // read to its end

	args := append(slices.Clone(s.config.SupervisorArgs), s.config.StateDir)
	cmd := exec.Command(s.config.SupervisorPath, args...) //nolint:gosec,noctx // G204: the caller names its own binary; it outlives every context here
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = s.config.StateDir
	cmd.SysProcAttr = s.attributes
	cmd.ExtraFiles = []*os.File{s.lock, s.listener, s.lifeline, s.ready}
	if s.peer != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, s.peer)
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the supervisor: %w", err), lifelineWrite.Close())
	}
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended stands in its log; that it ended is what counts
		close(gone)
		// A caller may drop its Plane. The collector would then close the lifeline, and the supervisor would stop.
		runtime.KeepAlive(lifelineWrite)
	}()
	s.close()
	answer, err := io.ReadAll(startedRead)
	if err == nil && string(answer) == startedAnswer {
		var plane *Plane
		if plane, err = newSpawned(s.layout, cmd.Process.Pid); err == nil {
			plane.gone, plane.lifeline = gone, lifelineWrite
			return plane, nil
		}
	}
	err = errors.Join(err, lifelineWrite.Close())
	<-gone
	return nil, errors.Join(fmt.Errorf("the supervisor did not start: %s", tailText(s.layout.log(supervisorName))), err)
}

// newSpawned returns a handle to a supervisor that this process has started.
func newSpawned(l layout, pid int) (*Plane, error) {
	start, err := processStart(pid)
	if err != nil {
		return nil, err
	}
	return newPlane(l, processID{PID: pid, Start: start})
}

// follow reports the supervisor's steps until the plane is up, and lets a detached one go.
func (s *starter) follow(ctx context.Context, plane *Plane) error {
	seen := 0
	for after := int64(-1); ; {
		status, err := plane.Watch(ctx, after)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return fmt.Errorf("starting the plane: %w", cause)
			}
			return fmt.Errorf("starting the plane: %w; the supervisor's log: %s", err, tailText(s.layout.log(supervisorName)))
		}
		for ; seen < len(status.Steps); seen++ {
			s.report(Event{Step: status.Steps[seen].Name, Message: status.Steps[seen].Message, Warning: status.Steps[seen].Warning})
		}
		switch status.Phase {
		case PhaseRunning:
			return s.release(plane)
		case PhaseFailed, PhaseStopping:
			return fmt.Errorf("starting the plane: %w", status.err())
		case PhaseStarting:
		}
		after = status.Revision
	}
}

func (s *starter) release(plane *Plane) error {
	if err := plane.loadKubeconfig(); err != nil {
		return err
	}
	return s.letGo(plane)
}

// letGo closes the lifeline of a detached plane with the word that keeps it running.
func (s *starter) letGo(plane *Plane) error {
	if !s.config.Detached {
		return nil
	}
	if _, err := plane.lifeline.WriteString(detachWord); err != nil {
		return fmt.Errorf("detaching the plane: %w", err)
	}
	return plane.lifeline.Close()
}
