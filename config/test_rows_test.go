package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A cell of a table names tests and files of tests, then the packages that have them, with " in " in
// between. Groups of them end at ";" or ")", and at the end of the cell.
var (
	rowTest    = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)(?:/[^`]*)?`")
	rowFile    = regexp.MustCompile("`([a-z_0-9]+_test\\.go)`")
	rowPackage = regexp.MustCompile(
		"`((?:internal|lab|test|config|pkg|api|cmd|tools)(?:/[A-Za-z0-9_/.-]*)?)`")
	rowGroup = regexp.MustCompile(`[;|]|\)(?: |,)`)
)

// TestRowsNameTests holds that each row of the two pages about guarantees that names a test also
// names a package, and that a package of the row has it.
func TestRowsNameTests(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"SECURITY.md", "docs/explanation/reliability.md"} {
		rows := 0
		for line := range strings.Lines(readText(t, filepath.Join("..", page))) {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for _, group := range rowGroup.Split(line, -1) {
				rows += checkGroup(t, page, group)
			}
		}
		if rows == 0 {
			t.Errorf("%s names no test", page)
		}
	}
}

// checkGroup checks the tests of one group, and returns how many it names.
func checkGroup(t *testing.T, page, group string) int {
	t.Helper()
	source := testSource(t, page, group)
	tests := rowTest.FindAllStringSubmatch(group, -1)
	for _, name := range tests {
		if !strings.Contains(source, "\nfunc "+name[1]+"(") {
			t.Errorf("%s: no package of %q has the test %s", page, group, name[1])
		}
	}
	for _, name := range rowFile.FindAllStringSubmatch(group, -1) {
		if !strings.Contains(source, "\n// file "+name[1]+"\n") {
			t.Errorf("%s: no package of %q has the file %s", page, group, name[1])
		}
	}
	return len(tests)
}

// testSource returns the tests of all packages that a group names, with the name of each file.
func testSource(t *testing.T, page, group string) string {
	t.Helper()
	var source strings.Builder
	for _, name := range rowPackage.FindAllStringSubmatch(group, -1) {
		folder := filepath.Join("..", name[1])
		if _, err := os.Stat(folder); err != nil {
			t.Errorf("%s names %s, which does not exist", page, name[1])
		}
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source.WriteString("\n// file " + filepath.Base(file) + "\n" + readText(t, file))
		}
	}
	return source.String()
}
