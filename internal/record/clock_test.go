package record_test

import (
	"fmt"
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
			got := clock.Past("ns", recorded, now)
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

// TestClockIsBounded: what one namespace writes neither fills the memory nor takes what is
// remembered for another one.
func TestClockIsBounded(t *testing.T) {
	t.Parallel()
	clock := record.NewClock()
	recorded := noon.Add(12 * time.Hour)
	clock.Past("victim", recorded, noon)
	for i := range 20_000 {
		clock.Past("flood", noon.Add(time.Duration(i+1)*time.Second), noon)
	}
	if n := clock.Len("flood"); n > 64 {
		t.Errorf("it remembers %d times", n)
	}
	if got := clock.Past("victim", recorded, noon.Add(time.Hour)); !got.Equal(noon) {
		t.Errorf("the wait of another namespace began anew at %s", got)
	}
}

// TestClockIsBoundedForAll: many namespaces together do not fill the memory either, and nothing is
// kept of a namespace that records no times any longer.
func TestClockIsBoundedForAll(t *testing.T) {
	t.Parallel()
	clock, kept := record.NewClock(), 0
	flood := func(from, namespaces, times int, now time.Time) {
		for i := range namespaces {
			for second := range times {
				clock.Past(fmt.Sprint("ns-", from+i), now.Add(time.Duration(second+1)*time.Second), now)
			}
		}
	}
	flood(0, 1000, 200, noon)
	for i := range 1000 {
		kept += clock.Len(fmt.Sprint("ns-", i))
	}
	if n := clock.Namespaces(); n != 1000 || kept > 64*1000 {
		t.Errorf("%d times of %d namespaces are kept", kept, n)
	}
	flood(1000, 4000, 1, noon)
	if n := clock.Namespaces(); n > 1024 {
		t.Errorf("times of %d namespaces are kept", n)
	}
	flood(0, 1, 2000, noon.Add(25*time.Hour))
	if n := clock.Namespaces(); n != 1 {
		t.Errorf("times of %d namespaces are kept, of which one records any", n)
	}
}

// TestClockRemembersWhatIsRead: a time that is read now and then counts as the same, however long
// it stays in the future.
func TestClockRemembersWhatIsRead(t *testing.T) {
	t.Parallel()
	clock, recorded := record.NewClock(), noon.Add(1000*time.Hour)
	for hours := 0; hours < 2000; hours += 10 {
		now := noon.Add(time.Duration(hours) * time.Hour)
		if got := clock.Past("ns", recorded, now); !got.Equal(noon) {
			t.Fatalf("after %d hours it counts as %s", hours, got)
		}
		clock.Past(fmt.Sprint("other-", hours), now.Add(time.Minute), now)
	}
}

// TestClockSharesSeconds: all times of one second share a reading, so a record that gets another
// fraction with each write begins no wait anew.
func TestClockSharesSeconds(t *testing.T) {
	t.Parallel()
	clock, recorded := record.NewClock(), noon.Add(12*time.Hour)
	for i := range 1000 {
		at := recorded.Add(time.Duration(i) * time.Millisecond)
		if got := clock.Past("ns", at, noon.Add(time.Duration(i)*time.Second)); !got.Equal(noon) {
			t.Fatalf("%s counts as %s, not as when the second was first read", at, got)
		}
	}
	if n := clock.Len("ns"); n != 1 {
		t.Errorf("one second has %d entries", n)
	}
}

// TestClockKeepsPastTimes: no time of the future, however far, changes what a past one counts as,
// and neither does another namespace.
func TestClockKeepsPastTimes(t *testing.T) {
	t.Parallel()
	past := noon.Add(-time.Hour)
	// 1<<64 nanoseconds later, UnixNano is the same.
	wrapped := past
	for range 4 {
		wrapped = wrapped.Add(1 << 62)
	}
	clock := record.NewClock()
	for _, namespace := range []string{"other", "ns"} {
		for _, t := range []time.Time{wrapped, noon.Add(time.Hour), noon.Add(500 * time.Millisecond)} {
			clock.Past(namespace, t, noon)
		}
	}
	if got := clock.Past("ns", past, noon); !got.Equal(past) {
		t.Errorf("%s counts as %s", past, got)
	}
	clock.Past("other", noon.Add(2*time.Hour), noon)
	later := noon.Add(3 * time.Hour)
	if got := clock.Past("ns", noon.Add(2*time.Hour), later); !got.Equal(noon.Add(2 * time.Hour)) {
		t.Errorf("what another namespace recorded has it count as %s", got)
	}
	// The second was of the future, but this time of it was not when the other one was read.
	early := noon.Add(100 * time.Millisecond)
	clock.Past("early", noon.Add(900*time.Millisecond), noon.Add(500*time.Millisecond))
	if got := clock.Past("early", early, later); !got.Equal(early) {
		t.Errorf("%s counts as %s, which is later", early, got)
	}
}
