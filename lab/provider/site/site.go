//go:build linux

package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/provider/loadbalancer"
)

// Node returns the options of a host that has the programs of a version of Kubernetes.
type Node func(name, version string) (hosts.Options, error)

// errNotFound says that there is no host or load balancer with an id.
var errNotFound = errors.New("not found")

// Site has hosts and load balancers by id. It is safe for concurrent use.
type Site struct {
	node Node
	// key makes the key with which root logs in to all hosts, once.
	key func() (hosts.Key, error)

	mu        sync.Mutex
	hosts     map[string]*host
	balancers map[string]*balancer
	revision  int64
	changed   chan struct{} // closed, and replaced, with each revision
}

// host is one host. Its lock serializes what happens to it.
type host struct {
	mu      sync.Mutex
	session *hosts.Session
	host    *hosts.Host
	spec    Host
	gone    bool

	condition Condition
	boots     int
	// ended is the boot in which the unit has ended; guarded by the site's lock.
	ended int
}

// balancer is a load balancer, in the network of a host of its own.
type balancer struct {
	mu      sync.Mutex
	session *hosts.Session
	host    *hosts.Host
	*loadbalancer.Balancer
}

// New returns an empty site.
func New(node Node) *Site {
	return &Site{
		node: node, key: sync.OnceValues(hosts.NewKey),
		hosts: map[string]*host{}, balancers: map[string]*balancer{}, changed: make(chan struct{}),
	}
}

// change tells those who wait that something is different.
func (s *Site) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	close(s.changed)
	s.changed = make(chan struct{})
}

// Wait returns the site's revision once it is not after any more, or when ctx ends.
func (s *Site) Wait(ctx context.Context, after int64) int64 {
	for {
		s.mu.Lock()
		revision, changed := s.revision, s.changed
		s.mu.Unlock()
		if revision != after {
			return revision
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return revision
		}
	}
}

// Ensure makes and boots a host, unless there is one with the id.
func (s *Site) Ensure(id string, spec Host) (HostStatus, error) {
	s.mu.Lock()
	h, ok := s.hosts[id]
	if !ok {
		h = &host{spec: spec, session: hosts.NewSession(context.Background())}
		h.mu.Lock() // nobody else has it yet
		s.hosts[id] = h
	}
	s.mu.Unlock()
	if ok {
		return s.Host(id)
	}
	defer h.mu.Unlock()
	if err := s.start(h); err != nil {
		s.mu.Lock()
		delete(s.hosts, id)
		s.mu.Unlock()
		h.gone = true
		return HostStatus{}, errors.Join(fmt.Errorf("making host %s: %w", spec.Name, err), h.session.End())
	}
	s.change()
	return s.status(id, h), nil
}

func (s *Site) start(h *host) error {
	options, err := s.node(h.spec.Name, h.spec.Version)
	if err != nil {
		return err
	}
	key, err := s.key()
	if err != nil {
		return err
	}
	options.Name, options.Off, options.RootKey = h.spec.Name, true, &key
	options.Size = cmp.Or(h.spec.DiskSize, options.Size)
	files := maps.Clone(options.Files)
	if files == nil {
		files = map[string][]byte{}
	}
	maps.Copy(files, h.spec.Files)
	options.Files, options.Routed = files, true
	return h.session.Do(func() error {
		h.host = hosts.Start(h.session, options)
		s.boot(h)
		return nil
	})
}

// boot turns the power on and starts the unit. The caller holds the host's lock.
func (s *Site) boot(h *host) {
	h.host.Boot()
	h.boots++
	if h.spec.Unit == "" {
		return
	}
	boot := h.boots
	go func() {
		// It fails when the power is cut, too. The unit itself records how it ended.
		_, _ = h.host.Run(context.Background(), "systemctl start "+h.spec.Unit)
		s.mu.Lock()
		h.ended = max(h.ended, boot)
		s.mu.Unlock()
		s.change()
	}()
}

// with calls f with a host, and nobody else does until it returns. What ends a test is an error of f.
func (s *Site) with(id string, f func(*host) error) error {
	s.mu.Lock()
	h, ok := s.hosts[id]
	s.mu.Unlock()
	if !ok {
		return errNotFound
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return errNotFound
	}
	return h.session.Do(func() error { return f(h) })
}

func (s *Site) status(id string, h *host) HostStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return HostStatus{
		ID: id, Name: h.spec.Name, Version: h.spec.Version, Address: h.host.Address(), Condition: h.condition,
		UnitEnded: h.ended == h.boots,
	}
}

// Host returns a host.
func (s *Site) Host(id string) (HostStatus, error) {
	var status HostStatus
	err := s.with(id, func(h *host) error { status = s.status(id, h); return nil })
	return status, err
}

// Hosts returns all hosts, sorted by id.
func (s *Site) Hosts() []HostStatus {
	s.mu.Lock()
	ids := slices.Sorted(maps.Keys(s.hosts))
	s.mu.Unlock()
	result := []HostStatus{}
	for _, id := range ids {
		if status, err := s.Host(id); err == nil {
			result = append(result, status)
		}
	}
	return result
}

