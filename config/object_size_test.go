package config_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// maxStored is the largest request that etcd takes. An object's annotations may take maxAnnotations.
const maxStored, maxAnnotations = 3 << 19, 256 << 10

// exclusive are fields of which an object has one, by the path of their parent: the CRDs have rules
// that say so.
var exclusive = map[string][]string{
	"spec":                                 {"inProcess", "remote"},
	"spec.inProcess":                       {"k8sd", "host"},
	"spec.inProcess.k8sd.tls":              {"caBundle", "fingerprints", "secretName"},
	"spec.inProcess.host":                  {"ssh", "pod"},
	"spec.inProcess.host.binaries":         {"url", "hostFolder", "bundle"},
	"spec.inProcess.host.binaries.digests": {"manifest", "configMapName"},
}

// TestLargestObjectsFit holds that an object of which all lists, maps and strings are as large as its
// CRD allows fits into one request of etcd, with as much left as annotations may take. Otherwise its
// status could not be written any more, and no approval given. A character counts as one byte, and
// half of the characters of messages as quotes.
func TestLargestObjectsFit(t *testing.T) {
	t.Parallel()
	page := readText(t, "../docs/reference/object-limits.md")
	files, err := filepath.Glob("crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found the CRDs %q, %v", files, err)
	}
	for _, file := range files {
		file = filepath.Base(file)
		var size, managed [2]int
		for i, part := range []string{"spec", "status"} {
			object, owned := largest(t, part, schema(t, file, part))
			size[i], managed[i] = encodedSize(t, object), encodedSize(t, owned)
		}
		kept := managed[0] + managed[1]
		total := size[0] + size[1] + kept
		if total > maxStored-maxAnnotations {
			t.Errorf("the largest object of %s has %d bytes", file, total)
		}
		if row := fmt.Sprintf("| %d | %d | %d | %d |\n", size[0], size[1], kept, total); !strings.Contains(page, row) {
			t.Errorf("docs/reference/object-limits.md has no row of %s with %s", file, row)
		}
	}
}

func encodedSize(t *testing.T, value any) int {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return len(encoded)
}

// largest returns the largest value that a schema allows, and what managedFields have of it.
func largest(t *testing.T, path string, s apiextensionsv1.JSONSchemaProps) (value any, owned map[string]any) {
	t.Helper()
	owned = map[string]any{".": map[string]any{}}
	leaf := map[string]any{}
	switch {
	case isSelector(s):
		return largestSelector(), leaf
	case path == "spec.targets":
		return largestTargets(*s.MaxItems), leaf
	case s.Type == "object":
		object := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			object[name], owned["f:"+name] = largest(t, path+"."+name, s.Properties[name])
		}
		dropOthers(t, exclusive[path], object, owned)
		return object, owned
	case s.Type == "array" && s.MaxItems != nil:
		return largestList(t, path, s)
	case s.Type == "integer":
		return int64(-1 << 63), leaf
	case s.Type == "boolean":
		return false, leaf
	case s.Format == "date-time":
		return "2026-11-21T10:00:00Z", leaf
	case len(s.Enum) > 0:
		longest := slices.MaxFunc(s.Enum, func(a, b apiextensionsv1.JSON) int { return len(a.Raw) - len(b.Raw) })
		return strings.Trim(string(longest.Raw), `"`), leaf
	case (s.Type == "string" || s.XIntOrString) && s.MaxLength != nil:
		text := strings.Repeat("x", int(*s.MaxLength))
		if name := path[strings.LastIndex(path, ".")+1:]; name == "message" || name == "by" {
			text = strings.Repeat(`"x`, int(*s.MaxLength)/2)
		}
		return text, leaf
	default:
		t.Fatalf("%s has no bound", path)
		return nil, nil
	}
}

// largestList returns a full list of largest items. managedFields name the items of sets and maps.
func largestList(t *testing.T, path string, s apiextensionsv1.JSONSchemaProps) (value any, owned map[string]any) {
	t.Helper()
	owned = map[string]any{".": map[string]any{}}
	var list []any
	for i := range *s.MaxItems {
		item, ownedItem := largest(t, path, *s.Items.Schema)
		list = append(list, item)
		switch {
		case s.XListType == nil || *s.XListType == "atomic":
		case *s.XListType == "set":
			owned[fmt.Sprintf("v:%d%s", i, item)] = map[string]any{}
		default:
			key := map[string]any{}
			for _, name := range s.XListMapKeys {
				key[name], _ = largest(t, path, s.Items.Schema.Properties[name])
			}
			encoded, err := json.Marshal(key)
			if err != nil {
				t.Fatal(err)
			}
			owned[fmt.Sprintf("k:%d%s", i, encoded)] = ownedItem
		}
	}
	return list, owned
}

