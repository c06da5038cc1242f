package upstream

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLists fails when a test of upstream is in neither list or in both, when a test of ours that
// stands for one of upstream's does not exist, when the text of a mutant is not in its file once,
// and when a list has too few mutants.
func TestLists(t *testing.T) {
	t.Parallel()
	l, err := readLists("testdata")
	if err != nil {
		t.Fatal(err)
	}
	version, err := findVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	source, err := readUpstream(t.Context(), version)
	if err != nil {
		t.Fatal(err)
	}
	var upstreams []testID
	for _, pkg := range packages {
		names, err := source.listTests(pkg)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			upstreams = append(upstreams, testID{pkg, name})
		}
	}
	for _, problem := range compareLists(l, upstreams) {
		t.Error(problem)
	}
	for _, entry := range l.internals {
		if err := checkRow(entry); err != nil {
			t.Error(err)
		}
	}
	checkMutants(t, l.mutants)
}

// notDecider are files with mutants that change what is shown, not what is decided.
var notDecider = []string{
	"internal/pool/conditions.go", "internal/pool/condition_words.go", "internal/pool/legacy.go",
	"internal/pool/stale.go",
}

// checkMutants: each list has as many mutants as we promise at least, no two of them are the same,
// and all can be made. In mutants.txt those of the decider count.
func checkMutants(t *testing.T, mutants []mutant) {
	t.Helper()
	distinct, ofDecider, ofMachineSet := map[string]bool{}, 0, 0
	for _, m := range mutants {
		if distinct[m.String()] {
			t.Errorf("a list of mutants: %s is there twice", m)
		}
		distinct[m.String()] = true
		switch {
		case len(m.packages) == 1:
			ofMachineSet++
		case !slices.Contains(notDecider, m.file):
			ofDecider++
		}
	}
	if ofDecider < 20 || ofMachineSet < 16 {
		t.Errorf("%d mutants of the decider in mutants.txt and %d in mutants-machineset.txt, "+
			"want at least 20 and 16", ofDecider, ofMachineSet)
	}
	for _, m := range mutants {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
		if err != nil {
			t.Error(err)
		} else if count := bytes.Count(content, []byte(m.old)); count != 1 {
			t.Errorf("a list of mutants: %s has %q %d times, not once. Fix: choose other texts", m.file, m.old, count)
		}
	}
}

// compareLists returns the tests of upstream that are not in exactly one list, and the tests in the
// lists that upstream does not have.
func compareLists(l *lists, upstreams []testID) []string {
	listed := map[testID][]string{}
	for _, b := range l.behaviour {
		id := testID{b.pkg, b.test}
		listed[id] = append(listed[id], "behaviour.txt")
	}
	var problems []string
	for _, entry := range l.internals {
		id := testID{entry.pkg, entry.name}
		if test, _, ok := strings.Cut(entry.name, "/"); ok {
			if !slices.Contains(listed[testID{entry.pkg, test}], "behaviour.txt") {
				problems = append(problems, fmt.Sprintf("%s %s is skipped, but %s is not in behaviour.txt",
					entry.pkg, entry.name, test))
			}
		} else if entry.row != "helper" {
			listed[id] = append(listed[id], "internals.txt")
		}
	}
	for _, id := range upstreams {
		switch in := listed[id]; len(in) {
		case 0:
			problems = append(problems, fmt.Sprintf("%s %s is in no list", id.pkg, id.test))
		case 1:
		default:
			problems = append(problems, fmt.Sprintf("%s %s is in %s", id.pkg, id.test, strings.Join(in, " and ")))
		}
		delete(listed, id)
	}
	for id, in := range listed {
		problems = append(problems, fmt.Sprintf("%s %s is in %s, but upstream has no such test",
			id.pkg, id.test, strings.Join(in, " and ")))
	}
	slices.Sort(problems)
	return problems
}

// checkRow returns an error if our test for an internal test of upstream does not exist.
func checkRow(entry internal) error {
	if entry.row == "helper" {
		return nil
	}
	pkg, test, ok := strings.Cut(entry.row, ".")
	if !ok {
		return fmt.Errorf("testdata/internals.txt: %s: %q is not PACKAGE.TEST", entry.name, entry.row)
	}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		return fmt.Errorf("listing the tests of %s: %w", pkg, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("looking for %s: %w", entry.row, err)
		}
		if bytes.Contains(content, []byte("\nfunc "+test+"(")) {
			return nil
		}
	}
	return fmt.Errorf("testdata/internals.txt: %s: package %s has no test %s", entry.name, pkg, test)
}

