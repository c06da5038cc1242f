package text

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		name, text string
		width      int
		want       []string
	}{
		{name: "empty", text: "", width: 5, want: nil},
		{name: "fits", text: "a bc", width: 4, want: []string{"a bc"}},
		{name: "between words", text: "ab cd ef", width: 5, want: []string{"ab cd", "ef"}},
		{name: "a long word is cut", text: "x abcdefgh y", width: 3, want: []string{"x", "abc", "def", "gh", "y"}},
		{name: "characters, not bytes", text: "→→→ →", width: 5, want: []string{"→→→ →"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Wrap(test.text, test.width)); diff != "" {
				t.Errorf("wrap (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	var got strings.Builder
	WriteTable(&got, []string{"Name", "What is said"}, [][]string{{"a", "one two three four"}, {"→→", ""}}, []int{3, 12})
	want := `| Name | What is said |
|------|--------------|
| a    | one two      |
|      | three four   |
| →→   |              |
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestPrintable(t *testing.T) {
	if got, want := Printable("a\x1b[31m→\n"), "a\uFFFD[31m→\uFFFD"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWriteFigures(t *testing.T) {
	var got strings.Builder
	WriteFigures(&got, []string{"Name", "Number"}, [][]string{{"a", "1,234,567"}, {"b", "→ 9"}}, []int{4, 9})
	want := `| Name |    Number |
|------|-----------|
| a    | 1,234,567 |
| b    |       → 9 |
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
