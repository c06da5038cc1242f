package hosts

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/windlass-dev/windlass/internal/linuxhost"
)

// BundleFile is a tar file, not compressed, with files such as v1.36.3/linux/amd64/kubelet. Nothing of it is kept open or in memory, so that it can be replaced at any
// time: what hosts accept is for the manifest of digests to say.
type BundleFile struct {
	// Path is where the tar file is.
	Path string
}

var _ linuxhost.Bundle = BundleFile{}

// Open implements linuxhost.Bundle. The last file of a name counts, as for tar.
func (b BundleFile) Open(name string) (io.ReaderAt, int64, error) {
	file, err := os.Open(b.Path)
	if err != nil {
		return nil, 0, fmt.Errorf("opening the bundle: %w", err)
	}
	defer func() { _ = file.Close() }()
	found := entry{path: b.Path, offset: -1}
	reader := tar.NewReader(file)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, fmt.Errorf("reading the bundle %s: it is not a whole tar file, or is compressed: %w", b.Path, err)
		}
		if strings.TrimPrefix(header.Name, "./") != name {
			continue
		}
		if header.Typeflag != tar.TypeReg || isSparse(header) {
			return nil, 0, fmt.Errorf("%s in the bundle %s is no regular file", name, b.Path)
		}
		if found.offset, err = file.Seek(0, io.SeekCurrent); err != nil {
			return nil, 0, fmt.Errorf("reading the bundle %s: %w", b.Path, err)
		}
		found.size = header.Size
	}
	if found.offset < 0 {
		return nil, 0, fmt.Errorf("the bundle %s has no file %s", b.Path, name)
	}
	return found, found.size, nil
}

// isSparse reports whether the content does not stand in the file as it is.
func isSparse(header *tar.Header) bool {
	for record := range header.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// entry is the content of a file in the bundle.
type entry struct {
	path         string
	offset, size int64
}

// ReadAt implements io.ReaderAt.
func (e entry) ReadAt(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	file, err := os.Open(e.path)
	if err != nil {
		return 0, fmt.Errorf("opening the bundle: %w", err)
	}
	defer func() { _ = file.Close() }()
	return io.NewSectionReader(file, e.offset, e.size).ReadAt(p, off)
}
