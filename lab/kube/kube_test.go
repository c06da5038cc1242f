package kube_test

import (
	"io/fs"
	"os"
	"os/exec"
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
	for _, minor := range []version.Minor{{Major: 1, Minor: 35}, {Major: 1, Minor: 36}} {
		t.Run(minor.String(), func(t *testing.T) { testBuild(t, minor) })
	}
}

func testBuild(t *testing.T, minor version.Minor) {
	t.Helper()
	binaries, err := kube.Build(t.Context(), repository, minor)
	if err != nil {
		t.Fatal(err)
	}
	if binaries.Version.Minor() != minor {
		t.Errorf("the version is %s, want one of %s", binaries.Version, minor)
	}
	for _, report := range [][]string{
		{binaries.Kubeadm, "version", "--output", "short"},
		{binaries.Kubelet, "--version"},
	} {
		out, err := exec.CommandContext(t.Context(), report[0], report[1:]...).CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v: %s", report, err, out)
		}
		if got := strings.TrimPrefix(strings.TrimSpace(string(out)), "Kubernetes "); got != binaries.Version.String() {
			t.Errorf("%q says %q, want %s", report, got, binaries.Version)
		}
	}
	before := stat(t, binaries.Kubelet)
	if _, err := kube.Build(t.Context(), repository, minor); err != nil {
		t.Fatal(err)
	}
	if after := stat(t, binaries.Kubelet); !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Error("a second build wrote the kubelet again, want it left alone")
	}
	if err := os.Remove(binaries.Kubelet); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.Build(t.Context(), repository, minor); err != nil {
		t.Fatal(err)
	}
	stat(t, binaries.Kubelet)
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
