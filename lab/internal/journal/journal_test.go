package journal_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/lab/internal/journal"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(milliseconds int) time.Time { return epoch.Add(time.Duration(milliseconds) * time.Millisecond) }

func write(number, began, ended int, failure string) journal.Attempt {
	a := journal.Attempt{Operation: journal.Write, Number: number, Began: at(began), Ended: at(ended), Error: failure}
	if failure == "" {
		a.Revision = int64(100 + number)
	}
	return a
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	read := write(1, 50, 9000, "slow")
	read.Operation = journal.Read
	for _, c := range []struct {
		name      string
		attempts  []journal.Attempt
		want      journal.Availability
		total     time.Duration
		longest   time.Duration
		recovered bool
	}{
		{name: "nothing was tried"},
		{
			name: "all succeed", attempts: []journal.Attempt{write(1, 0, 10, ""), read, write(2, 100, 130, "")},
			want: journal.Availability{Succeeded: 2, Slowest: 30 * time.Millisecond}, recovered: true,
		},
		{
			name: "two outages",
			attempts: []journal.Attempt{
				write(1, 0, 10, ""), write(2, 100, 110, "reset"), write(3, 200, 210, "refused"), write(4, 300, 320, ""),
				write(5, 400, 2400, "timeout"), write(6, 2400, 2410, ""),
			},
			want: journal.Availability{
				Succeeded: 3, Failed: 3, Slowest: 20 * time.Millisecond,
				Outages: []journal.Outage{
					{From: at(100), To: at(320), Attempts: 2, Error: "reset"},
					{From: at(400), To: at(2410), Attempts: 1, Error: "timeout"},
				},
			},
			total: 2230 * time.Millisecond, longest: 2010 * time.Millisecond, recovered: true,
		},
		{
			name: "the end is not known", attempts: []journal.Attempt{write(1, 0, 10, ""), write(2, 100, 150, "reset")},
			want: journal.Availability{
				Succeeded: 1, Failed: 1, Slowest: 10 * time.Millisecond,
				Outages: []journal.Outage{{From: at(100), To: at(150), Open: true, Attempts: 1, Error: "reset"}},
			},
			total: 50 * time.Millisecond, longest: 50 * time.Millisecond,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := journal.Measure(c.attempts, journal.Write)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Measure (-want +got):\n%s", diff)
			}
			if got.Total() != c.total || got.Longest() != c.longest || got.Recovered() != c.recovered {
				t.Errorf("total %s, longest %s, recovered %t; want %s, %s, %t",
					got.Total(), got.Longest(), got.Recovered(), c.total, c.longest, c.recovered)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	outage := journal.Outage{From: at(0), To: at(2000), Attempts: 3, Error: "refused"}
	open := outage
	open.Open = true
	for name, test := range map[string]struct {
		availability journal.Availability
		limit        time.Duration
		want         []string
	}{
		"all succeed":       {availability: journal.Availability{Succeeded: 1}, limit: time.Second},
		"nothing was tried": {want: []string{"no attempt succeeded"}},
		"an outage without limit": {
			availability: journal.Availability{Succeeded: 1, Outages: []journal.Outage{outage}},
		},
		"an outage of the limit": {
			availability: journal.Availability{Succeeded: 1, Outages: []journal.Outage{outage}},
			limit:        2 * time.Second,
		},
		"a longer one, and one without an end": {
			availability: journal.Availability{Succeeded: 1, Outages: []journal.Outage{outage, open}},
			limit:        time.Second,
			want: []string{
				"an outage took 2s, at most 1s are expected: refused",
				"an outage has no end: since 2026-01-01T00:00:00Z, 3 attempts failed: refused",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.availability.Problems(test.limit)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// drawAttempts are attempts of both operations, in the order in which they ended.
func drawAttempts(t *rapid.T) []journal.Attempt {
	now := map[journal.Operation]int{journal.Write: 0, journal.Read: 0}
	numbers := map[journal.Operation]int{journal.Write: 0, journal.Read: 0}
	return rapid.SliceOf(rapid.Custom(func(t *rapid.T) journal.Attempt {
		operation := rapid.SampledFrom([]journal.Operation{journal.Write, journal.Read}).Draw(t, "operation")
		began := now[operation] + rapid.IntRange(0, 500).Draw(t, "pause")
		now[operation] = began + rapid.IntRange(0, 3000).Draw(t, "duration")
		numbers[operation]++
		a := write(numbers[operation], began, now[operation], rapid.SampledFrom([]string{"", "", "reset"}).Draw(t, "error"))
		a.Operation = operation
		return a
	})).Draw(t, "attempts")
}

// TestMeasureProperties: outages are in order, cover exactly the failed attempts, and only the last one is open.
func TestMeasureProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		attempts := drawAttempts(t)
		for _, operation := range []journal.Operation{journal.Write, journal.Read} {
			own := slices.DeleteFunc(slices.Clone(attempts), func(a journal.Attempt) bool { return a.Operation != operation })
			got := journal.Measure(attempts, operation)
			if got.Succeeded+got.Failed != len(own) {
				t.Fatalf("%d attempts are counted as %+v", len(own), got)
			}
			failures, end := 0, time.Time{}
			for i, o := range got.Outages {
				failures += o.Attempts
				if o.From.Before(end) || o.To.Before(o.From) || o.Open && i+1 < len(got.Outages) {
					t.Fatalf("outage %d is %+v, after one that ended at %s", i, o, end)
				}
				end = o.To
			}
			if failures != got.Failed {
				t.Fatalf("outages have %d of %d failures", failures, got.Failed)
			}
			for _, a := range own {
				inside := slices.ContainsFunc(got.Outages, func(o journal.Outage) bool {
					return !a.Began.Before(o.From) && !a.Ended.After(o.To)
				})
				if a.Failed() && !inside {
					t.Fatalf("the failed attempt %+v is in none of %+v", a, got.Outages)
				}
			}
			if len(own) > 0 && got.Recovered() == own[len(own)-1].Failed() {
				t.Fatalf("Recovered is %t after %+v", got.Recovered(), own[len(own)-1])
			}
			if got.Longest() > got.Total() {
				t.Fatalf("the longest outage of %s is longer than all: %s", got.Longest(), got.Total())
			}
		}
	})
}

func TestLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		attempts := drawAttempts(t)
		var file bytes.Buffer
		for _, a := range attempts {
			if err := journal.Append(&file, a); err != nil {
				t.Fatal(err)
			}
		}
		cut := rapid.IntRange(0, file.Len()).Draw(t, "cut")
		complete := bytes.Count(file.Bytes()[:cut], []byte("\n"))
		got, err := journal.Parse(file.Bytes()[:cut])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(attempts[:complete], got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("after %d bytes (-want +got):\n%s", cut, diff)
		}
	})
}

