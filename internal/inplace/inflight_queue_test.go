package inplace

import (
	"testing"
	"time"
)

// TestQueue holds who is known to wait for a slot: whoever found none, until it begins or does not come again.
func TestQueue(t *testing.T) {
	t.Parallel()
	s, now := NewInFlight[string](), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	nobody := func() (Seen[string], error) { return Seen[string]{}, nil }
	if s.IsQueued("policy", "a", now) {
		t.Error("a waits before it has asked")
	}
	for _, key := range []string{"a", "b"} {
		if after := s.Queue("policy", key, now, 1); after < time.Second || !s.IsQueued("policy", key, now) {
			t.Errorf("%s asks again after %s", key, after)
		}
	}
	if s.IsQueued("other", "a", now) {
		t.Error("a waits for another policy's slot")
	}
	for began, key := range map[bool]string{true: "a", false: "b"} {
		if err := s.Begin("policy", key, "id", now, nobody, func(int) (bool, error) { return began, nil }); err != nil {
			t.Fatal(err)
		}
		if s.IsQueued("policy", key, now) == began {
			t.Errorf("%s began: %t, but waits: %t", key, began, !began)
		}
	}
	for _, key := range []string{"c", "d"} {
		now = now.Add(4 * time.Minute)
		s.Queue("policy", key, now, 1)
	}
	for key, queued := range map[string]bool{"b": false, "c": true, "d": true} {
		if s.IsQueued("policy", key, now) != queued {
			t.Errorf("%s waits: %t", key, !queued)
		}
	}
}
