package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// TestHostsExample holds that the example for Linux hosts can be used as it is.
func TestHostsExample(t *testing.T) {
	t.Parallel()
	_, example, _ := strings.Cut(readText(t, "../docs/how-to/upgrade-linux-hosts.md"), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	first, second, _ := strings.Cut(example, "\n---\n")
	var updater v1alpha1.Updater
	if err := yaml.UnmarshalStrict([]byte(first), &updater); err != nil {
		t.Fatal(err)
	}
	if err := updatepolicy.CheckUpdater(&updater); err != nil || !updater.Spec.InProcess.Kind.ForHosts() {
		t.Errorf("the Updater %+v: %v", updater.Spec, err)
	}
	var object v1alpha1.UpdatePolicy
	if err := yaml.UnmarshalStrict([]byte(second), &object); err != nil {
		t.Fatal(err)
	}
	got, err := policy.CompileAll([]v1alpha1.UpdatePolicy{object}).Select(policy.Group{Namespace: "clusters", Cluster: "prod", ControlPlane: true})
	if err != nil || !got.Guarded {
		t.Errorf("the UpdatePolicy selects %+v: %v", got, err)
	}
}

// TestHostsDocumentation holds that whoever meets a reason or a step finds it explained.
func TestHostsDocumentation(t *testing.T) {
	t.Parallel()
	text := readText(t, "../docs/how-to/upgrade-linux-hosts.md")
	for _, source := range []struct{ path, pattern string }{
		{"../internal/linuxhost/reason.go", `\bReason = "(\w+)"`},
		{"../internal/port/host.go", `\bHostReason = "(\w+)"`},
		{"../internal/linuxhost/step.go", `\bName = "([a-z-]+)"`},
	} {
		found := regexp.MustCompile(source.pattern).FindAllStringSubmatch(readText(t, source.path), -1)
		if len(found) == 0 {
			t.Errorf("%s has nothing like %s", source.path, source.pattern)
		}
		for _, match := range found {
			if !regexp.MustCompile("(?m)^\\|[^|]*`" + match[1] + "`[^|]*\\|").MatchString(text) {
				t.Errorf("docs/how-to/upgrade-linux-hosts.md has no row for %s of %s", match[1], source.path)
			}
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
