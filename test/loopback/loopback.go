package loopback

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

const (
	// lowestPort and highestPort bound what FreePort returns. The system gives outgoing connections
	// and listeners of port 0 higher ports, so that no other process gets a port before the test
	// listens on it. Planes of the lab take ports from 20000 on.
	lowestPort, highestPort = 11_000, 20_000
	// patience bounds waits that end with an event. A test beside others may get no processor for
	// seconds; only a test that hangs takes this long.
	patience = 2 * time.Minute
)

// given has the ports that FreePort returned in this process.
var given sync.Map

// FreePort returns a port of loopback that nobody listens on, another one each time.
func FreePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("no port of loopback is free")
	return 0
}

// Eventually waits for something that happens soon by itself and that nobody is told about.
func Eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("it has not happened for %s: %s", patience, what)
		}
	}
}
