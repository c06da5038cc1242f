package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// pageMode is that of a file that says nothing secret.
const pageMode fs.FileMode = 0o644

// PageFile is where a page will be: as a whole, or not at all. It is opened before the work begins, so
// that a wrong name is an error at once. A nil PageFile is for no page.
type PageFile struct {
	path string
	file *os.File
	mode fs.FileMode
	// replaces says that file stands beside path, and is still to take its place.
	replaces bool
}

// OpenPage opens the file for a page; an empty path is for none. What stands there stays until the page is complete.
func OpenPage(path string) (*PageFile, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // Documented: there is no page.
	}
	p := &PageFile{path: path, mode: pageMode, replaces: true}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder. Fix: name a file", path)
	case !info.Mode().IsRegular():
		// A pipe or a device must stay what it is.
		p.replaces = false
		p.file, err = os.OpenFile(path, os.O_WRONLY, 0)
		return p, err
	default:
		// A link goes on pointing to the file.
		if p.path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
		p.mode = info.Mode().Perm()
	}
	if p.file, err = os.CreateTemp(filepath.Dir(p.path), "."+filepath.Base(p.path)+".*"); err != nil {
		// The name of the temporary file would only confuse.
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			err = &fs.PathError{Op: at.Op, Path: path, Err: at.Err}
		}
		return nil, err
	}
	return p, nil
}

// Write writes the page that write writes, and puts it in its place. It is called once.
func (p *PageFile) Write(write func(io.Writer) error) error {
	if p == nil {
		return nil
	}
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	if _, err := p.file.Write(text.Bytes()); err != nil {
		return err
	}
	if !p.replaces {
		return p.file.Close()
	}
	if err := errors.Join(p.file.Chmod(p.mode), p.file.Close()); err != nil {
		return err
	}
	if err := os.Rename(p.file.Name(), p.path); err != nil {
		return err
	}
	p.replaces = false
	return nil
}

// Discard leaves nothing behind of a page that was not written. After Write it does nothing.
func (p *PageFile) Discard() {
	if p == nil {
		return
	}
	// It may be closed already.
	_ = p.file.Close()
	if p.replaces {
		_ = os.Remove(p.file.Name())
	}
}
