package record_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestProgressAt: no time is after now, and the next attempt at most one backoff away.
func TestProgressAt(t *testing.T) {
	t.Parallel()
	times := func(all, notBefore time.Duration) *record.Progress {
		at := noon.Add(all)
		return &record.Progress{
			Attempt: 2, Began: at, StepBegan: at, Started: at, Retried: new(at), Verified: new(at),
			NotBefore: new(noon.Add(notBefore)),
		}
	}
	past, required := times(-time.Hour, 20*time.Second), &record.Progress{Began: noon}
	for name, tt := range map[string]struct{ recorded, want *record.Progress }{
		"none":                  {nil, nil},
		"times of the past":     {past, past},
		"only what is required": {required, required},
		"times of the future":   {times(time.Hour, 2*time.Hour), times(0, 20*time.Second)},
	} {
		got := tt.recorded.At(noon)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if tt.recorded == tt.want && got != tt.want {
			t.Errorf("%s: it is copied, and nothing changes", name)
		}
	}
}

// TestBackoff: each failed attempt doubles the wait, up to five minutes.
func TestBackoff(t *testing.T) {
	t.Parallel()
	got := map[int]time.Duration{}
	for _, attempt := range []int{0, 1, 2, 3, 4, 5, 6, math.MaxInt} {
		got[attempt] = record.Backoff(attempt)
	}
	want := map[int]time.Duration{
		0: 10 * time.Second, 1: 10 * time.Second, 2: 20 * time.Second, 3: 40 * time.Second,
		4: 80 * time.Second, 5: 160 * time.Second, 6: 5 * time.Minute, math.MaxInt: 5 * time.Minute,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("by attempt (-want +got):\n%s", diff)
	}
}

// TestGoal: an update ends with a kubelet of its goal, and no waiting helps beyond a range. No version
// is in none.
func TestGoal(t *testing.T) {
	t.Parallel()
	within := func(oldest, newest uint32) record.Progress {
		return record.Progress{Within: &record.Within{
			Oldest: version.Minor{Major: 1, Minor: oldest},
			Newest: version.Minor{Major: 1, Minor: newest},
		}}
	}
	for goal, tt := range map[string]struct {
		progress record.Progress
		want     map[string]string
	}{
		"v1.32.3": {record.Progress{To: version.MustParse("v1.32.3")}, map[string]string{
			"": "", "v1.32.2": "", "v1.32.3": "reached", "v1.33.0": "",
		}},
		"a release of v1.32": {within(32, 32), map[string]string{
			"": "", "v1.31.9": "", "v1.32.0": "reached", "v1.32.9": "reached", "v1.33.0": "beyond",
		}},
		"a release from v1.31 to v1.32": {within(31, 32), map[string]string{
			"": "", "v1.30.9": "", "v1.31.0": "reached", "v1.32.9": "reached", "v1.33.0": "beyond",
		}},
	} {
		got := map[string]string{}
		for text := range tt.want {
			kubelet, _ := version.Parse(text)
			if got[text] = ""; tt.progress.Reached(kubelet) {
				got[text] += "reached"
			}
			if tt.progress.Beyond(kubelet) {
				got[text] += "beyond"
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || tt.progress.Goal() != goal {
			t.Errorf("%s, called %s (-want +got):\n%s", goal, tt.progress.Goal(), diff)
		}
	}
}

// TestMustAsk: an updater that asks is asked about each operation until it can begin it.
func TestMustAsk(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		asks     bool
		canBegin string
		want     bool
	}{
		"does not ask":                {},
		"not answered":                {asks: true, want: true},
		"answered for an earlier one": {asks: true, canBegin: "o1", want: true},
		"answered":                    {asks: true, canBegin: "o2"},
	} {
		steps := []record.Step{{Asks: tt.asks}}
		p := record.Progress{Steps: steps, Operation: "o2", CanBegin: tt.canBegin}
		if got := p.MustAsk(); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestIsUnknown: a phase that this release does not know is that of a newer one; none is not.
func TestIsUnknown(t *testing.T) {
	t.Parallel()
	for phase, want := range map[string]bool{"": false, string(record.Soaking): false, "Dreaming": true} {
		if got := (&record.Progress{Phase: record.Phase(phase)}).IsUnknown(); got != want {
			t.Errorf("%q: %t", phase, got)
		}
	}
}