// TestCompareLists: each kind of problem is found.
func TestCompareLists(t *testing.T) {
	t.Parallel()
	l := &lists{
		behaviour: []behaviour{{pkg: "p", test: "TestBoth"}, {pkg: "p", test: "TestGone"}, {pkg: "p", test: "TestGood"}},
		internals: []internal{
			{pkg: "p", name: "TestBoth"}, {pkg: "p", name: "TestInternal"}, {pkg: "p", name: "newThing", row: "helper"},
			{pkg: "p", name: "TestGood/one"}, {pkg: "p", name: "TestInternal/one"},
		},
	}
	upstreams := []testID{{"p", "TestBoth"}, {"p", "TestGood"}, {"p", "TestInternal"}, {"p", "TestNew"}}
	want := []string{
		"p TestBoth is in behaviour.txt and internals.txt",
		"p TestGone is in behaviour.txt, but upstream has no such test",
		"p TestInternal/one is skipped, but TestInternal is not in behaviour.txt",
		"p TestNew is in no list",
	}
	if got := compareLists(l, upstreams); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAdapters: no tool checks files in testdata but this test. The compiler reads them in a copy
// of Cluster API.
func TestAdapters(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join("testdata", "adapters", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if pkg := filepath.Base(filepath.Dir(name)); !slices.Contains(packages, pkg) {
			t.Errorf("%s: %s is not a package whose tests run", name, pkg)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		formatted, err := format.Source(content)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(content, formatted) {
			t.Errorf("%s is not formatted. Fix: gofmt -w %s", name, name)
		}
		for i, line := range strings.Split(string(content), "\n") {
			if columns := len([]rune(strings.ReplaceAll(line, "\t", "    "))); columns > 100 {
				t.Errorf("%s:%d has %d columns. Fix: at most 100", name, i+1, columns)
			}
		}
	}
}

// TestCut: functions go with their comments, and imports that only they used get the name _.
func TestCut(t *testing.T) {
	t.Parallel()
	const before = `package p

import (
	"strings"
	"testing"

	other "example.com/v2"
	"example.com/third/v3"
)

// TestA is cut.
func TestA(t *testing.T) { other.Do(strings.ToLower("A")) }

// TestB stays.
func TestB(t *testing.T) { third.Do() }
`
	const after = `package p

import (
	_ "strings"
	"testing"

	_ "example.com/v2"
	"example.com/third/v3"
)



// TestB stays.
func TestB(t *testing.T) { third.Do() }
`
	name := inReconcilers("p", "a_test.go")
	source := &tree{cached: map[string]string{}, ours: map[string][]byte{name: []byte(before)}}
	tests, err := source.listTests("p")
	if want := []string{"TestA", "TestB"}; err != nil || !slices.Equal(tests, want) {
		t.Errorf("got tests %q and %v, want %q", tests, err, want)
	}
	missing, err := source.cut("p", []string{"TestA", "TestC"})
	if want := []string{"TestC"}; err != nil || !slices.Equal(missing, want) {
		t.Errorf("got missing %q and %v, want %q", missing, err, want)
	}
	if got := string(source.ours[name]); got != after {
		t.Errorf("got\n%s\nwant\n%s", got, after)
	}
}

// TestMoveImports: imports of our packages get their path in a copy, and others stay.
func TestMoveImports(t *testing.T) {
	t.Parallel()
	const before = `package p

import (
	"fmt"

	"github.com/windlass-dev/windlass/internal/pool"
	v "github.com/windlass-dev/windlass/pkg/version"
)
`
	const after = `package p

import (
	"fmt"

	"sigs.k8s.io/cluster-api/internal/windlass/pool"
	v "sigs.k8s.io/cluster-api/internal/windlass/pkg/version"
)
`
	got, imports, err := moveImports("a.go", []byte(before))
	want := []string{ownModule + "/internal/pool", ownModule + "/pkg/version"}
	if err != nil || string(got) != after || !slices.Equal(imports, want) {
		t.Errorf("got %q, %v and\n%s\nwant %q and\n%s", imports, err, got, want, after)
	}
}
