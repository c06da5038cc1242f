package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// LimitFields are Limits by the fields of an UpdatePolicy, for reports. MaxInFlight and Soak are
// left out: they also count without windlass manager.
type LimitFields struct {
	Canary    intstr.IntOrString   `json:"canary"`
	Batches   []intstr.IntOrString `json:"batches,omitempty"`
	Partition *intstr.IntOrString  `json:"partition,omitempty"`
	Order     *OrderFields         `json:"order,omitempty"`
	// MaxFailures is 0 unless onFailure is Pause.
	MaxFailures            int32 `json:"maxFailures,omitempty"`
	MachineDeadlineSeconds int64 `json:"machineDeadlineSeconds,omitempty"`
	GroupDeadlineSeconds   int64 `json:"groupDeadlineSeconds,omitempty"`
}

// OrderFields are an Order. Last is a label selector as text.
type OrderFields struct {
	Labels     []string `json:"labels,omitempty"`
	OneAtATime bool     `json:"oneAtATime,omitempty"`
	Last       string   `json:"last,omitempty"`
}

// Fields returns the limits for reports.
func (l Limits) Fields() LimitFields {
	f := LimitFields{
		Canary: l.Canary, Batches: slices.Clone(l.Batches), MaxFailures: l.MaxFailures,
		MachineDeadlineSeconds: int64(l.MachineDeadline / time.Second),
		GroupDeadlineSeconds:   int64(l.GroupDeadline / time.Second),
	}
	if l.Partition != (intstr.IntOrString{}) {
		f.Partition = new(l.Partition)
	}
	if l.Order.IsSet() {
		f.Order = &OrderFields{Labels: slices.Clone(l.Order.Labels), OneAtATime: l.Order.OneAtATime}
		if l.Order.Last != nil {
			f.Order.Last = l.Order.Last.String()
		}
	}
	return f
}

// Describe names the limits that are not at their defaults. It returns an empty string if all are.
func (l Limits) Describe() string { return l.Fields().Describe() }

// Describe does what Limits.Describe does.
func (f LimitFields) Describe() string {
	var parts []string
	add := func(format string, values ...any) { parts = append(parts, fmt.Sprintf(format, values...)) }
	if f.Canary != intstr.FromInt32(1) {
		add("canary %s", f.Canary.String())
	}
	if len(f.Batches) > 0 {
		add("%s", describeBatches(f.Batches))
	}
	if f.Partition != nil {
		add("partition %s", f.Partition.String())
	}
	if f.Order != nil {
		add("%s", f.Order.describe())
	}
	if f.MaxFailures > 0 {
		add("maxFailures %d", f.MaxFailures)
	}
	if f.MachineDeadlineSeconds > 0 {
		add("machineDeadlineSeconds %d", f.MachineDeadlineSeconds)
	}
	if f.GroupDeadlineSeconds > 0 {
		add("groupDeadlineSeconds %d", f.GroupDeadlineSeconds)
	}
	return strings.Join(parts, "; ")
}

func describeBatches(batches []intstr.IntOrString) string {
	sizes := make([]string, len(batches))
	for i := range batches {
		sizes[i] = batches[i].String()
	}
	return "batches " + strings.Join(sizes, ", ")
}

// DescribeReason names the limit that a reason of these limits is about, as Describe does.
func (l Limits) DescribeReason(r Reason) string {
	// Only the limit in question remains, so that Describe names no other one.
	only := Limits{Canary: intstr.FromInt32(1)}
	for _, limit := range []struct {
		reasons []Reason
		keep    func()
	}{
		{[]Reason{ReasonBatch, ReasonBatchFailed}, func() { only.Batches = l.Batches }},
		{[]Reason{ReasonPartition}, func() { only.Partition = l.Partition }},
		{[]Reason{ReasonMaxFailures}, func() { only.MaxFailures = l.MaxFailures }},
		{[]Reason{ReasonMachineDeadline}, func() { only.MachineDeadline = l.MachineDeadline }},
		{[]Reason{ReasonGroupDeadline}, func() { only.GroupDeadline = l.GroupDeadline }},
		{[]Reason{ReasonOrder, ReasonOrderFailed}, func() { only.Order = l.Order }},
	} {
		if slices.Contains(limit.reasons, r) {
			limit.keep()
		}
	}
	if r == ReasonMaxInFlight {
		return fmt.Sprintf("maxInFlight %d", l.MaxInFlight)
	}
	if r == ReasonCanary || r == ReasonCanaryFailed {
		return "canary " + l.Canary.String()
	}
	return cmp.Or(only.Describe(), string(r))
}

func (o OrderFields) describe() string {
	how := "order"
	if len(o.Labels) > 0 {
		how += " by " + strings.Join(o.Labels, ", ")
	}
	if o.OneAtATime {
		how += ", one value at a time"
	}
	if o.Last != "" {
		how += ", last " + o.Last
	}
	return how
}
