package crdtest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// plurals returns the plural names of all CRDs that are generated.
func plurals(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../../config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found the CRDs %q, %v", files, err)
	}
	var found []string
	for _, file := range files {
		found = append(found, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "windlass.dev_"), ".yaml"))
	}
	return found
}

type schemaProps = apiextensions.JSONSchemaProps

// unbounded returns what has no bound in a schema, by path. Enumerations bound their strings.
func unbounded(path *field.Path, s *schemaProps) []string {
	var faults []string
	fault := func(what string) { faults = append(faults, fmt.Sprintf("%s: %s", path, what)) }
	if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
		fault("unknown fields are kept")
	}
	if s.XEmbeddedResource {
		fault("an embedded resource")
	}
	text := s.Type == "string" || s.XIntOrString
	if text && s.MaxLength == nil && len(s.Enum) == 0 {
		fault("a string without maxLength")
	}
	if s.Type == "" && !s.XIntOrString {
		fault("no type")
	}
	if s.Type == "array" {
		if s.MaxItems == nil {
			fault("a list without maxItems")
		}
		if s.Items != nil && s.Items.Schema != nil {
			faults = append(faults, unbounded(path.Key(""), s.Items.Schema)...)
		}
	}
	if more := s.AdditionalProperties; more != nil && (more.Allows || more.Schema != nil) {
		if s.MaxProperties == nil {
			fault("a map without maxProperties")
		}
		if !boundsKeys(s) {
			fault("a map without a rule that bounds its keys")
		}
		if more.Schema == nil {
			fault("a map of anything")
		} else {
			faults = append(faults, unbounded(path.Key(""), more.Schema)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		faults = append(faults, unbounded(path.Child(name), &property)...)
	}
	return faults
}

// boundsKeys reports whether a map has the one form of rule that bounds the length of its keys.
func boundsKeys(s *schemaProps) bool {
	return slices.ContainsFunc(s.XValidations, func(rule apiextensions.ValidationRule) bool {
		return strings.HasPrefix(rule.Rule, "self.all(key, size(key) <= ")
	})
}

// ownProperties returns the schemas of a CRD's fields, by name, without those that every object has.
func ownProperties(crd *apiextensions.CustomResourceDefinition) map[string]schemaProps {
	own := maps.Clone(crd.Spec.Validation.OpenAPIV3Schema.Properties)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(own, name)
	}
	return own
}

// TestEverythingIsBounded walks the schemas of all kinds, spec and status.
func TestEverythingIsBounded(t *testing.T) {
	t.Parallel()
	for _, plural := range plurals(t) {
		crd := loadCRD(t, plural)
		if versions := len(crd.Spec.Versions); versions != 1 {
			t.Errorf("%s has %d versions, and one of them is walked", plural, versions)
		}
		for name, s := range ownProperties(crd) {
			for _, fault := range unbounded(field.NewPath(plural, name), &s) {
				t.Error(fault)
			}
		}
	}
}

