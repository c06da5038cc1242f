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
	// maxLine bounds the texts of all values of a line, in bytes.
	maxLine = 8 * maxText
	// maxTenant bounds the names of tenants that are kept, in bytes.
	maxTenant = 512
	// omittedKey is the name of the value that counts lines that were left out.
	omittedKey = "omittedBefore"
)

// Lines bounds lines by kind: in a minute, at most all of a kind, and at most each of them about one
// tenant. The next line of a kind has, as omittedBefore, how many were left out before it. The length of
// a line is bounded, too: values other than numbers and times are written as text. It is safe for
// concurrent use, and its memory is bounded.
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
	return logger.WithSink(&sink{LogSink: logger.GetSink(), lines: l, tenant: tenant, left: maxLine})
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
	// left is how many bytes of a line the values of the sink leave to those of the line.
	left int
}

// Info implements logr.LogSink.
func (s *sink) Info(level int, message string, values ...any) {
	if omitted, ok := s.lines.take(message, s.tenant); ok {
		values, _ = bound(values, s.left)
		s.LogSink.Info(level, boundText(message, maxText), withOmitted(values, omitted)...)
	}
}

// Error implements logr.LogSink.
func (s *sink) Error(err error, message string, values ...any) {
	if omitted, ok := s.lines.take(message, s.tenant); ok {
		values, _ = bound(values, s.left)
		s.LogSink.Error(boundError(err), boundText(message, maxText), withOmitted(values, omitted)...)
	}
}

func withOmitted(values []any, omitted int) []any {
	if omitted == 0 {
		return values
	}
	return append(values, omittedKey, omitted)
}

// bound returns a copy of values, with texts of at most left bytes together, and how many bytes are
// left after them. Names of values are constants, and do not count.
func bound(values []any, left int) (bounded []any, after int) {
	bounded = slices.Clone(values)
	for i, value := range bounded {
		if i%2 == 0 {
			bounded[i] = boundValue(value, maxText)
			continue
		}
		bounded[i] = boundValue(value, min(left, maxText))
		if s, ok := bounded[i].(string); ok {
			left -= len(s)
		}
	}
	return bounded, left
}

// boundValue returns a small value unchanged, and others as text: a sink writes all fields of a
// struct, and all that a method of the value returns.
func boundValue(value any, most int) any {
	switch v := value.(type) {
	case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64,
		time.Duration, time.Time:
		return v
	case string:
		return boundText(v, most)
	case types.UID:
		return boundText(string(v), most)
	}
	return boundText(fmt.Sprint(value), most)
}

// boundText returns s, or its beginning. It reads no more than that.
func boundText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return text.Bound(s[:most+1], most)
}

// boundError returns an error with the beginning of the text of err. A sink may write more of err than
// its text.
func boundError(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(boundText(err.Error(), maxText))
}

// WithValues implements logr.LogSink.
func (s *sink) WithValues(values ...any) logr.LogSink {
	values, left := bound(values, s.left)
	return &sink{LogSink: s.LogSink.WithValues(values...), lines: s.lines, tenant: s.tenant, left: left}
}

// WithName implements logr.LogSink.
func (s *sink) WithName(name string) logr.LogSink {
	return &sink{LogSink: s.LogSink.WithName(name), lines: s.lines, tenant: s.tenant, left: s.left}
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
