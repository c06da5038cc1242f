package engine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// DebounceTime is how long a message stays.
const DebounceTime = 30 * time.Second

// Debouncer keeps a message of each object for a while: that of a drain changes with every pod, and each change makes for writes of several objects. It is
// safe for concurrent use.
type Debouncer struct {
	mu   sync.Mutex
	last map[types.UID]debounced
}

type debounced struct {
	text string
	at   time.Time
}

// NewDebouncer returns Messages without any.
func NewDebouncer() *Debouncer { return &Debouncer{last: map[types.UID]debounced{}} }

// Settle returns the message to show, which is one from a moment ago if there is one. Old ones are forgotten.
func (s *Debouncer) Settle(uid types.UID, text string, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, m := range s.last {
		if now.Sub(m.at) >= DebounceTime {
			delete(s.last, other)
		}
	}
	if m, ok := s.last[uid]; ok {
		return m.text
	}
	s.last[uid] = debounced{text: text, at: now}
	return text
}
