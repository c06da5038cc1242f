package ssh

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/port"
)

const (
	// maxConnections bounds the connections of a process, with those that are being made, and
	// maxOfTenant bounds how many of them lead to hosts of one tenant.
	maxConnections, maxOfTenant = 256, 64
	// silenceLifetime is how long a host that did not answer is not tried again.
	silenceLifetime = 20 * time.Second
	// failureLifetime is how long it is remembered since when a host has not answered, and maxFailures
	// of how many hosts. If more fail, all of them are tried again.
	failureLifetime = 10 * time.Minute
	maxFailures     = 4096
	// idleLifetime is how long a connection is kept that nobody uses. Steps are asked about every few
	// seconds.
	idleLifetime = 30 * time.Second
	// patience is how long a script must have run for its deadline to mean that the host is silent.
	patience = 5 * time.Second
	// connectingPoll is when to ask again for a connection that is being made.
	connectingPoll = time.Second
	// nextLifetime is how long the next place is kept for a tenant that asks every connectingPoll.
	nextLifetime = 3 * connectingPoll
)

// Connections make and keep the connections of a process, so that no request waits for a host. They
// bound how many there are, in all and of each tenant. They are safe for concurrent use.
type Connections struct {
	newLink func(Options) (link, error)
	// failures are why connections were not made. A host has one, whatever its options.
	failures keyed.Memory[hostID, failure]

	mu    sync.Mutex
	links map[linkID]*kept
	// held counts the connections of each tenant until they are closed, and all is their sum.
	held map[string]int
	all  int
	// next has the next place that is free, before tenants with more connections.
	next turn
}

// turn is that of a tenant that found the process full.
type turn struct {
	tenant string
	// own is how many connections it had then.
	own   int
	until time.Time
}

// NewConnections returns Connections without a connection.
func NewConnections() *Connections {
	return newConnections(func(o Options) (link, error) { return newHost(o) })
}

func newConnections(newLink func(Options) (link, error)) *Connections {
	return &Connections{
		newLink: newLink, failures: keyed.Memory[hostID, failure]{Most: maxFailures},
		links: map[linkID]*kept{}, held: map[string]int{},
	}
}

// link is a host that is connected to once.
type link interface {
	port.Host
	// reach makes the connection, and returns within a time of its own. Errors are *port.HostError.
	reach(ctx context.Context) error
	// isGone reports whether the connection was made and has ended.
	isGone() bool
}

// hostID names a host of a tenant.
type hostID struct{ tenant, host string }

// linkID is a host, and all that decides where a connection leads and whom it trusts.
type linkID struct {
	hostID
	options [sha256.Size]byte
}

// failure is why a host was not reached.
type failure struct {
	// options are those of the attempt.
	options      [sha256.Size]byte
	err          *port.HostError
	since, until time.Time
}

// kept is a connection. The mutex of Connections guards its fields.
type kept struct {
	link link
	// ended says that it is being closed, or was.
	ended bool
	// began is when it began to be made, and cancel ends the attempt.
	began  time.Time
	cancel context.CancelFunc
	// isMade is set once the connection exists, and isUsed once somebody has had it.
	isMade, isUsed bool
	users          int
	// idleSince is when the last user returned it.
	idleSince time.Time
}

// Connect returns a connection to a host of a tenant, if there is one. Otherwise it begins to make
// one, unless one is being made, and returns an error: HostConnecting until the connection exists,
// HostUnreachable for silenceLifetime after an attempt failed. It never waits for the host. name is
// the host's among those of the tenant. Errors are *port.HostError.
//
// Close of the Host returns the connection, which is kept for idleLifetime.
func (c *Connections) Connect(tenant, name string, o Options) (port.Host, error) {
	digest, err := digestOf(o)
	if err != nil {
		return nil, &port.HostError{Reason: port.HostSetup, Host: o.Address, Err: err}
	}
	id := linkID{hostID{tenant, name}, digest}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.links[id]
	switch {
	case k != nil && k.isMade && !k.link.isGone():
		k.users++
		k.isUsed = true
		return &borrowed{Host: k.link, id: id, kept: k, of: c}, nil
	case k != nil && k.isMade:
		c.drop(id, k)
	case k != nil:
		return nil, connecting(o.Address, "a connection to it is being made")
	}
	return nil, c.begin(id, o)
}

