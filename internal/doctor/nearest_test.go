package doctor

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestMisspelt: a policy with a misspelt Cluster or pool is told, with the name that is there.
func TestMisspelt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		target v1alpha1.UpdateTarget
		want   string
	}{
		"Cluster": {
			v1alpha1.UpdateTarget{ClusterName: "prdo"},
			`Its targets name ["prdo"]; the nearest name is "prod"`,
		},
		"pool": {
			v1alpha1.UpdateTarget{
				ClusterName:        "prod",
				MachineDeployments: []v1alpha1.MachineDeploymentName{"md-0", "md-o"},
			},
			`Cluster prod has no MachineDeployment that its targets name: "md-o"; the nearest name is "md-0"`,
		},
	} {
		f := healthy()
		f.Policies[0].Spec.Targets = []v1alpha1.UpdateTarget{test.target}
		found, _ := Examine(f)
		told := 0
		for _, finding := range found {
			if finding.Subject == "UpdatePolicy all" && strings.Contains(finding.Message, test.want) {
				told++
			}
		}
		if told != 1 {
			t.Errorf("%s: %d findings have %s", name, told, test.want)
		}
	}
}
