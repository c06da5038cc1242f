package journal

import (
	"context"
	"slices"
	"sync"
)

// Live is a journal in memory that can be read while it is written. The zero value is empty.
type Live struct {
	mu      sync.Mutex
	content []byte
	// changed is closed at the next write. It is nil if nobody waits.
	changed chan struct{}
}

// Write implements io.Writer.
func (l *Live) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.content = append(l.content, line...)
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	return len(line), nil
}

// Attempts returns all attempts until now.
func (l *Live) Attempts() ([]Attempt, error) {
	content, _ := l.watch()
	return Parse(content)
}

// Await waits until the attempts are as a function requires. It reports false if ctx ends before.
func (l *Live) Await(ctx context.Context, enough func([]Attempt) bool) bool {
	for {
		content, changed := l.watch()
		if attempts, err := Parse(content); err == nil && enough(attempts) {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// watch returns the content, and a channel that is closed when it changes.
func (l *Live) watch() (content []byte, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return slices.Clip(l.content), l.changed
}
