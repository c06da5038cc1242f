package config_test

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// schema is what a CustomResourceDefinition says of a field of its objects.
func schema(t *testing.T, file string, path ...string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	found := *crdOf(t, file).Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, name := range path {
		next, ok := found.Properties[name]
		if !ok {
			t.Fatalf("%s has no field %s", file, strings.Join(path, "."))
		}
		found = next
	}
	return found
}

// crdOf returns the CRD in a generated file.
func crdOf(t *testing.T, file string) apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict([]byte(readText(t, "crd/bases/"+file)), &crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// Each field of an UpdatePolicy says when an edit of it counts: `kubectl explain` is where people look for it.
func TestPolicyFieldsSayWhenTheyCount(t *testing.T) {
	t.Parallel()
	spec := schema(t, "windlass.dev_updatepolicies.yaml", "spec")
	atDecision := []string{"targets", "strategy", "fallback", "ignorePaths"}
	for name, field := range spec.Properties {
		want := "An edit counts at once"
		if slices.Contains(atDecision, name) {
			want = "when a change is decided on"
		}
		if description := strings.Join(strings.Fields(field.Description), " "); !strings.Contains(description, want) {
			t.Errorf("the description of %s does not say %q: %s", name, want, description)
		}
	}
}

func TestWhatUpdatersSayIsBounded(t *testing.T) {
	t.Parallel()
	if message := schema(t, "windlass.dev_updaters.yaml", "status", "lastRequest", "message"); message.MaxLength == nil {
		t.Error("status.lastRequest.message of an Updater has no bound")
	}
}
