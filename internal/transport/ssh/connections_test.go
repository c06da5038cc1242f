package ssh

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-dev/windlass/internal/port"
)

// fakeLink is a host whose connection a test makes, or not.
type fakeLink struct {
	hosts   *fakeHosts
	address string
}

// fakeHosts count what is done to hosts. Those that answer nothing are silent.
type fakeHosts struct {
	mu       sync.Mutex
	silent   map[string]bool
	refuses  map[string]bool
	stalls   map[string]bool
	gone     map[*fakeLink]bool
	attempts map[string]int
	// closing, if it is not nil, holds back the end of connections until it is closed.
	closing chan struct{}
	// open are the connections that exist or are being made, and most how many there were at once.
	open, most int
}

func newFakeHosts() *fakeHosts {
	return &fakeHosts{
		silent: map[string]bool{}, refuses: map[string]bool{}, stalls: map[string]bool{},
		gone: map[*fakeLink]bool{}, attempts: map[string]int{},
	}
}

func (f *fakeHosts) link(o Options) (link, error) {
	return &fakeLink{hosts: f, address: o.Address}, nil
}

// set has a host do something from now on.
func (f *fakeHosts) set(what map[string]bool, address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what[address] = true
}

func (f *fakeHosts) count(address string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attempts[address]
}

func (f *fakeHosts) opened() (open, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open, f.most
}

func (l *fakeLink) reach(ctx context.Context) error {
	f := l.hosts
	f.mu.Lock()
	f.attempts[l.address]++
	f.open++
	f.most = max(f.most, f.open)
	silent, refuses := f.silent[l.address], f.refuses[l.address]
	f.mu.Unlock()
	switch {
	case silent:
		ctx, cancel := context.WithTimeout(ctx, defaultConnectTimeout)
		defer cancel()
		<-ctx.Done()
		return &port.HostError{Reason: port.HostUnreachable, Host: l.address, Err: errors.New("no answer within 10s")}
	case refuses:
		return &port.HostError{Reason: port.HostLoginRefused, Host: l.address, Err: errors.New("refused")}
	}
	return nil
}

func (l *fakeLink) isGone() bool {
	l.hosts.mu.Lock()
	defer l.hosts.mu.Unlock()
	return l.hosts.gone[l]
}

func (l *fakeLink) Exec(ctx context.Context, _ port.HostCommand) (port.HostResult, error) {
	l.hosts.mu.Lock()
	stalls := l.hosts.stalls[l.address]
	l.hosts.mu.Unlock()
	if stalls {
		<-ctx.Done()
		return port.HostResult{}, &port.HostError{Reason: port.HostLost, Host: l.address, Err: ctx.Err()}
	}
	return port.HostResult{}, nil
}

func (l *fakeLink) Close() error {
	if l.hosts.closing != nil {
		<-l.hosts.closing
	}
	l.hosts.mu.Lock()
	defer l.hosts.mu.Unlock()
	l.hosts.open--
	return nil
}

func connect(c *Connections, tenant, name string) (port.Host, error) {
	return c.Connect(tenant, name, Options{Login: Login{Address: name}})
}

// use connects to a host, and returns the connection at once if there is one.
func use(c *Connections, tenant, name string) {
	_, _ = connect(c, tenant, name)
	synctest.Wait()
	if host, err := connect(c, tenant, name); err == nil {
		_ = host.Close()
	}
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // synctest's clock.
	synctest.Wait()
}

func wantReason(t *testing.T, err error, want port.HostReason) {
	t.Helper()
	if port.ReasonOfHost(err) != want {
		t.Fatalf("the error is %v, want %s", err, want)
	}
}

// hostError returns an error with a reason.
func hostError(t *testing.T, err error, want port.HostReason) *port.HostError {
	t.Helper()
	wantReason(t, err, want)
	failed, _ := errors.AsType[*port.HostError](err)
	return failed
}

