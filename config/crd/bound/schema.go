package main

import (
	"fmt"
	"maps"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// bound bounds the selectors, conditions and times of a schema, at any depth. It changes the schema.
func bound(value any) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			bound(item)
		}
	case map[string]any:
		for _, field := range v {
			bound(field)
		}
		if v["type"] == "string" && v["format"] == "date-time" {
			v["maxLength"] = maxTimeLength
		}
		properties, _ := v["properties"].(map[string]any)
		if _, condition := properties["lastTransitionTime"]; condition {
			message, _ := properties["message"].(map[string]any)
			message["maxLength"] = v1alpha1.MaxConditionMessageLength
		}
		labels, _ := properties["matchLabels"].(map[string]any)
		expressions, _ := properties["matchExpressions"].(map[string]any)
		if labels != nil && expressions != nil {
			boundLabels(labels)
			boundExpressions(expressions)
			addRules(v, selectorRules...)
		}
	}
}

func boundLabels(labels map[string]any) {
	labels["maxProperties"] = v1alpha1.MaxSelectorTerms
	labels["additionalProperties"] = map[string]any{
		"type": "string", "maxLength": v1alpha1.MaxLabelValueLength,
	}
	// A schema of a CustomResourceDefinition has no bounds for keys.
	addRules(labels, rule(
		fmt.Sprintf("self.all(key, size(key) <= %d)", v1alpha1.MaxLabelKeyLength),
		fmt.Sprintf("the key of a label may have at most %d characters", v1alpha1.MaxLabelKeyLength),
	))
}

func boundExpressions(expressions map[string]any) {
	expressions["maxItems"] = v1alpha1.MaxSelectorTerms
	items, _ := expressions["items"].(map[string]any)
	properties, _ := items["properties"].(map[string]any)
	for name, bounds := range map[string]map[string]any{
		"key":      {"maxLength": v1alpha1.MaxLabelKeyLength},
		"operator": {"maxLength": maxOperatorLength},
		"values": {
			"maxItems": v1alpha1.MaxSelectorValues,
			"items":    map[string]any{"type": "string", "maxLength": v1alpha1.MaxLabelValueLength},
		},
	} {
		property, _ := properties[name].(map[string]any)
		maps.Copy(property, bounds)
	}
}

// selectorRules bound what the entries of a selector have together.
var selectorRules = []any{
	rule(
		fmt.Sprintf("(has(self.matchLabels) ? size(self.matchLabels) : 0) + "+
			"(has(self.matchExpressions) ? size(self.matchExpressions) : 0) <= %d", v1alpha1.MaxSelectorTerms),
		fmt.Sprintf("matchLabels and matchExpressions may have at most %d entries together. "+
			"Fix: select by a label that the objects share", v1alpha1.MaxSelectorTerms),
	),
	rule(
		fmt.Sprintf("!has(self.matchExpressions) || "+
			"self.matchExpressions.map(e, has(e.values) ? size(e.values) : 0).sum() <= %d", v1alpha1.MaxSelectorValuesInAll),
		fmt.Sprintf("matchExpressions may have at most %d values in all. "+
			"Fix: select by a label that the objects share", v1alpha1.MaxSelectorValuesInAll),
	),
}

func rule(expression, message string) map[string]any {
	return map[string]any{"rule": expression, "message": message}
}

// addRules appends rules to those that a schema has.
func addRules(schema map[string]any, rules ...any) {
	present, _ := schema["x-kubernetes-validations"].([]any)
	schema["x-kubernetes-validations"] = append(present, rules...)
}
