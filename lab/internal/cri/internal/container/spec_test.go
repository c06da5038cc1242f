package container

import (
	"os"
	"path/filepath"
	"testing"
)

func TestProgram(t *testing.T) {
	root := t.TempDir()
	for path, mode := range map[string]os.FileMode{
		"image/etcd": 0o755, "image/data": 0o644, "bin/etcd": 0o755, "bin/sh": 0o755, "other/sh": 0o755,
	} {
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	image, bin := root+"/image", root+"/bin"
	spec := Spec{Programs: image, Env: []string{"PATH=" + root + "/other", "PATH=" + image + "::" + bin}}
	for name, want := range map[string]string{
		"etcd":                   image + "/etcd",
		"/usr/local/bin/etcd":    image + "/etcd",
		bin + "/etcd":            image + "/etcd",
		"sh":                     bin + "/sh",
		root + "/other/sh":       root + "/other/sh",
		"data":                   "",
		image + "/data":          "",
		"/":                      "",
		"":                       "",
		"..":                     "",
		"no-such":                "",
		"/usr/local/bin/no-such": "",
	} {
		got, err := spec.program(name)
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("%q: %q, want %q (%v)", name, got, want, err)
		}
	}
}
