package ssh

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/transport"
)

// maxSessions is how many scripts run at once on one connection; sshd allows ten unless it is told otherwise.
const maxSessions = 4

// host is a port.Host over SSH. It connects when the first script comes. It logs in only once: what a
// script has found out about the host counts for that connection, and another one may lead to
// another host.
type host struct {
	target, bastion           *target
	connectTimeout, keepAlive time.Duration

	// slots holds one value for each script that runs; dialing holds one while a connection is made or looked at.
	slots, dialing chan struct{}

	mu      sync.Mutex
	current *connection
	closed  bool
}

// New checks the options; it does not connect. Its errors, and those of Exec, are *port.HostError.
//
// A script whose context ends, or whose connection is lost, gets the end of its stdin, and may run on. After a lost connection, Exec
// returns HostLost until the end: the caller makes another Host.
func New(o Options) (port.Host, error) {
	h, err := newHost(o)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func newHost(o Options) (*host, error) {
	target, err := parseLogin(o.Login)
	if err != nil {
		return nil, err
	}
	h := &host{
		target: target, connectTimeout: orDefault(o.ConnectTimeout, defaultConnectTimeout), keepAlive: orDefault(o.KeepAlive, defaultKeepAlive),
		slots: make(chan struct{}, maxSessions), dialing: make(chan struct{}, 1),
	}
	if o.Bastion != nil {
		if h.bastion, err = parseLogin(*o.Bastion); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h *host) fail(reason port.HostReason, err error) error {
	return &port.HostError{Reason: reason, Host: h.target.address, Err: err}
}

// Exec runs a script.
func (h *host) Exec(ctx context.Context, c port.HostCommand) (port.HostResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run, err := transport.NewRun(h.target.address, rand.Text(), c, func() { cancel(errors.New("stdin cannot be read")) })
	if err != nil {
		return port.HostResult{}, err
	}
	if ctx.Err() != nil {
		return port.HostResult{}, h.fail(port.HostUnreachable, context.Cause(ctx))
	}
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return port.HostResult{}, h.fail(port.HostUnreachable, fmt.Errorf("waiting for one of %d sessions: %w", maxSessions, context.Cause(ctx)))
	}
	ended := make(chan outcome, 1)
	go func() {
		defer func() { <-h.slots }()
		ended <- h.session(ctx, run)
	}()
	select {
	case got := <-ended:
		return h.result(ctx, run, got)
	case <-ctx.Done():
		return h.result(ctx, run, outcome{lost: context.Cause(ctx)})
	}
}

// outcome is how a session ended: refused says why there was none; exit is how the command ended, where the host told; lost is why it did not.
type outcome struct {
	refused error
	exit    *int
	lost    error
}

// session runs a script to its end. It may take longer than ctx, for as long as it takes to notice that the host is gone.
func (h *host) session(ctx context.Context, run *transport.Run) outcome {
	c, session, err := h.open(ctx)
	if err != nil {
		return outcome{refused: err}
	}
	defer func() { _ = session.Close() }()
	defer context.AfterFunc(ctx, func() { _ = session.Close() })()
	session.Stdout, session.Stderr = run.Stdout(), run.Stderr()
	stdin, err := session.StdinPipe()
	if err != nil {
		return outcome{lost: err}
	}
	err = session.Start(run.LoginCommand())
	switch {
	case err != nil && (errors.Is(err, io.EOF) || c.ended() != nil):
		return outcome{lost: c.reason(err)}
	case err != nil:
		return outcome{refused: h.fail(port.HostLoginRefused, fmt.Errorf("the host runs no commands for user %s", h.target.user))}
	}
	go func() {
		// A script that does not read it all is no failure; a reader that fails ends ctx.
		if _, err := io.Copy(stdin, run.Input()); err == nil {
			_ = stdin.Close()
		}
	}()
	waited := make(chan struct{})
	var status error
	go func() {
		status = session.Wait()
		close(waited)
	}()
	if run.WaitEnd(waited) {
		return outcome{}
	}
	<-waited
	var exit *ssh.ExitError
	switch {
	case status == nil:
		return outcome{exit: new(0)}
	case errors.As(status, &exit):
		return outcome{exit: new(exit.ExitStatus())}
	}
	return outcome{lost: c.reason(status)}
}

// reason prefers what is known of the connection's end to what a session noticed of it.
func (c *connection) reason(noticed error) error {
	if why := c.ended(); why != nil {
		return why
	}
	return noticed
}

func (h *host) result(ctx context.Context, run *transport.Run, got outcome) (port.HostResult, error) {
	if got.refused != nil {
		return port.HostResult{}, got.refused
	}
	result, known, err := run.Result()
	switch {
	case err != nil:
		return port.HostResult{}, h.fail(port.HostLost, err)
	case known:
		return result, nil
	case got.exit != nil && !run.Started():
		reason, err := run.NotStarted(*got.exit)
		if reason == port.HostNotRoot {
			err = fmt.Errorf("user %s does not become root: %w; let it use sudo for all commands without a password, or log in as root", h.target.user, err)
		}
		return port.HostResult{}, h.fail(reason, err)
	case got.exit != nil:
		return port.HostResult{}, h.fail(port.HostLost, fmt.Errorf("the shell that ran the script ended with status %d, before the script was seen to end", *got.exit))
	case ctx.Err() != nil && !run.Sent():
		return port.HostResult{}, h.fail(port.HostUnreachable, fmt.Errorf("connecting: %w", context.Cause(ctx)))
	case ctx.Err() != nil:
		return port.HostResult{}, h.fail(port.HostLost, context.Cause(ctx))
	}
	return port.HostResult{}, h.fail(port.HostLost, fmt.Errorf("the connection ended before the script was seen to end: %w", got.lost))
}

// open opens a session on the connection. One whose session does not open is lost.
func (h *host) open(ctx context.Context) (*connection, *ssh.Session, error) {
	c, err := h.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	session, err := newSession(ctx, c, h.connectTimeout)
	var refused *ssh.OpenChannelError
	switch {
	case err == nil:
		return c, session, nil
	case errors.As(err, &refused):
		return nil, nil, h.fail(port.HostUnreachable, fmt.Errorf("the host opens no session: %w", err))
	case ctx.Err() != nil:
		return nil, nil, h.fail(port.HostUnreachable, fmt.Errorf("opening a session: %w", context.Cause(ctx)))
	}
	c.close(err)
	return nil, nil, h.lost(c.reason(err))
}

// lost is the error for a connection that ended before a script was sent on it.
func (h *host) lost(why error) error {
	return h.fail(port.HostLost, fmt.Errorf("the connection ended, and the script was not sent: %w", why))
}

// newSession gives up when ctx ends, or after a while; what opens late is closed.
func newSession(ctx context.Context, c *connection, timeout time.Duration) (*ssh.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	type answer struct {
		session *ssh.Session
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		session, err := c.client.NewSession()
		answers <- answer{session, err}
	}()
	select {
	case got := <-answers:
		return got.session, got.err
	case <-ctx.Done():
		go func() {
			if late := <-answers; late.session != nil {
				_ = late.session.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// connect returns the connection. The first caller makes it; the others wait for it. One that has
// ended is an error.
func (h *host) connect(ctx context.Context) (*connection, error) {
	select {
	case h.dialing <- struct{}{}:
		defer func() { <-h.dialing }()
	case <-ctx.Done():
		return nil, h.fail(port.HostUnreachable, fmt.Errorf("waiting for the connection: %w", context.Cause(ctx)))
	}
	current, err := h.usable()
	if current != nil || err != nil {
		return current, err
	}
	made, err := h.dial(ctx)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		made.close(errClosed)
		return nil, h.fail(port.HostSetup, errClosed)
	}
	h.current = made
	return made, nil
}

// reach makes the connection, if there is none yet.
func (h *host) reach(ctx context.Context) error {
	_, err := h.connect(ctx)
	return err
}

// isGone reports whether the connection was made and has ended.
func (h *host) isGone() bool {
	_, err := h.usable()
	return err != nil
}

var errClosed = errors.New("the connection to the host was closed by its user")

// usable returns the connection; nil if none was made yet.
func (h *host) usable() (*connection, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, h.fail(port.HostSetup, errClosed)
	}
	if h.current == nil {
		return nil, nil
	}
	if why := h.current.ended(); why != nil {
		return nil, h.lost(why)
	}
	return h.current, nil
}

// Close ends the connection, and with it the scripts that are waited for; they get a HostLost.
func (h *host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.current != nil {
		h.current.close(errClosed)
	}
	return nil
}
