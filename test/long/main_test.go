package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRun: batteries that passed longest ago run first, each result is recorded, and a failure is an
// error that names the battery.
func TestRun(t *testing.T) {
	t.Parallel()
	root := repository(t)
	write(t, filepath.Join(root, recordFile), header+`
a 2026-01-02T00:00:00 11111111 passed 1 2026-01-02T00:00:00 11111111
b 2026-01-01T00:00:00 22222222 passed 1 2026-01-01T00:00:00 22222222
c 2026-01-03T00:00:00 33333333 failed 1 2025-01-01T00:00:00 44444444
`)
	var out strings.Builder
	r := runner{root: root, out: &out, now: clock(), all: []battery{
		{"a", "echo a >>ran"}, {"b", "echo b >>ran"}, {"c", "echo c >>ran; false"}, {"d", "echo d >>ran"},
	}}
	// The file "ran" must not count as a change.
	write(t, filepath.Join(root, ".git", "info", "exclude"), "ran\nbin\n")
	err := r.run(t.Context(), time.Hour, nil)
	if err == nil || !strings.Contains(err.Error(), "failed: c.") {
		t.Errorf("run: %v, want an error that names c", err)
	}
	if diff := cmp.Diff("d\nc\nb\na\n", read(t, filepath.Join(root, "ran"))); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	commit, err := r.commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	entries, err := r.readRecord()
	if err != nil {
		t.Fatal(err)
	}
	if c := find(entries, "c"); c.last.result != failed || c.last.commit != commit ||
		c.pass.commit != "44444444" {
		t.Errorf("c: %+v", c)
	}
	if a := find(entries, "a"); a.last.result != passed || a.pass.commit != commit {
		t.Errorf("a: %+v", a)
	}
	if want := "oldest: c passed on 2025-01-01T00:00:00 at 44444444"; !strings.Contains(out.String(), want) {
		t.Errorf("output:\n%s\nwant: %s", out.String(), want)
	}
}

// TestBudget: a battery that took longer than the rest is left out. One that is running when the
// budget ends is killed with its children, and counts as neither passed nor failed.
func TestBudget(t *testing.T) {
	t.Parallel()
	root := repository(t)
	write(t, filepath.Join(root, ".git", "info", "exclude"), "child\nbin\n")
	write(t, filepath.Join(root, recordFile), header+"\nlong 2026-01-01T00:00:00 1 stopped 7200 - -\n")
	var out strings.Builder
	r := runner{root: root, out: &out, now: time.Now, all: []battery{
		{"long", "touch never"},
		{"endless", "sleep 1000 & echo $! >child; wait"},
	}}
	if err := r.run(t.Context(), time.Second, nil); err != nil {
		t.Errorf("run: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "never")); err == nil {
		t.Error("a battery ran that took longer than the budget")
	}
	if !strings.Contains(out.String(), "left out, for lack of time: long") {
		t.Errorf("output:\n%s", out.String())
	}
	entries, err := r.readRecord()
	if err != nil {
		t.Fatal(err)
	}
	if got := find(entries, "endless"); got.last.result != stopped || got.pass != (run{}) {
		t.Errorf("endless: %+v", got)
	}
	child := strings.TrimSpace(read(t, filepath.Join(root, "child")))
	if status, err := os.ReadFile("/proc/" + child + "/stat"); err == nil &&
		!strings.Contains(string(status), ") Z ") {
		t.Errorf("the battery's child is still alive: %s", status)
	}
}

// TestRefused: no commit would have what is tested; no battery has the name.
func TestRefused(t *testing.T) {
	t.Parallel()
	root := repository(t)
	r := runner{root: root, out: &strings.Builder{}, now: time.Now, all: []battery{{"a", "true"}}}
	if err := r.run(t.Context(), time.Hour, []string{"b"}); err == nil ||
		!strings.Contains(err.Error(), "name one of: a") {
		t.Errorf("an unknown battery: %v", err)
	}
	write(t, filepath.Join(root, "changed"), "x")
	if err := r.run(t.Context(), time.Hour, nil); err == nil ||
		!strings.Contains(err.Error(), "changed") {
		t.Errorf("a changed work tree: %v", err)
	}
}

func TestParseRecord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a 2026-01-01T00:00:00 1 passed 1 -":            "columns",
		"a 2026-01-01T00:00:00 1 fine 1 - -":            "result",
		"a 2026-01-01T00:00:00 1 passed soon - -":       "seconds",
		"a today 1 passed 1 - -":                        "no time",
		"a 2026-01-01T00:00:00 1 failed 1 yesterday 22": "no time",
	} {
		if _, err := parseRecord(header + "\n" + text); err == nil ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v, want line 2 and %q", text, err, want)
		}
	}
}

// TestRecord: the committed record parses, is formatted, and has no line of another battery.
func TestRecord(t *testing.T) {
	t.Parallel()
	text := read(t, filepath.Join("..", "..", recordFile))
	entries, err := parseRecord(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(formatRecord(entries), text); diff != "" {
		t.Errorf("format (-want +got):\n%s", diff)
	}
	r := runner{all: batteries()}
	for _, e := range entries {
		if _, err := r.choose([]string{e.name}); err != nil {
			t.Error(err)
		}
	}
}

// TestNothingIsLeftOut: each package whose tests have a long form has a battery.
func TestNothingIsLeftOut(t *testing.T) {
	t.Parallel()
	var commands strings.Builder
	names := map[string]bool{}
	for _, b := range batteries() {
		if names[b.name] || strings.ContainsAny(b.name, " \t/") {
			t.Errorf("the name %q is used twice, or is no word", b.name)
		}
		names[b.name] = true
		commands.WriteString(b.command + "\n")
	}
	for _, dir := range slices.Concat(mutated, lengthened) {
		if _, err := os.Stat(filepath.Join("..", "..", dir)); err != nil {
			t.Errorf("a battery names a package that does not exist: %v", err)
		}
	}
	// These are helpers of tests that have a battery.
	helpers := map[string]bool{"lab/test/e2e/internal/agree": true}
	for _, variable := range []string{"WINDLASS_LONG", "WINDLASS_POOL_WRITES"} {
		grep := exec.CommandContext(t.Context(), "git", "grep", "-l", variable, "--", "*.go",
			":!test/long")
		grep.Dir = filepath.Join("..", "..")
		out, err := grep.Output()
		if err != nil {
			t.Fatal(err)
		}
		for file := range strings.FieldsSeq(string(out)) {
			dir := filepath.ToSlash(filepath.Dir(file))
			if !helpers[dir] && !tests(commands.String(), dir) {
				t.Errorf("%s has a long form and no battery", dir)
			}
		}
	}
}

// tests reports whether one of the commands tests the package in a directory.
func tests(commands, dir string) bool {
	if in, ok := strings.CutPrefix(dir, "lab/"); ok {
		return strings.Contains(commands, " ./"+in+"\n")
	}
	return strings.Contains(commands, " ./"+dir+"\n") ||
		strings.Contains(commands, "cd "+dir+" && WINDLASS_LONG=1")
}

// repository returns a new repository with one commit.
func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "file"), "")
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "file"},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "one"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return root
}

// clock returns a clock that goes on by a minute with each look.
func clock() func() time.Time {
	now := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	return func() time.Time {
		now = now.Add(time.Minute)
		return now
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
