package upstream

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checkCopy returns what is wrong in a written copy: files that we replace, and code in the packages
// that is neither their doc.go nor an adapter of ours.
func checkCopy(dir string, replaced []string) (problems []string, err error) {
	for _, name := range replaced {
		if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(inReconcilers(name)))); err == nil {
			problems = append(problems, fmt.Sprintf("the copy contains %s, which we replace", name))
		}
	}
	for _, pkg := range packages {
		entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(inReconcilers(pkg))))
		if err != nil {
			return nil, fmt.Errorf("reading the copy: %w", err)
		}
		adapters := 0
		for _, entry := range entries {
			name := entry.Name()
			adapter, isAdapter := strings.CutPrefix(name, adapterPrefix)
			switch {
			case !isGo(name) || name == "doc.go":
			case isAdapter && isFile(filepath.Join("testdata", "adapters", pkg, adapter)):
				adapters++
			default:
				problems = append(problems, fmt.Sprintf(
					"the copy contains %s/%s, which is neither doc.go nor an adapter. "+
						"Fix: name it in testdata/replaced.txt", pkg, name))
			}
		}
		if adapters == 0 {
			problems = append(problems, fmt.Sprintf("the copy contains no adapter of %s", pkg))
		}
	}
	return problems, nil
}

func isFile(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// TestCheckCopy: a copy with a file that we replace, or with code of upstream in the packages, is
// found.
func TestCheckCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{
		"machinedeployment/doc.go", "machinedeployment/windlass_planner.go",
		"machinedeployment/sync.go", "machinedeployment/new.go", "machinedeployment/new_test.go",
		"machinedeployment/windlass_other.go", "machinedeployment/mdutil/util.go", "machineset/doc.go",
	} {
		if err := writeFile(filepath.Join(dir, inReconcilers(name)), nil); err != nil {
			t.Fatal(err)
		}
	}
	got, err := checkCopy(dir, []string{"machinedeployment/sync.go", "machineset/gone.go"})
	if err != nil {
		t.Fatal(err)
	}
	const neither = ", which is neither doc.go nor an adapter. Fix: name it in testdata/replaced.txt"
	want := []string{
		"the copy contains machinedeployment/sync.go, which we replace",
		"the copy contains machinedeployment/new.go" + neither,
		"the copy contains machinedeployment/sync.go" + neither,
		"the copy contains machinedeployment/windlass_other.go" + neither,
		"the copy contains no adapter of machineset",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// newFiles returns the files of the packages that only the later of two versions has, sorted, as
// PACKAGE/FILE. Golden files of tests are left out.
func newFiles(before, after *tree) (added []string) {
	for name := range after.cached {
		below, ok := strings.CutPrefix(name, reconcilers+"/")
		pkg, _, _ := strings.Cut(below, "/")
		if _, had := before.cached[name]; ok && !had && slices.Contains(packages, pkg) &&
			path.Ext(name) == ".go" {
			added = append(added, below)
		}
	}
	slices.Sort(added)
	return added
}

// TestNewFiles: files that another version adds to the packages are listed.
func TestNewFiles(t *testing.T) {
	t.Parallel()
	of := func(names ...string) *tree {
		source := &tree{cached: map[string]string{}}
		for _, name := range names {
			source.cached[name] = name
		}
		return source
	}
	before := of(inReconcilers("machineset/a.go"), inReconcilers("machineset/gone.go"))
	after := of(inReconcilers("machineset/a.go"), inReconcilers("machineset/b.go"),
		inReconcilers("machinedeployment/mdutil/c.go"), inReconcilers("machineset/b_test.go"),
		inReconcilers("machineset/testdata/d.golden"), inReconcilers("machine/e.go"), "main.go")
	want := []string{"machinedeployment/mdutil/c.go", "machineset/b.go", "machineset/b_test.go"}
	if got := newFiles(before, after); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
