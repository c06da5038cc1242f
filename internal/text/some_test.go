package text_test

import (
	"testing"

	"github.com/windlass-dev/windlass/internal/text"
)

func TestJoinSome(t *testing.T) {
	t.Parallel()
	items := []string{"a", "b", "c"}
	for most, want := range map[int]string{1: "a; and 2 more", 2: "a; b; and 1 more", 3: "a; b; c", 4: "a; b; c"} {
		if got := text.JoinSome(items, most, "; "); got != want {
			t.Errorf("at most %d: %q, want %q", most, got, want)
		}
	}
	if items[1] != "b" {
		t.Errorf("the items were changed: %q", items)
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
