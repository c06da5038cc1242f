package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/text"
)

func TestFit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 100)
	for name, test := range map[string]struct{ message, want string }{
		"fits":         {strings.Repeat("a", 80), strings.Repeat("a", 80)},
		"lines":        {"a:\n  * b", "a:\n  * b"},
		"no UTF-8":     {"a\xff\xfe", "a?"},
		"no fix":       {long, strings.Repeat("é", 30) + "... (140 more bytes)"},
		"a fix":        {long + ". Fix: wait", strings.Repeat("é", 25) + "... (152 more bytes) Fix: wait"},
		"a long fix":   {"No. Fix: " + long, "No. Fix: " + strings.Repeat("é", 25) + "... (150 more bytes)"},
		"both long":    {long + " Fix: " + long, strings.Repeat("é", 10) + "... (181 more bytes) Fix: " + strings.Repeat("é", 7) + "... (186 more bytes)"},
		"the last fix": {long + " Fix: one. Fix: two", strings.Repeat("é", 25) + "... (161 more bytes) Fix: two"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := text.Fit(test.message, 80); got != test.want || len(got) > 80 {
				t.Errorf("got %q of %d bytes, want %q", got, len(got), test.want)
			}
		})
	}
}

// TestFitBounds checks for any message that it is valid, within its bound and fits again, and that it
// keeps its Fix.
func TestFitBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SliceOfN(rapid.Byte(), 0, 300)
		fix := rapid.SampledFrom([]string{"", "Fix: ", "Fix: do it"}).Draw(t, "fix")
		message := string(part.Draw(t, "before")) + fix + string(part.Draw(t, "after"))
		bytes := rapid.IntRange(64, 700).Draw(t, "bytes")
		got := text.Fit(message, bytes)
		switch {
		case len(got) > bytes:
			t.Fatalf("%d bytes, want at most %d", len(got), bytes)
		case !utf8.ValidString(got):
			t.Fatalf("%q is no UTF-8", got)
		case text.Fit(got, bytes) != got:
			t.Fatalf("%q does not fit again", got)
		case fix != "" && !strings.Contains(got, fix):
			t.Fatalf("%q has lost the fix", got)
		}
	})
}
