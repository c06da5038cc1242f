package policy

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Order is in which order a rollout takes the Machines of a group.
type Order struct {
	// Labels are keys of labels of Machines, the most important first. Machines are taken in the order
	// of the values; a missing label is the lowest value. A Machine without the label
	// topology.kubernetes.io/zone has spec.failureDomain as its value.
	Labels []string
	// OneAtATime says that a Machine with other values begins only when all that have begun are done.
	OneAtATime bool
	// Last selects Machines that are taken after all others; nil for none.
	Last labels.Selector
}

// IsSet reports whether the order says anything. A nil order says nothing.
func (o *Order) IsSet() bool { return o != nil && (len(o.Labels) > 0 || o.Last != nil) }

// Strict reports whether Machines of one place must be done before others begin.
func (o *Order) Strict() bool { return o.IsSet() && o.OneAtATime }

// Place is what a Machine's turn depends on. Equal places have the same turn.
type Place struct {
	last   bool
	values string
}

// OrderValue returns the value of a key of [Order] for a Machine with these labels in this failure
// domain; empty if it has none.
func OrderValue(key string, set map[string]string, failureDomain string) string {
	if key == corev1.LabelTopologyZone {
		return cmp.Or(set[key], failureDomain)
	}
	return set[key]
}

// Place returns the place of a Machine with these labels in this failure domain.
func (o *Order) Place(set map[string]string, failureDomain string) Place {
	p := Place{last: o.Last != nil && o.Last.Matches(labels.Set(set))}
	values := make([]string, 0, len(o.Labels))
	for _, key := range o.Labels {
		values = append(values, key+"="+OrderValue(key, set, failureDomain))
	}
	p.values = strings.Join(values, ",")
	return p
}

// Compare returns a negative number if Machines of p are taken before those of q, a positive one if
// after them, and 0 if the places are equal.
func (p Place) Compare(q Place) int {
	if p.last != q.last {
		if q.last {
			return -1
		}
		return 1
	}
	return cmp.Compare(p.values, q.values)
}

// String names the place for people. It is of an order with labels, as each Strict one is.
func (p Place) String() string {
	if p.last {
		return "the last ones with " + p.values
	}
	return p.values
}
