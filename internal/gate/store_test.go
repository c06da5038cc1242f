package gate_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
)

// TestGatesAreParsedOnce holds that a question about a step parses no selector and no window again, and
// that one that is too large holds the step.
func TestGatesAreParsedOnce(t *testing.T) {
	var values []string
	for i := range 256 {
		values = append(values, fmt.Sprintf("v%d", i))
	}
	notIn := func(values []string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "k", Operator: metav1.LabelSelectorOpNotIn, Values: values},
		}}
	}
	var gates []v1alpha1.UpgradeGate
	for i := range 20 {
		g := newGate(func(g *v1alpha1.UpgradeGate) { g.Spec.ClusterName, g.Spec.ClusterSelector = "", notIn(values) })
		g.Name, g.UID, g.ResourceVersion = fmt.Sprintf("g%d", i), types.UID(fmt.Sprintf("g%d", i)), "1"
		gates = append(gates, g)
	}
	var store gate.Store
	ask := func() []gate.Gate { return store.Select(gates, prod, workersStep) }
	if n := len(ask()); n != len(gates) {
		t.Fatalf("%d gates are at the step, want %d", n, len(gates))
	}
	if n := testing.AllocsPerRun(10, func() { ask() }); n > 20*20 {
		t.Errorf("a question about 20 gates of 256 values takes %.0f allocations", n)
	}
	gates[7].Spec.ClusterSelector, gates[7].ResourceVersion = notIn(make([]string, 20_000)), "2"
	const want = "spec.clusterSelector: the selector has 20000 values, at most 256 are allowed. " +
		"Fix: give what it selects one label that it shares, and select that"
	if found := ask(); len(found) != len(gates) || found[7].Problem != want || found[8].Problem != "" {
		t.Errorf("after an edit: %+v", found[7])
	}
}
