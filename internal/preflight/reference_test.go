package preflight_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/internal/preflight"
)

// TestReference holds that the reference lists every check, in order.
func TestReference(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/preflight-checks.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, want []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z][A-Za-z]+) \|`).FindAllSubmatch(page, -1) {
		if name := string(row[1]); name != "Check" {
			listed = append(listed, name)
		}
	}
	for _, id := range preflight.IDs() {
		want = append(want, string(id))
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("checks in the reference (-want +got):\n%s", diff)
	}
}

// TestDocumentedRights holds that the reference grants to list every kind whose managedFields some
// upgrade reads.
func TestDocumentedRights(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/preflight-checks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict([]byte(block), role); err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, r := range preflight.Removals() {
		// Kinds without a list, such as SelfSubjectReview, are requests and not objects.
		if !scheme.Scheme.Recognizes(r.Kind.GroupVersion().WithKind(r.Kind.Kind + "List")) {
			continue
		}
		listed++
		if !slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.APIGroups, r.Kind.Group) && slices.Contains(rule.Verbs, "list") &&
				slices.Contains(rule.Resources, r.Resource)
		}) {
			t.Errorf("the role does not grant to list %s of %s", r.Resource, r.Kind.Group)
		}
	}
	if listed == 0 {
		t.Error("no kind that loses a version can be listed")
	}
}
