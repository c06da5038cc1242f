package devplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/lab/internal/devplane/internal/procs"
)

const (
	// startedAnswer tells Start that the supervisor answers on its socket.
	startedAnswer = "started"
	// detachWord on the lifeline lets a plane outlive the process at the other end.
	detachWord = "detach"

	// How long the stock parts get to end in order. Their state goes with them, so there is little to lose.
	stockStopTimeout = 2 * time.Second
)

// Supervise runs a plane in the calling process: the command that [Config.SupervisorPath] and SupervisorArgs name does
// nothing but call it with the state directory. It needs the descriptors that Start passes, and returns when the plane has been
// stopped, by request, by the end of ctx, or because the process at the other end of the lifeline has gone.
func Supervise(ctx context.Context, stateDir string) error {
	s, err := newSupervisor(stateDir)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// supervisor is a plane's process of its own.
type supervisor struct {
	config   Config
	isolated bool
	layout   layout
	log      *slog.Logger
	listener net.Listener
	children *childSet
	ports    *picker
	// stop asks the supervisor to end, with the reason as its cause.
	stop context.CancelCauseFunc

	recordMu sync.Mutex // serialises writes of the record

	mu      sync.Mutex
	status  Status
	phase   Phase  // without regard to children; see computePhase
	failure string // why the start failed
	changed chan struct{}
	// creds and server, the API server's address inside, are set once that serves. Only the start sets them.
	creds  *credentials
	server string
	// places are those of stock managers, also of those that a child replaces.
	places map[string]place
}

// place is what a stock manager has, and leaves to who replaces it.
type place struct {
	ports   map[string]uint16
	certDir string
	args    []string
	// account is the manager's ServiceAccount; empty for one with all rights.
	account types.NamespacedName
}

func newSupervisor(stateDir string) (*supervisor, error) {
	l := layout{dir: stateDir}
	data, err := os.ReadFile(l.config())
	if err != nil {
		return nil, fmt.Errorf("reading the plane's configuration: %w", err)
	}
	var input supervisorConfig
	if err := json.Unmarshal(data, &input); err != nil {
		return nil, fmt.Errorf("reading the plane's configuration %s: %w", l.config(), err)
	}
	// What Go opens is closed on exec; what was inherited is not, and children must hold neither the lock nor the lifeline.
	for fd := lockFD; fd <= peerNamespaceFD; fd++ {
		syscall.CloseOnExec(fd)
	}
	if input.Isolated {
		if err := loopbackUp(); err != nil {
			return nil, err
		}
	}
	if v := input.Config.Veth; v != nil {
		if err := connectVeth(*v, os.NewFile(peerNamespaceFD, "peer namespace")); err != nil {
			return nil, fmt.Errorf("connecting the veth: %w", err)
		}
	}
	listener, err := net.FileListener(os.NewFile(listenerFD, "listener"))
	if err != nil {
		return nil, fmt.Errorf("taking over the listener: %w", err)
	}
	pid, err := ownPID()
	if err != nil {
		return nil, err
	}
	s := &supervisor{
		config: input.Config, isolated: input.Isolated, layout: l, listener: listener,
		log:     slog.New(slog.NewTextHandler(os.Stderr, nil)),
		ports:   &picker{used: map[uint16]bool{}, free: portFree},
		phase:   PhaseStarting,
		places:  map[string]place{},
		changed: make(chan struct{}),
	}
	s.status = Status{
		Phase: PhaseStarting, StateDir: l.dir, Kubeconfig: l.kubeconfig(), Server: "https://" + listener.Addr().String(),
		Isolated: input.Isolated, PID: pid, StartedAt: time.Now(), Steps: []Step{}, Children: []ChildStatus{},
	}
	return s, nil
}

func (s *supervisor) run(parent context.Context) error {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	s.stop = stop
	s.children = &childSet{
		spawner: procs.NewSpawner(), layout: s.layout, log: s.log, changed: s.notify, launched: s.launched, after: time.After, ctx: ctx,
	}
	if err := s.writeRecord(); err != nil {
		return err
	}
	defer s.removeRecord()
	if err := s.serveControl(ctx); err != nil {
		return err
	}
	if err := announce(os.NewFile(startedFD, "started")); err != nil {
		return err
	}
	go s.watchLifeline(os.NewFile(lifelineFD, "lifeline"))
	go s.forward(ctx)

	if err := s.bringUp(ctx); err != nil {
		s.log.Error("The plane did not start", "error", err)
		s.fail(err)
	} else {
		s.markRunning()
	}
	// The start has gone through megabytes of manifests; from here on there is little to do.
	debug.FreeOSMemory()
	<-ctx.Done()
	s.log.Info("Stopping", "reason", context.Cause(ctx))
	s.setPhase(PhaseStopping, "stopping: "+context.Cause(ctx).Error())
	_ = s.listener.Close() // it ends new connections; nothing waits for it
	stock := append(StockManagers(), APIServer)
	s.children.stopAll(0, func(name string) bool { return !slices.Contains(stock, name) })
	s.children.stopAll(stockStopTimeout, func(name string) bool { return name != APIServer })
	s.children.stopAll(stockStopTimeout, func(string) bool { return true })
	s.log.Info("Stopped")
	return nil // the control socket closes with the process: who asked for the stop learns of its end by that
}

func announce(pipe *os.File) error {
	if _, err := pipe.WriteString(startedAnswer); err != nil {
		return errors.Join(fmt.Errorf("telling that the supervisor has started: %w", err), pipe.Close())
	}
	return pipe.Close()
}

// watchLifeline stops the plane when the process that started it is gone, unless it has let go before.
func (s *supervisor) watchLifeline(pipe *os.File) {
	data, err := io.ReadAll(pipe)
	_ = pipe.Close() // read to its end
	if err == nil && string(data) == detachWord {
		s.mu.Lock()
		s.status.Detached = true
		s.mu.Unlock()
		s.notify()
		return
	}
	s.stop(errors.New("the process that started the plane has ended"))
}

// forward leads connections from the user's namespace to the API server.
func (s *supervisor) forward(ctx context.Context) {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				s.log.Error("The way to the API server is closed", "error", err)
			}
			return
		}
		go s.forwardOne(ctx, conn)
	}
}