// TestConnectionIsMadeOnce has many requests ask for one host, during and after its connection.
func TestConnectionIsMadeOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hosts := newFakeHosts()
		c := newConnections(hosts.link)
		for range 10 {
			_, err := connect(c, "a", "host")
			failed := hostError(t, err, port.HostConnecting)
			if failed.RetryAfter <= 0 || failed.Lasts() {
				t.Fatalf("the error %+v does not ask for another request", failed)
			}
		}
		synctest.Wait()
		for range 10 {
			host, err := connect(c, "a", "host")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := host.Exec(t.Context(), port.HostCommand{}); err != nil {
				t.Fatal(err)
			}
			_, _ = host.Close(), host.Close()
			pass(idleLifetime / 2)
		}
		if n := hosts.count("host"); n != 1 {
			t.Errorf("there were %d logins, want 1", n)
		}
		if _, err := c.Connect("a", "host", Options{Login: Login{Address: "host", KnownHosts: []byte("other keys")}}); err == nil {
			t.Error("a connection counts for other pinned keys")
		}
		if _, err := connect(c, "b", "host"); err == nil {
			t.Error("a tenant has the connection of another one")
		}
		pass(2 * idleLifetime)
		if open, _ := hosts.opened(); open != 0 {
			t.Errorf("%d connections are left that nobody uses", open)
		}
	})
}

// TestSilentHostIsLeftAlone counts the connections to a host that does not answer.
func TestSilentHostIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hosts := newFakeHosts()
		hosts.set(hosts.silent, "host")
		c := newConnections(hosts.link)
		began := time.Now()
		_, err := connect(c, "a", "host")
		wantReason(t, err, port.HostConnecting)
		pass(defaultConnectTimeout)
		for range 5 {
			_, err := connect(c, "a", "host")
			failed := hostError(t, err, port.HostUnreachable)
			for _, want := range []time.Time{began, began.Add(defaultConnectTimeout + silenceLifetime)} {
				if words := want.UTC().Format(time.RFC3339); !strings.Contains(failed.Error(), words) {
					t.Errorf("the message %q does not contain %s", failed, words)
				}
			}
			pass(silenceLifetime / 10)
		}
		if n := hosts.count("host"); n != 1 {
			t.Errorf("a silent host was tried %d times, want 1", n)
		}
		pass(silenceLifetime)
		_, err = connect(c, "a", "host")
		wantReason(t, err, port.HostConnecting)
		pass(defaultConnectTimeout)
		_, err = connect(c, "a", "host")
		if failed := hostError(t, err, port.HostUnreachable); !strings.Contains(failed.Error(), began.UTC().Format(time.RFC3339)) {
			t.Errorf("after a second attempt, the message %q has another begin", failed)
		}
		if n := hosts.count("host"); n != 2 {
			t.Errorf("a silent host was tried %d times, want 2", n)
		}
	})
}

// TestRefusedLoginIsToldOnce shows that a failure that a person must end reaches one request, and that
// the next one tries again.
func TestRefusedLoginIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hosts := newFakeHosts()
		hosts.set(hosts.refuses, "host")
		c := newConnections(hosts.link)
		for _, want := range []port.HostReason{port.HostConnecting, port.HostLoginRefused, port.HostConnecting} {
			_, err := connect(c, "a", "host")
			wantReason(t, err, want)
			synctest.Wait()
		}
	})
}

// TestHostThatStallsIsSilent has a host accept a login and then answer nothing.
func TestHostThatStallsIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hosts := newFakeHosts()
		c := newConnections(hosts.link)
		_, _ = connect(c, "a", "host")
		synctest.Wait()
		for _, test := range []struct {
			patience time.Duration
			want     bool
		}{{patience / 5, true}, {3 * patience, false}} {
			host, err := connect(c, "a", "host")
			if err != nil {
				t.Fatal(err)
			}
			hosts.set(hosts.stalls, "host")
			ctx, cancel := context.WithTimeout(t.Context(), test.patience)
			_, _ = host.Exec(ctx, port.HostCommand{})
			cancel()
			_ = host.Close()
			synctest.Wait()
			if again, err := connect(c, "a", "host"); (err == nil) != test.want {
				t.Errorf("after a silence of %s the next request gets %v", test.patience, err)
			} else if err == nil {
				_ = again.Close()
			}
		}
		if open, _ := hosts.opened(); open != 0 {
			t.Errorf("%d connections to the host are left", open)
		}
	})
}

