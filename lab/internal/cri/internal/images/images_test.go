package images_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/lab/internal/cri/internal/images"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, folder string) (store *images.Store, records string) {
	t.Helper()
	records = filepath.Join(t.TempDir(), "records")
	store, err := images.Open(folder, records)
	if err != nil {
		t.Fatal(err)
	}
	return store, records
}

func pull(t *testing.T, store *images.Store, name string) images.Image {
	t.Helper()
	image, err := store.Pull(name)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func find(t *testing.T, store *images.Store, name string) []string {
	t.Helper()
	list, err := store.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	var references []string
	for _, image := range list {
		references = append(references, image.Reference)
	}
	return references
}

func TestPullFindRemove(t *testing.T) {
	folder := t.TempDir()
	write(t, folder+"/registry.k8s.io/coredns/coredns/v1/coredns", "program")
	write(t, folder+"/localhost:5000/copy/v1/coredns", "program")
	write(t, folder+"/docker.io/library/busybox/latest/sh", "other")
	store, _ := open(t, folder)

	const name = "registry.k8s.io/coredns/coredns:v1"
	if got := find(t, store, name); got != nil {
		t.Errorf("before the pull: %v", got)
	}
	image := pull(t, store, name)
	if image.Reference != name || image.Size != uint64(len("program")) || !strings.HasPrefix(image.ID, "sha256:") {
		t.Errorf("%+v", image)
	}
	twin := pull(t, store, "localhost:5000/copy:v1")
	if twin.ID != image.ID {
		t.Errorf("the same content has the IDs %s and %s", image.ID, twin.ID)
	}
	if short := pull(t, store, "busybox"); short.Reference != "docker.io/library/busybox:latest" || short.ID == image.ID {
		t.Errorf("%+v", short)
	}

	both := []string{twin.Reference, name}
	for asked, want := range map[string][]string{
		name:                              {name},
		image.ID:                          both,
		image.ID[len("sha256:"):]:         both,
		image.Digest():                    {name},
		"registry.k8s.io/coredns":         nil,
		"busybox:latest":                  {"docker.io/library/busybox:latest"},
		"registry.k8s.io/coredns/coredns": nil,
		"":                                nil,
		"../../etc":                       nil,
	} {
		if diff := cmp.Diff(want, find(t, store, asked)); diff != "" {
			t.Errorf("%q: %s", asked, diff)
		}
	}

	if err := errors.Join(store.Remove(name), store.Remove(name)); err != nil {
		t.Error(err)
	}
	list, err := store.List()
	if err != nil || len(list) != 1 {
		t.Errorf("after the removal: %v, %v", list, err)
	}
}

func TestTheStoreLacksAnImage(t *testing.T) {
	folder := t.TempDir()
	write(t, folder+"/registry.k8s.io/pause/3.10/pause", "x")
	write(t, folder+"/secret/latest/x", "x")
	store, _ := open(t, folder+"/registry.k8s.io")
	for _, name := range []string{
		"registry.k8s.io/pause:3.11", "pause@sha256:" + strings.Repeat("a", 64), "registry.k8s.io/pause:3.10",
	} {
		var missing *images.NotFoundError
		_, err := store.Pull(name)
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), missing.Reference) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "../secret", "UPPER/case", "a:b:c", "a b", strings.Repeat("a", 64)} {
		if image, err := store.Pull(name); err == nil {
			t.Errorf("%q: %+v", name, image)
		}
	}
}

func TestIDsFollowTheContent(t *testing.T) {
	folder := t.TempDir()
	program := folder + "/r.io/a/1/a"
	write(t, program, "one")
	store, _ := open(t, folder)
	ids := map[string]string{"first": pull(t, store, "r.io/a:1").ID}
	write(t, program, "two")
	ids["content"] = pull(t, store, "r.io/a:1").ID
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	ids["executable"] = pull(t, store, "r.io/a:1").ID
	write(t, folder+"/r.io/a/1/b", "")
	ids["another file"] = pull(t, store, "r.io/a:1").ID
	seen := map[string]string{}
	for change, id := range ids {
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s have the same ID", change, other)
		}
		seen[id] = change
	}
	if list, err := store.List(); err != nil || len(list) != 1 || list[0].ID != ids["another file"] {
		t.Errorf("%v, %v", list, err)
	}
}

func TestRecordsOutliveTheStoreAndAreNoneIfBroken(t *testing.T) {
	folder := t.TempDir()
	write(t, folder+"/r.io/a/1/image.json", `{"entrypoint":["a"],"cmd":["-v"],"env":["A=b"]}`)
	write(t, folder+"/r.io/b/1/image.json", `{"entrypoint":`)
	store, records := open(t, folder)
	image := pull(t, store, "r.io/a:1")
	again, err := images.Open(folder, records)
	if err != nil {
		t.Fatal(err)
	}
	dir, config, err := again.Contents(image)
	want := images.Config{Entrypoint: []string{"a"}, Cmd: []string{"-v"}, Env: []string{"A=b"}}
	if diff := cmp.Diff(want, config); diff != "" || err != nil || dir != folder+"/r.io/a/1" {
		t.Errorf("%s, %v, %s", dir, err, diff)
	}
	if _, _, err := again.Contents(pull(t, again, "r.io/b:1")); err == nil {
		t.Error("a broken image.json was read")
	}
	write(t, records+"/zero.json", "")
	write(t, records+"/lies.json", `{"Reference":"r.io/c:1","ID":"sha256:0"}`)
	if list, err := again.List(); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if err := os.RemoveAll(folder + "/r.io/a"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := again.Contents(image); err == nil {
		t.Error("an image that left the store has contents")
	}
}
