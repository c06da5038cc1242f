package procs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Spec is a process to start. Its standard output and error are appended to LogFile; its standard input is empty.
type Spec struct {
	Path    string
	Args    []string
	Env     []string
	Dir     string
	LogFile string
}

// Exit is how a process ended: by Signal, when that is not zero, and otherwise with Code.
type Exit struct {
	Code   int
	Signal syscall.Signal
}

// Spawner starts processes. Make one with NewSpawner; it is safe for concurrent use.
type Spawner struct {
	requests chan request
	mu       sync.Mutex
	running  map[int]*Process
}

type request struct {
	cmd   *exec.Cmd
	reply chan error
}

// NewSpawner returns a spawner for the rest of the calling process's life.
func NewSpawner() *Spawner {
	s := &Spawner{requests: make(chan request), running: map[int]*Process{}}
	// The parent death signal is sent when the forking thread ends, not the process (https://go.dev/issue/27505), and the Go
	// runtime ends threads as it likes. So all forks happen on one thread that is never given back.
	go func() {
		runtime.LockOSThread()
		for r := range s.requests {
			r.reply <- s.start(r.cmd)
		}
	}()
	s.reapOrphans()
	return s
}

// start holds the lock over fork and registration, so that reapOrphans never sees a child that it cannot tell from an orphan.
func (s *Spawner) start(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	s.running[cmd.Process.Pid] = nil
	return nil
}

// Start starts a process in a process group of its own, so that a terminal's Ctrl-C does not reach it.
func (s *Spawner) Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", spec.Path, err)
	}
	defer func() { _ = log.Close() }()           // the child has its own descriptor
	cmd := exec.Command(spec.Path, spec.Args...) //nolint:gosec,noctx // G204: running what the caller names is the point; its end is asked for by Signal
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	r := request{cmd: cmd, reply: make(chan error, 1)}
	s.requests <- r
	if err := <-r.reply; err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Path, err)
	}
	p := &Process{PID: cmd.Process.Pid, done: make(chan struct{})}
	s.mu.Lock()
	s.running[p.PID] = p
	s.mu.Unlock()
	go s.wait(cmd, p)
	return p, nil
}

func (s *Spawner) wait(cmd *exec.Cmd, p *Process) {
	err := cmd.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		p.exit.Code = -1
	} else {
		p.exit = exitOf(cmd.ProcessState)
	}
	s.mu.Lock()
	delete(s.running, p.PID)
	s.mu.Unlock()
	close(p.done)
}

func exitOf(state *os.ProcessState) Exit {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Exit{Code: -1, Signal: status.Signal()}
	}
	return Exit{Code: state.ExitCode()}
}

// Process is a process started by a Spawner.
type Process struct {
	PID  int
	done chan struct{}
	exit Exit
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how the process ended; it is valid once Done is closed.
func (p *Process) Exit() Exit { return p.exit }

// Signal sends a signal to the process and everything in its process group. A process that has ended is left alone.
func (p *Process) Signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := syscall.Kill(-p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("sending %s to process group %d: %w", sig, p.PID, err)
	}
	return nil
}
