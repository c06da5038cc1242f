package pool

import (
	"fmt"
	"slices"
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
		add("%s", l.describeBatches())
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
		add("machineDeadlineSeconds %g", l.MachineDeadline.Seconds())
	}
	if l.GroupDeadline > 0 {
		add("groupDeadlineSeconds %g", l.GroupDeadline.Seconds())
	}
	return strings.Join(parts, "; ")
}

func (l Limits) describeBatches() string {
	sizes := make([]string, len(l.Batches))
	for i := range l.Batches {
		sizes[i] = l.Batches[i].String()
	}
	return "batches " + strings.Join(sizes, ", ")
}

// DescribeReason names the limit that a reason of these limits is about, as Describe does.
func (l Limits) DescribeReason(r Reason) string {
	for _, limit := range []struct {
		text    string
		reasons []Reason
	}{
		{fmt.Sprintf("maxInFlight %d", l.MaxInFlight), []Reason{ReasonMaxInFlight}},
		{"canary " + l.Canary.String(), []Reason{ReasonCanary, ReasonCanaryFailed}},
		{l.describeBatches(), []Reason{ReasonBatch}},
		{"partition " + l.Partition.String(), []Reason{ReasonPartition}},
		{fmt.Sprintf("maxFailures %d", l.MaxFailures), []Reason{ReasonMaxFailures}},
		{
			fmt.Sprintf("machineDeadlineSeconds %g", l.MachineDeadline.Seconds()),
			[]Reason{ReasonMachineDeadline},
		},
		{
			fmt.Sprintf("groupDeadlineSeconds %g", l.GroupDeadline.Seconds()),
			[]Reason{ReasonGroupDeadline},
		},
		{l.Order.describe(), []Reason{ReasonOrder, ReasonOrderFailed}},
	} {
		if slices.Contains(limit.reasons, r) {
			return limit.text
		}
	}
	return string(r)
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