func (s *supervisor) forwardOne(ctx context.Context, conn net.Conn) {
	s.mu.Lock()
	server := s.server
	s.mu.Unlock()
	var d net.Dialer
	inside, err := d.DialContext(ctx, "tcp", server)
	if err != nil {
		_ = conn.Close() // the client sees a connection that ends, as with a server that restarts
		return
	}
	splice(conn, inside)
}

// splice copies both ways until both are at their end.
func splice(a, b net.Conn) {
	var group sync.WaitGroup
	oneWay := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // either end may go away at any time; the other learns of it by the close
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
	group.Go(func() { oneWay(a, b) })
	group.Go(func() { oneWay(b, a) })
	group.Wait()
	_ = a.Close()
	_ = b.Close()
}

// notify wakes everybody who watches the status. It may be called with the children's lock held.
func (s *supervisor) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Revision++
	close(s.changed)
	s.changed = make(chan struct{})
}

// step begins a step of the start.
func (s *supervisor) step(name, message string) {
	s.log.Info(message, "step", name)
	s.mu.Lock()
	s.status.Steps = append(slices.Clone(s.status.Steps), Step{Name: name, Message: message, After: time.Since(s.status.StartedAt)})
	s.status.Message = message
	s.mu.Unlock()
	s.notify()
}

func (s *supervisor) setPhase(phase Phase, message string) {
	s.mu.Lock()
	s.phase, s.status.Message = phase, message
	s.mu.Unlock()
	s.notify()
}

func (s *supervisor) fail(err error) {
	s.mu.Lock()
	s.failure = err.Error()
	s.mu.Unlock()
	s.setPhase(PhaseFailed, err.Error())
}

func (s *supervisor) markRunning() {
	s.mu.Lock()
	s.status.ReadyAfter = time.Since(s.status.StartedAt)
	s.mu.Unlock()
	s.setPhase(PhaseRunning, "the plane is up")
	s.log.Info("The plane is up", "after", s.status.ReadyAfter)
}

// snapshot is the status as of now, and a channel that is closed when it changes. Process ids and memory are looked up only here.
func (s *supervisor) snapshot() (Status, <-chan struct{}) {
	s.mu.Lock()
	out, phase, changed := s.status, s.phase, s.changed
	s.mu.Unlock()
	out.Children = s.children.snapshot()
	out.Phase, out.Message = computePhase(phase, out.Message, out.Children)
	out.ResidentBytes = ownResidentBytes()
	processes := childProcesses()
	for i := range out.Children {
		out.Children[i] = asSeenOutside(out.Children[i], processes, s.ownProcessNamespace())
	}
	return out, changed
}

// ownProcessNamespace reports whether process ids here are others than the user's.
func (s *supervisor) ownProcessNamespace() bool { return os.Getpid() != s.status.PID }

// asSeenOutside replaces the id of a child by the one that the user sees, which is unknown (0) where processes do not say it: the id in
// a namespace of its own is that of somebody else's process outside.
func asSeenOutside(child ChildStatus, processes map[int]processInfo, ownNamespace bool) ChildStatus {
	info, ok := processes[child.PID]
	switch {
	case ok:
		child.PID, child.ResidentBytes, child.PeakResidentBytes, child.CPU = info.pid, info.residentBytes, info.peakBytes, info.cpu
	case ownNamespace:
		child.PID = 0
	}
	return child
}

// computePhase is the phase of a plane whose supervisor is in phase: one that runs has failed while a child is down that nobody stopped.
func computePhase(phase Phase, message string, children []ChildStatus) (Phase, string) {
	if phase != PhaseRunning {
		return phase, message
	}
	for _, child := range children {
		if child.crashed() {
			err := &ChildError{Name: child.Name, Exit: *child.LastExit, LogFile: child.LogFile}
			return PhaseFailed, err.Error()
		}
	}
	return phase, message
}

// writeRecord tells later commands who the supervisor is and, where children can outlive it, who they are.
func (s *supervisor) writeRecord() error {
	start, err := processStart(s.status.PID)
	if err != nil {
		return err
	}
	r := record{Supervisor: processID{PID: s.status.PID, Start: start}}
	for _, child := range s.children.snapshot() {
		if !childrenSurvive || child.PID == 0 {
			continue
		}
		if start, err := processStart(child.PID); err == nil {
			r.Children = append(r.Children, processID{PID: child.PID, Start: start})
		}
	}
	return writeJSON(s.layout.record(), r)
}

// removeRecord is the last act of a supervisor: a record without its process tells of a crash. The directory may be gone already.
func (s *supervisor) removeRecord() {
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	if err := os.Remove(s.layout.record()); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.log.Error("The next command will take this end for a crash", "error", err)
	}
}

// launched keeps the record up to date where it matters.
func (s *supervisor) launched() {
	if !childrenSurvive {
		return
	}
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	if err := s.writeRecord(); err != nil {
		s.log.Error("A crash of the supervisor would leave a child behind", "error", err)
	}
}
