package formtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing" //nolint:depguard // Tests alone import this package.

	"github.com/google/go-cmp/cmp" //nolint:depguard // Tests alone import this package.
)

// Release is the release whose forms the writers write, such as v0.1.
const Release = "v0.1"

// released has a digest of the forms of each release that is out, by its name: these forms do not
// change any more. The next release's are made with another Release and WINDLASS_UPDATE=1.
var released = map[string]string{}

// Text checks a form that is no JSON. written is what the product writes; read is the product's
// reader, which is called with each release's form, and returns what is wrong with it.
func Text(t *testing.T, name, written string, read func(text string) error) {
	t.Helper()
	for release, text := range readForms(t, name+".txt", written+"\n") {
		if err := read(text[:len(text)-1]); err != nil {
			t.Errorf("the form of %s: %v\n%s", release, err, text)
		}
	}
}

// Folder returns the folder with a folder for each release.
func Folder(t *testing.T) string {
	t.Helper()
	root, err := os.Getwd()
	for ; err == nil; root = filepath.Dir(root) {
		if _, missing := os.Stat(filepath.Join(root, "go.mod")); missing == nil {
			break
		}
		if root == filepath.Dir(root) {
			err = os.ErrNotExist
		}
	}
	if err != nil {
		t.Fatalf("finding go.mod: %v", err)
	}
	return filepath.Join(root, "internal", "recordjson", "testdata")
}

// readForms returns the texts of a form by release, and compares the present release's with what
// was written. With WINDLASS_UPDATE it writes that one, unless the release is out.
func readForms(t *testing.T, file, written string) map[string]string {
	t.Helper()
	path := filepath.Join(Folder(t), Release, file)
	if _, out := released[Release]; !out && os.Getenv("WINDLASS_UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := filepath.Glob(filepath.Join(Folder(t), "*", file))
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		forms[filepath.Base(filepath.Dir(path))] = string(text)
	}
	if diff := cmp.Diff(forms[Release], written); diff != "" {
		t.Errorf("the form of %s in %s is not what is written. An older release must be able to read it; "+
			"see docs/reference/compatibility.md. Fix: WINDLASS_UPDATE=1 writes it, "+
			"after formtest.Release names a release that is not out:\n%s",
			Release, file, diff)
	}
	return forms
}

// CheckReleased fails if the forms of a release that is out have changed, or one of outs has no
// digest.
func CheckReleased(t *testing.T, outs []string) {
	t.Helper()
	for _, out := range outs {
		if _, known := released[out]; !known {
			t.Errorf("%s is out. Fix: add to formtest.released: %q: %q", out, out, digest(t, out))
		}
	}
	for release, want := range released {
		if got := digest(t, release); got != want {
			t.Errorf("the forms of %s are out and have changed: the digest is %s, not %s. Fix: restore them",
				release, got, want)
		}
	}
}

// digest is that of a release's files.
func digest(t *testing.T, release string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(Folder(t), release, "*"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(path), len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
