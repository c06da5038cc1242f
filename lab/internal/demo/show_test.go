package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/lab/internal/history"
)

func TestPlain(t *testing.T) {
	var out strings.Builder
	p := &Plain{Out: &out, Since: func() time.Duration { return 75 * time.Second }}
	p.Phase("Upgrading")
	p.Observed(history.Objects{}, []history.Change{{From: v130, To: v131}, {Group: "a", From: v130, To: v131}}, 2)
	p.Observed(history.Objects{}, nil, 2)
	want := `01:15  Upgrading
01:15    control plane goes from v1.30.0 to v1.31.0
01:15    a goes from v1.30.0 to v1.31.0
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

func TestDrawParts(t *testing.T) {
	draw := func(group string) history.Objects {
		return objectsOf(part("", v131, 3, machine("a", v131, true), machine("b", v131, false), machine("c", v130, true)),
			part(group, v130, 2, machine("d", v130, true), machine("e", v130, true)))
	}
	o := draw("general")
	want := []string{
		"  control plane  v1.31.0  ■◌□  1 of 3 upgraded",
		"  general        v1.30.0  ■■  2 of 2 upgraded",
	}
	if diff := cmp.Diff(want, drawParts(o, 80, false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if line := drawParts(o, 80, true)[0]; !strings.Contains(line, "\x1b[32m■\x1b[0m") {
		t.Errorf("%q has no colour", line)
	}
	o = draw(strings.Repeat("very-", 14) + "long")
	for width := 10; width <= 80; width++ {
		for _, line := range drawParts(o, width, false) {
			if n := len([]rune(line)); n > width {
				t.Errorf("%q has %d characters on a terminal of %d", line, n, width)
			}
		}
	}
	if got := cutLines([]string{"a", "b", "c", "d"}, 3); len(got) != 3 || got[2] != "  and 2 more" {
		t.Errorf("4 lines in 3 rows are %q", got)
	}
}

func TestTerminalErasesWhatItDrew(t *testing.T) {
	var out strings.Builder
	terminal := NewTerminal(&out, func() time.Duration { return 0 }, func() (int, int) { return 80, 24 }, false)
	terminal.Phase("Upgrading")
	terminal.Observed(objectsOf(part("", v130, 1, machine("a", v130, true))), nil, 1)
	out.Reset()
	terminal.Tick()
	if got, want := strings.Count(out.String(), "\n"), 4; got != want || !strings.HasPrefix(out.String(), "\x1b[4A\r\x1b[J") {
		t.Errorf("a tick wrote %d lines, %q; want %d after erasing as many", got, out.String(), want)
	}
	terminal.Close()
	out.Reset()
	terminal.Tick()
	if out.Len() > 0 {
		t.Errorf("a closed terminal still draws %q", out.String())
	}
}
