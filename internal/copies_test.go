package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ofTenants are lists of objects of this project that a tenant stores, any number and as large as etcd
// takes.
var ofTenants = regexp.MustCompile(`(\w+)\s*:?=?\s*&?v1alpha1\.(UpdatePolicyList|UpgradeGateList)\b`)

// TestListsShareTheCache holds that no server copies what a tenant stores each time that it reads it.
// Commands read from API servers, where nothing is shared.
func TestListsShareTheCache(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "cli/") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, list := range ofTenants.FindAllStringSubmatch(string(source), -1) {
			calls := regexp.MustCompile(`\.List\(ctx, &?`+list[1]+`\b.*`).FindAllString(string(source), -1)
			for _, call := range calls {
				found++
				if !strings.Contains(call, "client.UnsafeDisableDeepCopy") {
					t.Errorf("%s copies each object of a %s: %s", path, list[2], call)
				}
			}
			if len(calls) == 0 {
				t.Errorf("%s: no List of %s is found", path, list[0])
			}
		}
		return nil
	})
	if err != nil || found < 5 {
		t.Errorf("found %d lists, want at least 5: %v", found, err)
	}
}
