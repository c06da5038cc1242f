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
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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
