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

// TestInFlightClock: a clock that jumps, forward or back, holds no slot, keeps nobody waiting longer
// than LongestQueue, and leaves nothing in memory.
func TestInFlightClock(t *testing.T) {
	t.Parallel()
	nobody := func() (Seen[string], error) { return Seen[string]{}, nil }
	for _, jump := range []time.Duration{-12 * time.Hour, -4 * time.Minute, 0, 12 * time.Hour} {
		s, now := NewInFlight[string](), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		begin := func(scope, key, id string, begins bool) (others int) {
			t.Helper()
			err := s.Begin(scope, key, id, now, nobody, func(n int) (bool, error) {
				others = n
				return begins, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return others
		}
		begin("idle", "elsewhere", "0", true)
		begin("policy", "deleted", "1", true)
		s.End("policy", "ended", "2", now)
		for _, key := range []string{"a", "b", "gone"} {
			s.Queue("policy", key, "request", now, 1)
		}
		now = now.Add(jump)
		for i, key := range []string{"a", "b", "c"} {
			after := s.Queue("policy", key, "request", now, 1)
			most := time.Duration(i+4) * PollQueue
			if jump < 0 {
				most = min(most-jump, LongestQueue)
			}
			if jump <= -LongestQueue {
				most = time.Duration(i+2) * PollQueue
			}
			if after < NextStep || after > most {
				t.Errorf("jump %s: %s asks again after %s, at most %s is right", jump, key, after, most)
			}
		}
		begin("policy", "a", "3", false)
		now = now.Add(staleAfter + time.Second)
		if n := begin("policy", "a", "3", false); n != 0 {
			t.Errorf("jump %s: %d Machines are in flight, and the only one was deleted", jump, n)
		}
		now = now.Add(LongestQueue + staleAfter + time.Second)
		s.Queue("policy", "a", "request", now, 1)
		if s.IsQueued("policy", "gone", "request", now) {
			t.Errorf("jump %s: a Machine that does not come again has a place", jump)
		}
		c := s.scopes["policy"]
		if _, kept := s.scopes["idle"]; kept || len(c.begun) > 0 || len(c.ended) > 0 {
			t.Errorf("jump %s: scopes %v, begun %v, ended %v are kept", jump, s.scopes, c.begun, c.ended)
		}
	}
}
