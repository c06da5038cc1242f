package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// What to do when the guard is down is read in a hurry: the commands there name what is really installed.
func TestRunbook(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, runbook, _ := strings.Cut(string(readme), "### When the guard itself is down\n")
	runbook, _, ok := strings.Cut(runbook, "\n## ")
	if !ok {
		t.Fatal("README.md has no section about it")
	}
	i := decode(t, build(t, unchanged))
	for _, command := range []string{
		"kubectl delete validatingwebhookconfiguration " + i.guard.Name + "\n",
		"kubectl label namespace NAME " + v1alpha1.GuardLabel + "=" + v1alpha1.GuardDisabled + "\n",
		"kubectl label namespace NAME " + v1alpha1.GuardLabel + "-`",
		`"` + i.guard.Webhooks[0].Name + `"`,
		"kubectl -n " + i.deployment.Namespace + " get pods",
		"`" + v1alpha1.GuardingCondition + "`",
	} {
		if !strings.Contains(runbook, command) {
			t.Errorf("the section does not say %q", command)
		}
	}
}
