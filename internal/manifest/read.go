package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Read reads files, folders (their *.yaml, *.yml and *.json files, not those of folders within them) and, for the path "-",
// stdin. Empty files of folders are ignored, as kubectl does. It reads all or nothing. The error is an *Error.
func Read(paths []string, stdin io.Reader) (*Set, error) {
	s := &Set{}
	if err := s.read(paths, stdin); err != nil {
		return nil, err
	}
	return s, nil
}

// ReadObjects is Read for programs that need whole objects of every kind: it returns them in the order in which they were
// read, not checked beyond apiVersion, kind and name. The error is an *Error.
func ReadObjects(paths []string, stdin io.Reader) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	s := &Set{takeRaw: func(origin Origin, gvk schema.GroupVersionKind, value []byte) error {
		o := &unstructured.Unstructured{}
		if err := unmarshal(origin, value, &o.Object); err != nil {
			return err
		}
		o.SetGroupVersionKind(gvk)
		switch {
		case gvk.Kind == "":
			return &Error{Origin: origin, Problem: noObject}
		case o.GetName() == "":
			return &Error{Origin: origin, Field: "metadata.name", Problem: fmt.Sprintf("the %s has no name", gvk.Kind)}
		}
		objects = append(objects, o)
		return nil
	}}
	if err := s.read(paths, stdin); err != nil {
		return nil, err
	}
	return objects, nil
}

func (s *Set) read(paths []string, stdin io.Reader) error {
	files, err := findFiles(paths)
	if err != nil {
		return err
	}
	total := 0
	for _, file := range files {
		data, err := ReadFile(file, stdin)
		if err != nil {
			return err
		}
		if total += len(data); total > MaxTotalBytes {
			return &Error{Origin: Origin{File: file}, Problem: fmt.Sprintf("the files together are larger than %d MiB", MaxTotalBytes>>20)}
		}
		if err := s.Decode(displayName(file), data); err != nil {
			return err
		}
	}
	return nil
}

// ReadFile reads one file, or stdin for the path "-", and refuses what is empty or too large. The error is an *Error.
func ReadFile(path string, stdin io.Reader) ([]byte, error) {
	origin := Origin{File: displayName(path)}
	reader := stdin
	if path != Stdin {
		file, err := os.Open(path)
		if err != nil {
			return nil, &Error{Origin: origin, Problem: describeFileError(err), Err: err}
		}
		defer file.Close() //nolint:errcheck // It was only read.
		reader = file
	}
	data, err := io.ReadAll(io.LimitReader(reader, MaxFileBytes+1))
	switch {
	case err != nil:
		return nil, &Error{Origin: origin, Problem: describeFileError(err), Err: err}
	case len(data) > MaxFileBytes:
		return nil, &Error{Origin: origin, Problem: fmt.Sprintf("it is larger than %d MiB", MaxFileBytes>>20)}
	case len(strings.TrimSpace(string(data))) == 0:
		return nil, &Error{Origin: origin, Problem: "it is empty"}
	}
	return data, nil
}

func displayName(path string) string {
	if path == Stdin {
		return "stdin"
	}
	return path
}

// describeFileError drops the operation and the path of an *fs.PathError: the origin has named the file already.
func describeFileError(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file or folder"
	}
	return err.Error()
}

// findFiles replaces folders by the manifests in them, in order of name.
func findFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		if path == Stdin {
			if slices.Contains(files, Stdin) {
				return nil, &Error{Origin: Origin{File: "stdin"}, Problem: "it was named twice and can be read only once"}
			}
			files = append(files, path)
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, &Error{Origin: Origin{File: path}, Problem: describeFileError(err), Err: err}
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		inside, err := manifestsIn(path)
		if err != nil {
			return nil, err
		}
		files = append(files, inside...)
	}
	return files, nil
}

func manifestsIn(folder string) ([]string, error) {
	origin := Origin{File: folder}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, &Error{Origin: origin, Problem: describeFileError(err), Err: err}
	}
	var files []string
	found := false
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if e.IsDir() || ext != ".yaml" && ext != ".yml" && ext != ".json" {
			continue
		}
		found = true
		path := filepath.Join(folder, e.Name())
		if info, err := os.Stat(path); err != nil || info.Size() > 0 || !info.Mode().IsRegular() {
			files = append(files, path)
		}
	}
	if !found {
		return nil, &Error{Origin: origin, Problem: "the folder has no *.yaml, *.yml or *.json file; folders within it are not read"}
	}
	return files, nil
}
