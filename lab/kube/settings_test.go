package kube_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/pkg/version"
)

var (
	updateCatalog = flag.Bool("update", false, "write the catalog of settings")
	onlyMinor     = flag.Uint("minor", 0, "the only minor to ask, which the catalog need not have")
)

const catalogFile = repository + "/internal/settings/catalog.txt"

// TestCatalog asks the components for their settings, and compares them with the catalog: those of
// the newest minor; with WINDLASS_LONG=1 those of all minors.
func TestCatalog(t *testing.T) {
	t.Parallel()
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to compile Kubernetes")
	}
	byMinor := cataloged()
	minors := []uint32{settings.Newest().Minor}
	if *onlyMinor != 0 {
		minors = []uint32{uint32(*onlyMinor)}
	}
	if os.Getenv("WINDLASS_LONG") == "1" && *onlyMinor == 0 {
		minors = nil
		for m := settings.Oldest().Minor; m <= settings.Newest().Minor; m++ {
			minors = append(minors, m)
		}
	}
	for _, m := range minors {
		minor := version.Minor{Major: settings.Major, Minor: m}
		read, err := kube.ReadSettings(t.Context(), repository, t.TempDir(), minor)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(byMinor[m], read); diff != "" && !*updateCatalog {
			t.Errorf("settings of %s (-catalog +components):\n%s", minor, diff)
		}
		byMinor[m] = read
	}
	if *updateCatalog {
		text := kube.EncodeCatalog(byMinor)
		if err := os.WriteFile(filepath.FromSlash(catalogFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEncodeCatalog: the catalog is what its own settings are encoded to, so nobody has edited it.
func TestEncodeCatalog(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(catalogFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), kube.EncodeCatalog(cataloged())); diff != "" {
		t.Errorf("the catalog (-file +encoded):\n%s", diff)
	}
}

// cataloged returns the settings in the catalog.
func cataloged() map[uint32]kube.Settings {
	byMinor := map[uint32]kube.Settings{}
	for m := settings.Oldest().Minor; m <= settings.Newest().Minor; m++ {
		byMinor[m] = make(kube.Settings)
		for _, c := range settings.Components() {
			byMinor[m][c] = settings.BuiltIn().Lines(c, m)
		}
	}
	return byMinor
}
