package kube_test

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/lab/kube"
)

func TestMirror(t *testing.T) {
	t.Parallel()
	release := newRelease(t)
	store, err := kube.NewStore(filepath.Join(t.TempDir(), "store"), release)
	if err != nil {
		t.Fatal(err)
	}
	var manifest string
	want := map[string]string{}
	for _, program := range [][2]string{
		{"kubeadm", "kubeadm"}, {"kubelet", "kubelet"}, {"kubectl", "hyperkube"},
	} {
		path := "v1.35.4/linux/" + runtime.GOARCH + "/" + program[0]
		want[path] = program[1]
		manifest += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(program[1])), path)
	}
	want["SHA256SUMS"] = manifest
	for range 2 { // The second call finds everything.
		mirror, err := store.Mirror(release)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, contents(t, mirror.Dir)); diff != "" || mirror.Digests != manifest {
			t.Errorf("the mirror has the manifest %q (-want +got):\n%s", mirror.Digests, diff)
		}
	}
}
