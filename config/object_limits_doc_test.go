package config_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/windlass-dev/windlass/internal/policy"
)

// fieldRow is a row about a field: what it limits, and what a person can do beyond.
var fieldRow = regexp.MustCompile(
	"(?m)^(\\| \\w+ \\| `(?:spec|status)\\.[^`]+` \\| [^|]+ \\|)(.*)$")

// TestFieldLimits holds that the page about limits has one row for each bound of a spec and each
// list of a status, with the number of the CRD, and a way out for each list.
func TestFieldLimits(t *testing.T) {
	t.Parallel()
	page := readText(t, "../docs/reference/object-limits.md")
	var got, want []string
	for _, row := range fieldRow.FindAllStringSubmatch(page, -1) {
		got = append(got, row[1])
		if strings.Contains(row[1], " items") && len(row[2]) < len(" x |") {
			t.Errorf("the row %q has no way out", row[1])
		}
	}
	files, err := filepath.Glob("crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found the CRDs %q, %v", files, err)
	}
	for _, file := range files {
		file = filepath.Base(file)
		kind := crdOf(t, file).Spec.Names.Kind
		for _, part := range []string{"spec", "status"} {
			for _, limit := range fieldLimits(part, schema(t, file, part)) {
				want = append(want, fmt.Sprintf("| %s | %s |", kind, limit))
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference/object-limits.md differs from the CRDs (-CRDs +page):\n%s", diff)
	}
}

// fieldLimits returns the path and the limit of each field that a schema bounds, as the page has
// them.
func fieldLimits(path string, s apiextensionsv1.JSONSchemaProps) []string {
	if isSelector(s) || path == "status.conditions" {
		return nil
	}
	var limits []string
	if limit := fieldLimit(s, strings.HasPrefix(path, "spec")); limit != "" {
		limits = append(limits, "`"+path+"` | "+limit)
	}
	if s.Type == "array" {
		path, s = path+"[]", *s.Items.Schema
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		limits = append(limits, fieldLimits(path+"."+name, s.Properties[name])...)
	}
	return limits
}

// fieldLimit returns the limit of one field; empty if it has none. Of a status only lists count.
func fieldLimit(s apiextensionsv1.JSONSchemaProps, inSpec bool) string {
	switch {
	case s.Type == "array" && inSpec && s.Items.Schema.MaxLength != nil:
		return grouped(*s.MaxItems) + " items of " + grouped(*s.Items.Schema.MaxLength) + " characters"
	case s.Type == "array":
		return grouped(*s.MaxItems) + " items"
	case inSpec && s.MaxLength != nil:
		return grouped(*s.MaxLength) + " characters"
	case inSpec && s.Type == "integer" && s.Maximum != nil:
		return grouped(int64(*s.Maximum))
	}
	return ""
}

// grouped writes a positive number with commas.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// comparisons finds the example of the page: policies, targets, terms, groups, and their product.
var comparisons = regexp.MustCompile(
	`(\d+) × (\d+) × \((\d+) \+ (\d+)\) × ([\d,]+) = ([\d,]+) comparisons`)

// TestComparisonsExample holds that the example of the page is right, and is the limit.
func TestComparisonsExample(t *testing.T) {
	t.Parallel()
	page := readText(t, "../docs/reference/object-limits.md")
	found := comparisons.FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page has no example of comparisons")
	}
	var numbers []int
	for _, text := range found[1:] {
		number, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, number)
	}
	product := numbers[0] * numbers[1] * (numbers[2] + numbers[3]) * numbers[4]
	if product != numbers[5] || product != policy.MaxComparisons {
		t.Errorf("the example is %s, its product %d, and the limit %d",
			found[0], product, policy.MaxComparisons)
	}
}
