package updaters_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/updaters"
)

func TestCleanMessage(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                          "",
		"plain":                     "plain",
		"\x00two\nlines\t":          "two lines",
		"\x1b[2Jcleared":            "[2Jcleared",
		"a\u202eb\u2028c":           "a b c",
		"\xff":                      "?",
		strings.Repeat("x", 1024):   strings.Repeat("x", 1024),
		strings.Repeat("x", 1025):   strings.Repeat("x", 1021) + "...",
		strings.Repeat("ä", 100000): strings.Repeat("ä", 510) + "...",
	} {
		if got := updaters.CleanMessage(in); got != want {
			t.Errorf("%.40q became %.40q", in, got)
		}
	}
}

func TestCleanMessageBoundsEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOfN(rapid.Byte(), 0, 6000).Draw(t, "in"))
		if rapid.Bool().Draw(t, "runes") {
			in = rapid.StringN(0, 3000, -1).Draw(t, "text")
		}
		got := updaters.CleanMessage(in)
		if len(got) > updaters.MaxMessageBytes || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Fatalf("%q became %q", in, got)
		}
		if updaters.CleanMessage(got) != got {
			t.Fatalf("%q is not stable", got)
		}
		if word := updaters.CleanWord(in); len(word) > 128 {
			t.Fatalf("the word is %q", word)
		}
	})
}
