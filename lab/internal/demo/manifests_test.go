package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/pkg/version"
)

const classTemplate = `apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: "${CLASS}"}
spec:
  upgrade: {external: {generateUpgradePlanExtension: plans.example}}
  workers: {machineDeployments: ["${CLASS}-${POOL:=a}"]}
  files: [{content: "echo ${HOME}"}]
  preKubeadmCommands: ["echo ${PATH}"]
`

// TestCheckVariables names each variable once, and none of a script.
func TestCheckVariables(t *testing.T) {
	t.Parallel()
	objects, err := manifest.ReadObjects([]string{manifest.Stdin}, strings.NewReader(classTemplate))
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckVariables(objects); err == nil || !strings.Contains(err.Error(), ": CLASS, POOL. Fix: ") {
		t.Errorf("the error is %v", err)
	}
	whole := strings.NewReplacer("${CLASS}", "c", "${POOL:=a}", "a").Replace(classTemplate)
	if objects, err = manifest.ReadObjects([]string{manifest.Stdin}, strings.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	if err := CheckVariables(objects); err != nil {
		t.Error(err)
	}
}

// TestWithVersions sets the list, in order, and changes no object that was given.
func TestWithVersions(t *testing.T) {
	t.Parallel()
	objects, err := manifest.ReadObjects([]string{manifest.Stdin}, strings.NewReader(classTemplate))
	if err != nil {
		t.Fatal(err)
	}
	before := objects[0].DeepCopy()
	versions := []version.Version{version.MustParse("v1.33.6"), version.MustParse("v1.32.10")}
	changed, err := WithVersions(objects, versions)
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := changed[0].Object["spec"].(map[string]any)
	if diff := cmp.Diff([]any{"v1.32.10", "v1.33.6"}, spec["kubernetesVersions"]); diff != "" {
		t.Errorf("the versions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{}, spec["upgrade"]); diff != "" {
		t.Errorf("the extension (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, objects[0]); diff != "" {
		t.Errorf("the given object (-want +got):\n%s", diff)
	}
}
