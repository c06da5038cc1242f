package kube_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/pkg/version"
)

// newRelease is a release whose programs contain their names.
func newRelease(t *testing.T, images ...kube.Image) kube.Release {
	t.Helper()
	dir := t.TempDir()
	program := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return kube.Release{
		Binaries: kube.Binaries{
			Version: version.MustParse("v1.35.4"), Kubeadm: program("kubeadm"), Kubelet: program("kubelet"),
		},
		Hyperkube: program("hyperkube"), Etcd: program("etcd"), Etcdctl: program("etcdctl"), Etcdutl: program("etcdutl"),
		CoreDNS: program("coredns"), Crictl: program("crictl"), Images: images,
	}
}

// contents are those of all files in a folder, by path.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		found[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestStore(t *testing.T) {
	t.Parallel()
	release := newRelease(t,
		kube.Image{Repository: "r.example/kube-proxy", Tag: "v1.35.4"},
		kube.Image{Repository: "r.example/coredns/coredns", Tag: "v1.13.1"},
		kube.Image{Repository: "r.example/pause", Tag: "3.10"},
		kube.Image{Repository: "r.example/etcd", Tag: "3.6.6-0"},
	)
	dir := filepath.Join(t.TempDir(), "store")
	for range 2 { // The second call finds everything.
		if _, err := kube.NewStore(dir, release); err != nil {
			t.Fatal(err)
		}
	}
	got := contents(t, dir)
	if script := got["images/r.example/pause/3.10/pause"]; !strings.HasPrefix(script, "#!/bin/sh\n") {
		t.Errorf("pause is %q, want a script", script)
	}
	delete(got, "images/r.example/pause/3.10/pause")
	want := map[string]string{
		"bin/v1.35.4/kubeadm": "kubeadm", "bin/v1.35.4/kubelet": "kubelet", "bin/v1.35.4/kubectl": "hyperkube",
		"bin/v1.35.4/etcdctl": "etcdctl", "bin/v1.35.4/etcdutl": "etcdutl", "bin/v1.35.4/crictl": "crictl",
		"images/r.example/kube-proxy/v1.35.4/kube-proxy":      "hyperkube",
		"images/r.example/coredns/coredns/v1.13.1/coredns":    "coredns",
		"images/r.example/coredns/coredns/v1.13.1/image.json": `{"entrypoint":["coredns"]}`,
		"images/r.example/pause/3.10/image.json":              `{"entrypoint":["pause"]}`,
		"images/r.example/etcd/3.6.6-0/etcd":                  "etcd",
		"images/r.example/etcd/3.6.6-0/etcdctl":               "etcdctl",
		"images/r.example/etcd/3.6.6-0/etcdutl":               "etcdutl",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the store (-want +got):\n%s", diff)
	}
}

func TestStoreNeverChanges(t *testing.T) {
	t.Parallel()
	release, dir := newRelease(t), t.TempDir()
	store, err := kube.NewStore(dir, release)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(release.Kubelet); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(release.Kubelet, []byte("built again"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.NewStore(dir, release); err == nil || !strings.Contains(err.Error(), "bin/v1.35.4/kubelet") {
		t.Errorf("a store with another kubelet: got %v, want an error that names it", err)
	}
	if data, err := os.ReadFile(store.Program(release.Version, "kubelet")); err != nil || string(data) != "kubelet" {
		t.Errorf("the kubelet in the store is %q, %v; want it unchanged", data, err)
	}
}

func TestStoreUnknownImage(t *testing.T) {
	t.Parallel()
	release := newRelease(t, kube.Image{Repository: "r.example/konnectivity", Tag: "v1"})
	if _, err := kube.NewStore(t.TempDir(), release); err == nil || !strings.Contains(err.Error(), "r.example/konnectivity:v1") {
		t.Errorf("an image that nothing builds: got %v, want an error that names it", err)
	}
}
