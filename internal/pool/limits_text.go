package pool

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Describe names the limits that are not at their defaults, by the fields of an UpdatePolicy, but
// MaxInFlight and Soak, which also count without windlass manager. It returns an empty string if all
// others are at their defaults.
func (l Limits) Describe() string {
	var parts []string
	add := func(format string, values ...any) { parts = append(parts, fmt.Sprintf(format, values...)) }
	if l.Canary != intstr.FromInt32(1) {
		add("canary %s", l.Canary.String())
	}
	if len(l.Batches) > 0 {
		sizes := make([]string, len(l.Batches))
		for i := range l.Batches {
			sizes[i] = l.Batches[i].String()
		}
		add("batches %s", strings.Join(sizes, ", "))
	}
	if l.Partition != (intstr.IntOrString{}) {
		add("partition %s", l.Partition.String())
	}
	if l.Order.IsSet() {
		add("%s", l.Order.describe())
	}
	if l.MaxFailures > 0 {
		add("maxFailures %d", l.MaxFailures)
	}
	if l.MachineDeadline > 0 {
		add("%s for a machine", l.MachineDeadline)
	}
	if l.GroupDeadline > 0 {
		add("%s for the rollout", l.GroupDeadline)
	}
	return strings.Join(parts, "; ")
}

func (o *Order) describe() string {
	how := "order"
	if len(o.Labels) > 0 {
		how += " by " + strings.Join(o.Labels, ", ")
	}
	if o.OneAtATime {
		how += ", one value at a time"
	}
	if o.Last != nil {
		how += ", last " + o.Last.String()
	}
	return how
}
