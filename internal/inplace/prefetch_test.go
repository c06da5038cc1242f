package inplace_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/inplace"
)

// TestDecidePrefetch: who is asked about next.
func TestDecidePrefetch(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	begun := func(ago, pause time.Duration) inplace.Prefetch {
		return inplace.Prefetch{To: newer, Operation: "id", Asked: now.Add(-ago), Pause: pause}
	}
	failed := func(failures int, ago, pause time.Duration) inplace.Prefetch {
		return inplace.Prefetch{To: newer, Problem: "no", Failures: failures, Asked: now.Add(-ago), Pause: pause}
	}
	for name, test := range map[string]struct {
		machines string
		known    map[string]inplace.Prefetch
		most     int
		want     string
	}{
		"by name":                     {machines: "c a b", most: 2, want: "a b"},
		"none at once":                {machines: "a b", most: 0},
		"prepared":                    {machines: "a b", most: 2, known: map[string]inplace.Prefetch{"a": {To: newer, Prepared: true}}, want: "b"},
		"prepared for another":        {machines: "a", most: 1, known: map[string]inplace.Prefetch{"a": {To: older, Prepared: true}}, want: "a"},
		"one is under way":            {machines: "a b c", most: 2, known: map[string]inplace.Prefetch{"b": begun(time.Second, time.Minute)}, want: "a"},
		"one is under way, and due":   {machines: "a b c", most: 2, known: map[string]inplace.Prefetch{"b": begun(time.Minute, time.Minute)}, want: "b a"},
		"more than may be":            {machines: "a b c", most: 1, known: map[string]inplace.Prefetch{"b": begun(time.Minute, 0), "c": begun(time.Minute, 0)}, want: "b c"},
		"one rests after a problem":   {machines: "a b", most: 1, known: map[string]inplace.Prefetch{"a": failed(1, time.Second, time.Minute)}, want: "b"},
		"one that failed goes last":   {machines: "a b c", most: 3, known: map[string]inplace.Prefetch{"a": failed(2, time.Hour, time.Minute), "b": failed(1, time.Hour, time.Minute)}, want: "c b a"},
		"the clock was set back":      {machines: "a", most: 1, known: map[string]inplace.Prefetch{"a": failed(1, -time.Hour, time.Minute)}, want: "a"},
		"of another version, running": {machines: "a b", most: 1, known: map[string]inplace.Prefetch{"a": {To: older, Operation: "id", Asked: now}}, want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var machines []inplace.Ahead
			for name := range strings.FieldsSeq(test.machines) {
				machines = append(machines, inplace.Ahead{Name: name, To: newer})
			}
			var got []string
			for _, m := range inplace.DecidePrefetch(machines, test.known, test.most, now) {
				got = append(got, m.Name)
			}
			if diff := cmp.Diff(strings.Fields(test.want), got); diff != "" && strings.Join(got, " ") != test.want {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPrefetchAnswers: what is made of an updater's answers, one after another.
func TestPrefetchAnswers(t *testing.T) {
	t.Parallel()
	preparing := inplace.Readiness{Preparing: "fetching", RetryAfter: 30 * time.Second}
	unknown := inplace.Readiness{Unknown: "no connection"}
	for name, test := range map[string]struct {
		answers []inplace.Readiness
		every   time.Duration
		want    inplace.Prefetch
	}{
		"yes":       {answers: []inplace.Readiness{{}}, want: inplace.Prefetch{Prepared: true}},
		"preparing": {answers: []inplace.Readiness{preparing}, want: inplace.Prefetch{Operation: "id1", Pause: 30 * time.Second}},
		"unknown at first": {
			answers: []inplace.Readiness{unknown, unknown},
			want:    inplace.Prefetch{Operation: "id1", Silence: 2, Pause: 10 * time.Second},
		},
		"unknown for longer": {
			answers: []inplace.Readiness{unknown, unknown, unknown},
			want:    inplace.Prefetch{Problem: "no connection", Failures: 1, Pause: time.Minute},
		},
		"heard in between": {
			answers: []inplace.Readiness{unknown, unknown, preparing, unknown},
			want:    inplace.Prefetch{Operation: "id1", Silence: 1, Pause: 10 * time.Second},
		},
		"refused, and again under another operation": {
			answers: []inplace.Readiness{{Refused: "full"}, {Refused: "full"}, preparing},
			want:    inplace.Prefetch{Operation: "id3", Failures: 2, Pause: 30 * time.Second},
		},
		"refused, then yes": {answers: []inplace.Readiness{{Refused: "full"}, {}}, want: inplace.Prefetch{Prepared: true}},
		"never ready": {
			answers: []inplace.Readiness{preparing, preparing}, every: 31 * time.Minute,
			want: inplace.Prefetch{Problem: "it is not prepared after 30m0s: fetching", Failures: 1, Pause: time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			var p inplace.Prefetch
			for i, answer := range test.answers {
				now = now.Add(test.every)
				p = p.Begin(newer, fmt.Sprintf("id%d", i+1), now).Answered(answer, 30*time.Minute, now)
			}
			p.Asked, p.Began = time.Time{}, time.Time{}
			test.want.To = newer
			if diff := cmp.Diff(test.want, p); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPrefetchIsBounded: whatever updaters answer, and however the clock runs, at most as many
// machines are being prepared as is allowed, and each machine that can be prepared is prepared in
// the end.
func TestPrefetchIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now, ids := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 0
		most := rapid.IntRange(1, 4).Draw(t, "most")
		var machines []inplace.Ahead
		for i := range rapid.IntRange(0, 6).Draw(t, "machines") {
			machines = append(machines, inplace.Ahead{Name: fmt.Sprint(i), To: newer})
		}
		known := map[string]inplace.Prefetch{}
		round := func(answer func() inplace.Readiness) {
			for _, m := range inplace.DecidePrefetch(machines, known, most, now) {
				ids++
				known[m.Name] = known[m.Name].Begin(m.To, fmt.Sprint(ids), now).Answered(answer(), time.Hour, now)
			}
			running := 0
			for _, p := range known {
				if p.Operation != "" {
					running++
				}
			}
			if running > most {
				t.Fatalf("%d machines are being prepared, %d may be", running, most)
			}
		}
		for range rapid.IntRange(0, 20).Draw(t, "rounds") {
			now = now.Add(time.Duration(rapid.IntRange(-3600, 3600).Draw(t, "seconds")) * time.Second)
			round(func() inplace.Readiness {
				return rapid.SampledFrom([]inplace.Readiness{
					{}, {Refused: "no"}, {Unknown: "away"}, {Preparing: "fetching", RetryAfter: time.Second},
				}).Draw(t, "answer")
			})
		}
		for range 7 {
			now = now.Add(time.Hour)
			round(func() inplace.Readiness { return inplace.Readiness{} })
		}
		if i := slices.IndexFunc(machines, func(m inplace.Ahead) bool { return !known[m.Name].Prepared }); i >= 0 {
			t.Fatalf("machine %s is left: %+v", machines[i].Name, known[machines[i].Name])
		}
	})
}
