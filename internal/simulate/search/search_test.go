package search

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// dial is a world of numbers: each step adds 1 or 2. A run without disturbances adds 1 until top.
// It repeats endless, and a step to bad is a problem.
type dial struct{ top, bad, endless int }

func (d dial) Begin() int { return 0 }

func (d dial) Steps(w int, labelled bool) iter.Seq[Step[int]] {
	return func(yield func(Step[int]) bool) {
		for _, n := range []int{1, 2} {
			s := Step[int]{To: w + n}
			if s.To > d.top {
				return
			}
			if labelled {
				s.Label = fmt.Sprintf("adds %d", n)
			}
			if s.To == d.bad {
				s.Problem = "it is bad"
			}
			if !yield(s) {
				return
			}
		}
	}
}

func (d dial) Fair(w int, known *Known[int], labelled bool) (problem string, trail []string) {
	problem = known.Run(w, "it does not end", func(w *int) (done bool, problem string) {
		if labelled {
			trail = append(trail, fmt.Sprintf("is at %d", *w))
		}
		if *w != d.endless {
			*w = min(*w+1, d.top)
		}
		return *w == d.top, ""
	})
	return problem, trail
}

func TestExplore(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		dial  dial
		limit int
		want  Report
	}{
		"all":     {dial{5, -1, -1}, 100, Report{States: 6, Transitions: 9, Complete: true}},
		"cut off": {dial{5, -1, -1}, 4, Report{States: 4, Transitions: 8}},
		"no room": {dial{5, -1, -1}, 0, Report{}},
		"a violation": {dial{5, 4, -1}, 100, Report{
			States: 3, Transitions: 6,
			Violation: &Violation{Problem: "it is bad", Trace: []string{"adds 2", "adds 2"}},
		}},
		"no end": {dial{5, -1, 3}, 100, Report{
			States: 1,
			Violation: &Violation{
				Problem: "it does not end", Trace: []string{"is at 0", "is at 1", "is at 2", "is at 3"},
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Explore(t.Context(), tt.dial, tt.limit)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestExploreEndsEarly(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Explore(ctx, dial{5, -1, -1}, 100); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestViolationText(t *testing.T) {
	t.Parallel()
	var none *Violation
	v := &Violation{Problem: "it is bad", Trace: []string{"adds 1", "adds 2"}}
	const want = "adds 1\nadds 2\nVIOLATION: it is bad"
	if got := none.String() + v.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
