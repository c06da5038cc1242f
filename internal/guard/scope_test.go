package guard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/guard"
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

// request draws what policies of a namespace ask for: up to most entries with names of one length.
func request(t *rapid.T, namespace string, most int) guard.Scope {
	count := rapid.IntRange(1, most).Draw(t, "entries of "+namespace)
	length := rapid.SampledFrom([]int{1, 60, 253}).Draw(t, "length of names")
	entries := make([]string, 0, count)
	for i := range count {
		cluster := fmt.Sprintf("%0*d", length, i)
		entries = append(entries, rapid.SampledFrom([]string{
			guard.ClusterEntry(namespace, cluster), guard.ControlPlaneEntry(namespace, cluster),
			guard.MachineDeploymentEntry(namespace, cluster, cluster),
		}).Draw(t, "entry"))
	}
	return guard.NewScope(entries...)
}

// writer is a name as long as one may be.
var writer = strings.Repeat("w", 63)

// Whatever namespaces ask for, all of it is in the scope, and the API server accepts the
// expression.
func TestFitIsWideAndShort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var asked guard.Scope
		for i := range rapid.IntRange(0, 100).Draw(t, "namespaces") {
			asked = append(asked, request(t, fmt.Sprintf("n%d", i), 40)...)
		}
		// Whole namespaces alone may be too many.
		for i := range rapid.SampledFrom([]int{0, 10, 1400, 1600}).Draw(t, "whole namespaces") {
			asked = append(asked, guard.NamespaceEntry(fmt.Sprintf("%063d", i)))
		}
		fit := guard.NewScope(asked...).Fit()
		if length := len(fit.Expression(writer)); length > guard.MaxExpression {
			t.Fatalf("the expression has %d bytes", length)
		}
		for _, entry := range asked {
			if !fit.Covers(entry) {
				t.Fatalf("%s is outside of %v", entry, fit)
			}
		}
		if got, _, ok := guard.ParseExpression(fit.Expression(writer)); !ok || !cmp.Equal(fit, got) {
			t.Fatalf("%v became %v", fit, got)
		}
		if again := fit.Fit(); !cmp.Equal(fit, again) {
			t.Fatalf("%v became %v", fit, again)
		}
	})
}

// What one namespace asks for takes no detail from others that ask for less, as long as those fit
// beside each other.
func TestFitIsFair(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var others guard.Scope
		for i := range rapid.IntRange(1, 22).Draw(t, "namespaces") {
			others = append(others, request(t, fmt.Sprintf("n%d", i), 7)...)
		}
		others = guard.NewScope(others...)
		loud := request(t, "loud", 2000)
		fit := guard.NewScope(slices.Concat(others, loud)...).Fit()
		if !cmp.Equal(others, fit.With("loud")) {
			t.Fatalf("others had %v, and have %v", others, fit.With("loud"))
		}
		if all := guard.NewScope(slices.Concat(others, loud)...); len(all.Expression(writer)) <= guard.MaxExpression && !cmp.Equal(all, fit) {
			t.Fatalf("%v fits, and became %v", all, fit)
		}
	})
}

// TestFit has namespaces that are too long together, although none is by itself.
func TestFit(t *testing.T) {
	t.Parallel()
	of := func(namespace string, clusters int) (entries []string) {
		for i := range clusters {
			entries = append(entries, guard.ClusterEntry(namespace, fmt.Sprintf("%026d", i)))
		}
		return entries
	}
	var asked []string
	want := []string{"a00", "a01", "a02", "a03"}
	for i := range 26 {
		// Of those that ask for the most, the first ones lose their detail.
		entries := of(fmt.Sprintf("a%02d", i), 120)
		asked = append(asked, entries...)
		if i > 3 {
			want = append(want, entries...)
		}
	}
	small := of("b", 110)
	asked, want = append(asked, small...), append(want, small...)
	if diff := cmp.Diff(guard.NewScope(want...).Namespaces(), guard.NewScope(asked...).Fit().Namespaces()); diff != "" {
		t.Error(diff)
	}
	if got := guard.NewScope(asked...).Fit(); !cmp.Equal(guard.NewScope(want...), got) {
		var whole []string
		for _, namespace := range got.Namespaces() {
			if got.Covers(namespace) {
				whole = append(whole, namespace)
			}
		}
		t.Errorf("whole namespaces are %v", whole)
	}
}

func TestEverything(t *testing.T) {
	t.Parallel()
	var asked []string
	for i := range 3000 {
		asked = append(asked, guard.NamespaceEntry(fmt.Sprintf("%060d", i)))
	}
	scope := guard.NewScope(asked...).Fit()
	if !scope.IsEverything() || len(scope) != 1 || !scope.Covers(guard.ControlPlaneEntry("any", "any")) || scope.Namespaces() != nil {
		t.Errorf("3000 namespaces are %v", scope)
	}
	if narrower := scope.With("any"); !narrower.IsEverything() || len(scope.In("any")) != 0 {
		t.Errorf("without one namespace it is %v", narrower)
	}
	if guard.NewScope("a").IsEverything() || guard.NewScope().IsEverything() {
		t.Error("a few namespaces are everything")
	}
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
