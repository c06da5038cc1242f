package loglimit

import (
	"log"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/windlass-dev/windlass/internal/text"
)

const (
	// period is how long a line counts.
	period = time.Minute
	// maxKinds is how many kinds of lines have counts of their own. Others share one.
	maxKinds = 100
	// maxLine bounds a line of net/http, in bytes. One about a panic has a stack.
	maxLine = 4 << 10
	// omittedKey is the name of the value that counts lines that were left out.
	omittedKey = "omittedBefore"
)

// Lines bounds lines by kind: in a minute, at most all of a kind, and at most each of them about one
// tenant. The next line of a kind has, as omittedBefore, how many were left out before it. It is safe
// for concurrent use, and its memory is bounded.
type Lines struct {
	now       func() time.Time
	all, each int

	mu    sync.Mutex
	kinds map[string]*kind
}

// kind counts the lines of one kind in the current period.
type kind struct {
	began          time.Time
	lines, omitted int
	// tenants counts lines by tenant. Only a line that is written adds one.
	tenants map[string]int
}

// New returns Lines with these bounds. now is the clock.
func New(now func() time.Time, all, each int) *Lines {
	return &Lines{now: now, all: all, each: each, kinds: map[string]*kind{}}
}

// Limit returns a logger that writes to logger as far as the bounds allow. Its lines are of one kind
// if their messages are equal; a message must be a constant. The tenant is whom they are about.
func (l *Lines) Limit(logger logr.Logger, tenant string) logr.Logger {
	if logger.GetSink() == nil {
		return logger
	}
	return logger.WithSink(&sink{LogSink: logger.GetSink(), lines: l, tenant: tenant})
}

// take reports whether a line may be written, and how many of its kind were left out before it.
func (l *Lines) take(message, tenant string) (omitted int, ok bool) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kinds[message]
	if k == nil && len(l.kinds) >= maxKinds {
		message = ""
		k = l.kinds[message]
	}
	if k == nil {
		k = &kind{}
		l.kinds[message] = k
	}
	if passed := now.Sub(k.began); passed >= period || passed < 0 {
		k.began, k.lines, k.tenants = now, 0, map[string]int{}
	}
	if k.lines >= l.all || k.tenants[tenant] >= l.each {
		k.omitted++
		return 0, false
	}
	k.lines++
	k.tenants[tenant]++
	omitted, k.omitted = k.omitted, 0
	return omitted, true
}

// sink is a logr.LogSink that leaves lines out.
type sink struct {
	logr.LogSink

	lines  *Lines
	tenant string
}

// Info implements logr.LogSink.
func (s *sink) Info(level int, message string, values ...any) {
	if omitted, ok := s.lines.take(message, s.tenant); ok {
		s.LogSink.Info(level, message, withOmitted(values, omitted)...)
	}
}

// Error implements logr.LogSink.
func (s *sink) Error(err error, message string, values ...any) {
	if omitted, ok := s.lines.take(message, s.tenant); ok {
		s.LogSink.Error(err, message, withOmitted(values, omitted)...)
	}
}

func withOmitted(values []any, omitted int) []any {
	if omitted == 0 {
		return values
	}
	return append(values[:len(values):len(values)], omittedKey, omitted)
}

// WithValues implements logr.LogSink.
func (s *sink) WithValues(values ...any) logr.LogSink {
	return &sink{LogSink: s.LogSink.WithValues(values...), lines: s.lines, tenant: s.tenant}
}

// WithName implements logr.LogSink.
func (s *sink) WithName(name string) logr.LogSink {
	return &sink{LogSink: s.LogSink.WithName(name), lines: s.lines, tenant: s.tenant}
}

// Standard returns what a net/http server reports errors of connections to. Anybody who reaches the
// port can cause them. server names it.
func (l *Lines) Standard(logger logr.Logger, server string) *log.Logger {
	return log.New(writer{l.Limit(logger.WithValues("server", server), server)}, "", 0)
}

// writer makes lines of the log out of those of net/http.
type writer struct{ logger logr.Logger }

// Write implements io.Writer.
func (w writer) Write(line []byte) (int, error) {
	message := text.Bound(strings.TrimSpace(string(line)), maxLine)
	w.logger.Info("A connection ended with an error", "message", message)
	return len(line), nil
}
