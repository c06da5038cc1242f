package hosts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/updaters/hosts"
)

const kubelet = "v1.36.3/linux/amd64/kubelet"

// write makes a tar file of pairs of a name and a content.
func write(t *testing.T, headers []tar.Header, contents []string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i, header := range headers {
		header.Mode, header.Size = 0o644, int64(len(contents[i]))
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, contents[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func save(t *testing.T, content []byte) hosts.BundleFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle.tar")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return hosts.BundleFile{Path: path}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("folder/", 40) + "file"
	b := save(t, write(t, []tar.Header{
		{Name: "v1.36.3/linux/amd64/", Typeflag: tar.TypeDir}, {Name: "./" + kubelet, Typeflag: tar.TypeReg}, {Name: long, Typeflag: tar.TypeReg},
		{Name: "twice", Typeflag: tar.TypeReg}, {Name: "twice", Typeflag: tar.TypeReg}, {Name: "empty", Typeflag: tar.TypeReg},
	}, []string{"", strings.Repeat("kubelet", 1000), "far away", "first", "last", ""}))
	for name, want := range map[string]string{kubelet: strings.Repeat("kubelet", 1000), long: "far away", "twice": "last", "empty": ""} {
		file, size, err := b.Open(name)
		if err != nil || size != int64(len(want)) {
			t.Fatalf("%s has %d bytes, %v", name, size, err)
		}
		got := make([]byte, size)
		if n, err := file.ReadAt(got, 0); n != len(want) || err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
		if n, err := file.ReadAt(make([]byte, 1), size); n != 0 || err != io.EOF {
			t.Errorf("after the end of %s are %d bytes, %v", name, n, err)
		}
		if n, err := file.ReadAt(nil, size); n != 0 || err != nil {
			t.Errorf("nothing of %s is %d bytes, %v", name, n, err)
		}
	}
	part := make([]byte, 4)
	file, _, err := b.Open(kubelet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.ReadAt(part, 3); err != nil || string(part) != "elet" {
		t.Errorf("a part is %q, %v", part, err)
	}
	if err := os.Remove(b.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := file.ReadAt(part, 0); err == nil {
		t.Error("a bundle that is gone can be read")
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	whole := write(t, []tar.Header{{Name: "a", Typeflag: tar.TypeReg}, {Name: kubelet, Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}}, []string{strings.Repeat("x", 2000), ""})
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write(whole)
	_ = w.Close()
	for name, tt := range map[string]struct {
		bundle     hosts.BundleFile
		file, want string
	}{
		"a file that is not there":   {bundle: save(t, whole), file: "v1.36.3/linux/arm64/kubelet", want: "has no file v1.36.3/linux/arm64/kubelet"},
		"a link":                     {bundle: save(t, whole), file: kubelet, want: "is no regular file"},
		"a compressed bundle":        {bundle: save(t, zipped.Bytes()), file: kubelet, want: "not a whole tar file, or is compressed"},
		"half a bundle":              {bundle: save(t, whole[:700]), file: kubelet, want: "not a whole tar file"},
		"a bundle that is not there": {bundle: hosts.BundleFile{Path: "/nowhere/bundle.tar"}, file: kubelet, want: "opening the bundle: open /nowhere/bundle.tar: no such file or directory"},
	} {
		if _, _, err := tt.bundle.Open(tt.file); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
