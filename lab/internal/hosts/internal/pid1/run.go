//go:build linux

package pid1

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/unit"
	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

var (
	errControlProcess = errors.New("the control process exited with error code")
	errStartTimeout   = errors.New("a timeout was exceeded")
	errStopped        = errors.New("the job was canceled")
	errStartLimit     = errors.New("start of the service was attempted too often")
)

// run is a service from its start until it is neither running nor about to be started again.
type run struct {
	manager *manager
	service *service
	// stop and wakeup are closed at most once each; wakeup ends the wait before a restart.
	stop   chan struct{}
	wakeup chan struct{}
	ended  chan struct{}
	// last is how the last process ended; to be read after ended.
	last exit

	mu      sync.Mutex
	started *outcome
}

// outcome is whether a start succeeded, for everybody who waits.
type outcome struct {
	done chan struct{}
	err  error
}

func newRun(m *manager, s *service) *run {
	return &run{
		manager: m, service: s, stop: make(chan struct{}), wakeup: make(chan struct{}, 1), ended: make(chan struct{}),
		started: &outcome{done: make(chan struct{})},
	}
}

func (r *run) requestStop() {
	select {
	case <-r.stop:
	default:
		close(r.stop)
	}
}

func (r *run) wake() {
	select {
	case r.wakeup <- struct{}{}:
	default:
	}
}

func (r *run) resetStarted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = &outcome{done: make(chan struct{})}
}

func (r *run) tellStarted(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.started.done:
	default:
		r.started.err = err
		close(r.started.done)
	}
}

func (r *run) waitStarted() <-chan error {
	r.mu.Lock()
	started := r.started
	r.mu.Unlock()
	result := make(chan error, 1)
	go func() {
		<-started.done
		result <- started.err
	}()
	return result
}

func (r *run) change(do func(*state)) {
	r.manager.mu.Lock()
	defer r.manager.mu.Unlock()
	do(&r.service.state)
}

// attempt is one start of the main process: how it ended and why.
type attempt struct {
	result string // systemd's word: success, exit-code, signal, timeout, start-limit-hit, resources
	exit   exit
	// stopped is set when somebody asked for it.
	stopped bool
	// remain is set for a oneshot service that stays active.
	remain bool
	err    error
}

func (r *run) loop() {
	for {
		r.manager.mu.Lock()
		u := r.service.unit
		r.manager.mu.Unlock()
		a := r.once(u)
		r.tellStarted(a.err)
		failed := a.result != "success"
		if a.stopped || a.remain || a.result == "start-limit-hit" || !u.Restarts(a.exit.status, failed) {
			r.finish(a)
			return
		}
		r.change(func(s *state) { s.active, s.sub, s.mainPID, s.result = "activating", "auto-restart", 0, a.result })
		journal(r.service.name, "%s: Scheduled restart job.", r.service.name)
		timer := time.NewTimer(u.RestartDelay)
		select {
		case <-timer.C:
		case <-r.wakeup:
		case <-r.stop:
			timer.Stop()
			r.finish(attempt{result: "success", stopped: true})
			return
		}
		timer.Stop()
		r.manager.mu.Lock()
		r.service.restarts++
		r.manager.mu.Unlock()
	}
}

func (r *run) finish(a attempt) {
	r.manager.mu.Lock()
	s := r.service
	s.state.mainPID = 0
	s.state.result = a.result
	switch {
	case a.remain:
		s.state.active, s.state.sub = "active", "exited"
	case a.result == "success":
		s.state.active, s.state.sub = "inactive", "dead"
	default:
		s.state.active, s.state.sub = "failed", "failed"
	}
	s.run = nil
	r.last = a.exit
	r.manager.collect(s)
	r.manager.mu.Unlock()
	close(r.ended)
}

// once starts the service and returns when it has ended.
func (r *run) once(u *unit.Service) attempt {
	name := r.service.name
	if !r.mayStart(u, time.Now()) {
		journal(name, "%s: Start request repeated too quickly.", name)
		return attempt{result: "start-limit-hit", err: errStartLimit}
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	invocation := hex.EncodeToString(id)
	r.change(func(s *state) {
		*s = state{active: "activating", sub: "start", result: "success", invocation: invocation}
	})
	environment, err := r.environment(u, invocation)
	if err != nil {
		journal(name, "%s: %v", name, err)
		return attempt{result: "resources", err: err}
	}
	output, err := openOutput(name, u)
	if err != nil {
		return attempt{result: "resources", err: err}
	}
	defer output.close()
	x := &execution{run: r, unit: u, environment: environment, output: output, mark: "INVOCATION_ID=" + invocation}
	return x.do()
}

// mayStart keeps StartLimitBurst.
func (r *run) mayStart(u *unit.Service, now time.Time) bool {
	r.manager.mu.Lock()
	defer r.manager.mu.Unlock()
	s := r.service
	if u.StartLimitInterval <= 0 || u.StartLimitBurst <= 0 {
		return true
	}
	recent := s.starts[:0:0]
	for _, at := range s.starts {
		if now.Sub(at) < u.StartLimitInterval {
			recent = append(recent, at)
		}
	}
	s.starts = recent
	if len(recent) >= u.StartLimitBurst {
		return false
	}
	s.starts = append(s.starts, now)
	return true
}

// environment is what systemd gives a system service: little, and no HOME.
func (r *run) environment(u *unit.Service, invocation string) (map[string]string, error) {
	result := map[string]string{"PATH": searchPath, "LANG": "C.UTF-8", "INVOCATION_ID": invocation}
	add := func(assignments []string) {
		for _, assignment := range assignments {
			name, value, _ := strings.Cut(assignment, "=")
			result[name] = value
		}
	}
	add(u.Environment)
	for _, file := range u.EnvironmentFiles {
		text, err := os.ReadFile(file.Path)
		switch {
		case err == nil:
			add(unit.Variables(string(text)))
		case !file.Optional:
			return nil, fmt.Errorf("Failed to load environment files: %w", err) //nolint:staticcheck // systemd's words.
		}
	}
	for _, dir := range u.RuntimeDirectories {
		if err := os.MkdirAll("/run/"+dir, 0o755); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// notifySocket is where a service of type notify says that it is ready.
func notifySocket(name string) (*net.UnixConn, string, error) {
	path := "/run/notify/" + name
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, "", err
	}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	return socket, path, err
}

// waitReady closes ready at READY=1.
func waitReady(socket *net.UnixConn, ready chan<- struct{}) {
	buffer := make([]byte, 4096)
	for {
		n, err := socket.Read(buffer)
		if err != nil {
			return
		}
		for line := range strings.SplitSeq(string(buffer[:n]), "\n") {
			if line == "READY=1" {
				close(ready)
				return
			}
		}
	}
}

// journal adds a line of PID 1's own to a unit's output. What cannot be written is lost, as it would be with a full journal.
func journal(name, format string, args ...any) {
	file, err := os.OpenFile(filepath.Join(wire.Journal, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	fmt.Fprintf(file, "systemd[1]: "+format+"\n", args...)
}

// signalAll sends to all processes of the service, and says whether there were any.
func signalAll(mark string, leader int, number syscall.Signal) bool {
	pids := marked(mark, leader)
	for _, pid := range pids {
		_ = syscall.Kill(pid, number)
	}
	return len(pids) > 0
}
