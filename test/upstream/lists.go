package upstream

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lists are the files in testdata: what upstream's tests do with our code.
type lists struct {
	// behaviour are the tests that pass unmodified.
	behaviour []behaviour
	// internals are the tests that do not run on our code.
	internals []internal
	// replaced are the files of upstream that a copy does not contain, as PACKAGE/FILE.
	replaced []string
	mutants  []mutant
}

// behaviour is a test of upstream that passes on our code.
type behaviour struct {
	pkg, test string
	// results is the number of results: the test and its subtests.
	results int
	// server is true if the test needs an API server.
	server bool
}

// internal is a test of upstream that depends on how upstream's code works inside.
type internal struct {
	// name is a function of upstream's tests, or TEST/SUBTEST.
	pkg, name, reason string
	// row is the test of ours for the same behavior, PACKAGE.TEST, or "helper": the function is no
	// test, and only such tests call it.
	row string
}

// mutant is a change to a file of ours that a test of upstream must notice.
type mutant struct{ file, old, changed string }

func (m mutant) String() string { return fmt.Sprintf("%s: %q for %q", m.file, m.changed, m.old) }

// readLists reads all lists in a folder.
func readLists(dir string) (*lists, error) {
	var l lists
	err := eachLine(filepath.Join(dir, "behaviour.txt"), func(line string) error {
		fields := strings.Fields(line)
		if len(fields) < 3 || len(fields) > 4 || (len(fields) == 4 && fields[3] != "apiserver") {
			return fmt.Errorf("want PACKAGE TEST RESULTS [apiserver]")
		}
		results, err := strconv.Atoi(fields[2])
		l.behaviour = append(l.behaviour, behaviour{fields[0], fields[1], results, len(fields) == 4})
		return err
	})
	if err != nil {
		return nil, err
	}
	err = eachLine(filepath.Join(dir, "internals.txt"), func(line string) error {
		fields := strings.Split(line, " | ")
		pkg, name, ok := strings.Cut(fields[0], " ")
		if len(fields) != 3 || !ok {
			return fmt.Errorf("want PACKAGE TEST | REASON | PACKAGE.TEST of ours, or helper")
		}
		l.internals = append(l.internals, internal{pkg, name, fields[1], fields[2]})
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = eachLine(filepath.Join(dir, "replaced.txt"), func(line string) error {
		l.replaced = append(l.replaced, line)
		return nil
	})
	if err != nil {
		return nil, err
	}
	names, err := filepath.Glob(filepath.Join(dir, "mutants*.txt"))
	if err != nil {
		return nil, fmt.Errorf("listing the lists of mutants: %w", err)
	}
	for _, name := range names {
		found, err := readMutants(name)
		if err != nil {
			return nil, err
		}
		l.mutants = append(l.mutants, found...)
	}
	return &l, nil
}

// eachLine calls do with each line of a file that is neither empty nor a comment.
func eachLine(name string, do func(line string) error) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("reading a list: %w", err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := do(line); err != nil {
			return fmt.Errorf("line %d of %s: %q: %w", i+1, name, line, err)
		}
	}
	return nil
}

// readMutants reads blocks of three lines: the file, "- " and the old text, "+ " and the new one.
func readMutants(name string) ([]mutant, error) {
	var lines []string
	err := eachLine(name, func(line string) error { lines = append(lines, line); return nil })
	if err != nil {
		return nil, err
	}
	var found []mutant
	for block := range slices.Chunk(lines, 3) {
		if len(block) != 3 || !strings.HasPrefix(block[1], "- ") || !strings.HasPrefix(block[2], "+ ") {
			return nil, fmt.Errorf("reading mutants in %s: %q: want FILE, - OLD and + NEW", name, block)
		}
		found = append(found, mutant{block[0], block[1][2:], block[2][2:]})
	}
	return found, nil
}

// cuts returns the functions of a package's tests that a copy does not contain.
func (l *lists) cuts(pkg string) []string {
	var names []string
	for _, entry := range l.internals {
		if entry.pkg == pkg && !strings.Contains(entry.name, "/") {
			names = append(names, entry.name)
		}
	}
	return names
}

// skips returns the value of -skip for the subtests among the internals.
func (l *lists) skips() string {
	var patterns []string
	for _, entry := range l.internals {
		if strings.Contains(entry.name, "/") {
			patterns = append(patterns, testPattern(entry.name))
		}
	}
	return strings.Join(patterns, "|")
}

// testPattern returns the pattern of -run and -skip that matches one test only.
func testPattern(name string) string {
	elements := strings.Split(name, "/")
	for i, element := range elements {
		elements[i] = "^" + regexp.QuoteMeta(element) + "$"
	}
	return strings.Join(elements, "/")
}

// writeBehaviour writes what passed as the list of behaviour, sorted. server is kept from before.
func (l *lists) writeBehaviour(dir string, now []behaviour) error {
	for i := range now {
		for _, before := range l.behaviour {
			if before.pkg == now[i].pkg && before.test == now[i].test {
				now[i].server = before.server
			}
		}
	}
	slices.SortFunc(now, func(a, b behaviour) int {
		return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test))
	})
	var text strings.Builder
	text.WriteString("# Tests of upstream that pass on our code unmodified: PACKAGE TEST RESULTS [apiserver].\n" +
		"# RESULTS counts the test and its subtests. `go test . -args -update` writes this file.\n")
	for _, b := range now {
		fmt.Fprintf(&text, "%s %s %d", b.pkg, b.test, b.results)
		if b.server {
			text.WriteString(" apiserver")
		}
		text.WriteString("\n")
	}
	return writeFile(filepath.Join(dir, "behaviour.txt"), []byte(text.String()))
}
