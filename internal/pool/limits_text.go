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

// limitTexts are the fields of LimitFields in the order of reports, each with the reasons that
// DescribeReason finds it by. text is empty for a field at its default.
var limitTexts = []struct {
	name    string
	reasons []Reason
	text    func(f LimitFields) string
}{
	{"canary", nil, func(f LimitFields) string {
		if f.Canary == intstr.FromInt32(1) {
			return ""
		}
		return f.canary()
	}},
	{"batches", []Reason{ReasonBatch, ReasonBatchFailed}, func(f LimitFields) string {
		return describeBatches(f.Batches)
	}},
	{"partition", []Reason{ReasonPartition}, func(f LimitFields) string {
		if f.Partition == nil {
			return ""
		}
		return "partition " + f.Partition.String()
	}},
	{"order", []Reason{ReasonOrder, ReasonOrderFailed}, func(f LimitFields) string {
		return f.Order.describe()
	}},
	{"maxFailures", []Reason{ReasonMaxFailures}, func(f LimitFields) string {
		return describeNumber("maxFailures", int64(f.MaxFailures))
	}},
	{"machineDeadlineSeconds", []Reason{ReasonMachineDeadline}, func(f LimitFields) string {
		return describeNumber("machineDeadlineSeconds", f.MachineDeadlineSeconds)
	}},
	{"groupDeadlineSeconds", []Reason{ReasonGroupDeadline}, func(f LimitFields) string {
		return describeNumber("groupDeadlineSeconds", f.GroupDeadlineSeconds)
	}},
}

// Describe names the limits that are not at their defaults. It returns an empty string if all are.
func (l Limits) Describe() string { return l.Fields().Describe() }

// Describe does what Limits.Describe does.
func (f LimitFields) Describe() string {
	var parts []string
	for _, limit := range limitTexts {
		if text := limit.text(f); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

// Names returns the names of the fields that are not at their defaults.
func (f LimitFields) Names() []string {
	var names []string
	for _, limit := range limitTexts {
		if limit.text(f) != "" {
			names = append(names, limit.name)
		}
	}
	return names
}

// DescribeReason names the limit that a reason of these limits is about, as Describe does.
func (l Limits) DescribeReason(r Reason) string {
	f := l.Fields()
	if r == ReasonMaxInFlight {
		return fmt.Sprintf("maxInFlight %d", l.MaxInFlight)
	}
	if r == ReasonCanary || r == ReasonCanaryFailed {
		return f.canary()
	}
	for _, limit := range limitTexts {
		if slices.Contains(limit.reasons, r) {
			return cmp.Or(limit.text(f), string(r))
		}
	}
	return string(r)
}

func (f LimitFields) canary() string { return "canary " + f.Canary.String() }

// describeNumber is empty for 0.
func describeNumber(name string, n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d", name, n)
}

func describeBatches(batches []intstr.IntOrString) string {
	if len(batches) == 0 {
		return ""
	}
	sizes := make([]string, len(batches))
	for i := range batches {
		sizes[i] = batches[i].String()
	}
	return "batches " + strings.Join(sizes, ", ")
}

// describe returns an empty string for nil.
func (o *OrderFields) describe() string {
	if o == nil {
		return ""
	}
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
