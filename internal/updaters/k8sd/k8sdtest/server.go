package k8sdtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Options configure a Server.
type Options struct {
	// Address is where it listens: a loopback address with a port; empty means any free port of 127.0.0.1.
	Address string
	// Names are names and addresses, besides 127.0.0.1 and localhost, that its certificate is for, such as names of nodes.
	Names []string
	// Duration is how long a change takes.
	Duration time.Duration
	// Apply makes a change real when its time is over, before anybody is told that it is done: a test sets the kubelet version of the machine's node.
	// An error makes the change fail with its words. Requests about the machine wait for it. Nil means that there is nothing to do.
	Apply func(ctx context.Context, machine string, option Option) error
	// Now is the clock; nil means the real one. With the real one, changes end by themselves; with another one they end when a request, Settle
	// or Machine sees that their time is over.
	Now func() time.Time
}

// Option is what a snap is refreshed to. Exactly one field is set.
type Option struct {
	Channel   string `json:"channel,omitempty"`
	Revision  string `json:"revision,omitempty"`
	LocalPath string `json:"localPath,omitempty"`
}

// Faults are what goes wrong with one machine. The zero value is a machine on which all is well.
type Faults struct {
	// Times is how many requests they last for, of those that they hit; 0 means until they are changed. What FailChanges and RestartFor do has nothing
	// to do with requests, and lasts.
	Times int `json:"times,omitempty"`
	// Hang gives no answer: the request waits until its caller goes away.
	Hang bool `json:"hang,omitempty"`
	// DropBefore cuts the connection before the request has had any effect, DropAfter after it.
	DropBefore bool `json:"dropBefore,omitempty"`
	DropAfter  bool `json:"dropAfter,omitempty"`
	// EmptyChangeID begins nothing, and answers a refresh as if there were nothing to refresh.
	EmptyChangeID bool `json:"emptyChangeID,omitempty"`
	// InternalError answers 500 and an error of this text, without any effect.
	InternalError string `json:"internalError,omitempty"`
	// Unavailable answers 503 without any effect, as a k8sd that starts or stops.
	Unavailable bool `json:"unavailable,omitempty"`
	// RefuseRefresh makes the snap command fail, for a reason that k8sd does not return, such as an unknown channel.
	RefuseRefresh bool `json:"refuseRefresh,omitempty"`
	// Nonsense answers, without any effect, what is not k8sd's API.
	Nonsense bool `json:"nonsense,omitempty"`
	// FailChanges makes changes that end do so in Error, with this text and without effect.
	FailChanges string `json:"failChanges,omitempty"`
	// RestartFor cuts all connections for so long from the middle of each change on, as a k8sd that is restarted by its own refresh.
	RestartFor time.Duration `json:"restartFor,omitempty"`
}

// hits says whether the faults are about requests, so that Times counts.
func (f Faults) hits() bool {
	return f.Hang || f.DropBefore || f.DropAfter || f.EmptyChangeID || f.InternalError != "" || f.Nonsense ||
		f.Unavailable || f.RefuseRefresh
}

// MachineState is what the server knows about a machine.
type MachineState struct {
	// Installed is what was last refreshed to.
	Installed Option `json:"installed"`
	// Refreshes counts the changes that have really begun, Completed those that have ended well.
	Refreshes int `json:"refreshes"`
	Completed int `json:"completed"`
	// Requests counts the requests that came with the machine's token.
	Requests int `json:"requests"`
	// Running is the id of the change that goes on; empty where none does.
	Running string `json:"running,omitempty"`
}

// Change is a change that has begun.
type Change struct {
	ID     string    `json:"id"`
	Option Option    `json:"option"`
	Begun  time.Time `json:"begun"`
	// Ended is zero while it goes on. Failed says why it ended in Error.
	Ended  time.Time `json:"ended,omitzero"`
	Failed string    `json:"failed,omitempty"`
}

// Server is a k8sd for many machines, which it tells apart by their tokens. It is safe for concurrent use.
type Server struct {
	options     Options
	certificate certificate
	realClock   bool
	ctx         context.Context //nolint:containedctx // The server's own life: changes end with nobody waiting.
	cancel      context.CancelFunc

	mu       sync.Mutex
	address  string
	http     *http.Server
	served   chan struct{}
	duration time.Duration
	nextID   int
	tokens   map[string]*machine
	machines map[string]*machine
}

// New starts a Server. Close ends it.
func New(o Options) (*Server, error) {
	made, err := newCertificate(o.Names)
	if err != nil {
		return nil, fmt.Errorf("starting a k8sd: %w", err)
	}
	s := &Server{
		options: o, certificate: made, realClock: o.Now == nil, address: o.Address, duration: o.Duration,
		tokens: map[string]*machine{}, machines: map[string]*machine{},
	}
	if s.realClock {
		s.options.Now = time.Now
	}
	if s.address == "" {
		s.address = "127.0.0.1:0"
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.Start(); err != nil {
		s.cancel()
		return nil, err
	}
	return s, nil
}

// Start listens again after Stop, where it listened before.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		return nil
	}
	if err := checkLoopback(s.address); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(s.ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("starting a k8sd: %w", err)
	}
	s.address = listener.Addr().String()
	s.http = &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{s.certificate.leaf}},
		ErrorLog: discard(),
	}
	s.served = make(chan struct{})
	go func(server *http.Server, served chan struct{}) {
		defer close(served)
		_ = server.ServeTLS(listener, "", "") // It ends when Stop closes it.
	}(s.http, s.served)
	return nil
}

