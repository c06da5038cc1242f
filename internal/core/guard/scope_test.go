package guard_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/core/guard"
)

func TestScopeCovers(t *testing.T) {
	t.Parallel()
	scope := guard.NewScope(
		guard.NamespaceEntry("all"), guard.ClusterEntry("some", "prod"), guard.ControlPlaneEntry("some", "dev"),
		guard.MachineDeploymentEntry("some", "dev", "db"), guard.ControlPlaneEntry("all", "any"),
	)
	for entry, want := range map[string]bool{
		guard.NamespaceEntry("all"):                          true,
		guard.MachineDeploymentEntry("all", "x", "y"):        true,
		guard.ControlPlaneEntry("all", "any"):                true,
		guard.NamespaceEntry("some"):                         false,
		guard.ClusterEntry("some", "prod"):                   true,
		guard.MachineDeploymentEntry("some", "prod", "new"):  true,
		guard.ClusterEntry("some", "dev"):                    false,
		guard.ControlPlaneEntry("some", "dev"):               true,
		guard.MachineDeploymentEntry("some", "dev", "db"):    true,
		guard.MachineDeploymentEntry("some", "dev", "db2"):   false,
		guard.MachineDeploymentEntry("some", "prod2", "new"): false,
		guard.ControlPlaneEntry("al", "any"):                 false,
		guard.ControlPlaneEntry("none", "any"):               false,
	} {
		if got := scope.Covers(entry); got != want {
			t.Errorf("%s: %t, want %t", entry, got, want)
		}
	}
	if slices.Contains(scope, guard.ControlPlaneEntry("all", "any")) {
		t.Error("an entry is listed that another one includes")
	}
	if diff := cmp.Diff([]string{"all", "some"}, scope.Namespaces()); diff != "" {
		t.Error(diff)
	}
}

// name is a name that the API server accepts for a namespace or a Cluster.
var name = rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,5}[a-z0-9])?`)

func entry(t *rapid.T) string {
	namespace, cluster := name.Draw(t, "namespace"), name.Draw(t, "cluster")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return guard.NamespaceEntry(namespace)
	case 1:
		return guard.ClusterEntry(namespace, cluster)
	case 2:
		return guard.ControlPlaneEntry(namespace, cluster)
	default:
		return guard.MachineDeploymentEntry(namespace, cluster, name.Draw(t, "deployment"))
	}
}

// The scope is stored as an expression only: what one process writes, another one must read.
func TestExpressionRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		scope := guard.NewScope(rapid.SliceOfN(rapid.Custom(entry), 0, 20).Draw(t, "entries")...)
		got, writer, ok := guard.ParseExpression(scope.Expression("a-1"))
		if !ok || writer != "a-1" || !cmp.Equal(scope, got) {
			t.Fatalf("%v became %v by %q, %t", scope, got, writer, ok)
		}
	})
}

// Replacing the entries of one namespace changes what is covered in no other one.
func TestWithChangesOneNamespace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SliceOfN(rapid.Custom(entry), 0, 20).Draw(t, "before")
		scope := guard.NewScope(before...)
		own := guard.ControlPlaneEntry("own", name.Draw(t, "cluster"))
		after := scope.With("own", own)
		if !after.Covers(own) || len(after.In("own")) != 1 {
			t.Fatalf("%v has %v of the namespace", after, after.In("own"))
		}
		for _, e := range before {
			if e != "own" && !strings.HasPrefix(e, "own/") && !after.Covers(e) {
				t.Fatalf("%v lost %s", after, e)
			}
		}
	})
}

func TestParseExpressionOfOthers(t *testing.T) {
	t.Parallel()
	ours := guard.NewScope("a", "b").Expression("p")
	for _, expression := range []string{
		"", "false", "true", strings.TrimPrefix(ours, "//"), ours + " || true", "false && " + ours,
		strings.Replace(ours, `"b"`, `"b/c/cp", "b"`, 1), strings.Replace(ours, `"b"`, `b`, 1), strings.Replace(ours, "process p", "process p q", 1),
	} {
		if scope, writer, ok := guard.ParseExpression(expression); ok {
			t.Errorf("%q is taken for the scope %v of %s", expression, scope, writer)
		}
	}
}
