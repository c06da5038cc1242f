// Package settle keeps messages from changing all the time.
package settle

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// For is how long a message stays.
const For = 30 * time.Second

// Messages keeps a message of each object for a while: that of a drain changes with every pod, and each change makes for writes of several objects. It is
// safe for concurrent use.
type Messages struct {
	mu   sync.Mutex
	last map[types.UID]message
}

type message struct {
	text string
	at   time.Time
}

// New returns Messages without any.
func New() *Messages { return &Messages{last: map[types.UID]message{}} }

// Settle returns the message to show, which is one from a moment ago if there is one. Old ones are forgotten.
func (s *Messages) Settle(uid types.UID, text string, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, m := range s.last {
		if now.Sub(m.at) >= For {
			delete(s.last, other)
		}
	}
	if m, ok := s.last[uid]; ok {
		return m.text
	}
	s.last[uid] = message{text: text, at: now}
	return text
}