func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("starting a k8sd: the address %q: %w", address, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("starting a k8sd: %s is no loopback address; use one such as 127.0.0.1", host)
	}
	return nil
}

// Stop cuts all connections and refuses new ones, as k8sd does while it restarts. Changes go on.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http == nil {
		return
	}
	_ = s.http.Close() // What it would say about connections that it cuts is of no use.
	<-s.served
	s.http = nil
}

// Close ends the server. Changes that go on never end.
func (s *Server) Close() {
	s.cancel()
	s.Stop()
}

// Address is where the server listens: host and port.
func (s *Server) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// Port is the port of Address.
func (s *Server) Port() int32 {
	_, port, err := net.SplitHostPort(s.Address())
	if err != nil {
		return 0
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return 0
	}
	return int32(number)
}

// CABundle is the certificate, in PEM, that signed the server's.
func (s *Server) CABundle() []byte { return s.certificate.caBundle }

// Fingerprint is the SHA-256 fingerprint of the server's certificate, with colons.
func (s *Server) Fingerprint() string { return s.certificate.fingerprint }

// SetDuration changes how long a change takes that begins from now on.
func (s *Server) SetDuration(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.duration = d
}

// errUnknownMachine is the error about a machine that was not added.
var errUnknownMachine = errors.New("there is no such machine; add it first")

// AddMachine adds a machine with its token and what is installed on it, or changes the two of one that is there.
func (s *Server) AddMachine(name, token string, installed Option) error {
	m, err := s.register(name, token)
	if err != nil {
		return fmt.Errorf("adding machine %q: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Installed = installed
	return nil
}

// register gives a machine, made if need be, its token. It takes no machine's lock: who holds one may take the server's.
func (s *Server) register(name, token string) (*machine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "" || token == "" {
		return nil, errors.New("it must have a name and a token")
	}
	if owner := s.tokens[token]; owner != nil && owner.name != name {
		return nil, fmt.Errorf("machine %s has the same token", owner.name)
	}
	m := s.machines[name]
	if m == nil {
		m = &machine{name: name, changes: map[string]*change{}}
		s.machines[name] = m
	}
	for known, owner := range s.tokens {
		if owner == m {
			delete(s.tokens, known)
		}
	}
	s.tokens[token] = m
	return m, nil
}

// RemoveMachine forgets a machine; its token is refused then.
func (s *Server) RemoveMachine(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, owner := range s.tokens {
		if owner.name == name {
			delete(s.tokens, token)
		}
	}
	delete(s.machines, name)
}

// SetFaults says what goes wrong with a machine from now on, in place of what did.
func (s *Server) SetFaults(name string, f Faults) error {
	m := s.machine(name)
	if m == nil {
		return fmt.Errorf("the faults of machine %q: %w", name, errUnknownMachine)
	}
	m.faultsMu.Lock()
	defer m.faultsMu.Unlock()
	m.faults = f
	return nil
}

// ForgetChanges makes a machine know none of its changes any more. The one that goes on does so.
func (s *Server) ForgetChanges(name string) error {
	m := s.machine(name)
	if m == nil {
		return fmt.Errorf("the changes of machine %q: %w", name, errUnknownMachine)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.changes)
	return nil
}

// Begin begins a change on a machine as another controller would, and returns its id.
func (s *Server) Begin(name string, option Option) (changeID string, err error) {
	m := s.machine(name)
	if m == nil {
		return "", fmt.Errorf("a change of machine %q: %w", name, errUnknownMachine)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.settle(m)
	if m.running != nil {
		return "", fmt.Errorf("a change of machine %q: %s is still running", name, m.running.id)
	}
	return s.begin(m, option).id, nil
}

// Settle ends all changes whose time is over.
func (s *Server) Settle() {
	s.mu.Lock()
	machines := make([]*machine, 0, len(s.machines))
	for _, m := range s.machines {
		machines = append(machines, m)
	}
	s.mu.Unlock()
	for _, m := range machines {
		m.mu.Lock()
		s.settle(m)
		m.mu.Unlock()
	}
}

// Machine returns what is known about a machine; ok is false for one that was not added.
func (s *Server) Machine(name string) (state MachineState, ok bool) {
	m := s.machine(name)
	if m == nil {
		return MachineState{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.settle(m)
	state = m.state
	if m.running != nil {
		state.Running = m.running.id
	}
	return state, true
}

// Changes returns the changes that have begun on a machine, in order, those that it has forgotten too.
func (s *Server) Changes(name string) []Change {
	m := s.machine(name)
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.settle(m)
	all := make([]Change, 0, len(m.history))
	for _, c := range m.history {
		all = append(all, Change{ID: c.id, Option: c.option, Begun: c.begun, Ended: c.ended, Failed: c.failed})
	}
	return all
}

func (s *Server) machine(name string) *machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machines[name]
}
