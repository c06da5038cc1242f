package setup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/pkg/version"
)

func TestCheckVersions(t *testing.T) {
	const repository = "../../.."
	good := []version.Version{version.MustParse("v1.35.4"), version.MustParse("v1.36.3")}
	if err := CheckVersions(t.Context(), repository, good...); err != nil {
		t.Errorf("versions that the lab builds: %v", err)
	}
	err := CheckVersions(t.Context(), repository, good[0], version.MustParse("v1.36.1"))
	const says = "builds no Kubernetes v1.36.1. Fix: use one of v1.34.4 v1.35.4 v1.36.3"
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want an error that contains %q", err, says)
	}
}

// TestBuildHostProgramsRefuses: a build takes minutes, so the last version is checked before the
// first one is built.
func TestBuildHostProgramsRefuses(t *testing.T) {
	versions := []version.Version{version.MustParse("v1.35.4"), version.MustParse("v1.36.1")}
	_, err := BuildHostPrograms(
		t.Context(), "../../..", t.TempDir(), "", versions, func(v version.Version) {
			t.Errorf("it builds %s", v)
		})
	if err == nil || !strings.Contains(err.Error(), "builds no Kubernetes v1.36.1") {
		t.Errorf("got %v, want an error about v1.36.1", err)
	}
}

// TestSharedFolderOfOthers: hosts run what is in the folder as root, so nobody else may have made
// it.
func TestSharedFolderOfOthers(t *testing.T) {
	for name, test := range map[string]struct {
		make    func(folder string) error
		refused bool
	}{
		"missing": {make: func(string) error { return nil }},
		"our own": {make: func(folder string) error { return os.Mkdir(folder, 0o755) }},
		"writable by others": {refused: true, make: func(folder string) error {
			return errors.Join(os.Mkdir(folder, 0o755), os.Chmod(folder, 0o777))
		}},
		"a link": {refused: true, make: func(folder string) error {
			return os.Symlink(t.TempDir(), folder)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "programs")
			if err := test.make(folder); err != nil {
				t.Fatal(err)
			}
			// The folder of a test may be on another file system than /, which is another error.
			err := makeShared(folder)
			refused := err != nil && strings.Contains(err.Error(), "another user can change")
			if refused != test.refused {
				t.Errorf("%v, want refused: %t", err, test.refused)
			}
		})
	}
}
