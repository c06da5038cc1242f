package updatepolicy_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// conflicting are so many policies that all select everything, with the longest names, and so many
// groups.
func conflicting(policies, groups int) ([]v1alpha1.UpdatePolicy, []updatepolicy.State) {
	var objects []v1alpha1.UpdatePolicy
	for i := range policies {
		name := fmt.Sprintf("p%04d-%s", i, strings.Repeat("x", 247))
		p := newPolicy(name, target{})
		p.UID, p.ResourceVersion = types.UID(name), "1"
		objects = append(objects, p)
	}
	var states []updatepolicy.State
	for i := range groups {
		states = append(states, updatepolicy.State{Group: policy.Group{
			Namespace: "ns", Cluster: "c", Object: fmt.Sprintf("md-%04d-%s", i, strings.Repeat("y", 245)),
			Topology: strings.Repeat("z", 253),
		}})
	}
	return objects, states
}

// allocated returns how many bytes and objects f allocates. No other test may run meanwhile.
func allocated(f func()) (bytes, count uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs
}

// TestConflictsAreBounded holds that a tenant's policies and groups cost what they are, and not their
// product, and that the status can be written.
func TestConflictsAreBounded(t *testing.T) {
	const policies, groups = 100, 200
	objects, states := conflicting(policies, groups)
	var statuses []v1alpha1.UpdatePolicyStatus
	bytes, count := allocated(func() {
		compiled := policy.CompileAll(objects)
		selection := selectAll(t, compiled, states)
		selection.Kept()
		statuses = selection.Statuses(objects, updatepolicy.Guard{Active: true}, metav1.Unix(0, 0))
	})
	t.Logf("%d bytes in %d allocations", bytes, count)
	if most := uint64((policies + groups) * 16 << 10); bytes > most {
		t.Errorf("%d bytes were allocated, want at most %d", bytes, most)
	}
	if most := uint64((policies + groups) * 50); count > most {
		t.Errorf("%d allocations, want at most %d", count, most)
	}
	for i, s := range statuses {
		message := s.Conditions[0].Message
		if len(message) > 6<<10 {
			t.Fatalf("the message of %s has %d bytes", objects[i].Name[:5], len(message))
		}
		for _, part := range []string{"; and 197 more; ", ", and 96 more with the same precision", "these groups are not updated until"} {
			if !strings.Contains(message, part) {
				t.Errorf("the message of %s has no %q: %s", objects[i].Name[:5], part, message)
			}
		}
		if strings.Contains(message, objects[i].Name) {
			t.Errorf("the message of %s names the policy itself", objects[i].Name[:5])
		}
	}
	_, err := policy.CompileAll(objects).Select(states[0].Group)
	if err == nil || len(err.Error()) > 4<<10 || !strings.Contains(err.Error(), ", and 96 more select the ") {
		t.Errorf("the error of one group is %v", err)
	}
}

// TestSelectorsAreParsedOnce holds that the number of groups does not multiply what the selectors of
// policies cost.
func TestSelectorsAreParsedOnce(t *testing.T) {
	objects, states := conflicting(10, 200)
	for i := range objects {
		for range 32 {
			values := make([]string, 256)
			for v := range values {
				values[v] = fmt.Sprintf("v%d-%d", i, v)
			}
			objects[i].Spec.Targets = append(objects[i].Spec.Targets, target{Selector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: values}},
			}})
		}
		objects[i].Spec.Targets = objects[i].Spec.Targets[1:]
	}
	var store policy.Store
	compiled := store.Compile("ns", objects)
	_, count := allocated(func() {
		again := store.Compile("ns", objects)
		selection := selectAll(t, again, states)
		selection.Kept()
		selection.Statuses(objects, updatepolicy.Guard{}, metav1.Unix(0, 0))
		if again[0] != compiled[0] {
			t.Error("a policy was compiled again")
		}
	})
	if most := uint64(10 * (10 + 200)); count > most {
		t.Errorf("%d allocations for 10 policies of 8,192 values and 200 groups, want at most %d", count, most)
	}
}

func selectAll(tb testing.TB, policies policy.Set, groups []updatepolicy.State) *updatepolicy.Selection {
	tb.Helper()
	s, err := updatepolicy.SelectAll(policies, groups, func() error { return nil })
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// TestComparisonsAreBounded holds that the groups of a namespace are compared once for scope and
// statuses, and not at all where policies and groups are too many together. The guard then covers the
// namespace.
func TestComparisonsAreBounded(t *testing.T) {
	objects, states := conflicting(200, 5000)
	for i := range objects {
		objects[i].Spec.Targets = []target{
			{Selector: labelled("a", "b"), ClusterSelector: labelled("c", "d")}, {MachineDeployments: names("md")},
		}
	}
	compiled := policy.CompileAll(objects)
	if n := compiled.Comparisons(len(states)); n != 200*4*5000 || n > policy.MaxComparisons {
		t.Fatalf("%d comparisons are needed, want 4,000,000 and at most %d", n, policy.MaxComparisons)
	}
	for name, tt := range map[string]struct {
		groups []updatepolicy.State
		// checks is how many groups are compared.
		checks int
		kept   guard.Scope
		ready  string
	}{
		"many":     {states, 5000, guard.Scope{}, v1alpha1.UpdatePolicyNoGroupsReason},
		"too many": {append(append(states, states...), states...), 0, guard.Scope{"ns"}, v1alpha1.UpdatePolicyTooManyReason},
	} {
		checks := 0
		selection, err := updatepolicy.SelectAll(compiled, tt.groups, func() error { checks++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		kept := selection.Kept()
		status := selection.Statuses(objects, updatepolicy.Guard{Active: true}, metav1.Unix(0, 0))[0]
		ready := status.Conditions[0]
		if checks != tt.checks || strings.Join(kept, " ") != strings.Join(tt.kept, " ") || ready.Reason != tt.ready {
			t.Errorf("%s: %d groups compared, kept %v, %s: %s", name, checks, kept, ready.Reason, ready.Message)
		}
		if tt.checks == 0 && (status.GroupCount != nil || !strings.Contains(ready.Message, "too many policies and groups") ||
			!strings.Contains(ready.Message, "Fix: ")) {
			t.Errorf("%s: status is %+v", name, status)
		}
	}
}

// TestSelectionEnds holds that a caller that is out of time stops the comparisons.
func TestSelectionEnds(t *testing.T) {
	objects, states := conflicting(2, 10)
	ended, checks := errors.New("out of time"), 0
	_, err := updatepolicy.SelectAll(policy.CompileAll(objects), states, func() error {
		if checks++; checks == 3 {
			return ended
		}
		return nil
	})
	if !errors.Is(err, ended) || checks != 3 {
		t.Errorf("after %d checks, error is %v", checks, err)
	}
}
