package approvecmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/text"
)

// explainNone says why selectPending finds no step: an unknown gate, one that needs no approval, one that is not at the step, or none that
// waits. It is without a capital or full stop.
func (h held) explainNone(name string, pattern *gate.StepPattern) string {
	if name == "" {
		return h.explainNoStep(pattern)
	}
	i := slices.IndexFunc(h.gates, func(g v1alpha1.UpgradeGate) bool { return g.Name == name })
	if i < 0 {
		return fmt.Sprintf("there is no UpgradeGate %s in namespace %s; there: %s", name, h.cluster.Namespace, h.listGates())
	}
	g := &h.gates[i]
	if g.Spec.Requires.Approval == nil {
		return h.explainNoApproval(g)
	}
	if pattern == nil {
		return fmt.Sprintf("gate %s needs approval, but the Cluster does not wait at it now; to approve in advance, add --step with a whole version", name)
	}
	exact, ok := pattern.Release.Exact()
	if !ok {
		return fmt.Sprintf("the Cluster does not wait at gate %s at such a step; to approve in advance, name a whole version", name)
	}
	return fmt.Sprintf("gate %s is not at the step %s of this Cluster: it is %s", name, gate.Step{Hook: pattern.Hook, Version: exact}, describeScope(g))
}

// explainNoStep is for no gate in particular.
func (h held) explainNoStep(pattern *gate.StepPattern) string {
	if pattern == nil {
		return "no step waits for approval"
	}
	exact, ok := pattern.Release.Exact()
	if !ok {
		return "no such step waits for approval; to approve in advance, name a whole version"
	}
	step := gate.Step{Hook: pattern.Hook, Version: exact}
	at := gate.Select(h.gates, h.key(), step)
	if len(at) == 0 {
		return fmt.Sprintf("no gate is at the step %s of this Cluster", step)
	}
	names := make([]string, 0, len(at))
	for _, g := range at {
		names = append(names, g.Name)
	}
	return fmt.Sprintf("no gate at the step %s needs approval: %s", step, joinBounded(names))
}

// explainNoApproval says what a gate that needs no approval waits for.
func (h held) explainNoApproval(g *v1alpha1.UpgradeGate) string {
	problem := fmt.Sprintf("gate %s needs no approval", g.Name)
	if waiting := h.waiting(g); len(waiting) > 0 {
		return fmt.Sprintf("%s, the Cluster waits there for something else: %s", problem, text.Bound(waiting[0].Message, maxPrinted))
	}
	return problem
}

// describeScope says where a gate is.
func describeScope(g *v1alpha1.UpgradeGate) string {
	var steps []string
	for _, s := range g.Spec.Steps {
		step := gate.Hook(s.At).String()
		versions := make([]string, 0, len(s.Versions))
		for _, v := range s.Versions {
			versions = append(versions, string(v))
		}
		if len(versions) > 0 {
			step += " " + strings.Join(versions, ", ")
		}
		steps = append(steps, step)
	}
	scope := "at " + strings.Join(steps, "; ")
	switch {
	case g.Spec.ClusterName != "":
		scope += ", of the Cluster " + g.Spec.ClusterName
	case g.Spec.ClusterSelector != nil:
		scope += ", of the Clusters that its clusterSelector selects"
	}
	return text.Bound(scope, maxPrinted)
}

func (h held) listGates() string {
	names := make([]string, 0, len(h.gates))
	for i := range h.gates {
		names = append(names, h.gates[i].Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return joinBounded(names)
}

// joinBounded joins names in order.
func joinBounded(names []string) string {
	slices.Sort(names)
	return text.Bound(strings.Join(names, ", "), maxPrinted)
}
