package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestNextVersion prints what another version of Cluster API changed in the files that we replace, and
// which files it added to the packages, and runs its tests on our code. Tests that only one version
// has are printed and are no failure.
func TestNextVersion(t *testing.T) {
	if *against == "" {
		t.Skip("name a version: make upstream-diff V=vX.Y.Z")
	}
	l, err := readLists("testdata")
	if err != nil {
		t.Fatal(err)
	}
	version, err := findVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	useOutDir(t)
	before, err := readUpstream(t.Context(), version)
	if err != nil {
		t.Fatal(err)
	}
	after, err := readUpstream(t.Context(), *against)
	if err != nil {
		t.Fatal(err)
	}
	kept := *l
	kept.replaced = nil
	for _, name := range l.replaced {
		diff, err := compareFiles(t.Context(), before, after, inReconcilers(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s, %s to %s\n%s", name, version, *against, diff)
		if _, ok := after.cached[inReconcilers(name)]; ok {
			kept.replaced = append(kept.replaced, name)
		}
	}
	for _, name := range newFiles(before, after) {
		t.Logf("%s is new in %s. The copy contains it. If it is code that we replace, name it in "+
			"testdata/replaced.txt", name, *against)
	}
	kept.internals = keepExisting(t, after, l.internals)

	source, err := makeTree(t.Context(), *against, &kept)
	if err != nil {
		t.Fatal(err)
	}
	servers, err := buildServers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	result, err := runTree(t.Context(), source, *against, run{
		servers: servers, skip: kept.skips(), packages: packages,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range comparePinned(l, result) {
		t.Log("changed: ", problem)
	}
	reportFailures(t, result)
}

// keepExisting returns the internals that a version of Cluster API has too.
func keepExisting(t *testing.T, source *tree, all []internal) []internal {
	t.Helper()
	var kept []internal
	for _, entry := range all {
		missing, err := source.cut(entry.pkg, []string{entry.name})
		if err != nil {
			t.Fatal(err)
		}
		if len(missing) == 0 || strings.Contains(entry.name, "/") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// compareFiles returns the difference between two versions of a file.
func compareFiles(ctx context.Context, before, after *tree, name string) ([]byte, error) {
	from, to := before.cached[name], after.cached[name]
	if to == "" {
		return []byte("The file is gone."), nil
	}
	cmd := exec.CommandContext(ctx, "git", "diff", "--no-index", "--stat", "--patch", from, to)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && failed.ExitCode() == 1 {
		return out, nil // They differ.
	}
	if err != nil {
		return nil, fmt.Errorf("comparing versions of %s: %w", name, err)
	}
	return []byte("No difference."), nil
}