// TestTenantsConnectionsAreBounded has one tenant with 1,000 silent hosts, and counts how many of them are
// connected to when another tenant asks.
func TestTenantsConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hosts := newFakeHosts()
		c := newConnections(hosts.link)
		for i := range 1000 {
			name := fmt.Sprint("dead-", i)
			hosts.set(hosts.silent, name)
			_, err := connect(c, "greedy", name)
			wantReason(t, err, port.HostConnecting)
		}
		_, err := connect(c, "modest", "host")
		wantReason(t, err, port.HostConnecting)
		synctest.Wait()
		if open, _ := hosts.opened(); open != maxOfTenant+1 {
			t.Errorf("%d connections are being made, want %d", open, maxOfTenant+1)
		}
		if _, err := connect(c, "modest", "host"); err != nil {
			t.Errorf("the other tenant's host is not connected to: %v", err)
		}
		for i := range 100 {
			for j := range 20 {
				_, _ = connect(c, fmt.Sprint("tenant-", i), fmt.Sprint("host-", j))
			}
			synctest.Wait()
		}
		if _, most := hosts.opened(); most > maxConnections {
			t.Errorf("there were %d connections at once, want at most %d", most, maxConnections)
		}
		pass(defaultConnectTimeout)
	})
}

// TestSilentHostsOfManyTenantsLeaveRoom has as many tenants fill the process with attempts to reach silent
// hosts as it takes, and counts how long another one waits for its host.
func TestSilentHostsOfManyTenantsLeaveRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hosts := newFakeHosts()
		c := newConnections(hosts.link)
		greedy := func() {
			for tenant := range maxConnections / maxOfTenant {
				for i := range 1000 {
					name := fmt.Sprint("dead-", i)
					hosts.set(hosts.silent, name)
					_, _ = connect(c, fmt.Sprint("greedy-", tenant), name)
				}
			}
			synctest.Wait()
		}
		greedy()
		if open, _ := hosts.opened(); open != maxConnections {
			t.Fatalf("%d connections are being made, want %d", open, maxConnections)
		}
		for host := range 8 {
			polls := 0
			for _, err := connect(c, "modest", fmt.Sprint("host-", host)); err != nil; polls++ {
				wantReason(t, err, port.HostConnecting)
				if polls > 3 {
					t.Fatalf("host %d has no connection after %d requests", host, polls)
				}
				greedy()
				pass(connectingPoll)
				_, err = connect(c, "modest", fmt.Sprint("host-", host))
			}
		}
		if _, most := hosts.opened(); most > maxConnections {
			t.Errorf("there were %d connections at once, want at most %d", most, maxConnections)
		}
		pass(2 * defaultConnectTimeout)
	})
}

// TestIdleConnectionMakesRoom uses more hosts of one tenant in turn than it may have connections.
func TestIdleConnectionMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hosts := newFakeHosts()
		c := newConnections(hosts.link)
		served := map[string]int{}
		for range 12 {
			for i := range 2 * maxOfTenant {
				name := fmt.Sprint("host-", i)
				host, err := connect(c, "a", name)
				synctest.Wait()
				if err == nil {
					served[name]++
					_ = host.Close()
				}
			}
			pass(connectingPoll)
		}
		if len(served) != 2*maxOfTenant {
			t.Errorf("%d of %d hosts were served", len(served), 2*maxOfTenant)
		}
		if open, _ := hosts.opened(); open > maxOfTenant {
			t.Errorf("the tenant has %d connections, want at most %d", open, maxOfTenant)
		}
	})
}

