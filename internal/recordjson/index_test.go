package recordjson_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/recordjson/formtest"
)

// forms are the forms of what Windlass writes and reads again, by the constant of the annotation
// that holds them, or else by the package.
var forms = map[string][]string{
	"UpdatePlanAnnotation":            {"update-plan.json"},
	"UpdateProgressAnnotation":        {"update-progress.json"},
	"UpdateDecisionsAnnotation":       {"update-decisions.json"},
	"LastUpdateAnnotation":            {"last-update.json"},
	"HandedOverAnnotation":            {"handed-over.json"},
	"FailedCanariesAnnotation":        {"failed-canaries.json"},
	"DirtyFieldsAnnotation":           {"dirty-fields.json"},
	"UpdateOwedAnnotation":            {"update-owed.json"},
	"ChainIntentAnnotation":           {"chain-intent.json"},
	"ChainProgressAnnotation":         {"chain-progress.json"},
	"LastUpgradeAnnotation":           {"last-upgrade.json"},
	"InPlaceUpgradeAnnotation":        {"in-place-upgrade-machine.json", "in-place-upgrade-group.json"},
	"InPlaceUpgradeKubeletAnnotation": {"in-place-upgrade-kubelet.txt"},
	"InPlaceUpgradeLockKey":           {"in-place-upgrade-lock.json"},
	"RefreshAnnotation":               {"k8sd-refresh.json"},
	"GuardScopeCondition":             {"guard-scope.txt"},
	"internal/inplace/cover":          {"digests.txt"},
	"internal/linuxhost":              {"linux-host.txt"},
	"api/updates/v1alpha1":            {"hand-over-request.json", "hand-over-response.json"},
}

// formless says what the other constants are.
var formless = map[string]string{
	"RemediationPausedAnnotation": "a mark: its value is empty",
	"ScaleDownDisabledAnnotation": "a mark on a Node: its value is empty",
	"MovedFromAnnotation":         "internal/pool.TestMovedFrom has the form",
	"ReturnMachinesAnnotation":    "names",
	"NoUpdateAnnotation":          "a pool.Reason",
	"RolloutResumedAnnotation":    "a time of RFC 3339",
	"ChainStepAnnotation":         "a version", "EngineAnnotation": "EngineManager", "EngineManager": "a name",
	"UpdateRetryAnnotation": "people write it", "UpdateAbandonAnnotation": "people write it",
	"AllowReplacementAnnotation": "people write it", "InPlaceUpgradeDrainAnnotation": "people write it",
	"GuardLabel": "people write it", "GuardDisabled": "a value of GuardLabel", "ActiveLabel": "true",
	"GuardConfigurationName": "a name", "GuardWebhookName": "a name",
	"OperationIDAnnotation": "sent to updaters", "DeadlineAnnotation": "sent to updaters: a time of RFC 3339",
	"CancelAnnotation": "sent to updaters: words", "InPlaceUpgradeOptionAnnotation": "sent to updaters: an option",
	"InPlaceUpgradeFollowAnnotation": "sent to updaters: a mark", "PrefetchAnnotation": "sent to updaters: a mark",
	"UpdatedAnnotation":           "written by implementers: an operation id",
	"UpdateFailedAnnotation":      "written by implementers: an operation id and words",
	"UpdateMessageAnnotation":     "written by implementers: an operation id and words",
	"DefaultInPlaceUpgradePrefix": "a prefix; internal/inplace/engine.TestWireFormat has the keys and values",
	"InPlaceUpgradeTo":            "an option", "InPlaceUpgradeRelease": "an option", "InPlaceUpgradeStatus": "one of the statuses",
	"InPlaceUpgradeChangeID": "an id of k8sd", "InPlaceUpgradeLastFailedAttemptAt": "for people",
	"InPlaceUpgradeInProgress": "a status", "InPlaceUpgradeDone": "a status", "InPlaceUpgradeFailed": "a status",
	"InPlaceUpgradeCondition":  "a condition: nothing is decided by it",
	"InPlaceUpgradeLockSuffix": "part of a name",
	"UpdateLogLabel":           "true", "UpdateLogSuffix": "part of a name", "UpdateLogKey": "for people: lines of text",
}

// TestEachRecordHasForms fails for a constant that is in neither list, for an entry without a
// constant, and for a form without an entry.
func TestEachRecordHasForms(t *testing.T) {
	t.Parallel()
	var want []string
	for _, files := range forms {
		want = append(want, files...)
	}
	paths, err := filepath.Glob(filepath.Join(formtest.Folder(t), formtest.Release, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, path := range paths {
		got = append(got, filepath.Base(path))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the forms of %s (-want +got):\n%s", formtest.Release, diff)
	}
	known := map[string]bool{}
	for name := range maps.Keys(formless) {
		known[name] = true
	}
	for name := range maps.Keys(forms) {
		known[name] = !strings.Contains(name, "/")
	}
	for name := range constants(t) {
		if !known[name] {
			t.Errorf("api/v1alpha1.%s is new. Fix: list it in formless; if it is a record, "+
				"write its form with formtest and list it in forms", name)
		}
		delete(known, name)
	}
	for name, listed := range known {
		if listed {
			t.Errorf("api/v1alpha1 has no constant %s", name)
		}
	}
}

// constants are those of the files of api/v1alpha1 about annotations and ConfigMaps, without
// Events.
func constants(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../../api/v1alpha1/annotations*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files with annotations: %v", err)
	}
	found := map[string]bool{}
	for _, file := range append(files, "../../api/v1alpha1/updatelog.go") {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			if spec, ok := node.(*ast.ValueSpec); ok {
				for _, name := range spec.Names {
					found[name.Name] = !strings.HasSuffix(name.Name, "Event")
				}
			}
			return true
		})
	}
	maps.DeleteFunc(found, func(_ string, counts bool) bool { return !counts })
	return found
}

// TestReleasedForms: the forms of a release that is out do not change. CHANGELOG.md lists the
// releases.
func TestReleasedForms(t *testing.T) {
	t.Parallel()
	changelog, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	headings := regexp.MustCompile(`(?m)^## \[?(v\d+\.\d+)\.\d+`)
	for _, heading := range headings.FindAllStringSubmatch(string(changelog), -1) {
		out = append(out, heading[1])
	}
	formtest.CheckReleased(t, out)
}
