package capi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
)

// FlagValues returns the values that the containers of a Deployment give to a flag, in order.
func FlagValues(d *appsv1.Deployment, flag string) (values []string) {
	for _, c := range d.Spec.Template.Spec.Containers {
		arguments := slices.Concat(c.Command, c.Args)
		for i, a := range arguments {
			name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
			if name != flag || !strings.HasPrefix(a, "-") {
				continue
			}
			if !hasValue && i+1 < len(arguments) {
				value = arguments[i+1]
			}
			values = append(values, value)
		}
	}
	return values
}

// FeatureGates returns the gates that the arguments of a Deployment's containers set. A gate that is named
// twice has its last value, as in Kubernetes' own flag. problem says which argument cannot be read.
func FeatureGates(d *appsv1.Deployment) (on map[string]bool, problem string) {
	on = map[string]bool{}
	for _, value := range FlagValues(d, "feature-gates") {
		for item := range strings.SplitSeq(value, ",") {
			if strings.TrimSpace(item) == "" {
				continue
			}
			gate, text, _ := strings.Cut(item, "=")
			state, err := strconv.ParseBool(strings.TrimSpace(text))
			if err != nil {
				return nil, fmt.Sprintf("the argument %q cannot be read: %q is neither true nor false",
					"--feature-gates="+value, text)
			}
			on[strings.TrimSpace(gate)] = state
		}
	}
	return on, ""
}
