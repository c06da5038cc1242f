package main

import (
	"os"
	"path/filepath"
	"strconv"
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
	skip := "package p\n\nimport \"testing\"\n\nfunc TestSkipped(t *testing.T) { t.Skip(\"long\") }\n"
	if err := os.WriteFile(filepath.Join(root, "p", "skip_test.go"), []byte(skip), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(name string) place { return place{folder: "p", name: name} }
	mutantOf := func(from, to string) *mutant { return &mutant{File: "p/p.go", Old: from, New: to} }
	documents := []document{{Number: "000", Requirements: []requirement{
		{ID: "000-01", Test: at("TestDouble"), Live: at("TestDouble"), Mutant: mutantOf("n + n", "n + 1")},
		{ID: "000-02", Test: at("TestDouble"), Live: at("TestSkipped"), Mutant: mutantOf("n + n", "n * 2")},
		{ID: "000-03", Test: at("TestDouble"), Mutant: mutantOf("n / 2", "m / 2")},
		{ID: "000-04", Test: at("TestHalf"), Mutant: mutantOf("n / 2", "n")},
		{ID: "000-05"},
	}}}

	var out strings.Builder
	err := tryMutants(t.Context(), root, pick(documents, nil, testOf), testOf, &out)
	const want = "3 of 4 mutants are not noticed: 000-02, 000-03, 000-04"
	if err == nil || err.Error() != want || !strings.Contains(out.String(), "000-01 noticed by p.TestDouble\n") {
		t.Errorf("the error is %v, want %s; it printed:\n%s", err, want, out.String())
	}
	if err := tryMutants(t.Context(), root, pick(documents, []string{"000-01"}, testOf), testOf, &out); err != nil {
		t.Errorf("one mutant, which the test notices: %v", err)
	}
	for _, id := range []string{"000-05", "000-0", "001"} {
		if err := tryMutants(t.Context(), root, pick(documents, []string{id}, testOf), testOf, &out); err == nil {
			t.Errorf("%s names no mutant, and is accepted", id)
		}
	}
	// Of the live tests, one notices its mutant, and one does not run.
	out.Reset()
	live := pick(documents, nil, liveOf)
	for number, want := range []string{"", "1 of 1 mutants are not noticed: 000-02", ""} {
		err := trySample(t.Context(), root, live, []string{"1", strconv.Itoa(number)}, &out)
		if (err != nil) != (want != "") || err != nil && err.Error() != want {
			t.Errorf("sample %d: %v, want %q", number, err, want)
		}
	}
	if !strings.Contains(out.String(), "000-02: requirement 000-02: p.TestSkipped was skipped\n") {
		t.Errorf("it printed:\n%s", out.String())
	}
	for _, bad := range [][]string{{"0", "1"}, {"3", "1"}, {"1", "-1"}, {"x", "1"}} {
		if err := trySample(t.Context(), root, live, bad, &out); err == nil {
			t.Errorf("a sample of %q is accepted", bad)
		}
	}
}
