package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"path"
	"time"
)

// file is a regular file to be written. name has slashes and no leading one.
type file struct {
	name    string
	content []byte
	// mode is 0o644 if it is 0.
	mode int64
}

// archive returns a tar of the files in their order, owned by root, with their folders. All have the
// same time, so that the archive depends on the files alone.
func archive(files []file, created time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	seen := map[string]bool{".": true}
	for _, f := range files {
		for _, folder := range missingFolders(path.Dir(f.name), seen) {
			err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, ModTime: created, Format: tar.FormatPAX})
			if err != nil {
				return nil, fmt.Errorf("archiving %s: %w", folder, err)
			}
		}
		mode := f.mode
		if mode == 0 {
			mode = 0o644
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.content)), Mode: mode, ModTime: created, Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("archiving: %w", err)
	}
	return out.Bytes(), nil
}

// missingFolders returns a folder and its parents that are not in seen, outermost first, and adds them to seen.
func missingFolders(folder string, seen map[string]bool) []string {
	if seen[folder] {
		return nil
	}
	seen[folder] = true
	return append(missingFolders(path.Dir(folder), seen), folder)
}
