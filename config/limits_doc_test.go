package config_test

import (
	"regexp"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/pool"
)

// patchCommand finds the patches of a page: the object, the type, and the patch.
var patchCommand = regexp.MustCompile(
	`(?m)^windlass-lab kubectl -- patch (\w+) (\S+) --type=(\w+) -p '([^']+)'$`)

// TestLimitsExamples holds that each patch of the page about limits applies to the samples of the
// lab, one after the other, and leaves a valid object.
func TestLimitsExamples(t *testing.T) {
	t.Parallel()
	page := readText(t, "../docs/how-to/limit-a-rollout.md")
	objects := map[string][]byte{}
	for kind, file := range map[string]string{"updatepolicy": "policy", "cluster": "cluster"} {
		text, err := yaml.YAMLToJSON([]byte(readText(t, "samples/dev/"+file+".yaml")))
		if err != nil {
			t.Fatal(err)
		}
		objects[kind] = text
	}
	found := patchCommand.FindAllStringSubmatch(page, -1)
	if written := strings.Count(page, "kubectl -- patch "); written != len(found) || written == 0 {
		t.Errorf("the page has %d patches, and %d can be read", written, len(found))
	}
	for _, command := range found {
		kind, name, form, patch := command[1], command[2], command[3], []byte(command[4])
		if objects[kind] == nil || name != "example" {
			t.Fatalf("there is no %s %s in config/samples/dev", kind, name)
		}
		objects[kind] = patched(t, objects[kind], form, patch)
		var object v1alpha1.UpdatePolicy
		if err := yaml.UnmarshalStrict(objects["updatepolicy"], &object); err != nil {
			t.Errorf("after %s: %v", patch, err)
		}
		if err := policy.Check(&object); err != nil {
			t.Errorf("after %s: %v", patch, err)
		}
		var cluster clusterv1.Cluster
		if err := yaml.UnmarshalStrict(objects["cluster"], &cluster); err != nil {
			t.Errorf("after %s: %v", patch, err)
		}
	}
}

func patched(t *testing.T, object []byte, form string, patch []byte) []byte {
	t.Helper()
	if form == "merge" {
		merged, err := jsonpatch.MergePatch(object, patch)
		if err != nil {
			t.Fatalf("%s: %v", patch, err)
		}
		return merged
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	changed, err := operations.Apply(object)
	if err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	return changed
}

// yamlBlock finds the YAML of a page.
var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestLimitsManifest holds that the complete policy of the page is valid, that its deadlines can be
// met, and that the MachineDeployment leaves room for it.
func TestLimitsManifest(t *testing.T) {
	t.Parallel()
	_, page, _ := strings.Cut(readText(t, "../docs/how-to/limit-a-rollout.md"), "## A complete policy")
	blocks := yamlBlock.FindAllStringSubmatch(page, -1)
	if len(blocks) != 2 {
		t.Fatalf("the section has %d blocks of YAML, want a policy and a MachineDeployment", len(blocks))
	}
	var object v1alpha1.UpdatePolicy
	if err := yaml.UnmarshalStrict([]byte(blocks[0][1]), &object); err != nil {
		t.Fatal(err)
	}
	if err := policy.Check(&object); err != nil {
		t.Error(err)
	}
	s := object.Spec
	if attempts := s.MaxAttempts * s.AttemptTimeoutSeconds; s.MachineDeadlineSeconds < attempts ||
		s.GroupDeadlineSeconds < s.MachineDeadlineSeconds {
		t.Errorf("attempts take %d s, a machine %d s, the group %d s",
			attempts, s.MachineDeadlineSeconds, s.GroupDeadlineSeconds)
	}
	var md clusterv1.MachineDeployment
	if err := yaml.UnmarshalStrict([]byte(blocks[1][1]), &md); err != nil {
		t.Fatal(err)
	}
	budget, err := pool.BudgetOf(&md)
	if err != nil || budget.Surge != 0 || budget.Unavailable != s.MaxInFlight {
		t.Errorf("the MachineDeployment has the budget %+v, %v; maxInFlight is %d", budget, err, s.MaxInFlight)
	}
}

// TestLimitsFields holds that each limit of rollouts that is a field of an UpdatePolicy is on the
// page.
func TestLimitsFields(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readText(t, "../docs/how-to/limit-a-rollout.md"), "## The fields")
	spec := schema(t, "windlass.dev_updatepolicies.yaml", "spec")
	for name, field := range spec.Properties {
		read := strings.Contains(field.Description, "`windlass manager`") ||
			strings.Contains(field.Description, "`windlass\nmanager`")
		if read && !strings.Contains(table, name) {
			t.Errorf("the field %s is not in the table", name)
		}
	}
}