// SetCondition makes a host suffer what the condition says, and nothing else.
func (s *Site) SetCondition(id string, desired Condition) (HostStatus, error) {
	var status HostStatus
	err := s.with(id, func(h *host) error {
		defer func() { status = s.status(id, h) }()
		s.setPower(h, desired)
		if h.condition.PowerOff {
			return nil
		}
		if desired.Disconnected != h.condition.Disconnected {
			choose(desired.Disconnected, h.host.Disconnect, h.host.Connect)
			h.condition.Disconnected = desired.Disconnected
		}
		return nil
	})
	if err == nil {
		s.change()
	}
	return status, err
}

// setPower sets what concerns the power and the disk.
func (s *Site) setPower(h *host, desired Condition) {
	if desired.PowerOff && !h.condition.PowerOff {
		h.host.PowerCut()
		h.condition.PowerOff, h.condition.Disconnected = true, false
	}
	if desired.DiskFull != h.condition.DiskFull {
		choose(desired.DiskFull, h.host.FillDisk, h.host.FreeDisk)
		h.condition.DiskFull = desired.DiskFull
	}
	if desired.SyncDelay != h.condition.SyncDelay {
		h.host.DelaySyncs(desired.SyncDelay)
		h.condition.SyncDelay = desired.SyncDelay
	}
	if !desired.PowerOff && h.condition.PowerOff {
		s.boot(h)
		h.condition.PowerOff = false
	}
}

func choose(first bool, one, other func()) {
	if first {
		one()
		return
	}
	other()
}

// Delete shuts a host down in order, and removes it with its disk. One that is not there is no error.
func (s *Site) Delete(id string) error {
	err := s.with(id, func(h *host) error {
		var errs []error
		if !h.condition.PowerOff {
			// The host goes in any case.
			errs = append(errs, h.session.Do(func() error { h.host.Shutdown(); return nil }))
		}
		errs = append(errs, h.session.End())
		h.gone = true
		s.mu.Lock()
		delete(s.hosts, id)
		s.mu.Unlock()
		return errors.Join(errs...)
	})
	if errors.Is(err, errNotFound) {
		return nil
	}
	s.change()
	return err
}

// Read returns a file of a host's disk.
func (s *Site) Read(id, path string) ([]byte, error) {
	var content []byte
	err := s.with(id, func(h *host) (err error) { content, err = h.host.Read(path); return err })
	return content, err
}

// Run runs a bash script as root in a host. Other requests about the host are served meanwhile.
func (s *Site) Run(ctx context.Context, id, script string) (Script, error) {
	var at *hosts.Host
	if err := s.with(id, func(h *host) error { at = h.host; return nil }); err != nil {
		return Script{}, err
	}
	output, err := at.Run(ctx, script)
	if exit, ok := errors.AsType[*hosts.ExitError](err); ok {
		return Script{Output: exit.Output, Code: exit.Code}, nil
	}
	return Script{Output: output}, err
}

// Login returns the keys of a host's sshd.
func (s *Site) Login(id string) (Login, error) {
	var login Login
	err := s.with(id, func(h *host) error {
		login = Login{Identity: h.host.Key("root"), KnownHosts: append(h.host.KnownHosts(), '\n')}
		return nil
	})
	return login, err
}

// EnsureBalancer makes a load balancer, unless there is one with the id, and sets its backends.
func (s *Site) EnsureBalancer(id string, backends loadbalancer.Backends) (BalancerStatus, error) {
	s.mu.Lock()
	b, ok := s.balancers[id]
	if !ok {
		b = &balancer{session: hosts.NewSession(context.Background())}
		s.balancers[id] = b
	}
	s.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Balancer == nil {
		if err := s.startBalancer(b); err != nil {
			return BalancerStatus{}, fmt.Errorf("making a load balancer: %w", err)
		}
	}
	b.Set(backends)
	return BalancerStatus{Address: b.host.Address(), Ready: b.Ready()}, nil
}

func (s *Site) startBalancer(b *balancer) error {
	return b.session.Do(func() error {
		if b.host == nil {
			b.host = hosts.Start(b.session, hosts.Options{Name: "balancer", Routed: true})
		}
		listener, err := b.host.Listen(BalancerPort)
		if err != nil {
			return err
		}
		b.Balancer = loadbalancer.New(loadbalancer.Options{Changed: s.change})
		go b.Serve(listener)
		return nil
	})
}

// HasBalancer reports whether there is a load balancer with the id.
func (s *Site) HasBalancer(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.balancers[id]
	return ok
}

// DeleteBalancer removes a load balancer, and resets its connections. One that is not there is no error.
func (s *Site) DeleteBalancer(id string) error {
	s.mu.Lock()
	b, ok := s.balancers[id]
	delete(s.balancers, id)
	s.mu.Unlock()
	if !ok {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Balancer != nil {
		b.Close()
	}
	return b.session.End()
}

// Close ends everything, without an orderly shutdown.
func (s *Site) Close() error {
	s.mu.Lock()
	all, balancers := slices.Collect(maps.Values(s.hosts)), slices.Collect(maps.Keys(s.balancers))
	clear(s.hosts)
	s.mu.Unlock()
	var errs []error
	for _, h := range all {
		h.mu.Lock()
		h.gone = true
		errs = append(errs, h.session.End())
		h.mu.Unlock()
	}
	for _, id := range balancers {
		errs = append(errs, s.DeleteBalancer(id))
	}
	return errors.Join(errs...)
}
