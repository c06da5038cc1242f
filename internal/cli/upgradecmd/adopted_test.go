package upgradecmd

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windlass-dev/windlass/internal/cli"
)

// TestUpgradeAdopted: a MachineDeployment is upgraded once Cluster API has seen the version that was
// raised, has moved all machines to it, and counts them as up to date.
func TestUpgradeAdopted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		option, version, machines string
		seen, upToDate            int64
		want                      bool
	}{
		"not seen":                {upgradePatch, "v1.32.4", "v1.32.1", 1, 2, false},
		"seen, still moves":       {upgradePatch, "v1.32.4", "v1.32.4", 2, 1, false},
		"counted by the old spec": {upgradePatch, "v1.32.4", "v1.32.1", 2, 2, false},
		"adopted":                 {upgradePatch, "v1.32.4", "v1.32.4", 2, 2, true},
		"channel, not moved":      {upgradeChannel, "v1.32.4", "v1.32.1", 2, 2, false},
		"channel, adopted":        {upgradeChannel, "v1.32.4", "v1.32.4", 2, 2, true},
		"version stays":           {upgradePatch, "v1.32.1", "v1.32.1", 2, 0, true},
		"version stays unseen":    {upgradePatch, "v1.32.1", "v1.32.1", 1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := `{"option":"` + test.option + `","began":"2026-01-01T00:00:00Z","ended":"2026-01-01T00:00:00Z"}`
			md := func(o *unstructured.Unstructured, seen, upToDate int64) {
				o.SetGeneration(2)
				for path, value := range map[string]any{
					"spec.template.spec.version": test.version, "status.observedGeneration": seen,
					"status.upToDateReplicas": upToDate,
				} {
					err := unstructured.SetNestedField(o.Object, value, strings.Split(path, ".")...)
					if err != nil {
						t.Error(err)
					}
				}
			}
			r := startUpgrade(t, "machinedeployment", "md-0", "--to", test.option)
			r.next("Asked MachineDeployment team-a/md-0 to upgrade to " + test.option)
			move := func(spec string) {
				for _, name := range []string{"m-1", "m-2"} {
					r.change("Machine", name, func(o *unstructured.Unstructured) {
						err := errors.Join(
							unstructured.SetNestedField(o.Object, spec, "spec", "version"),
							unstructured.SetNestedField(o.Object, "v1.32.4", "status", "nodeInfo", "kubeletVersion"),
						)
						if err != nil {
							t.Error(err)
						}
					})
				}
			}
			move(test.machines)
			r.change("MachineDeployment", "md-0", func(o *unstructured.Unstructured) {
				md(o, test.seen, test.upToDate)
				annotations := o.GetAnnotations()
				delete(annotations, to)
				annotations[state], annotations[release] = "done", test.option
				annotations[upgradeRecord] = done
				o.SetAnnotations(annotations)
			})
			if !test.want {
				<-r.notes.first
				move(test.version)
				r.change("MachineDeployment", "md-0", func(o *unstructured.Unstructured) { md(o, 2, 2) })
			}
			r.until("Upgraded MachineDeployment team-a/md-0 to " + test.option + ": 0 of 2 machines")
			r.ends(cli.ExitOK, "")
			if got := strings.Contains(r.notes.String(), notAdopted); got == test.want {
				t.Errorf("the notes are %q", r.notes.String())
			}
		})
	}
}
