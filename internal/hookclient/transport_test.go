package hookclient

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// A peer that accepts connections and never says a word keeps none of them, though the requests that they were made for are long over.
func TestSilentPeer(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const calls = 3
	closed := make(chan error, calls)
	go func() {
		for range calls {
			conn, err := listener.Accept()
			if err != nil {
				closed <- err
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, err := io.Copy(io.Discard, conn)
				closed <- err
			}()
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	transport := newTransport(&tls.Config{MinVersion: tls.VersionTLS12}, 300*time.Millisecond)
	for range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+listener.Addr().String(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
			t.Fatalf("it answers %s", response.Status)
		}
		cancel()
	}
	deadline := time.After(30 * time.Second)
	for i := range calls {
		select {
		case err := <-closed:
			if err != nil {
				t.Fatal(err)
			}
		case <-deadline:
			t.Fatalf("%d of %d connections are still open", calls-i, calls)
		}
	}
}

// No call takes longer than connecting may, so how a call fails does not depend on which of the two is over first.
func TestConnectingIsBounded(t *testing.T) {
	t.Parallel()
	conn, err := newConnection("x", runtimev1.ClientConfig{URL: "https://x"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if transport, ok := conn.http.Transport.(*http.Transport); !ok || transport.DialContext == nil || transport.TLSHandshakeTimeout != maxTimeout {
		t.Errorf("the transport is %+v", conn.http.Transport)
	}
}
