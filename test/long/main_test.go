package main

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRun: batteries that ran longest ago run first, however that ended, each result is recorded, and a failure is an
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
	if diff := cmp.Diff("d\nb\na\nc\n", read(t, filepath.Join(root, "ran"))); diff != "" {
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
	write(t, filepath.Join(root, recordFile), header+"\nlong 2026-01-01T00:00:00 1 passed 1 2026-01-01T00:00:00 1\n")
	// The children hold the pipe's other end: it ends when the last of them ended.
	if err := syscall.Mkfifo(filepath.Join(root, "child"), 0o600); err != nil {
		t.Fatal(err)
	}
	child, err := os.OpenFile(filepath.Join(root, "child"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Close() })
	var out strings.Builder
	r := runner{root: root, out: &out, now: time.Now, all: []battery{
		{"endless", "(echo runs; sleep 1000) >child & wait"},
		{"long", "touch never"},
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
	if err := child.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(child); err != nil || string(got) != "runs\n" {
		t.Errorf("the battery's children wrote %q and are still alive: %v", got, err)
	}
}

// TestNeeds: a battery that was stopped runs again as long as it had less than the budget. One that can
// never run fails the command.
func TestNeeds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		last run
		want time.Duration
	}{
		"it never ran":                 {run{}, 0},
		"it passed":                    {run{result: passed, took: 50 * time.Minute}, 50 * time.Minute},
		"it takes longer":              {run{result: failed, took: 2 * time.Hour}, 2 * time.Hour},
		"stopped early":                {run{result: stopped, took: 20 * time.Minute}, 40 * time.Minute},
		"stopped in the second half":   {run{result: stopped, took: 50 * time.Minute}, 72 * time.Minute},
		"stopped after all the budget": {run{result: stopped, took: 80 * time.Minute}, 160 * time.Minute},
	} {
		if got := needs(entry{last: tt.last}, 80*time.Minute); got != tt.want {
			t.Errorf("%s: needs %s, want %s", name, got, tt.want)
		}
	}
	root := repository(t)
	write(t, filepath.Join(root, ".git", "info", "exclude"), "ran\nbin\n")
	write(t, filepath.Join(root, recordFile), header+"\nlong 2026-01-01T00:00:00 1 stopped 4800 - -\n")
	r := runner{root: root, out: &strings.Builder{}, now: clock(), all: []battery{
		{"long", "echo long >>ran"}, {"short", "echo short >>ran"},
	}}
	if err := r.run(t.Context(), 80*time.Minute, nil); err == nil ||
		!strings.Contains(err.Error(), "long (needs BUDGET=2h40m0s)") {
		t.Errorf("run: %v, want the budget that long needs", err)
	}
	if got := read(t, filepath.Join(root, "ran")); got != "short\n" {
		t.Errorf("ran %q, want the short one", got)
	}
}

// driverRoot names the variable with which this program is a driver of one endless battery.
const driverRoot = "LONG_DRIVER_ROOT"

func TestMain(m *testing.M) {
	root := os.Getenv(driverRoot)
	if root == "" {
		os.Exit(m.Run())
	}
	// The descendants hold the FIFO open while one of them lives, whether SIGTERM kills them or not.
	endless := `exec >alive; echo up; bash -c "trap '' TERM; sleep 1000; sleep 1000" & wait`
	r := runner{root: root, out: os.Stdout, all: []battery{{"endless", endless}}, now: time.Now}
	os.Exit(r.status(time.Hour, nil))
}

// TestSignals: whichever signal ends the driver, all processes of the battery end.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			root := repository(t)
			write(t, filepath.Join(root, ".git", "info", "exclude"), "alive\nbin\n")
			path := filepath.Join(root, "alive")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			driver := exec.CommandContext(t.Context(), os.Args[0]) // #nosec G204 -- this program
			driver.Env = append(os.Environ(), driverRoot+"="+root)
			if err := driver.Start(); err != nil {
				t.Fatal(err)
			}
			alive, err := os.Open(path) // #nosec G304 -- the FIFO above
			if err != nil {
				t.Fatal(err)
			}
			defer alive.Close() //nolint:errcheck // Only read.
			if err := alive.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(alive, make([]byte, len("up\n"))); err != nil {
				t.Fatalf("the battery does not run: %v", err)
			}
			if err := driver.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(alive); err != nil {
				t.Errorf("a process of the battery lives: %v", err)
			}
			if err := driver.Wait(); err == nil {
				t.Error("the exit status is 0")
			}
		})
	}
}

// unmutated are the pure packages without a battery of mutants, and why.
var unmutated = map[string]string{
	"api/updates/v1alpha1":        "types",
	"api/v1alpha1":                "types; test/rules negates the rules of the schemas",
	"internal/changereport":       report,
	"internal/clustercheck":       report,
	"internal/condition":          "one function, and every controller's tests read what it sets",
	"internal/doctor":             report,
	"internal/htmlpage":           report,
	"internal/keyed":              "locks, whose mutants wait without end",
	"internal/linuxhost":          "make conformance-mutants and tests of real hosts",
	"internal/port":               "interfaces",
	"internal/preflight":          report,
	"internal/recordjson":         "encodings, whose tests compare all of the JSON",
	"internal/simulate/explore":   simulation,
	"internal/simulate/fleet":     simulation,
	"internal/simulate/inventory": simulation,
	"internal/simulate/page":      simulation,
	"internal/simulate/rollouts":  simulation,
	"internal/simulate/scenario":  simulation,
	"internal/simulate/search":    simulation,
	"internal/simulate/whatif":    simulation,
	"internal/snapshot":           report,
	"internal/status":             report,
	"internal/text":               "text for people",
	"internal/view":               report,
}

const (
	report     = "it reads and reports: nothing is changed by what it decides"
	simulation = "it simulates: nothing is changed by what it decides"
)

// TestMutated: each pure package of the layout rules has a battery of mutants, or a reason why not.
func TestMutated(t *testing.T) {
	t.Parallel()
	rules := read(t, filepath.Join("..", "..", "internal", "layout_rules_test.go"))
	var want []string
	for _, rule := range regexp.MustCompile(`pkg: "([^"]+)", kind: pure`).FindAllStringSubmatch(rules, -1) {
		want = append(want, rule[1])
	}
	got := slices.Concat(mutated, slices.Collect(maps.Keys(unmutated)))
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pure packages (-layout rules +mutated and unmutated):\n%s", diff)
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
	helpers := map[string]bool{
		"lab/test/e2e/internal/agree": true, "lab/test/e2e/internal/judge": true,
	}
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
