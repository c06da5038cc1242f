package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `package sample

import "fmt"

// Group is counted, and so is Say.
type Group struct{ a, b int }

type step int

func (g Group) Say() {
	a := g.a
	b := g.b
	fmt.Println("a", a, 1)
	fmt.Println("b", b, 2)
	if a > b {
		return
	}
	fmt.Println("c", a, 3)
}
`

func TestSize(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		writeFile(t, filepath.Join(root, name), text)
	}
	for _, dir := range productDirs {
		write(filepath.Join(dir, "doc.go"), "package doc\n")
	}
	write("internal/sample/sample.go", sample)
	write("internal/sample/sample_test.go", sample)
	write("api/zz_generated.go", sample)
	before, err := measureSize(root)
	if err != nil {
		t.Fatal(err)
	}
	// Other names and numbers, the same shape.
	write("internal/other/other.go", strings.NewReplacer("Group", "Plan", "sample", "other", "1", "11").Replace(sample))
	after, err := measureSize(root)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := before.tokens, 4*2+73; got != want {
		t.Errorf("%d tokens, want %d", got, want)
	}
	if before.exported != 2 || before.types["Group"] != 1 || before.types["Step"] != 0 || len(before.packages) != 2 || before.duplicated() != 0 {
		t.Errorf("before: %d exported, %v, packages %v, %d duplicated", before.exported, before.types, before.packages, before.duplicated())
	}
	if after.exported != 4 || after.types["Plan"] != 1 || len(after.packages) != 3 || after.duplicated() != 2 {
		t.Errorf("after: %d exported, %v, packages %v, %d duplicated", after.exported, after.types, after.packages, after.duplicated())
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestHops: a path that leads nowhere is an error, because a function was renamed.
func TestHops(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "go.mod"), "module github.com/windlass-dev/windlass\n\ngo 1.26.0\n")
	writeFile(t, filepath.Join(root, "internal", "sample", "sample.go"),
		"package sample\n\nfunc From() { between() }\n\nfunc between() { to() }\n\nfunc to() {}\n")
	for _, dir := range []string{"cmd", "pkg"} {
		writeFile(t, filepath.Join(root, dir, "doc.go"), "package doc\n")
	}
	for _, test := range []struct{ name, from, to, want, err string }{
		{name: "found", from: `sample\.From$`, to: `sample\.to$`, want: "2 calls, 1 packages"},
		{name: "no start", from: `sample\.Gone$`, to: `sample\.to$`, err: `path "no start": no function matches its start sample\.Gone$`},
		{name: "no way", from: `sample\.to$`, to: `sample\.From$`, err: `path "no way": no calls lead from sample\.to$ to sample\.From$`},
	} {
		rows, err := measureHops(root, []path{{name: test.name, from: test.from, to: test.to}})
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %s", test.name, err, test.err)
			}
		case err != nil || len(rows) != 1 || rows[0].values[0] != test.want:
			t.Errorf("%s: %v, %v, want %s", test.name, rows, err, test.want)
		}
	}
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"nothing":           `"nothing" is not NAME=DIR`,
		"a=/does/not/exist": "measuring /does/not/exist",
	} {
		if err := run([]string{arg}, os.Stderr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
	}
}
