package internal_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitectureNamesWhatExists fails when ARCHITECTURE.md names a package or file that is gone.
func TestArchitectureNamesWhatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	paths := ownPaths(t, string(text))
	if len(paths) == 0 {
		t.Fatal("ARCHITECTURE.md names no package: does the pattern of paths still fit?")
	}
	for _, path := range paths {
		if !exists(t, path) && !exists(t, "internal/"+path) {
			t.Errorf("ARCHITECTURE.md names %s, and neither that nor internal/%s exists", path, path)
		}
	}
}

// TestOwnPaths: paths into this repository are told from those of other modules.
func TestOwnPaths(t *testing.T) {
	t.Parallel()
	const text = "`inplace/annotations` reads, inplace/request.Decide in chain/decide.go. See `go doc ./internal/NAME`, k8s.io/api, google/go-cmp, " +
		"https://example.com/internal/x and internal/gone/, not and/or."
	want := []string{"inplace/annotations", "inplace/request", "chain/decide.go", "internal/gone"}
	if got := ownPaths(t, text); !slices.Equal(got, want) {
		t.Errorf("ownPaths: %q, want %q", got, want)
	}
}

var (
	pathPattern = regexp.MustCompile(`[\w.:-]*(/+[\w.-]*\w)+`)
	// identifier is what follows the path of a package.
	identifier = regexp.MustCompile(`\.[A-Z]\w*$`)
)

// ownPaths returns the paths in text that begin with a directory of this repository or of internal.
// "./internal/NAME" is a pattern of commands, and no path.
func ownPaths(t *testing.T, text string) []string {
	t.Helper()
	var own []string
	for _, path := range pathPattern.FindAllString(text, -1) {
		first, _, _ := strings.Cut(path, "/")
		if first != "" && first != "." && (exists(t, first) || exists(t, "internal/"+first)) {
			own = append(own, identifier.ReplaceAllString(path, ""))
		}
	}
	return own
}

// exists reports whether the repository has a file or directory at path.
func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat("../" + path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// TestVerbsArePackages checks that cmd/windlass contains only main.go: each verb is a package in internal/cli.
func TestVerbsArePackages(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "cmd", "windlass", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
	if want := []string{filepath.Join("..", "cmd", "windlass", "main.go")}; !slices.Equal(files, want) {
		t.Errorf("cmd/windlass has the files %q, want only main.go", files)
	}
}
