package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// source has four conditions: in lines 4 (two), 10 and 13.
const source = `package due

func (w *window) open(at, length int) bool {
	if w.from <= at && length == 0 {
		return true
	}
	return false
}

func late(at int) bool { return at > 10 }

func next(at int) int {
	for at != 7 {
		at++
	}
	return at
}
`

const survived = `{"files": [{"file_name": "due.go", "mutations": [
	{"status": "LIVED", "line": 4, "column": 12},
	{"status": "KILLED", "line": 4, "column": 28},
	{"status": "NOT COVERED", "line": 10, "column": 36},
	{"status": "TIMED OUT", "line": 13, "column": 9}]}]}`

const explained = `# A comment.
internal/due/due.go: window.open: w.from <= at
	Callers check it too.

internal/due/due.go: late: at > 10
	A reason
	of two lines.
internal/due/due.go: next: at != 7
	Endless.
`

// TestRun compares reports with lists: wanted are parts of the error; without any, there is none.
func TestRun(t *testing.T) {
	t.Parallel()
	first := "internal/due/due.go: window.open: w.from <= at\n\tCallers check it too.\n"
	for name, tc := range map[string]struct {
		report, list string
		wanted       []string
	}{
		"all are listed": {report: survived, list: explained},
		"lived": {
			report: survived, list: strings.Replace(explained, first, "", 1),
			wanted: []string{"line 4, LIVED: internal/due/due.go: window.open: w.from <= at\n", "Fix: "},
		},
		"not covered": {
			report: survived, list: first,
			wanted: []string{"line 10, NOT COVERED: internal/due/due.go: late: at > 10\n"},
		},
		"timed out": {
			report: survived, list: first,
			wanted: []string{"line 13, TIMED OUT: internal/due/due.go: next: at != 7\n"},
		},
		"an entry that is killed": {
			report: survived, list: explained + "internal/due/due.go: window.open: length == 0\n\tWhy.\n",
			wanted: []string{"no mutant survived at internal/due/due.go: window.open: length == 0. Fix: delete"},
		},
		"an entry of another package": {
			report: survived, list: explained + "internal/gate/due.go: open: length == 0\n\tWhy.\n",
		},
		"an entry without a reason": {
			report: survived, list: "internal/due/due.go: late: at > 10\n" + first,
			wanted: []string{"survivors.txt:1: internal/due/due.go: late: at > 10 has no reason"},
		},
		"the last entry without a reason": {
			report: survived, list: first + "internal/due/due.go: late: at > 10\n",
			wanted: []string{"internal/due/due.go: late: at > 10 has no reason"},
		},
		"an entry twice": {
			report: survived, list: first + first,
			wanted: []string{"survivors.txt:3: internal/due/due.go: window.open: w.from <= at is listed twice"},
		},
		"a report on other code": {
			report: `{"files": [{"file_name": "due.go", "mutations": [{"status": "LIVED", "line": 1, "column": 1}]}]}`,
			wanted: []string{"internal/due/due.go:1:1 is no comparison"},
		},
		"no report": {report: "", wanted: []string{"parsing the report on internal/due"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			write(t, filepath.Join(root, listFile), tc.list)
			write(t, filepath.Join(root, "internal", "due", "due.go"), source)
			write(t, filepath.Join(root, "reports", "internal", "due.json"), tc.report)
			err := run(root, filepath.Join(root, "reports"), []string{"internal/due"})
			if len(tc.wanted) == 0 && err != nil {
				t.Fatal(err)
			}
			for _, part := range tc.wanted {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("the error %q does not contain %q", err, part)
				}
			}
		})
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
