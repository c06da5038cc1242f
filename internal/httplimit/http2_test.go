package httplimit_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/windlass-dev/windlass/internal/httplimit"
	"github.com/windlass-dev/windlass/test/loopback"
)

// TestStreams opens more requests on one connection of HTTP/2 than a server accepts at once. The
// product of connections, streams and headers must fit in the memory of the process.
func TestStreams(t *testing.T) {
	t.Parallel()
	const most, maxFrame, maxUnread = 8, 16 << 10, 64 << 10
	var handled atomic.Int32
	release := make(chan struct{})
	defer close(release)
	framer := dialHTTP2(t, func(http.ResponseWriter, *http.Request) {
		handled.Add(1)
		<-release
	})
	settings := readSettings(t, framer)
	for _, want := range []http2.Setting{
		{ID: http2.SettingMaxConcurrentStreams, Val: most}, {ID: http2.SettingMaxFrameSize, Val: maxFrame},
		{ID: http2.SettingInitialWindowSize, Val: maxUnread},
	} {
		if got := settings[want.ID]; got != want.Val {
			t.Errorf("%s is %d, want %d", want.ID, got, want.Val)
		}
	}
	if size := settings[http2.SettingMaxHeaderListSize]; size == 0 || size > 17<<10 {
		t.Errorf("headers may have %d bytes", size)
	}
	for i := range uint32(most + 1) {
		writeRequest(t, framer, 2*i+1)
	}
	if err := framer.WritePing(false, [8]byte{}); err != nil {
		t.Fatal(err)
	}
	refused := readRefusal(t, framer)
	if refused == 0 {
		t.Fatalf("%d requests at once are accepted", most+1)
	}
	loopback.Eventually(t, "the handler has the other requests", func() bool { return handled.Load() == most })
	if last := uint32(2*most + 1); refused != last {
		t.Errorf("stream %d is refused, want %d", refused, last)
	}
}

// dialHTTP2 serves a handler over TLS, and returns a connection of HTTP/2 to it.
func dialHTTP2(t *testing.T, handler http.HandlerFunc) *http2.Framer {
	t.Helper()
	authority, dir, port := loopback.NewAuthority(t, "serving"), t.TempDir(), loopback.FreePort(t)
	authority.Issue(t, "server", time.Now().Add(time.Hour)).WriteTo(t, dir)
	server := httplimit.NewTLSServer("test", webhook.Options{
		Host: "127.0.0.1", Port: port, CertDir: dir, CertName: "tls.crt", KeyName: "tls.key",
	}, httplimit.ForCalls, nil)
	server.Register("/", handler)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	loopback.Eventually(t, "the server answers", func() bool { return server.StartedChecker()(nil) == nil })
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: authority.Pool(), NextProtos: []string{"h2"}}}
	address := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String()
	connection, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = connection.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if _, err := connection.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(connection, connection)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return framer
}

func readSettings(t *testing.T, framer *http2.Framer) map[http2.SettingID]uint32 {
	t.Helper()
	frame, err := framer.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	settings := make(map[http2.SettingID]uint32)
	settings[http2.SettingMaxFrameSize] = 16 << 10 // The value without a setting.
	frames, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("the server begins with %v", frame)
	}
	if err := frames.ForeachSetting(func(s http2.Setting) error { settings[s.ID] = s.Val; return nil }); err != nil {
		t.Fatal(err)
	}
	return settings
}

// writeRequest writes GET / on a stream.
func writeRequest(t *testing.T, framer *http2.Framer, stream uint32) {
	t.Helper()
	block := &blockWriter{}
	encoder := hpack.NewEncoder(block)
	for _, field := range []hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: "x"}, {Name: ":path", Value: "/"},
	} {
		field.Sensitive = true // Each request has an encoder of its own, so nothing may be indexed.
		if err := encoder.WriteField(field); err != nil {
			t.Fatal(err)
		}
	}
	if err := framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: block.data, EndStream: true, EndHeaders: true,
	}); err != nil {
		t.Fatal(err)
	}
}

type blockWriter struct{ data []byte }

func (w *blockWriter) Write(p []byte) (int, error) {
	w.data = append(w.data, p...)
	return len(p), nil
}

// readRefusal returns the stream that the server refuses.
func readRefusal(t *testing.T, framer *http2.Framer) uint32 {
	t.Helper()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch answer := frame.(type) {
		case *http2.RSTStreamFrame:
			return answer.StreamID
		case *http2.PingFrame:
			// The server answers in order, so it has accepted all requests before the ping.
			return 0
		}
	}
}
