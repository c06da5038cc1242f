// Package crdtest holds the project's CRDs against the code of the API server: that they are accepted, and that objects
// which make no sense are refused with a message that helps.
package crdtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// The kinds, each with the plural name that its manifest is called by.
const (
	upgradeGraphs  = "upgradegraphs"
	updaters       = "updaters"
	updatePolicies = "updatepolicies"
	upgradeGates   = "upgradegates"
)

// loadCRD returns a CRD in the API server's internal form.
func loadCRD(t *testing.T, plural string) *apiextensions.CustomResourceDefinition {
	t.Helper()
	content, err := os.ReadFile("../../../config/crd/bases/windlass.dev_" + plural + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var external apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(content, &external); err != nil {
		t.Fatal(err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&external)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&external.Spec)
	// The API server fills these in when it stores a CRD.
	external.Status.StoredVersions = []string{"v1alpha1"}
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&external, &internal, nil); err != nil {
		t.Fatal(err)
	}
	return &internal
}

// validator validates objects as the API server does on creation.
type validator struct {
	schema validation.SchemaCreateValidator
	rules  *schemacel.Validator
	root   *schema.Structural
}

func newValidator(t *testing.T, plural string) validator {
	t.Helper()
	crd := loadCRD(t, plural)
	openAPI := crd.Spec.Validation.OpenAPIV3Schema
	checks, _, err := validation.NewSchemaValidator(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	structural, err := schema.NewStructural(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	return validator{schema: checks, rules: schemacel.NewValidator(structural, true, celconfig.PerCallLimit), root: structural}
}

// validate fills in defaults in object, refuses fields that the schema does not know, and validates.
func (v validator) validate(t *testing.T, object map[string]any) field.ErrorList {
	t.Helper()
	if unknown := pruning.PruneWithOptions(object, v.root, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}); len(unknown) > 0 {
		t.Fatalf("the schema does not know %q", unknown)
	}
	defaulting.Default(object, v.root)
	problems := validation.ValidateCustomResource(nil, object, v.schema)
	problems = append(problems, listtype.ValidateListSetsAndMaps(nil, v.root, object)...)
	if len(problems) > 0 {
		// As the API server: rules are for objects that the schema accepts.
		return problems
	}
	problems, remaining := v.rules.Validate(t.Context(), nil, v.root, object, nil, celconfig.RuntimeCELCostBudget)
	t.Logf("the rules cost %d of %d", celconfig.RuntimeCELCostBudget-remaining, celconfig.RuntimeCELCostBudget)
	if remaining < 0 {
		t.Error("the rules cost more than the API server spends on one object")
	}
	return problems
}

// objectTest is an object's spec, in YAML, and parts of the problems that it has, one each.
type objectTest struct {
	spec string
	want []string
}

// withIntegers turns whole numbers into int64, as the API server reads them.
func withIntegers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			v[key] = withIntegers(field)
		}
	case []any:
		for i, item := range v {
			v[i] = withIntegers(item)
		}
	case float64:
		if n := int64(v); float64(n) == v {
			return n
		}
	}
	return value
}

// checkObjects validates objects that begin with head and end with the spec of a test.
func checkObjects(t *testing.T, plural, head string, tests map[string]objectTest) {
	t.Helper()
	v := newValidator(t, plural)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var object map[string]any
			if err := yaml.Unmarshal([]byte(head+tt.spec), &object); err != nil {
				t.Fatal(err)
			}
			withIntegers(object)
			problems := v.validate(t, object)
			if len(problems) != len(tt.want) {
				t.Fatalf("problems are %v, want %d", problems, len(tt.want))
			}
			for i, want := range tt.want {
				if !strings.Contains(problems[i].Error(), want) {
					t.Errorf("problem is %q, want %q in it", problems[i], want)
				}
			}
		})
	}
}

// TestAccepted includes the API server's estimate of what the rules cost for the largest object that the schema allows.
func TestAccepted(t *testing.T) {
	t.Parallel()
	for _, plural := range plurals(t) {
		t.Run(plural, func(t *testing.T) {
			t.Parallel()
			for _, problem := range apiextensionsvalidation.ValidateCustomResourceDefinition(t.Context(), loadCRD(t, plural)) {
				t.Error(problem)
			}
		})
	}
}

// TestSamples validates every example that is handed out.
func TestSamples(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	files, err := filepath.Glob("../../../config/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]string{
		"UpgradeGraph": upgradeGraphs, "Updater": updaters, "UpdatePolicy": updatePolicies, "UpgradeGate": upgradeGates,
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatal(err)
			}
			kind, _ := object["kind"].(string)
			if byKind[kind] == "" {
				continue
			}
			seen[kind]++
			withIntegers(object)
			for _, problem := range newValidator(t, byKind[kind]).validate(t, object) {
				t.Errorf("%s: %v", file, problem)
			}
		}
	}
	if len(seen) != len(byKind) {
		t.Errorf("there are samples of %v only", seen)
	}
}