// digestOf covers all options.
func digestOf(o Options) (digest [sha256.Size]byte, err error) {
	encoded, err := json.Marshal(o)
	if err != nil {
		return digest, fmt.Errorf("encoding the options of a connection: %w", err)
	}
	return sha256.Sum256(encoded), nil
}

func connecting(address, message string) *port.HostError {
	return &port.HostError{
		Reason: port.HostConnecting, Host: address, Err: errors.New(message), RetryAfter: connectingPoll,
	}
}

// begin begins to make a connection, and returns why there is none yet. The caller holds the mutex.
func (c *Connections) begin(id linkID, o Options) error {
	if last, known := c.failed(id, time.Now()); known {
		switch left := time.Until(last.until); {
		case last.err.Lasts():
			// It was not caused by the host's silence, so the next request tries again.
			c.failures.Forget(id.hostID)
			return last.err
		case left > 0:
			return last.silent(left)
		}
	}
	made, err := c.newLink(o)
	if err != nil {
		return err
	}
	if !c.place(id.tenant) {
		return connecting(o.Address, fmt.Sprintf("it waits for one of %d connections in all and %d "+
			"to hosts of namespace %s", maxConnections, maxOfTenant, id.tenant))
	}
	ctx, cancel := context.WithCancel(context.Background())
	k := &kept{link: made, began: time.Now(), cancel: cancel}
	c.links[id] = k
	go c.reach(ctx, id, k)
	return connecting(o.Address, "a connection to it is being made")
}

// silent is the error for a host that is not tried again for a while.
func (f failure) silent(left time.Duration) *port.HostError {
	return &port.HostError{
		Reason: f.err.Reason, Host: f.err.Host, RetryAfter: left,
		Err: fmt.Errorf("it has not answered since %s, and is not tried again before %s: %w",
			f.since.UTC().Format(time.RFC3339), f.until.UTC().Format(time.RFC3339), f.err.Err),
	}
}

// place takes a place for a connection of a tenant. If there is none, the tenant's connection ends that
// nobody has used for longest, and a later request finds its place. If the tenant has none of these, and
// the process is full, it has the next place, and one is made for it. The caller holds the mutex.
func (c *Connections) place(tenant string) bool {
	own, now := c.held[tenant], time.Now()
	waits := now.Before(c.next.until) && c.next.tenant != tenant && own > c.next.own
	if !waits && own < maxOfTenant && c.all < maxConnections {
		if c.next.tenant == tenant {
			c.next = turn{}
		}
		c.held[tenant]++
		c.all++
		return true
	}
	ofTenant := func(id linkID) bool { return id.tenant == tenant }
	if id, found := c.longestIdle(ofTenant); found {
		c.drop(id, c.links[id])
		return false
	}
	if !waits && own < maxOfTenant {
		c.next = turn{tenant, own, now.Add(nextLifetime)}
		c.makeRoom(own)
	}
	return false
}

// makeRoom ends a connection, so that a later request finds its place: the one that nobody has used for
// longest, or else an attempt of the tenant with the most connections, if it has at least two more than
// own. The one that has lasted longest is that of a host that is likely to be silent.
func (c *Connections) makeRoom(own int) {
	if id, found := c.longestIdle(func(linkID) bool { return true }); found {
		c.drop(id, c.links[id])
		return
	}
	of, most := map[string]int{}, own+1
	for id := range c.links {
		of[id.tenant]++
		most = max(most, of[id.tenant])
	}
	var oldest *kept
	for id, k := range c.links {
		if of[id.tenant] == most && most > own+1 && !k.isMade &&
			(oldest == nil || k.began.Before(oldest.began)) {
			oldest = k
		}
	}
	if oldest != nil {
		oldest.cancel()
	}
}

