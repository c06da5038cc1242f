package text_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/text"
)

func TestBound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text  string
		bytes int
		want  string
	}{
		"short":                       {"no route to host", 100, "no route to host"},
		"just fits":                   {"1234567890", 10, "1234567890"},
		"too long":                    {"12345678901", 10, "1234567..."},
		"within a character":          {"12345éé9012", 10, "12345é..."},
		"within a character, earlier": {"123456é9012", 10, "123456..."},
		"lines":                       {" a\r\nb\tc\x00d\u2028e\n", 100, "a  b c d e"},
		"escape sequences":            {"\x1b[31mred\x1b[0m", 100, "[31mred [0m"},
		"reversed":                    {"a\u202eb", 100, "a b"},
		"no UTF-8":                    {"a\xff\xfeb", 100, "a?b"},
		"white space alone":           {strings.Repeat("\n", 9000), 10, "..."},
		"no room for dots":            {"abcdef", 2, "ab"},
		"no room":                     {"abcdef", 0, ""},
		"less than no room":           {"abcdef", -1, ""},
		"empty":                       {"", 10, ""},
		"a fix":                       {strings.Repeat("a", 190) + "\nFix: do b", 160, strings.Repeat("a", 147) + "... Fix: do b"},
		"a long fix":                  {"No. Fix: " + strings.Repeat("b", 190), 160, "No. Fix: " + strings.Repeat("b", 148) + "..."},
		"no room for a fix":           {strings.Repeat("a", 190) + " Fix: do b", 159, strings.Repeat("a", 156) + "..."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := text.Bound(test.text, test.bytes); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestBoundHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		fix := rapid.SampledFrom([]string{"", "Fix: ", "Fix: do it"}).Draw(t, "fix")
		s := part.Draw(t, "before") + fix + part.Draw(t, "after")
		bytes := rapid.IntRange(0, 200).Draw(t, "bytes")
		got := text.Bound(s, bytes)
		if bytes >= 160 && !strings.Contains(got, strings.TrimSpace(fix)) {
			t.Fatalf("%q has lost the fix", got)
		}
		if len(got) > bytes || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Fatalf("%q", got)
		}
		if again := text.Bound(got, bytes); again != strings.TrimSpace(got) {
			t.Fatalf("bounding again changes %q to %q", got, again)
		}
	})
}
