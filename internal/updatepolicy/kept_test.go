package updatepolicy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

func TestKept(t *testing.T) {
	t.Parallel()
	const namespace, cluster = "ns", "ns/prod"
	const cp, md = "ns/prod/cp", "ns/prod/md/prod-md-0-x7k2p"
	replacing := func(p v1alpha1.UpdatePolicy) v1alpha1.UpdatePolicy {
		p.Spec.Fallback = v1alpha1.FallbackRollingUpdate
		return p
	}
	rolling := newPolicy("rolling", target{})
	rolling.Spec.Strategy = v1alpha1.RollingUpdate
	byName := target{MachineDeployments: names("md-0")}
	for name, tt := range map[string]struct {
		policies []v1alpha1.UpdatePolicy
		want     guard.Scope
	}{
		"no policy":                {nil, guard.Scope{}},
		"machines are replaced":    {[]v1alpha1.UpdatePolicy{rolling}, guard.Scope{}},
		"machines may be replaced": {[]v1alpha1.UpdatePolicy{replacing(newPolicy("a", target{}))}, guard.Scope{}},
		"all groups":               {[]v1alpha1.UpdatePolicy{newPolicy("a", target{})}, guard.Scope{namespace}},
		"all groups of a Cluster": {
			[]v1alpha1.UpdatePolicy{newPolicy("a", target{ClusterName: "prod"})}, guard.Scope{cluster},
		},
		"all groups of a Cluster that has none": {
			[]v1alpha1.UpdatePolicy{newPolicy("a", target{ClusterName: "test"})}, guard.Scope{},
		},
		"groups by label": {
			[]v1alpha1.UpdatePolicy{newPolicy("a", target{Selector: labelled("hardware", "gpu")})},
			guard.Scope{md},
		},
		"Clusters by label": {
			[]v1alpha1.UpdatePolicy{newPolicy("a", target{ClusterSelector: labelled("tier", "gold")})},
			guard.Scope{cp, md},
		},
		"the control plane": {
			[]v1alpha1.UpdatePolicy{newPolicy("a", target{ControlPlane: true})}, guard.Scope{cp},
		},
		"one MachineDeployment": {[]v1alpha1.UpdatePolicy{newPolicy("a", byName)}, guard.Scope{md}},
		"all but one that may be replaced": {
			[]v1alpha1.UpdatePolicy{newPolicy("a", target{}), replacing(newPolicy("b", byName))},
			guard.Scope{cp},
		},
		"one for which two policies are equally precise": {
			[]v1alpha1.UpdatePolicy{newPolicy("a", byName), replacing(newPolicy("b", byName))},
			guard.Scope{md},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			groups := []updatepolicy.State{{Group: workers}, {Group: controlPlane}}
			if diff := cmp.Diff(tt.want, selectAll(t, policy.CompileAll(tt.policies), groups).Kept()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
