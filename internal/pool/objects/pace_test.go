package objects_test

import (
	"math"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/pool/objects"
)

func TestPace(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := &objects.Pace{Least: time.Second, Interval: 5 * time.Second}
	for _, step := range []struct {
		after time.Duration
		wrote bool
		want  time.Duration
	}{
		{0, true, 0}, {0, false, 5 * time.Second}, {2 * time.Second, false, 3 * time.Second},
		{5 * time.Second, true, 0}, {6 * time.Second, false, 4 * time.Second},
	} {
		at := now.Add(step.after)
		if got := p.Wait("u", true, at); got != step.want {
			t.Errorf("after %s: wait %s, want %s", step.after, got, step.want)
		}
		if got, want := p.Wait("u", false, at), max(0, step.want-4*time.Second); got != want {
			t.Errorf("after %s: wait %s if somebody acts on it, want %s", step.after, got, want)
		}
		if step.wrote {
			p.Wrote("u", at)
		}
	}
	if got := p.Wait("another", true, now); got != 0 {
		t.Errorf("another object waits %s", got)
	}
	var none objects.Pace
	none.Wrote("u", now)
	if got := none.Wait("u", true, now); got != 0 || none.Join("u", now) {
		t.Errorf("without an interval: wait %s, or join", got)
	}
}

// TestPaceJoins: statuses that the next reconcile changes again join that one, for a second at most.
func TestPaceJoins(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := &objects.Pace{Least: time.Second, Interval: 5 * time.Second}
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{
		{0, true}, {500 * time.Millisecond, true}, {time.Second, false}, {time.Second, true},
	} {
		now = now.Add(step.after)
		if got := p.Join("u", now); got != step.want {
			t.Errorf("after %s: join %t, want %t", step.after, got, step.want)
		}
		if !step.want {
			p.Wrote("u", now)
		}
	}
}

func TestBetweenReconciles(t *testing.T) {
	for _, tt := range []struct {
		replicas []*int32
		want     time.Duration
	}{
		{nil, 100 * time.Millisecond},
		{[]*int32{nil, new(int32(0))}, 100 * time.Millisecond},
		{[]*int32{new(int32(100)), nil}, 110 * time.Millisecond},
		{[]*int32{new(int32(5)), new(int32(1000))}, 200 * time.Millisecond},
		{[]*int32{new(int32(math.MaxInt32))}, time.Second},
		{[]*int32{new(int32(-1))}, 100 * time.Millisecond},
	} {
		if got := objects.BetweenReconciles(tt.replicas...); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.replicas, got, tt.want)
		}
	}
}
