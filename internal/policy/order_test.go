package policy_test

import (
	"cmp"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/windlass-dev/windlass/internal/policy"
)

var spare = labels.SelectorFromSet(labels.Set{"spare": "yes"})

// TestOrderIsSet: either field is an order, but not how strict it is.
func TestOrderIsSet(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		order       *policy.Order
		set, strict bool
	}{
		"none":          {nil, false, false},
		"empty":         {&policy.Order{}, false, false},
		"of nothing":    {&policy.Order{OneAtATime: true}, false, false},
		"labels":        {&policy.Order{Labels: []string{"rack"}}, true, false},
		"last":          {&policy.Order{Last: spare}, true, false},
		"one at a time": {&policy.Order{Labels: []string{"rack"}, OneAtATime: true}, true, true},
	} {
		set, strict := tt.order.IsSet(), tt.order.Strict()
		if set != tt.set || strict != tt.strict {
			t.Errorf("%s: set %t, strict %t", name, set, strict)
		}
	}
}

// TestPlaces: Machines are taken in this order, and each text names them. A missing label is the lowest
// value. The failure domain counts as a missing zone only.
func TestPlaces(t *testing.T) {
	t.Parallel()
	order := &policy.Order{Labels: []string{"rack", corev1.LabelTopologyZone}, Last: spare}
	var places []policy.Place
	var got []string
	for _, m := range []struct{ rack, zone, domain, spare string }{
		{domain: "z3"},
		{rack: "a"},
		{rack: "a", domain: "z1"},
		{rack: "a", zone: "z2", domain: "z0"},
		{rack: "b"},
		{rack: "a", spare: "yes"},
		{rack: "b", spare: "yes"},
	} {
		set := map[string]string{"rack": m.rack, corev1.LabelTopologyZone: m.zone, "spare": m.spare}
		place := order.Place(set, m.domain)
		places, got = append(places, place), append(got, place.String())
	}
	want := []string{
		"rack=,topology.kubernetes.io/zone=z3",
		"rack=a,topology.kubernetes.io/zone=",
		"rack=a,topology.kubernetes.io/zone=z1",
		"rack=a,topology.kubernetes.io/zone=z2",
		"rack=b,topology.kubernetes.io/zone=",
		"the last ones with rack=a,topology.kubernetes.io/zone=",
		"the last ones with rack=b,topology.kubernetes.io/zone=",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
	for i, p := range places {
		for j, q := range places {
			if p.Compare(q) != cmp.Compare(i, j) {
				t.Errorf("%s compared with %s: %d", p, q, p.Compare(q))
			}
		}
	}
	if place := new(policy.Order).Place(labels.Set{"rack": "a"}, "z1"); place != (policy.Place{}) {
		t.Errorf("without an order: %s", place)
	}
}
