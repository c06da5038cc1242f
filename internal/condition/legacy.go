//nolint:staticcheck // SA1019: clients of API v1beta1 read what is deprecated here
package condition

import (
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	"github.com/windlass-dev/windlass/internal/text"
)

// Legacy returns object for the functions of Cluster API that set conditions in their form of API
// v1beta1. The message of a condition that they change has at most MaxBytes. Conditions of others
// stay unchanged.
func Legacy(object v1beta1.Setter) v1beta1.Setter { return legacy{object} }

type legacy struct{ v1beta1.Setter }

// GetV1Beta1Conditions returns a copy: v1beta1.Set changes what it gets before it sets it.
func (l legacy) GetV1Beta1Conditions() clusterv1.Conditions {
	return slices.Clone(l.Setter.GetV1Beta1Conditions())
}

// SetV1Beta1Conditions bounds what has changed. A condition that is then as before keeps its
// transition time.
func (l legacy) SetV1Beta1Conditions(list clusterv1.Conditions) {
	before := l.Setter.GetV1Beta1Conditions()
	for i := range list {
		c := &list[i]
		same := func(old clusterv1.Condition) bool { return v1beta1.HasSameState(&old, c) }
		if slices.ContainsFunc(before, same) {
			continue
		}
		c.Message = text.Fit(c.Message, MaxBytes)
		if at := slices.IndexFunc(before, same); at >= 0 {
			c.LastTransitionTime = before[at].LastTransitionTime
		}
	}
	l.Setter.SetV1Beta1Conditions(list)
}
