package transport

import (
	"bytes"
	"testing"
)

// FuzzStream: what is taken from a stream does not depend on how it is cut into writes. Before the mark of the beginning only the end of what came is kept, so that
// the cuts may differ there.
func FuzzStream(f *testing.F) {
	f.Add([]byte("hello windlass-N-root\nout windlass-N-exit-007tail"), 3)
	f.Add([]byte("windlass-N-root\nwindlass-N-exit-"), 1)
	f.Add([]byte("windlass-N-root\nwindlass-N-exit-0-1"), 2)
	f.Add([]byte("windlass-N-root\nwindlass-N-root\nwindlass-N-exit-+12"), 5)
	f.Fuzz(func(t *testing.T, data []byte, chunk int) {
		kept, code, ended, begun := cutStream(data, max(1, chunk))
		want, wantCode, wantEnded, wantBegun := cutStream(data, 1)
		if begun != wantBegun && len(data) <= maxPreamble {
			t.Fatalf("in writes of %d bytes it has begun: %t; in single bytes: %t", chunk, begun, wantBegun)
		}
		if begun && wantBegun && (ended != wantEnded || code != wantCode || ended && kept != want) {
			t.Fatalf("in writes of %d bytes: %q, %d, %t; in single bytes: %q, %d, %t", chunk, kept, code, ended, want, wantCode, wantEnded)
		}
		if ended && (code < 0 || code > 999) {
			t.Fatalf("the exit status is %d", code)
		}
	})
}

func cutStream(data []byte, chunk int) (kept string, code int, ended, begun bool) {
	var buffer bytes.Buffer
	s := newStream("windlass-N", func(p []byte) { buffer.Write(p) })
	for rest := data; len(rest) > 0; {
		n := min(chunk, len(rest))
		_, _ = s.Write(rest[:n])
		rest = rest[n:]
	}
	code, ended, begun = s.exit()
	_ = s.said()
	return buffer.String(), code, ended, begun
}
