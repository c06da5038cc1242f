package approvecmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/text"
)

// heldStep is a step of the Cluster's upgrade at a gate.
type heldStep struct {
	gate string
	step gate.Step
	// approved says that it has been approved, by whom and when; outdated, that this was before the gate was changed.
	approved, outdated bool
	by                 string
	at                 time.Time
	// generation is that of the gate, as it was looked at.
	generation int64
}

func (s heldStep) String() string { return fmt.Sprintf("gate %s: %s", s.gate, s.step) }

// maxPrinted bounds what is printed of text that others wrote.
const maxPrinted = 1024

func (h held) key() gate.Cluster {
	return gate.Cluster{Namespace: h.cluster.Namespace, Name: h.cluster.Name, UID: string(h.cluster.UID), Labels: h.cluster.Labels}
}

// waiting returns the gates at which the Cluster waits, as far as the extension has recorded it.
func (h held) waiting(g *v1alpha1.UpgradeGate) []v1alpha1.GateWaiting {
	return slices.DeleteFunc(slices.Clone(g.Status.Waiting), func(w v1alpha1.GateWaiting) bool { return w.ClusterUID != string(h.cluster.UID) })
}

// approvals returns what was approved for the Cluster at a gate.
func (h held) approvals(g *v1alpha1.UpgradeGate) []heldStep {
	var steps []heldStep
	for _, a := range g.Status.Approvals {
		if step, ok := gate.StepOf(a.At, a.Version); ok && a.ClusterUID == string(h.cluster.UID) {
			steps = append(steps, heldStep{gate: g.Name, step: step, approved: true, outdated: gate.IsOutdated(g, a), by: a.By, at: a.Time.Time})
		}
	}
	return steps
}

// selectPending returns the steps that need approval, at gates where the Cluster waits; and, where the pattern names a whole
// version, at those where it is going to. Steps that were approved are among them.
func (h held) selectPending(name string, pattern *gate.StepPattern) []heldStep {
	var steps []heldStep
	for i := range h.gates {
		g := &h.gates[i]
		if name != "" && g.Name != name || g.Spec.Requires.Approval == nil {
			continue
		}
		var found []gate.Step
		for _, w := range h.waiting(g) {
			if step, ok := gate.StepOf(w.At, w.Version); ok && (pattern == nil || pattern.Matches(step)) {
				found = append(found, step)
			}
		}
		if len(found) == 0 && pattern != nil {
			found = h.selectComing(g, *pattern)
		}
		for _, step := range found {
			steps = append(steps, h.describe(g, step))
		}
	}
	return steps
}

// selectComing returns the step that a pattern with a whole version names, if the gate is at it.
func (h held) selectComing(g *v1alpha1.UpgradeGate, pattern gate.StepPattern) []gate.Step {
	exact, ok := pattern.Release.Exact()
	step := gate.Step{Hook: pattern.Hook, Version: exact}
	if !ok || len(gate.Select([]v1alpha1.UpgradeGate{*g}, h.key(), step)) == 0 {
		return nil
	}
	return []gate.Step{step}
}

func (h held) describe(g *v1alpha1.UpgradeGate, step gate.Step) heldStep {
	a, approved := gate.FindApproval(g, h.key(), step)
	return heldStep{gate: g.Name, step: step, approved: approved, by: a.By, at: a.Time.Time, generation: g.Generation}
}

// selectApproved returns the steps that were approved. Where the pattern names a whole version, what approves that is among them.
func (h held) selectApproved(name string, pattern *gate.StepPattern) []heldStep {
	var steps []heldStep
	for i := range h.gates {
		if name != "" && h.gates[i].Name != name {
			continue
		}
		for _, a := range h.approvals(&h.gates[i]) {
			if pattern == nil || pattern.Matches(a.step) || pattern.IsCoveredBy(a.step) {
				steps = append(steps, a)
			}
		}
	}
	return steps
}

// Print shows all of it.
func (h held) write(out io.Writer) {
	var waits, approved strings.Builder
	for i := range h.gates {
		for _, w := range h.waiting(&h.gates[i]) {
			step := fmt.Sprintf("%s %s", gate.Hook(w.At), w.Version)
			fmt.Fprintf(&waits, "  gate %s: %s, since %s\n    %s\n", h.gates[i].Name, text.Bound(step, maxPrinted), w.Since.UTC().Format(time.RFC3339), text.Bound(w.Message, maxPrinted))
		}
		for _, a := range h.approvals(&h.gates[i]) {
			fmt.Fprintf(&approved, "  %s, %s\n", a, a.author())
		}
	}
	for _, key := range snapshot.Blockers(h.cluster) {
		name := strings.TrimPrefix(key, clusterv1.BeforeClusterUpgradeHookAnnotationPrefix+"/")
		fmt.Fprintf(&waits, "  annotation %s: %q\n    holds an upgrade before it begins; to take it away: windlass approve %s -n %s --annotation %s\n",
			key, text.Bound(h.cluster.Annotations[key], maxPrinted), h.cluster.Name, h.cluster.Namespace, name)
	}
	if waits.Len() == 0 {
		fmt.Fprintf(out, "No gate and no before-upgrade annotation holds an upgrade of Cluster %s/%s; what else may hold it: windlass status %s -n %s\n",
			h.cluster.Namespace, h.cluster.Name, h.cluster.Name, h.cluster.Namespace)
	} else {
		fmt.Fprintf(out, "Held upgrade of Cluster %s/%s:\n%s", h.cluster.Namespace, h.cluster.Name, waits.String())
	}
	if approved.Len() > 0 {
		fmt.Fprintf(out, "\nApproved:\n%s", approved.String())
	}
}

func (s heldStep) author() string {
	author := fmt.Sprintf("by %s at %s", text.Bound(cmp.Or(s.by, "somebody"), maxPrinted), s.at.UTC().Format(time.RFC3339))
	if s.outdated {
		author += "; does not count: the gate has changed since"
	}
	return author
}
