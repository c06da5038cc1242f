package record_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/record"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestPast(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		recorded, want time.Time
		left           time.Duration
	}{
		"never":  {time.Time{}, time.Time{}, 0},
		"long":   {noon.Add(-time.Hour), noon.Add(-time.Hour), 0},
		"before": {noon.Add(-time.Second), noon.Add(-time.Second), 59 * time.Second},
		"now":    {noon, noon, time.Minute},
		"after":  {noon.Add(12 * time.Hour), noon, time.Minute},
	} {
		if got := record.Past(tt.recorded, noon); !got.Equal(tt.want) {
			t.Errorf("%s: %s counts as %s, not %s", name, tt.recorded, got, tt.want)
		}
		if got := record.Left(tt.recorded, time.Minute, noon); got != tt.left {
			t.Errorf("%s: %s is left, not %s", name, got, tt.left)
		}
	}
}

// TestClockEndsWaits: whatever was recorded, and however the clock jumps, a wait ends after its
// duration, measured from the first reading or from the last jump back.
func TestClockEndsWaits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock, now := record.NewClock(), noon
		hours := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(-12, 12).Draw(t, name)) * time.Hour
		}
		recorded := noon.Add(hours("recorded"))
		since := now
		for range rapid.IntRange(1, 20).Draw(t, "looks") {
			got := clock.Past(recorded, now)
			if got.After(now) {
				t.Fatalf("at %s, %s counts as %s", now, recorded, got)
			}
			if left := record.Left(got, time.Minute, now); left > max(time.Minute-now.Sub(since), 0) {
				t.Fatalf("%s after it was first read, %s is left of a minute", now.Sub(since), left)
			}
			if jump := hours("jump"); jump != 0 && rapid.Bool().Draw(t, "jumps") {
				if now = now.Add(jump); jump < 0 {
					since = now
				}
				continue
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "passes")) * time.Second)
		}
	})
}

// TestClockIsBounded: what tenants write does not fill the memory.
func TestClockIsBounded(t *testing.T) {
	t.Parallel()
	clock := record.NewClock()
	for i := range 20_000 {
		clock.Past(noon.Add(time.Duration(i+1)*time.Second), noon)
	}
	if n := clock.Len(); n > 4096 {
		t.Errorf("it remembers %d times", n)
	}
}
