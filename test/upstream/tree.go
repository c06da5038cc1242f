package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// tree is the content of a copy of Cluster API, by slash-separated path. A file has either the bytes
// of a file in the module cache, or bytes of ours.
type tree struct {
	cached map[string]string
	ours   map[string][]byte
}

// unused are the folders of upstream's module that no test of packages needs.
var unused = []string{"docs", "hack", ".github"}

// readUpstream returns the copy before any change.
func readUpstream(ctx context.Context, version string) (*tree, error) {
	core, api, err := download(ctx, version)
	if err != nil {
		return nil, err
	}
	t := &tree{cached: map[string]string{}, ours: map[string][]byte{}}
	for dir, into := range map[string]string{core: "", api: "api"} {
		if err := t.addFolder(dir, into); err != nil {
			return nil, fmt.Errorf("reading %s: %w", dir, err)
		}
	}
	return t, nil
}

func (t *tree) addFolder(dir, into string) error {
	return fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(unused, name):
			return fs.SkipDir
		case entry.Type().IsRegular():
			t.cached[path.Join(into, name)] = filepath.Join(dir, filepath.FromSlash(name))
		}
		return nil
	})
}

// remove deletes a file. It fails when the file does not exist.
func (t *tree) remove(name string) error {
	_, cached := t.cached[name]
	if _, ours := t.ours[name]; !ours && !cached {
		return fmt.Errorf("removing %s: upstream has no such file. Fix: change testdata/replaced.txt", name)
	}
	delete(t.cached, name)
	delete(t.ours, name)
	return nil
}

// add adds a file of ours. It fails when the file exists.
func (t *tree) add(name string, content []byte) error {
	_, cached := t.cached[name]
	if _, ours := t.ours[name]; ours || cached {
		return fmt.Errorf("adding %s: the file exists. Fix: choose another name", name)
	}
	t.ours[name] = content
	return nil
}

// read returns the content of a file.
func (t *tree) read(name string) ([]byte, error) {
	if content, ok := t.ours[name]; ok {
		return content, nil
	}
	return os.ReadFile(t.cached[name]) //nolint:wrapcheck // the error names the file
}

// replace sets the content of a file that exists.
func (t *tree) replace(name string, content []byte) {
	delete(t.cached, name)
	t.ours[name] = content
}

// list returns the sorted names of the files in a folder, without those of folders below it.
func (t *tree) list(dir string) []string {
	var names []string
	for _, files := range [][]string{slices.Collect(maps.Keys(t.cached)), slices.Collect(maps.Keys(t.ours))} {
		for _, name := range files {
			if path.Dir(name) == dir {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// write makes dir equal to the tree. It leaves files alone that are equal already.
func (t *tree) write(dir string) error {
	for _, name := range slices.Concat(slices.Collect(maps.Keys(t.cached)), slices.Collect(maps.Keys(t.ours))) {
		content, err := t.read(name)
		if err != nil {
			return fmt.Errorf("copying %s: %w", name, err)
		}
		if err := writeFile(filepath.Join(dir, filepath.FromSlash(name)), content); err != nil {
			return fmt.Errorf("copying %s: %w", name, err)
		}
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		_, cached := t.cached[name]
		if _, ours := t.ours[name]; ours || cached {
			return nil
		}
		return os.Remove(filepath.Join(dir, filepath.FromSlash(name)))
	})
	if err != nil {
		return fmt.Errorf("removing files from %s that upstream does not have: %w", dir, err)
	}
	return nil
}

func writeFile(name string, content []byte) error {
	have, err := os.ReadFile(name)
	if err == nil && bytes.Equal(have, content) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err //nolint:wrapcheck // the caller wraps it
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return err //nolint:wrapcheck // the caller wraps it
	}
	return os.WriteFile(name, content, 0o600) //nolint:wrapcheck // the caller wraps it
}

// inReconcilers returns the path of a file in a package below reconcilers.
func inReconcilers(elements ...string) string {
	return path.Join(append([]string{reconcilers}, elements...)...)
}

// isGo reports whether a file is Go, and not a test.
func isGo(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}