// longestIdle returns the connection that nobody has used for longest. One that nobody has had yet
// stays: who asked for it comes back.
func (c *Connections) longestIdle(counts func(linkID) bool) (oldest linkID, found bool) {
	for id, k := range c.links {
		idle := k.isMade && k.isUsed && k.users == 0
		if idle && counts(id) && (!found || k.idleSince.Before(c.links[oldest].idleSince)) {
			oldest, found = id, true
		}
	}
	return oldest, found
}

// drop forgets a connection, and ends it once nobody uses it. The caller holds the mutex.
func (c *Connections) drop(id linkID, k *kept) {
	if c.links[id] == k {
		delete(c.links, id)
	}
	if k.users == 0 {
		c.end(id, k)
	}
}

// end closes a connection that nobody has any longer. To close one can wait for the host, and it has its
// place until then.
func (c *Connections) end(id linkID, k *kept) {
	if k.ended {
		return
	}
	k.ended = true
	go func() {
		_ = k.link.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all--
		if c.held[id.tenant]--; c.held[id.tenant] == 0 {
			delete(c.held, id.tenant)
		}
	}()
}

// reach makes a connection.
func (c *Connections) reach(ctx context.Context, id linkID, k *kept) {
	err := k.link.reach(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	canceled := ctx.Err() != nil
	k.cancel()
	switch {
	case err != nil && canceled:
		// It made room. The next request tries again.
		c.drop(id, k)
		return
	case err != nil:
		c.fail(id, err, k.began)
		c.drop(id, k)
		return
	}
	c.failures.Forget(id.hostID)
	k.isMade = true
	c.expire(id, k)
}

// fail remembers why a host was not reached.
func (c *Connections) fail(id linkID, err error, since time.Time) {
	failed, ok := errors.AsType[*port.HostError](err)
	if !ok {
		failed = &port.HostError{Reason: port.HostUnreachable, Host: id.host, Err: err}
	}
	now := time.Now()
	if last, known := c.failed(id, now); known && !last.err.Lasts() {
		since = last.since
	}
	found := failure{id.options, failed, since, now.Add(silenceLifetime)}
	c.failures.Put(id.hostID, found, now, failureLifetime)
}

// failed returns why a host was not reached with the same options.
func (c *Connections) failed(id linkID, now time.Time) (failure, bool) {
	last, known := c.failures.Get(id.hostID, now)
	return last, known && last.options == id.options
}

// expire ends a connection after idleLifetime, if nobody uses it until then. The caller holds the
// mutex.
func (c *Connections) expire(id linkID, k *kept) {
	k.idleSince = time.Now()
	time.AfterFunc(idleLifetime, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if k.users == 0 && time.Since(k.idleSince) >= idleLifetime {
			c.drop(id, k)
		}
	})
}

// borrowed is a connection in the hands of one request.
type borrowed struct {
	port.Host
	id   linkID
	kept *kept
	of   *Connections

	returned sync.Once
}

// Exec implements port.Host. A host that accepts a script and does not answer counts as one that is
// not reached.
func (b *borrowed) Exec(ctx context.Context, command port.HostCommand) (port.HostResult, error) {
	began := time.Now()
	result, err := b.Host.Exec(ctx, command)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && time.Since(began) >= patience {
		b.of.mu.Lock()
		defer b.of.mu.Unlock()
		silent := &port.HostError{
			Reason: port.HostUnreachable, Host: b.id.host, Err: errors.Unwrap(err),
		}
		b.of.fail(b.id, silent, began)
		b.of.drop(b.id, b.kept)
	}
	return result, err //nolint:wrapcheck // It is a *port.HostError.
}

// Close returns the connection.
func (b *borrowed) Close() error {
	b.returned.Do(func() {
		b.of.mu.Lock()
		defer b.of.mu.Unlock()
		k := b.kept
		k.users--
		switch {
		case k.users > 0:
		case b.of.links[b.id] != k || k.link.isGone():
			b.of.drop(b.id, k)
		default:
			b.of.expire(b.id, k)
		}
	})
	return nil
}
