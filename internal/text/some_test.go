package text_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/text"
)

func TestJoinSome(t *testing.T) {
	t.Parallel()
	items := []string{"a", "b", "c"}
	for most, want := range map[int][2]string{
		0: {"a; and 2 more", "a and 2 more"}, 1: {"a; and 2 more", "a and 2 more"},
		2: {"a; b; and 1 more", "a, b and 1 more"}, 3: {"a; b; c", "a, b, c"}, 4: {"a; b; c", "a, b, c"},
	} {
		if got := [2]string{text.JoinSome(items, most, "; "), text.JoinSome(items, most, ", ")}; got != want {
			t.Errorf("at most %d: %q, want %q", most, got, want)
		}
	}
	if got := text.JoinSome([]string(nil), 3, ", "); got != "" {
		t.Errorf("no items: %q", got)
	}
}

// TestJoinSomeBytes: the bytes of a list are bounded, whatever its items are.
func TestJoinSomeBytes(t *testing.T) {
	t.Parallel()
	names := make([]string, 400)
	for i := range names {
		names[i] = fmt.Sprintf("%03d-%s", i, strings.Repeat("x", 249))
	}
	want := names[0] + ", " + names[1] + ", " + names[2] + " and 397 more"
	if got := text.JoinSome(names, len(names), ", "); got != want {
		t.Errorf("long names: %q, want %q", got, want)
	}
	huge := []string{strings.Repeat("y", 1<<20), "b", "c"}
	got := text.JoinSome(huge, 2, ", ")
	if len(got) > text.ListBytes+20 || !strings.HasSuffix(got, "more bytes) and 2 more") {
		t.Errorf("a huge item: %d bytes, %q", len(got), got)
	}
	// Items after one that does not fit are not named, even if they would fit.
	if got := text.JoinSome([]string{names[0], huge[0], "c"}, 3, ", "); got != names[0]+" and 2 more" {
		t.Errorf("a huge item between others: %q", got)
	}
}

// TestSome: a list takes no more memory than it shows, and its words need not be made.
func TestSome(t *testing.T) {
	some, made := text.Some{Most: 2}, 0
	for i := range 1000 {
		if item := ""; some.IsFull() {
			some.Add(item)
			continue
		}
		made++
		some.Add(fmt.Sprint(i))
	}
	if got := some.Join(", "); got != "0, 1 and 998 more" || some.Len() != 1000 || made != 2 {
		t.Errorf("%q of %d, %d made", got, some.Len(), made)
	}
	if allocs := testing.AllocsPerRun(10, func() { some.Add("one more") }); allocs != 0 {
		t.Errorf("an item that is only counted allocates %v times", allocs)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int][2]string{
		0: {"0 steps", "0 steps are"}, 1: {"1 step", "1 step is"}, 2: {"2 steps", "2 steps are"},
	} {
		if got := [2]string{text.Count(n, "step"), text.CountAre(n, "step")}; got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
