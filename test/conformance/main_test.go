package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutants tries mutants of a module with one function and one test: one that the test notices, one
// that it does not, one that does not compile, and one whose test does not exist. The tool names the last
// three in its error, after it has tried all.
func TestMutants(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":      "module example.com/m\n\ngo 1.26\n",
		"p/p.go":      "package p\n\nfunc double(n int) int { return n + n }\n\nfunc half(n int) int { return n / 2 }\n",
		"p/p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestDouble(t *testing.T) {\n\tif double(2) != 4 || half(2) != 1 {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) place { return place{folder: "p", name: name} }
	mutantOf := func(from, to string) *mutant { return &mutant{File: "p/p.go", Old: from, New: to} }
	documents := []document{{Number: "000", Requirements: []requirement{
		{ID: "000-01", Test: at("TestDouble"), Mutant: mutantOf("n + n", "n + 1")},
		{ID: "000-02", Test: at("TestDouble"), Mutant: mutantOf("n + n", "n * 2")},
		{ID: "000-03", Test: at("TestDouble"), Mutant: mutantOf("n / 2", "m / 2")},
		{ID: "000-04", Test: at("TestHalf"), Mutant: mutantOf("n / 2", "n")},
		{ID: "000-05"},
	}}}

	var out strings.Builder
	err := tryMutants(t.Context(), root, documents, nil, &out)
	const want = "3 of 4 mutants are not noticed: 000-02, 000-03, 000-04"
	if err == nil || err.Error() != want || !strings.Contains(out.String(), "000-01 noticed by p.TestDouble\n") {
		t.Errorf("the error is %v, want %s; it printed:\n%s", err, want, out.String())
	}
	if err := tryMutants(t.Context(), root, documents, []string{"000-01"}, &out); err != nil {
		t.Errorf("one mutant, which the test notices: %v", err)
	}
	for _, id := range []string{"000-05", "000-0", "001"} {
		if err := tryMutants(t.Context(), root, documents, []string{id}, &out); err == nil {
			t.Errorf("%s names no mutant, and is accepted", id)
		}
	}
}
