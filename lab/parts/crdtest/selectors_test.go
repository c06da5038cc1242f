package crdtest

import (
	"fmt"
	"strings"
	"testing"
)

// The numbers of api/v1alpha1/limits.go, which this module does not import. A test in config
// compares them with the CRDs.
const (
	maxTerms, maxValues, maxValuesInAll = 64, 64, 256
	maxTargetEntries                    = 1024
)

// selector returns a selector with as many labels, and with as many expressions of as many values.
func selector(labels, expressions, values int) map[string]any {
	matchLabels, matchExpressions := map[string]any{}, []any{}
	for i := range labels {
		matchLabels[key(i)] = strings.Repeat("v", 63)
	}
	for i := range expressions {
		matchExpressions = append(matchExpressions, expression(i, values))
	}
	return map[string]any{"matchLabels": matchLabels, "matchExpressions": matchExpressions}
}

func expression(i, values int) map[string]any {
	list := []any{}
	for j := range values {
		list = append(list, fmt.Sprintf("%063d", j))
	}
	return map[string]any{"key": key(i), "operator": "In", "values": list}
}

// key returns a key of the largest size.
func key(i int) string { return fmt.Sprintf("%0253d/%063d", i, i) }

// TestSelectors holds that selectors are accepted up to their bounds, in each place, and that beyond
// the refusal names the bound.
func TestSelectors(t *testing.T) {
	t.Parallel()
	places := map[string]struct {
		plural, path string
		spec         func(selector map[string]any) map[string]any
	}{
		"a gate": {upgradeGates, "spec.clusterSelector", func(s map[string]any) map[string]any {
			return map[string]any{
				"clusterSelector": s, "steps": []any{map[string]any{"at": "BeforeClusterUpgrade"}},
				"requires": map[string]any{"approval": map[string]any{}},
			}
		}},
		"an updater": {updaters, "spec.selector", func(s map[string]any) map[string]any {
			return map[string]any{"selector": s, "remote": map[string]any{"url": "https://a"}}
		}},
		"namespaces of an updater": {updaters, "spec.namespaceSelector", func(s map[string]any) map[string]any {
			return map[string]any{"namespaceSelector": s, "remote": map[string]any{"url": "https://a"}}
		}},
		"a target's groups": {updatePolicies, "spec.targets[0].selector", func(s map[string]any) map[string]any {
			return policyFor(map[string]any{"selector": s})
		}},
		"a target's Clusters": {updatePolicies, "spec.targets[0].clusterSelector", func(s map[string]any) map[string]any {
			return policyFor(map[string]any{"clusterSelector": s})
		}},
		"the last machines": {updatePolicies, "spec.order.last", func(s map[string]any) map[string]any {
			policy := policyFor(map[string]any{})
			policy["order"] = map[string]any{"last": s}
			return policy
		}},
	}
	longKey := selector(0, 1, 1)
	longKey["matchLabels"] = map[string]any{"a" + key(0): "v"}
	longValue := selector(0, 1, 1)
	longValue["matchLabels"] = map[string]any{"a": strings.Repeat("v", 64)}
	longExpression := selector(0, 1, 1)
	longExpression["matchExpressions"] = []any{map[string]any{"key": "a" + key(0), "operator": "Exists"}}
	selectors := map[string]struct {
		selector map[string]any
		want     string
	}{
		"labels":             {selector: selector(maxTerms, 0, 0)},
		"both":               {selector: selector(maxTerms-4, 4, maxValues)},
		"values":             {selector: selector(0, maxTerms, maxValuesInAll/maxTerms)},
		"labels beyond":      {selector: selector(maxTerms+1, 0, 0), want: ".matchLabels: Too many: 65: must have at most 64 items"},
		"expressions beyond": {selector: selector(0, maxTerms+1, 1), want: ".matchExpressions: Too many: 65: must have at most 64 items"},
		"both beyond":        {selector: selector(maxTerms-3, 4, maxValues), want: ": Invalid value: matchLabels and matchExpressions may have at most 64 entries together. Fix: "},
		"values beyond":      {selector: selector(0, 1, maxValues+1), want: ".matchExpressions[0].values: Too many: 65: must have at most 64 items"},
		"values in all":      {selector: selector(0, 5, maxValuesInAll/5+1), want: ": Invalid value: matchExpressions may have at most 256 values in all. Fix: "},
		"a key":              {selector: longKey, want: ".matchLabels: Invalid value: the key of a label may have at most 317 characters"},
		"a value":            {selector: longValue, want: ".matchLabels.a: Too long: may not be more than 63 bytes"},
		"an expression":      {selector: longExpression, want: ".matchExpressions[0].key: Too long: may not be more than 317 bytes"},
	}
	for place, p := range places {
		v := newValidator(t, p.plural)
		for name, s := range selectors {
			t.Run(place+"/"+name, func(t *testing.T) {
				t.Parallel()
				problems := v.validate(t, object(p.spec(s.selector))).ToAggregate()
				got := ""
				if problems != nil {
					got = problems.Error()
				}
				if s.want == "" && got != "" || !strings.HasPrefix(got, prefixed(p.path, s.want)) {
					t.Errorf("problems are %q, want %q", got, prefixed(p.path, s.want))
				}
			})
		}
	}
}

func prefixed(path, want string) string {
	if want == "" {
		return ""
	}
	return path + want
}

func policyFor(targets ...any) map[string]any {
	return map[string]any{"strategy": "RollingUpdate", "targets": targets}
}

func object(spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "windlass.dev/v1alpha1", "kind": "Any", "spec": spec,
		"metadata": map[string]any{"name": "a", "namespace": "b"},
	}
}

// TestTargetEntries holds that the targets of a policy have a bound together, whatever they name.
func TestTargetEntries(t *testing.T) {
	t.Parallel()
	v := newValidator(t, updatePolicies)
	for name, one := range map[string]func() map[string]any{
		"names": func() map[string]any {
			var names []any
			for i := range maxTargetEntries / 16 {
				names = append(names, fmt.Sprintf("md-%d", i))
			}
			return map[string]any{"machineDeployments": names}
		},
		"labels": func() map[string]any {
			return map[string]any{"selector": selector(32, 0, 0), "clusterSelector": selector(32, 0, 0)}
		},
		"expressions": func() map[string]any {
			return map[string]any{"selector": selector(0, 16, 1), "clusterSelector": selector(0, 16, 1)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var targets []any
			for range 16 {
				targets = append(targets, one())
			}
			if problems := v.validate(t, object(policyFor(targets...))); len(problems) > 0 {
				t.Error(problems)
			}
			targets = append(targets, map[string]any{"machineDeployments": []any{"more"}})
			problems := v.validate(t, object(policyFor(targets...)))
			const want = "spec.targets: Invalid value: targets may have at most 1024 names of machineDeployments, entries of " +
				"selectors and values in all. Fix: select MachineDeployments by a label that they share, or use several UpdatePolicies"
			if len(problems) != 1 || problems[0].Error() != want {
				t.Errorf("problems are %v, want %s", problems, want)
			}
		})
	}
}
