package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func aPage(out io.Writer) error {
	_, err := io.WriteString(out, "<!DOCTYPE html>\n")
	return err
}

// TestPageFiles: what stands in a page's place stays until the page is complete, and nothing else is left in the folder.
func TestPageFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, link := filepath.Join(folder, "real", "page.html"), filepath.Join(folder, "link.html")
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("before"), 0o600), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	given, err := OpenPage(link)
	if err != nil {
		t.Fatal(err)
	}
	if given.Discard(); read() != "before" {
		t.Errorf("a page that was not written is %q", read())
	}
	if given, err = OpenPage(link); err != nil {
		t.Fatal(err)
	}
	if err := given.Write(aPage); err != nil {
		t.Fatal(err)
	}
	given.Discard()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(read(), "<!DOCTYPE html>") {
		t.Errorf("the page has the mode %v, %v: %q", info.Mode(), err, read())
	}
	if at, err := os.Readlink(link); err != nil || at != path {
		t.Errorf("the link leads to %q, %v", at, err)
	}
	for _, in := range []string{folder, filepath.Dir(path)} {
		entries, err := os.ReadDir(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				t.Errorf("%s is left behind", e.Name())
			}
		}
	}
}

// TestAPageWithoutAPlace: a folder that has come where the page should be leaves nothing of it.
func TestAPageWithoutAPlace(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "page.html")
	p, err := OpenPage(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(aPage); err == nil {
		t.Error("it takes the folder's place")
	}
	p.Discard()
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	_, err = OpenPage(filepath.Join(folder, "none", "page.html"))
	if at, ok := errors.AsType[*fs.PathError](err); !ok || at.Path != filepath.Join(folder, "none", "page.html") || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}