// TestIdleConnectionsOfOthersStay has a tenant that is at its own bound ask for more, and one for which
// the process has no place left.
func TestIdleConnectionsOfOthersStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hosts := newFakeHosts()
		c := newConnections(hosts.link)
		use(c, "modest", "host")
		for i := range maxOfTenant + 10 {
			_, _ = connect(c, "greedy", fmt.Sprint("dead-", i))
			synctest.Wait()
		}
		if _, err := connect(c, "modest", "host"); err != nil {
			t.Errorf("a tenant at its own bound ended another one's connection: %v", err)
		}
		for i := range maxConnections {
			use(c, fmt.Sprint("tenant-", i%8), fmt.Sprint("host-", i))
		}
		for range 2 {
			use(c, "late", "host")
		}
		if _, err := connect(c, "late", "host"); err != nil {
			t.Errorf("a tenant without a connection gets none: %v", err)
		}
	})
}

// TestClosingConnectionsHoldTheirPlaces closes connections slowly: they count until they are closed, for
// their tenant and for all, and end no connection of another tenant.
func TestClosingConnectionsHoldTheirPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hosts := newFakeHosts()
		c := newConnections(hosts.link)
		for i := range maxOfTenant {
			use(c, "modest", fmt.Sprint("host-", i))
		}
		hosts.closing = make(chan struct{})
		for i := range 4 * maxOfTenant {
			use(c, "greedy", fmt.Sprint("host-", i))
		}
		if open, most := hosts.opened(); open != 2*maxOfTenant || most != open {
			t.Errorf("%d connections are open, and were %d, want %d", open, most, 2*maxOfTenant)
		}
		close(hosts.closing)
		for i := range maxOfTenant {
			if host, err := connect(c, "modest", fmt.Sprint("host-", i)); err != nil {
				t.Fatalf("another tenant's connection has ended: %v", err)
			} else {
				_ = host.Close()
			}
		}
	})
}

// TestOtherOptionsAreTriedAtOnce has a person correct a login while its host is left alone.
func TestOtherOptionsAreTriedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hosts := newFakeHosts()
		hosts.set(hosts.silent, "host")
		c := newConnections(hosts.link)
		_, _ = connect(c, "a", "host")
		pass(defaultConnectTimeout)
		other := Options{Login: Login{Address: "host", KnownHosts: []byte("other keys")}}
		for range 100 {
			_, _ = c.Connect("a", "host", other)
			pass(defaultConnectTimeout)
			other.KnownHosts = append(other.KnownHosts, 'x')
		}
		if n := hosts.count("host"); n != 101 || c.failures.Len() != 1 {
			t.Errorf("%d attempts, and %d failures are kept, want 101 and 1", n, c.failures.Len())
		}
	})
}

// TestConnectionThatEndedIsMadeAgain has a host close its connection while a request has it.
func TestConnectionThatEndedIsMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hosts := newFakeHosts()
		c := newConnections(hosts.link)
		_, _ = connect(c, "a", "host")
		synctest.Wait()
		host, err := connect(c, "a", "host")
		if err != nil {
			t.Fatal(err)
		}
		hosts.mu.Lock()
		for _, k := range c.links {
			made, ok := k.link.(*fakeLink)
			if !ok {
				t.Fatalf("the connection is a %T", k.link)
			}
			hosts.gone[made] = true
		}
		hosts.mu.Unlock()
		_, err = connect(c, "a", "host")
		wantReason(t, err, port.HostConnecting)
		synctest.Wait()
		if _, err = connect(c, "a", "host"); err != nil {
			t.Errorf("the host is not connected to again: %v", err)
		}
		_ = host.Close()
		synctest.Wait()
		if open, _ := hosts.opened(); open != 1 {
			t.Errorf("%d connections are open, want 1", open)
		}
	})
}
