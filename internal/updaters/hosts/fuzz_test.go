package hosts

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// FuzzOpen: a file of a bundle is within the tar file, or cannot be read; nothing outside of it is opened.
func FuzzOpen(f *testing.F) {
	const name = "v1.36.3/linux/amd64/kubelet"
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, header := range []*tar.Header{
		{Name: "./" + name, Size: 4, Mode: 0o755, Typeflag: tar.TypeReg},
		{Name: "../../etc/passwd", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink},
		{Name: name, Size: 1 << 40, Typeflag: tar.TypeReg, Format: tar.FormatGNU},
	} {
		if err := w.WriteHeader(header); err != nil {
			f.Fatal(err)
		}
		if header.Size == 4 {
			if _, err := w.Write([]byte("abcd")); err != nil {
				f.Fatal(err)
			}
		}
	}
	f.Add(archive.Bytes())
	f.Add([]byte{})
	path := filepath.Join(f.TempDir(), "bundle.tar")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		reader, size, err := BundleFile{Path: path}.Open(name)
		if err != nil {
			return
		}
		if size < 0 {
			t.Fatalf("the size is %d", size)
		}
		part := make([]byte, min(size, 64<<10))
		n, err := reader.ReadAt(part, 0)
		if err == nil && n < len(part) || err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("%d of %d bytes, and %v", n, len(part), err)
		}
		if !bytes.Contains(data, part[:n]) {
			t.Fatal("the content is not in the bundle")
		}
	})
}
