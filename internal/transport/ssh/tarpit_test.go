package ssh_test

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/transport/ssh"
)

// tarpit accepts connections and sends bytes that never become an SSH banner. accepted gets a value for
// each connection, and ended for each whose other side has closed it.
type tarpit struct {
	address         string
	accepted, ended chan struct{}
}

func newTarpit(t *testing.T) *tarpit {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	p := &tarpit{address: listener.Addr().String(), accepted: make(chan struct{}, 1000), ended: make(chan struct{}, 1000)}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.accepted <- struct{}{}
			go p.drip(conn)
		}
	}()
	return p
}

func (p *tarpit) drip(conn net.Conn) {
	defer func() { _ = conn.Close(); p.ended <- struct{}{} }()
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for ; ; <-pace.C {
		// A deadline for each byte would never be met.
		if _, err := conn.Write([]byte("x\n")); err != nil {
			return
		}
	}
}

// await asks for a connection until there is one, or the reason is another one than that it is made.
func await(t *testing.T, c *ssh.Connections, tenant, name string, o ssh.Options) (port.Host, error) {
	t.Helper()
	for {
		host, err := c.Connect(tenant, name, o)
		if port.ReasonOfHost(err) != port.HostConnecting {
			return host, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the test ended before the connection was made")
		}
	}
}

// TestTarpitsDelayNobodyElse has as many connections to tarpits under way as a tenant may have, and
// another tenant's host asked meanwhile.
func TestTarpitsDelayNobodyElse(t *testing.T) {
	t.Parallel()
	s, pit, c := startSSHD(t), newTarpit(t), ssh.NewConnections()
	login := s.login()
	login.Address = pit.address
	const hosts = 100
	began := 0
	for i := range hosts {
		_, err := c.Connect("greedy", fmt.Sprint("dead-", i), ssh.Options{Login: login, ConnectTimeout: time.Minute})
		if port.ReasonOfHost(err) != port.HostConnecting {
			t.Fatalf("a tarpit is connected to: %v", err)
		}
	}
	for range 64 {
		<-pit.accepted
		began++
	}
	host, err := await(t, c, "modest", "m", ssh.Options{Login: s.login(), ConnectTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = host.Close() }()
	result, err := host.Exec(t.Context(), port.HostCommand{Script: "echo served"})
	if err != nil || string(result.Stdout) != "served\n" {
		t.Errorf("the other tenant's host answered %q, %v", result.Stdout, err)
	}
	if n := len(pit.ended); n != 0 {
		t.Errorf("%d of %d connections to tarpits have ended: this shows nothing", n, began)
	}
	if n := len(pit.accepted); n != 0 {
		t.Errorf("the tenant has %d connections more than its share", n)
	}
}

// TestTarpitMeetsTheWholeDeadline has a host send a byte now and then. The connection must end all the
// same, and the host must be left alone then.
func TestTarpitMeetsTheWholeDeadline(t *testing.T) {
	t.Parallel()
	pit, c := newTarpit(t), ssh.NewConnections()
	key := newKey(t, "ed25519")
	o := ssh.Options{
		Login:          ssh.Login{Address: pit.address, User: "root", PrivateKeys: [][]byte{key.pem}, KnownHosts: pin(pit.address, key)},
		ConnectTimeout: 100 * time.Millisecond,
	}
	_, err := await(t, c, "greedy", "dead", o)
	<-pit.ended
	failed, ok := errors.AsType[*port.HostError](err)
	if !ok || failed.Reason != port.HostUnreachable || failed.RetryAfter <= 0 {
		t.Errorf("the error is %v, want %s with the time of the next try", err, port.HostUnreachable)
	}
	for range 10 {
		if _, err := c.Connect("greedy", "dead", o); port.ReasonOfHost(err) != port.HostUnreachable {
			t.Errorf("the host is tried again: %v", err)
		}
	}
	if n := len(pit.accepted); n != 1 {
		t.Errorf("the tarpit was connected to %d times, want once", n)
	}
}
