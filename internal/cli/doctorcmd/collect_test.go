package doctorcmd

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/doctor"
)

// TestUnusable: a policy beyond the limits of selectors cannot be used, one with too many names can.
func TestUnusable(t *testing.T) {
	t.Parallel()
	large, long := map[string]string{}, v1alpha1.UpdateTarget{}
	for i := range v1alpha1.MaxSelectorTerms + 1 {
		large[fmt.Sprintf("key-%d", i)] = "x"
	}
	for i := range 1025 {
		long.MachineDeployments = append(long.MachineDeployments, v1alpha1.MachineDeploymentName(fmt.Sprintf("md-%d", i)))
	}
	for name, test := range map[string]struct {
		target v1alpha1.UpdateTarget
		want   bool
	}{
		"selector": {v1alpha1.UpdateTarget{Selector: &metav1.LabelSelector{MatchLabels: large}}, true},
		"names":    {long, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
			p.Spec.Strategy, p.Spec.Targets = v1alpha1.ExternalUpdate, []v1alpha1.UpdateTarget{test.target}
			f := doctor.Facts{Policies: []v1alpha1.UpdatePolicy{p}}
			if err := addPolicies(t.Context(), &f); err != nil {
				t.Fatal(err)
			}
			if len(f.Beyond) != 1 || f.Beyond[0].Unusable != test.want {
				t.Errorf("found %+v, want one with unusable %t", f.Beyond, test.want)
			}
		})
	}
}