// TestUnbounded holds that the walk finds each form of what has no bound.
func TestUnbounded(t *testing.T) {
	t.Parallel()
	text := schemaProps{Type: "string", MaxLength: new(int64(1))}
	list := func(items schemaProps) schemaProps {
		return schemaProps{Type: "array", MaxItems: new(int64(1)), Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &items}}
	}
	object := func(values schemaProps, rules ...apiextensions.ValidationRule) schemaProps {
		return schemaProps{
			Type: "object", MaxProperties: new(int64(1)), XValidations: rules,
			AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Schema: &values},
		}
	}
	keys := apiextensions.ValidationRule{Rule: "self.all(key, size(key) <= 9)"}
	free, unlimited, open := list(text), object(text, keys), object(text, keys)
	free.MaxItems, unlimited.MaxProperties = nil, nil
	open.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{Allows: true}
	for name, test := range map[string]struct {
		schema schemaProps
		want   []string
	}{
		"a string":          {schema: text},
		"an enumeration":    {schema: schemaProps{Type: "string", Enum: []apiextensions.JSON{"a"}}},
		"a list":            {schema: list(text)},
		"a map":             {schema: object(text, keys)},
		"a free string":     {schema: schemaProps{Type: "string"}, want: []string{"x: a string without maxLength"}},
		"a pattern":         {schema: schemaProps{Type: "string", Pattern: "^a*$"}, want: []string{"x: a string without maxLength"}},
		"a number or text":  {schema: schemaProps{XIntOrString: true, Pattern: "^a*$"}, want: []string{"x: a string without maxLength"}},
		"a free list":       {schema: free, want: []string{"x: a list without maxItems"}},
		"a free item":       {schema: list(schemaProps{Type: "string"}), want: []string{"x[]: a string without maxLength"}},
		"a free map":        {schema: unlimited, want: []string{"x: a map without maxProperties"}},
		"a free value":      {schema: object(schemaProps{Type: "string"}, keys), want: []string{"x[]: a string without maxLength"}},
		"a free key":        {schema: object(text), want: []string{"x: a map without a rule that bounds its keys"}},
		"a map of anything": {schema: open, want: []string{"x: a map of anything"}},
		"unknown fields":    {schema: schemaProps{Type: "object", XPreserveUnknownFields: new(true)}, want: []string{"x: unknown fields are kept"}},
		"a whole object":    {schema: schemaProps{Type: "object", XEmbeddedResource: true}, want: []string{"x: an embedded resource"}},
		"anything":          {schema: schemaProps{}, want: []string{"x: no type"}},
		"a field": {
			schema: schemaProps{Type: "object", Properties: map[string]schemaProps{"a": {Type: "string"}, "b": text}},
			want:   []string{"x.a: a string without maxLength"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, unbounded(field.NewPath("x"), &test.schema)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// costs adds up what the API server estimates for the rules of a schema and of all below.
type costs struct {
	rules map[string]uint64
	total uint64
}

func (c *costs) add(t *testing.T, path *field.Path, s *schemaProps, at *apiextensionsvalidation.CELSchemaContext) {
	t.Helper()
	if len(s.XValidations) > 0 {
		info, err := at.TypeInfo()
		if err != nil || info == nil {
			t.Fatalf("%s: there is no type for rules: %v", path, err)
		}
		base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
		compiled, err := schemacel.Compile(info.Schema, info.DeclType, celconfig.PerCallLimit, base, schemacel.NewExpressionsEnvLoader())
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for i, result := range compiled {
			if result.Error != nil {
				t.Fatalf("%s: rule %d: %v", path, i, result.Error)
			}
			if at.MaxCardinality == nil {
				t.Fatalf("%s: nothing bounds how often rule %d runs", path, i)
			}
			cost := (result.MaxCost + result.MessageExpressionMaxCost) * *at.MaxCardinality
			c.rules[fmt.Sprintf("%s, rule %d", path, i)] = cost
			c.total += cost
		}
	}
	if s.Items != nil {
		c.add(t, path.Key(""), s.Items.Schema, at.ChildItemsContext(s.Items.Schema))
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		values := s.AdditionalProperties.Schema
		c.add(t, path.Key(""), values, at.ChildAdditionalPropertiesContext(values))
	}
	for name, property := range s.Properties {
		c.add(t, path.Child(name), &property, at.ChildPropertyContext(&property, name))
	}
}

// TestRulesAreCheap holds that rules cost far less than the API server allows: it refuses a CRD that
// exceeds the limits, and its estimate may differ between releases.
func TestRulesAreCheap(t *testing.T) {
	t.Parallel()
	const (
		perRule = apiextensionsvalidation.StaticEstimatedCostLimit * 3 / 10
		perCRD  = apiextensionsvalidation.StaticEstimatedCRDCostLimit / 10
	)
	for _, plural := range plurals(t) {
		root := loadCRD(t, plural).Spec.Validation.OpenAPIV3Schema
		found := &costs{rules: map[string]uint64{}}
		found.add(t, field.NewPath(plural), root, apiextensionsvalidation.RootCELContext(root))
		t.Logf("the rules of %s cost %d of %d", plural, found.total, perCRD)
		if found.total > perCRD || found.total == 0 {
			t.Errorf("the rules of %s cost %d, want at most %d", plural, found.total, perCRD)
		}
		for _, name := range slices.Sorted(maps.Keys(found.rules)) {
			if cost := found.rules[name]; cost > perRule {
				t.Errorf("%s costs %d, want at most %d", name, cost, perRule)
			}
		}
	}
}
