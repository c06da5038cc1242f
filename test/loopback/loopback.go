package loopback

import (
	"net"
	"testing"
	"time"
)

// FreePort returns a port of loopback that nobody listens on.
func FreePort(t *testing.T) int {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("the address is a %T", listener.Addr())
	}
	return address.Port
}

// Eventually waits for something that happens soon by itself and that nobody is told about.
func Eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(30 * time.Second)
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("it has not happened for 30 s: %s", what)
		}
	}
}
