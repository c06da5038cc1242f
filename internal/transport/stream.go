package transport

import (
	"bytes"
	"strconv"
	"strings"
	"sync"

	"github.com/windlass-dev/windlass/internal/port"
)

// maxPreamble bounds what is kept, in bytes, of what was printed before root was there.
const maxPreamble = 4 << 10

// stream takes stdout or stderr apart: what login shells and sudo print, the mark of root, what the script prints, the mark of its end.
// Whatever comes after is from processes that the script left behind, and dropped.
type stream struct {
	begin, end []byte
	keep       func([]byte)
	ended      chan struct{}

	mu      sync.Mutex
	held    []byte
	begun   bool
	hasCode bool
	code    int
}

func newStream(mark string, keep func([]byte)) *stream {
	return &stream{begin: []byte(mark + "-root\n"), end: []byte(mark + "-exit-"), keep: keep, ended: make(chan struct{})}
}

// Write never fails: a script is not ended because it prints too much.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasCode {
		return len(p), nil
	}
	s.held = append(s.held, p...)
	if !s.begun && !s.findBegin() {
		return len(p), nil
	}
	s.findEnd()
	return len(p), nil
}

func (s *stream) findBegin() bool {
	i := bytes.Index(s.held, s.begin)
	if i < 0 {
		if drop := len(s.held) - maxPreamble; drop > 0 {
			s.held = append([]byte(nil), s.held[drop:]...)
		}
		return false
	}
	s.begun = true
	s.held = append([]byte(nil), s.held[i+len(s.begin):]...)
	return true
}

func (s *stream) findEnd() {
	i := bytes.Index(s.held, s.end)
	if i < 0 {
		// The mark may have come in part.
		s.pass(len(s.held) - len(s.end) + 1)
		return
	}
	s.pass(i)
	digits := s.held[len(s.end):]
	if len(digits) < exitCodeDigits {
		return
	}
	code, err := strconv.Atoi(string(digits[:exitCodeDigits]))
	if err != nil {
		code = 255 // Not written by our shell; in any case no success.
	}
	s.code, s.hasCode, s.held = code, true, nil
	close(s.ended)
}

// pass hands on the first n bytes.
func (s *stream) pass(n int) {
	if n <= 0 {
		return
	}
	s.keep(s.held[:n])
	s.held = append(s.held[:0], s.held[n:]...)
}

// exit gives the script's exit status, where it is known.
func (s *stream) exit() (code int, ended, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.code, s.hasCode, s.begun
}

// said gives what was printed before root was there, in one line.
func (s *stream) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return ""
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(s.held), "?")), " ")
}

// head keeps the first bytes.
type head struct {
	limit int
	bytes []byte
}

func (h *head) add(p []byte) {
	h.bytes = append(h.bytes, p[:min(len(p), h.limit-len(h.bytes))]...)
}

// tail keeps the last bytes of stderr.
type tail struct{ bytes []byte }

func (t *tail) add(p []byte) {
	t.bytes = append(t.bytes, p...)
	if drop := len(t.bytes) - port.StderrLimit; drop > 0 {
		t.bytes = append([]byte(nil), t.bytes[drop:]...)
	}
}
