package loglimit

import (
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/text"
)

const (
	// period is how long a line counts.
	period = time.Minute
	// maxKinds is how many kinds of lines have counts of their own. Others share one.
	maxKinds = 100
	// maxText bounds a text in a line, in bytes. Callers choose such texts. One about a panic has a
	// stack.
	maxText = 2 << 10
	// maxTenant bounds the names of tenants that are kept, in bytes.
	maxTenant = 512
	// omittedKey is the name of the value that counts lines that were left out.
	omittedKey = "omittedBefore"
)

// Lines bounds lines by kind: in a minute, at most all of a kind, and at most each of them about one
// tenant. The next line of a kind has, as omittedBefore, how many were left out before it. Texts in a
// line are bounded, too. It is safe for concurrent use, and its memory is bounded.
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
	tenant = tenant[:min(len(tenant), maxTenant)]
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
	k.tenants[strings.Clone(tenant)]++
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
		s.LogSink.Info(level, message, withOmitted(bound(values), omitted)...)
	}
}

// Error implements logr.LogSink.
func (s *sink) Error(err error, message string, values ...any) {
	if omitted, ok := s.lines.take(message, s.tenant); ok {
		s.LogSink.Error(boundError(err), message, withOmitted(bound(values), omitted)...)
	}
}

func withOmitted(values []any, omitted int) []any {
	if omitted == 0 {
		return values
	}
	return append(values, omittedKey, omitted)
}

// bound returns a copy of values without long texts.
func bound(values []any) []any {
	bounded := slices.Clone(values)
	for i, value := range bounded {
		switch v := value.(type) {
		case string:
			bounded[i] = boundText(v)
		case error:
			bounded[i] = boundError(v)
		case fmt.Stringer:
			if s := v.String(); len(s) > maxText {
				bounded[i] = boundText(s)
			}
		case types.UID:
			bounded[i] = boundText(string(v))
		}
	}
	return bounded
}

// boundText returns s, or its beginning. It reads no more than that.
func boundText(s string) string {
	if len(s) <= maxText {
		return s
	}
	return text.Bound(s[:maxText+1], maxText)
}

// boundError returns err, or an error with the beginning of its text.
func boundError(err error) error {
	if err == nil || len(err.Error()) <= maxText {
		return err
	}
	return errors.New(boundText(err.Error()))
}

// WithValues implements logr.LogSink.
func (s *sink) WithValues(values ...any) logr.LogSink {
	return &sink{LogSink: s.LogSink.WithValues(bound(values)...), lines: s.lines, tenant: s.tenant}
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
	w.logger.Info("A connection ended with an error", "message", strings.TrimSpace(string(line)))
	return len(line), nil
}
