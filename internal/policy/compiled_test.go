package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
)

// TestNamed: a policy is found by its name, and selects no group of another namespace.
func TestNamed(t *testing.T) {
	t.Parallel()
	policies := policy.CompileAll([]v1alpha1.UpdatePolicy{
		newPolicy("b", target{}), newPolicy("a", target{ControlPlane: true}),
		newPolicy("c", target{Selector: broken()}),
	})
	elsewhere := workers
	elsewhere.Namespace = "other"
	got := map[string][3]bool{}
	for _, name := range []string{"a", "b", "c", "d"} {
		for _, c := range policies.Named(name) {
			got[name+c.Policy.Name] = [3]bool{
				c.Selects(controlPlane), c.Selects(workers), c.Selects(elsewhere),
			}
		}
	}
	want := map[string][3]bool{"aa": {true}, "bb": {true, true}, "cc": {true, true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what each selects (-want +got):\n%s", diff)
	}
}