// dropOthers keeps the largest of the fields of which there can be one.
func dropOthers(t *testing.T, names []string, object, owned map[string]any) {
	t.Helper()
	size := func(name string) int { return encodedSize(t, object[name]) + encodedSize(t, owned["f:"+name]) }
	names = slices.SortedFunc(slices.Values(slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return object[name] == nil
	})), func(a, b string) int { return size(b) - size(a) })
	for _, name := range names[min(1, len(names)):] {
		delete(object, name)
		delete(owned, "f:"+name)
	}
}

func isSelector(s apiextensionsv1.JSONSchemaProps) bool {
	_, labels := s.Properties["matchLabels"]
	_, expressions := s.Properties["matchExpressions"]
	return labels && expressions
}

// largestSelector returns a selector with as many values as rules allow. Expressions take more than
// labels. managedFields have it as a whole.
func largestSelector() map[string]any {
	var values []string
	for range v1alpha1.MaxSelectorValuesInAll / v1alpha1.MaxSelectorTerms {
		values = append(values, strings.Repeat("x", v1alpha1.MaxLabelValueLength))
	}
	var expressions []any
	for range v1alpha1.MaxSelectorTerms {
		expressions = append(expressions, map[string]any{
			"key": strings.Repeat("x", v1alpha1.MaxLabelKeyLength), "operator": "DoesNotExist", "values": values,
		})
	}
	return map[string]any{"matchExpressions": expressions}
}

// largestTargets returns the targets of a policy with as many entries as a rule allows. Labels are
// the largest entries. managedFields have the list as a whole.
func largestTargets(count int64) []any {
	var targets []any
	for range count {
		labels := map[string]any{}
		for i := range v1alpha1.MaxTargetEntries / count {
			labels[fmt.Sprintf("%0*d", v1alpha1.MaxLabelKeyLength, i)] = strings.Repeat("x", v1alpha1.MaxLabelValueLength)
		}
		targets = append(targets, map[string]any{
			"clusterName": strings.Repeat("x", 253), "controlPlane": false, "selector": map[string]any{"matchLabels": labels},
		})
	}
	return targets
}

// TestSelectorLimits holds that the bounds of selectors in CRDs are the constants of the API.
func TestSelectorLimits(t *testing.T) {
	t.Parallel()
	selector := schema(t, "windlass.dev_upgradegates.yaml", "spec", "clusterSelector")
	labels, expressions := selector.Properties["matchLabels"], selector.Properties["matchExpressions"]
	expression := expressions.Items.Schema.Properties
	got := []int64{
		*labels.MaxProperties, *expressions.MaxItems, *expression["values"].MaxItems,
		*labels.AdditionalProperties.Schema.MaxLength, *expression["values"].Items.Schema.MaxLength, *expression["key"].MaxLength,
	}
	want := []int64{
		v1alpha1.MaxSelectorTerms, v1alpha1.MaxSelectorTerms, v1alpha1.MaxSelectorValues,
		v1alpha1.MaxLabelValueLength, v1alpha1.MaxLabelValueLength, v1alpha1.MaxLabelKeyLength,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the bounds of a selector differ (-API +CRD):\n%s", diff)
	}
	targets := schema(t, "windlass.dev_updatepolicies.yaml", "spec", "targets")
	for name, rule := range map[string]struct {
		of  apiextensionsv1.ValidationRules
		end int
	}{
		"entries of a selector": {selector.XValidations[:1], v1alpha1.MaxSelectorTerms},
		"values of a selector":  {selector.XValidations[1:], v1alpha1.MaxSelectorValuesInAll},
		"entries of targets":    {targets.XValidations, v1alpha1.MaxTargetEntries},
		"keys of labels":        {labels.XValidations, v1alpha1.MaxLabelKeyLength},
	} {
		suffix := fmt.Sprintf(" <= %d", rule.end)
		if len(rule.of) != 1 || !strings.HasSuffix(strings.TrimSuffix(rule.of[0].Rule, ")"), suffix) {
			t.Errorf("the rule about %s is %v, want one that ends with %q", name, rule.of, suffix)
		}
	}
}
