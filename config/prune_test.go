package config_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// TestNoPruning: GitOps tools delete neither a CRD, with which the API server would delete all its
// objects, nor the namespace, nor Cluster API's Deployment, when they are gone from the source or the
// tool's own object is deleted.
func TestNoPruning(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"argocd.argoproj.io/sync-options":   "Delete=false,Prune=false",
		"kustomize.toolkit.fluxcd.io/prune": "disabled",
	}
	for folder, kept := range map[string]int{"crd": 4, "manager": 5, "default": 5} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			for key, content := range buildOnDisk(t, folder) {
				kind, _, _ := strings.Cut(key, " ")
				if kind != "CustomResourceDefinition" && kind != "Namespace" &&
					key != "Deployment capi-controller-manager" {
					continue
				}
				kept--
				var object metav1.PartialObjectMetadata
				if err := yaml.Unmarshal(content, &object); err != nil {
					t.Fatal(err)
				}
				maps.DeleteFunc(object.Annotations, func(name, _ string) bool { return want[name] == "" })
				if diff := cmp.Diff(want, object.Annotations); diff != "" {
					t.Errorf("annotations of the %s (-want +got):\n%s", key, diff)
				}
			}
			if kept != 0 {
				t.Errorf("%d objects that must be kept are missing", kept)
			}
		})
	}
}
