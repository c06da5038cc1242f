package settings_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestHealthy: settings that well-known installers and providers use have no finding in any minor
// that the catalog has from v1.33 on: not even a warning.
func TestHealthy(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/healthy/*.yaml")
	if err != nil || len(files) != 11 {
		t.Fatalf("%d files, want 11: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := fs.ReadFile(os.DirFS("."), filepath.ToSlash(file))
			if err != nil {
				t.Fatal(err)
			}
			var uses []settings.Use
			for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
				uses = append(uses, usesOf(t, document)...)
			}
			if len(uses) == 0 {
				t.Fatal("it has no settings")
			}
			for minor := (version.Minor{Major: 1, Minor: 33}); !settings.Newest().Before(minor); minor = minor.Next() {
				u := settings.Upgrade{To: version.MustParse(minor.String() + ".0")}
				for _, f := range settings.Check(u, uses) {
					t.Errorf("%s: %s: %s", minor, f.Subject(), f.Message())
				}
			}
		})
	}
}

// usesOf returns the settings in a document of a healthy configuration.
func usesOf(t *testing.T, document []byte) []settings.Use {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal(document, &content); err != nil {
		t.Fatal(err)
	}
	place := settings.Place{Object: "it"}
	switch kind, _ := content["kind"].(string); kind {
	case "ClusterConfiguration":
		return settings.FromCluster(place, content)
	case "KubeletConfiguration":
		return settings.FromKubelet(place, content)
	case "File":
		file := settings.RancherFile{Path: "it", Content: content}
		return settings.MergeRancher([]settings.RancherFile{file}).Uses(true)
	case "Command":
		var command struct {
			Component settings.Component `json:"component"`
			Words     []string           `json:"words"`
		}
		if err := yaml.Unmarshal(document, &command); err != nil {
			t.Fatal(err)
		}
		return settings.FromArgs(place, command.Component, settings.ArgsOf(command.Words))
	default:
		return settings.FromObject(settings.Object{Kind: kind, Name: "c", Content: content})
	}
}