func TestParseRefusesADamagedLine(t *testing.T) {
	t.Parallel()
	if got, err := journal.Parse([]byte("{}\nwrite 2\n{}\n")); err == nil {
		t.Errorf("a damaged line is read as %+v", got)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	attempts := []journal.Attempt{write(1, 0, 1, ""), write(2, 2, 3, "timeout"), write(3, 4, 5, ""), write(4, 6, 7, ""), write(5, 8, 9, "")}
	complete := map[int]journal.Stored{}
	for _, n := range []int{1, 3, 4, 5} {
		complete[n] = journal.Stored{Revision: int64(100 + n), Value: journal.Value(n)}
	}
	for _, c := range []struct {
		name   string
		change func(map[int]journal.Stored)
		want   journal.Loss
		text   string
	}{
		{name: "all are there", change: func(map[int]journal.Stored) {}},
		{name: "one that was not acknowledged is there", change: func(s map[int]journal.Stored) { s[2] = journal.Stored{} }},
		{
			name: "wiped", change: func(s map[int]journal.Stored) { clear(s) },
			want: journal.Loss{Missing: []int{1, 3, 4, 5}}, text: "4 missing (1, 3 to 5)",
		},
		{
			name: "another value", change: func(s map[int]journal.Stored) { s[3] = journal.Stored{Revision: 103, Value: "x"} },
			want: journal.Loss{Changed: []int{3}}, text: "1 changed (3)",
		},
		{
			name: "written again", change: func(s map[int]journal.Stored) {
				s[5] = journal.Stored{Revision: 200, Value: journal.Value(5)}
				delete(s, 1)
			},
			want: journal.Loss{Missing: []int{1}, Changed: []int{5}},
			text: "1 missing (1); 1 changed (5)",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			stored := maps.Clone(complete)
			c.change(stored)
			got := journal.Compare(attempts, stored)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Compare (-want +got):\n%s", diff)
			}
			if got.String() != c.text || got.None() != (c.text == "") {
				t.Errorf("the loss is %q, none: %t; want %q", got, got.None(), c.text)
			}
		})
	}
}

// TestCompareProperties forgets writes, and expects exactly the acknowledged ones of them.
func TestCompareProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		attempts := drawAttempts(t)
		stored := map[int]journal.Stored{}
		var want []int
		for _, a := range attempts {
			if a.Operation != journal.Write {
				continue
			}
			switch forgotten := rapid.Bool().Draw(t, "forgotten"); {
			case !forgotten:
				stored[a.Number] = journal.Stored{Revision: a.Revision, Value: journal.Value(a.Number)}
			case !a.Failed():
				want = append(want, a.Number)
			}
		}
		if diff := cmp.Diff(journal.Loss{Missing: want}, journal.Compare(attempts, stored)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestVerify(t *testing.T) {
	t.Parallel()
	attempts := []journal.Attempt{write(1, 0, 1, ""), write(2, 2, 3, "")}
	good := func(machine string) journal.Member {
		return journal.Member{Machine: machine, Known: []string{"a", "b"}, Stored: map[int]journal.Stored{
			1: {Revision: 101, Value: journal.Value(1)}, 2: {Revision: 102, Value: journal.Value(2)},
		}}
	}
	for _, c := range []struct {
		name     string
		attempts []journal.Attempt
		members  []journal.Member
		want     []string
	}{
		{name: "all is well", attempts: attempts, members: []journal.Member{good("a"), good("b")}},
		{
			name: "nothing was asked", attempts: nil, members: nil,
			want: []string{"No member of etcd was asked.", "The API acknowledged no write."},
		},
		{
			name: "one is wiped, one does not answer", attempts: attempts,
			members: []journal.Member{{Machine: "a", Known: []string{"a", "b"}}, {Machine: "b", Problem: "no route to host"}},
			want: []string{
				"The member of etcd on a does not have all acknowledged writes: 2 missing (1 to 2).",
				"The member of etcd on b did not answer: no route to host",
			},
		},
		{
			name: "one that left", attempts: attempts, members: []journal.Member{good("a")},
			want: []string{"The member of etcd on a knows 2 members, and there are 1 machines: a, b."},
		},
		{
			name: "a read missed a write", members: []journal.Member{good("a"), good("b")},
			attempts: append(slices.Clone(attempts), journal.Attempt{Operation: journal.Read, Number: 2, Wrong: "read 2 found nothing"}),
			want:     []string{"Through the load balancer, read 2 found nothing."},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, journal.Verify(c.attempts, c.members)); diff != "" {
				t.Errorf("Verify (-want +got):\n%s", diff)
			}
		})
	}
}
