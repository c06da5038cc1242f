package kube_test

import (
	"cmp"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/pkg/version"
)

const repository = "../.."

func TestBuildWithoutModule(t *testing.T) {
	t.Parallel()
	_, err := kube.Build(t.Context(), repository, version.Minor{Major: 1, Minor: 7})
	if err == nil || !strings.Contains(err.Error(), "v1.7") {
		t.Errorf("Build of a minor without a module: got %v, want an error that names it", err)
	}
}

func TestBuild(t *testing.T) { //nolint:tparallel // The minors share most of what they compile.
	t.Parallel()
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to compile Kubernetes")
	}
	minors := []version.Minor{{Major: 1, Minor: 36}, {Major: 1, Minor: 35}}
	if os.Getenv("WINDLASS_LONG") == "1" {
		minors = append(minors, version.Minor{Major: 1, Minor: 34})
	}
	for _, minor := range minors {
		t.Run(minor.String(), func(t *testing.T) { testBuild(t, minor) })
	}
}

func testBuild(t *testing.T, minor version.Minor) {
	t.Helper()
	release, err := kube.BuildRelease(t.Context(), repository, minor)
	if err != nil {
		t.Fatal(err)
	}
	if release.Version.Minor() != minor {
		t.Errorf("the version is %s, want one of %s", release.Version, minor)
	}
	store, err := kube.NewStore(t.TempDir(), release)
	if err != nil {
		t.Fatal(err)
	}
	testHostPrograms(t, store, release)
	testImages(t, store, release)

	before := stat(t, release.Kubelet)
	if _, err := kube.Build(t.Context(), repository, minor); err != nil {
		t.Fatal(err)
	}
	after := stat(t, release.Kubelet)
	if !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Error("a second build wrote the kubelet again, want it unchanged")
	}
	if err := os.Remove(release.Kubelet); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.Build(t.Context(), repository, minor); err != nil {
		t.Fatal(err)
	}
	stat(t, release.Kubelet)
}

// testHostPrograms compares what programs for hosts report with the release.
func testHostPrograms(t *testing.T, store kube.Store, release kube.Release) {
	t.Helper()
	etcd, own := release.EtcdVersion(), numbers(release.Version.String())
	for _, c := range []struct {
		program, args, want string
	}{
		{"kubeadm", "version --output short", own},
		{"kubelet", "--version", own},
		{"kubectl", "version --client", own},
		{"etcdctl", "version", etcd},
		{"etcdutl", "version", etcd},
	} {
		got := reported(t, store.Program(release.Version, c.program), strings.Fields(c.args)...)
		if got != c.want {
			t.Errorf("%s reports %q, want %q", c.program, got, c.want)
		}
	}
	// Windlass runs a new kubectl under a name of its own before it replaces the old one.
	if got := reported(t, release.Hyperkube, "version", "--client"); got != own {
		t.Errorf("kubectl under another name reports %q, want %q", got, own)
	}
	got := reported(t, store.Program(release.Version, "crictl"), "--version")
	if !strings.HasPrefix(got, "1.") {
		t.Errorf("crictl reports %q, want a version", got)
	}
}

// testImages compares what the programs in images report with the images' tags.
func testImages(t *testing.T, store kube.Store, release kube.Release) {
	t.Helper()
	var names []string
	for _, image := range release.Images {
		name := image.Name()
		names = append(names, name)
		program := filepath.Join(store.Images(), image.Repository, image.Tag, name)
		if name == "pause" {
			if out, err := exec.CommandContext(t.Context(), program, "-v").CombinedOutput(); err != nil {
				t.Errorf("pause -v: %v: %s", err, out)
			}
			continue
		}
		flag := map[string]string{"coredns": "-version"}[name]
		if got := reported(t, program, cmp.Or(flag, "--version")); got != numbers(image.Tag) {
			t.Errorf("the program of image %s:%s reports %q", image.Repository, image.Tag, got)
		}
	}
	if len(names) != 7 {
		t.Errorf("kubeadm lists the images %q, want 7", names)
	}
}

// reported is the version at the end of the first line that a program prints.
func reported(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %q: %v: %s", program, args, err, out)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return numbers(strings.TrimPrefix(line[strings.LastIndex(line, " ")+1:], "CoreDNS-"))
}

// numbers is a version without "v" and without the number of an image's build.
func numbers(v string) string {
	v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "-")
	return v
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
