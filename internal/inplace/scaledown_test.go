package inplace_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
)

// TestScaleDown: the cluster autoscaler is kept from a node once an update is recorded, before
// anything happens to the node, and let go before the record of the update is removed. What others
// decided stays.
func TestScaleDown(t *testing.T) {
	t.Parallel()
	node := func(by inplace.ScaleDown, change func(*inplace.Node)) inplace.Node {
		n := inplace.Node{Exists: true, Ready: true, Kubelet: from, ScaleDown: by}
		if change != nil {
			change(&n)
		}
		return n
	}
	updated := func(n *inplace.Node) { n.Kubelet = to }
	missing := func(n *inplace.Node) { n.Exists = false }
	unknown := func(n *inplace.Node) { *n = inplace.Node{Unknown: "no route to host"} }
	const begin, save, slot, disable, drain = "begin", "save Draining", "hold a slot", "disable scale-down", "drain"
	const enable, finish = "enable scale-down", "finish"
	for name, tt := range map[string]struct {
		facts inplace.Facts
		node  inplace.Node
		fail  string
		want  []string
	}{
		"a machine waits for its turn": {facts(nil), node(inplace.ScaleDownAllowed, nil), begin, []string{begin}},
		"an update begins": {facts(nil), node(inplace.ScaleDownAllowed, nil), "",
			[]string{begin, save, slot, disable, drain}},
		"somebody decided before": {in(inplace.Draining, nil), node(inplace.ScaleDownByOthers, nil), "", []string{save, drain}},
		"it is marked":            {in(inplace.Draining, nil), node(inplace.ScaleDownByUs, nil), "", []string{save, drain}},
		"the process died before": {in(inplace.Draining, nil), node(inplace.ScaleDownAllowed, nil), "", []string{save, disable, drain}},
		"it cannot be marked":     {in(inplace.Draining, nil), node(inplace.ScaleDownAllowed, nil), disable, []string{save, disable, drain}},
		"no node":                 {in(inplace.Draining, nil), node(inplace.ScaleDownAllowed, missing), "", []string{drain}},
		"no answer":               {in(inplace.Draining, nil), node(inplace.ScaleDownAllowed, unknown), "", nil},
		"the end":                 {in(inplace.Soaking, nil), node(inplace.ScaleDownByUs, updated), "", []string{enable, finish}},
		"the end, somebody decided before": {in(inplace.Soaking, nil), node(inplace.ScaleDownByOthers, updated), "",
			[]string{finish}},
		"the process died before the end was recorded": {in(inplace.Soaking, nil),
			node(inplace.ScaleDownAllowed, updated), "", []string{finish}},
		"the mark stays, and with it the record": {in(inplace.Soaking, nil), node(inplace.ScaleDownByUs, updated), enable,
			[]string{enable}},
		"failed finally": {in(inplace.Failed, nil), node(inplace.ScaleDownByUs, nil), "", nil},
		"soaking": {in(inplace.Soaking, func(p *inplace.Progress) { p.Steps = nil }),
			node(inplace.ScaleDownAllowed, nil), "", []string{disable}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.facts.Node = tt.node
			e := &effects{node: tt.node, autoscaler: true, failAt: tt.fail}
			if _, err := inplace.Execute(t.Context(), tt.facts, e); err != nil && !errors.Is(err, errFault) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, e.log); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
		})
	}
}
