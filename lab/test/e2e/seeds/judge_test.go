package seeds_test

import (
	"context"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/lab/test/e2e/internal/judge"
)

// wrongStatus is a mutant of the model of progress, and what the judge finds on a Cluster that
// shows it.
type wrongStatus struct {
	judge.Mutant

	cluster types.NamespacedName
	finds   judge.Kind
}

func wrongStatuses() []wrongStatus {
	in := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return []wrongStatus{
		{judge.Mutant{
			Name: "a step that never ran is done", File: "internal/status/chain_steps.go",
			Old: "if i+1 == len(p.Steps) || !p.Steps[i+1].InsteadOf.Equal(s.To) {", New: "if i >= 0 {",
		}, in(graphed, "imageless"), judge.Done},
		{judge.Mutant{
			Name: "a step ends before its machines", File: "internal/status/chain_steps.go",
			Old: "return slices.DeleteFunc(DoneSteps(p), c.moves)", New: "return DoneSteps(p)",
		}, in(gated, "nodes"), judge.Done},
		{judge.Mutant{
			Name: "machines are counted against the step", File: "internal/status/chain_compute.go",
			Old: "c.countAll(c.state.Target)", New: "c.countAll(c.state.ControlPlane.Version)",
		}, in(gated, "approve"), judge.AtTarget},
		{judge.Mutant{
			Name: "a machine that is created is counted", File: "internal/status/chain_count.go",
			Old: "if runs(m, at) && !isLost(m) && (!isAsked(m, at) || !c.isInMotion(m)) {", New: "if runs(m, at) {",
		}, in(gated, "nodes"), judge.AtTarget},
		{judge.Mutant{
			Name: "a gate that holds is not shown", File: "internal/status/chain_holds.go",
			Old: "if w.ClusterUID != string(c.facts.Cluster.UID) ||", New: "if w.ClusterUID != \"\" ||",
		}, in(gated, "approve"), judge.HeldBy},
		{judge.Mutant{
			Name: "a gate that holds longer ago", File: "internal/status/chain_holds.go",
			Old: "Message: message, Since: w.Since.UTC()}", New: "Message: message, Since: w.Since.UTC().Add(-time.Minute)}",
		}, in(gated, "window"), judge.HeldBy},
		{judge.Mutant{
			Name: "no upgrade is under way between two steps", File: "internal/status/chain_compute.go",
			Old: "case held && !running, unannounced:", New: "case held && !running:\n\t\treturn ChainUpToDate\n\tcase unannounced:",
		}, in(gated, "approve"), judge.UnderWay},
		{judge.Mutant{
			Name: "a machine runs what it is asked for", File: "internal/status/compute.go",
			Old: "Runs: capi.Kubelet(m)", New: "Runs: m.Spec.Version",
		}, in(graphed, "imageless"), judge.Runs},
		{judge.Mutant{
			Name: "what is not watched is old", File: "internal/cli/statuscmd/watch.go",
			Old: "const contextAge = 4 * time.Second", New: "const contextAge = 20 * time.Second",
		}, in(gated, "approve"), judge.HeldBy},
	}
}

// judgeMutants records, in the long form, what windlass shows with each mutant, and returns what
// checks that the judge has found them.
func (p *plane) judgeMutants(ctx context.Context, t *testing.T) (check func()) {
	t.Helper()
	if os.Getenv("WINDLASS_LONG") != "1" {
		return func() {}
	}
	mutants := wrongStatuses()
	recordings := make([]*judge.Recording, len(mutants))
	for i, m := range mutants {
		windlass, err := m.Build(ctx, "../../../..", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		command := judge.Command{Windlass: windlass, Kubeconfig: p.KubeconfigPath()}
		recordings[i] = judge.Record(ctx, p.History.History, command, m.cluster)
	}
	return func() {
		for i, m := range mutants {
			faults, err := recordings[i].End(judge.Lag)
			if err != nil {
				t.Error(err)
			}
			found := 0
			for _, f := range faults {
				if f.Question.Kind == m.finds {
					found++
				}
			}
			t.Logf("%s: %d faults of %q, %d in all", m.Name, found, m.finds, len(faults))
			if found == 0 {
				t.Errorf("the judge does not find %q: no fault of %q on %s", m.Name, m.finds, m.cluster)
			}
		}
	}
}
