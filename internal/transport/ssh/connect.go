package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windlass-dev/windlass/internal/port"
)

// connection is a login on the host, and on the bastion before it.
type connection struct {
	client *ssh.Client
	// through are what carries it: the bastion's login. They are closed with it.
	through []*ssh.Client

	mu     sync.Mutex
	why    error
	closed chan struct{}
}

// close ends the connection; why is what the scripts that run on it are told.
func (c *connection) close(why error) {
	c.mu.Lock()
	if c.why == nil {
		c.why = why
		close(c.closed)
	}
	c.mu.Unlock()
	// The bastion first: closing what it carries would wait for it.
	for _, client := range c.through {
		_ = client.Close()
	}
	_ = c.client.Close()
}

// ended gives what ended the connection; nil while it is there.
func (c *connection) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// dial connects and logs in. Errors are *port.HostError.
func (h *host) dial(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.connectTimeout, fmt.Errorf("no answer within %s", h.connectTimeout))
	defer cancel()
	made := &connection{closed: make(chan struct{})}
	dial := (&net.Dialer{}).DialContext
	if h.bastion != nil {
		bastion, err := login(ctx, dial, h.bastion, nil)
		if err != nil {
			return nil, err
		}
		made.through = []*ssh.Client{bastion}
		dial = bastion.DialContext
	}
	client, err := login(ctx, dial, h.target, h.bastion)
	if err != nil {
		for _, bastion := range made.through {
			_ = bastion.Close()
		}
		return nil, err
	}
	made.client = client
	go made.watch(h.keepAlive)
	return made, nil
}

// watch asks the host whether it is there, until the connection ends.
func (c *connection) watch(every time.Duration) {
	gone := make(chan struct{})
	go func() {
		err := c.client.Wait()
		if err == nil {
			err = errors.New("the host closed the connection")
		}
		c.close(err)
		close(gone)
	}()
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-gone:
			return
		case <-ticks.C:
		}
		answered := make(chan struct{})
		go func() {
			// Whatever it answers will do; an error is seen by Wait.
			_, _, _ = c.client.SendRequest("keepalive@openssh.com", true, nil)
			close(answered)
		}()
		silence := time.NewTimer(missedKeepAlives * every)
		select {
		case <-answered:
		case <-silence.C:
			c.close(fmt.Errorf("the host did not answer for %s", missedKeepAlives*every))
		}
		silence.Stop()
	}
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// login connects to one machine and logs in; bastion is what the connection goes through.
func login(ctx context.Context, dial dialFunc, to, bastion *target) (*ssh.Client, error) {
	conn, err := dial(ctx, "tcp", to.address)
	if err != nil {
		return nil, connectError(ctx, to, bastion, err)
	}
	// Not all connections know deadlines. To close a forwarded one does not end a read from it, so the read is not waited for.
	type answer struct {
		client *ssh.Client
		err    error
	}
	answers := make(chan answer, 1)
	var shown shownKey
	go func() {
		client, err := handshake(conn, to, &shown)
		answers <- answer{client, err}
	}()
	select {
	case got := <-answers:
		if got.err != nil {
			return nil, loginError(to, &shown, got.err)
		}
		return got.client, nil
	case <-ctx.Done():
		go func() {
			_ = conn.Close()
			if late := <-answers; late.client != nil {
				_ = late.client.Close()
			}
		}()
		return nil, &port.HostError{Reason: port.HostUnreachable, Host: to.address, Err: fmt.Errorf("logging in: %w", context.Cause(ctx))}
	}
}

// shownKey is what became of the host's key in a handshake. It is read after the handshake's end.
type shownKey struct {
	seen    bool
	problem error
}

func handshake(conn net.Conn, to *target, shown *shownKey) (*ssh.Client, error) {
	c, channels, requests, err := ssh.NewClientConn(conn, to.address, &ssh.ClientConfig{
		User: to.user,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(to.signers...)},
		HostKeyCallback: func(hostname string, remote net.Addr, key ssh.PublicKey) error {
			shown.seen, shown.problem = true, to.trust.check(hostname, remote, key)
			return shown.problem
		},
		HostKeyAlgorithms: algorithms(to.trust.pinned),
	})
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}

func connectError(ctx context.Context, to, bastion *target, err error) error {
	failed := &port.HostError{Reason: port.HostUnreachable, Host: to.address}
	var refused *ssh.OpenChannelError
	switch {
	case ctx.Err() != nil:
		failed.Err = fmt.Errorf("connecting: %w", context.Cause(ctx))
	case errors.As(err, &refused) && refused.Reason == ssh.Prohibited:
		failed.Reason, failed.Host = port.HostLoginRefused, bastion.address
		failed.Err = fmt.Errorf("the bastion does not forward connections to %s: %w. Fix: allow it there (AllowTcpForwarding, PermitOpen)", to.address, err)
	case bastion != nil:
		failed.Err = fmt.Errorf("connecting through the bastion %s: %w", bastion.address, err)
	default:
		failed.Err = fmt.Errorf("connecting: %w", err)
	}
	return failed
}

func loginError(to *target, shown *shownKey, err error) error {
	failed := &port.HostError{Reason: port.HostUnreachable, Host: to.address, Err: fmt.Errorf("logging in: %w", err)}
	var negotiation *ssh.AlgorithmNegotiationError
	switch {
	case shown.problem != nil:
		failed.Reason, failed.Err = port.HostNotTrusted, shown.problem
	case errors.As(err, &negotiation) && strings.Contains(negotiation.What, "host key"):
		failed.Reason = port.HostNotTrusted
		failed.Err = fmt.Errorf("the host has keys of the types %s only, but known hosts pin %s; if the host was reinstalled, compare its keys with its console and replace the line",
			strings.Join(negotiation.RequestedAlgorithms, ", "), to.trust.fingerprints())
	case errors.As(err, &negotiation):
		failed.Reason = port.HostSetup
	case shown.seen && isRefusal(err):
		failed.Reason = port.HostLoginRefused
		failed.Err = fmt.Errorf("the host does not accept user %s with %d private key(s): %w. Fix: add a key to the user's authorized_keys", to.user, len(to.signers), err)
	}
	return failed
}

// isRefusal tells a host that refuses from one that goes away. The library has no types for it; a test with a real sshd notices other words.
func isRefusal(err error) bool {
	return strings.Contains(err.Error(), "unable to authenticate") || strings.Contains(err.Error(), "ssh: disconnect, reason")
}
