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
	if s.IsQueued("policy", "a", "a request", now) {
		t.Error("a waits before it has asked")
	}
	for _, key := range []string{"a", "b"} {
		if after := s.Queue("policy", key, "a request", now, 1); after < time.Second || !s.IsQueued("policy", key, "a request", now) {
			t.Errorf("%s asks again after %s", key, after)
		}
	}
	if s.IsQueued("other", "a", "a request", now) {
		t.Error("a waits for another policy's slot")
	}
	if s.IsQueued("policy", "a", "another request", now) {
		t.Error("another request of a waits")
	}
	for began, key := range map[bool]string{true: "a", false: "b"} {
		if err := s.Begin("policy", key, "id", now, nobody, func(int) (bool, error) { return began, nil }); err != nil {
			t.Fatal(err)
		}
		if s.IsQueued("policy", key, "a request", now) == began {
			t.Errorf("%s began: %t, but waits: %t", key, began, !began)
		}
	}
	for _, key := range []string{"c", "d"} {
		now = now.Add(4 * time.Minute)
		s.Queue("policy", key, "a request", now, 1)
	}
	for key, queued := range map[string]bool{"b": false, "c": true, "d": true} {
		if s.IsQueued("policy", key, "a request", now) != queued {
			t.Errorf("%s waits: %t", key, !queued)
		}
	}
}

// TestQueueKeepsPlaces holds that machines that ask too soon neither delay the others nor lose their
// place, and take a new one when they were to ask.
func TestQueueKeepsPlaces(t *testing.T) {
	t.Parallel()
	s, now := NewInFlight[string](), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ask := func(key string, want time.Duration) {
		t.Helper()
		if got := s.Queue("policy", key, "", now, 1); got != want {
			t.Errorf("%s asks again after %s, want %s", key, got, want)
		}
	}
	ask("a", PollQueue)
	for range 100 {
		ask("a", PollQueue)
	}
	ask("b", 2*PollQueue)
	now = now.Add(PollQueue - time.Millisecond)
	ask("a", NextStep)
	now = now.Add(time.Millisecond)
	ask("b", PollQueue)
	ask("a", 2*PollQueue)
	ask("c", 3*PollQueue)
}
