//go:build linux

package hosts

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Disconnect takes the network away. Open connections hear nothing more; new ones are refused with "no route to host".
func (h *Host) Disconnect() {
	h.tb.Helper()
	h.setLink("down")
}

// Connect undoes Disconnect. Connections that are still open go on.
func (h *Host) Connect() {
	h.tb.Helper()
	h.setLink("up")
}

func (h *Host) setLink(direction string) {
	h.tb.Helper()
	args := []string{"ip", "link", "set", h.machine.ready.Link, direction}
	if bastion := h.options.Behind; bastion != nil {
		args = append([]string{"nsenter", "-t", fmt.Sprint(bastion.PID()), "-n"}, args...)
	}
	if output, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		h.tb.Fatalf("host %s: %v: %s", h.options.Name, err, output)
	}
}

// DropConnectionsEvery returns an address on 127.0.0.1 that leads to the host's sshd until the test ends. The first
// connection lasts at most d, and each later one a quarter longer than the one before: then both ends are reset.
// A slow machine therefore sees more resets, and still ends. KnownHosts has the address.
func (h *Host) DropConnectionsEvery(d time.Duration) string {
	h.tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	h.check(err)
	relay := newForward(listener, net.JoinHostPort(h.Address(), "22"), d)
	h.tb.Cleanup(relay.close)
	address := listener.Addr().String()
	h.relays = append(h.relays, address)
	return address
}

// Forward makes what listens on 127.0.0.1:port of the machine reachable at the same address inside the host, until Unforward. It
// is there again after the next boot.
func (h *Host) Forward(port int) {
	h.tb.Helper()
	h.forwards[port] = nil
	if h.PID() != 0 {
		h.listen(port)
	}
}

// Unforward undoes Forward: open connections are reset, new ones are refused.
func (h *Host) Unforward(port int) {
	h.stopListening(port)
	delete(h.forwards, port)
}

// Listen listens on a port of the host's address, in this process. The listener is of no more use after a power cut.
func (h *Host) Listen(port int) (net.Listener, error) {
	if h.PID() == 0 {
		return nil, errOff
	}
	return listenIn(h.PID(), fmt.Sprintf("%s:%d", h.Address(), port))
}

func (h *Host) listen(port int) {
	h.tb.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", port)
	listener, err := listenIn(h.PID(), address)
	h.check(err)
	h.forwards[port] = newForward(listener, address, 0)
}

func (h *Host) stopListening(port int) {
	if f := h.forwards[port]; f != nil {
		f.close()
		h.forwards[port] = nil
	}
}

// listenIn listens in the network namespace of a process. A socket stays in the namespace in which it was made, so the relay
// needs no process inside.
func listenIn(pid int, address string) (net.Listener, error) {
	type result struct {
		listener net.Listener
		err      error
	}
	done := make(chan result, 1)
	go func() {
		// The thread is not unlocked: it ends with the goroutine, and nobody else gets one that is in another namespace.
		runtime.LockOSThread()
		listener, err := enterAndListen(pid, address)
		done <- result{listener, err}
	}()
	r := <-done
	return r.listener, r.err
}

func enterAndListen(pid int, address string) (net.Listener, error) {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = namespace.Close() }()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("entering the host's network: %w", err)
	}
	return net.Listen("tcp", address)
}

// forward relays the connections of a listener to an address.
type forward struct {
	listener net.Listener
	target   string
	done     sync.WaitGroup

	mu       sync.Mutex
	lifetime time.Duration // of the next connection; 0: no limit
	closed   bool
	open     map[net.Conn]struct{}
}

func newForward(listener net.Listener, target string, lifetime time.Duration) *forward {
	f := &forward{listener: listener, target: target, lifetime: lifetime, open: map[net.Conn]struct{}{}}
	f.done.Go(f.serve)
	return f
}

func (f *forward) serve() {
	for {
		connection, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.done.Go(func() { f.relay(connection) })
	}
}

func (f *forward) relay(near net.Conn) {
	defer f.forget(near)
	if !f.keep(near) {
		return
	}
	far, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", f.target)
	if err != nil {
		return
	}
	defer f.forget(far)
	if !f.keep(far) {
		return
	}
	if lifetime := f.nextLifetime(); lifetime > 0 {
		timer := time.AfterFunc(lifetime, func() { reset(near); reset(far) })
		defer timer.Stop()
	}
	var both sync.WaitGroup
	both.Go(func() { pipe(far, near) })
	both.Go(func() { pipe(near, far) })
	both.Wait()
}

// nextLifetime returns how long a new connection may last, and lets the one after it last longer.
// 0 means that connections have no limit.
func (f *forward) nextLifetime() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	lifetime := f.lifetime
	f.lifetime += f.lifetime / 4
	return lifetime
}

// pipe copies until the source ends, and says so to the destination, whose answers may still come.
func pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if tcp, ok := to.(*net.TCPConn); ok && err == nil {
		_ = tcp.CloseWrite()
		return
	}
	_ = to.Close()
	_ = from.Close()
}

// keep remembers the connection, for close.
func (f *forward) keep(connection net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[connection] = struct{}{}
	return !f.closed
}

func (f *forward) forget(connection net.Conn) {
	f.mu.Lock()
	delete(f.open, connection)
	f.mu.Unlock()
	_ = connection.Close()
}

// reset ends a connection without a goodbye.
func reset(connection net.Conn) {
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

func (f *forward) close() {
	_ = f.listener.Close()
	f.mu.Lock()
	f.closed = true
	open := make([]net.Conn, 0, len(f.open))
	for connection := range f.open {
		open = append(open, connection)
	}
	f.mu.Unlock()
	for _, connection := range open {
		reset(connection)
	}
	f.done.Wait()
}
