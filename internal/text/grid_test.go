package text

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
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

func TestWriteTable(t *testing.T) {
	head, rows := []string{"Name", "What is said"}, [][]string{{"a", "one two three four"}, {"→→", ""}}
	for _, test := range []struct {
		name  string
		width int
		want  string
	}{
		{name: "no limit", width: 0, want: `| Name | What is said       |
|------|--------------------|
| a    | one two three four |
| →→   |                    |
`},
		{name: "what is left goes to the widest", width: 22, want: `| Name | What is    |
|      | said       |
|------|------------|
| a    | one two    |
|      | three four |
| →→   |            |
`},
		{name: "too narrow for anything", width: 3, want: `| Name | What is |
|      | said    |
|------|---------|
| a    | one two |
|      | three   |
|      | four    |
| →→   |         |
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got strings.Builder
			WriteTable(&got, head, rows, test.width)
			if diff := cmp.Diff(test.want, got.String()); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFitColumns checks for any table that it fits where every column may have its least width, and that nothing is
// narrower than it must be.
func TestFitColumns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 6).Draw(t, "columns")
		row := rapid.SliceOfN(rapid.StringMatching(`([a-z]{1,12} ?){0,6}`), columns, columns)
		rows := rapid.SliceOfN(row, 1, 4).Draw(t, "rows")
		limit := rapid.IntRange(0, 120).Draw(t, "limit")
		natural, widths := fitColumns(rows, 0), fitColumns(rows, limit)
		sum, naturalSum := 3*columns+1, 3*columns+1
		for i, width := range widths {
			sum, naturalSum = sum+width, naturalSum+natural[i]
			if width > max(natural[i], 1) {
				t.Fatalf("column %d is %d wide, its content %d", i, width, natural[i])
			}
		}
		switch {
		case limit == 0 || naturalSum <= limit:
			for i := range widths {
				if widths[i] < natural[i] && strings.Join(strings.Fields(rows[0][i]), " ") == rows[0][i] && len(rows) == 1 {
					t.Fatalf("column %d is %d wide although its content of %d fits", i, widths[i], natural[i])
				}
			}
		case limit >= 3*columns+1+columns*narrowColumn && sum > limit:
			t.Fatalf("the table is %d wide, the limit is %d", sum, limit)
		}
	})
}

func TestPrintable(t *testing.T) {
	if got, want := Printable("a\x1b[31m→\n"), "a\uFFFD[31m→\uFFFD"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWriteFigures(t *testing.T) {
	var got strings.Builder
	WriteFigures(&got, []string{"Name", "Number"}, [][]string{{"a", "1,234,567"}, {"b", "→ 9"}}, 0)
	want := `| Name |    Number |
|------|-----------|
| a    | 1,234,567 |
| b    |       → 9 |
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
