package inplace

import (
	"fmt"
	"testing"
	"time"
)

// TestScopesAreForgotten holds that the memory does not grow with every policy that ever was, and that a scope in use stays.
func TestScopesAreForgotten(t *testing.T) {
	t.Parallel()
	s, now := NewInFlight[int](), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	nobody := func() (Seen[int], error) { return Seen[int]{}, nil }
	for i := range 100 {
		now = now.Add(time.Minute)
		err := s.Begin(fmt.Sprintf("policy-%d", i), 1, "id", now, nobody, func(int) (bool, error) {
			// Others come and go while this one begins.
			for j := range 3 {
				s.End(fmt.Sprintf("other-%d-%d", i, j), 1, "id", now)
			}
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// Notes last five minutes, and are looked through as often.
	if n := len(s.scopes); n > 4*11 {
		t.Errorf("%d scopes are remembered", n)
	}
	err := s.Begin("policy-99", 2, "id", now, nobody, func(inFlight int) (bool, error) {
		if inFlight != 1 {
			t.Errorf("%d in flight, want the one that has just begun", inFlight)
		}
		return false, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
