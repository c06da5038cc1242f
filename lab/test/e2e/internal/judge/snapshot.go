package judge

import (
	"encoding/json"
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/history"
)

// phaseFailed is the phase of an update that has failed finally.
const phaseFailed = "Failed"

// phaseOf is the phase of the update that is recorded on a machine; empty if none is.
func phaseOf(m *clusterv1.Machine) string {
	type progress struct {
		Phase string `json:"phase"`
	}
	if text, ok := m.Annotations[v1alpha1.UpdateProgressAnnotation]; ok {
		var p progress
		_ = json.Unmarshal([]byte(text), &p) // What cannot be read has no phase.
		return p.Phase
	}
	if text, ok := m.Annotations[v1alpha1.InPlaceUpgradeAnnotation]; ok {
		var upgrade struct {
			Progress progress `json:"progress"`
		}
		_ = json.Unmarshal([]byte(text), &upgrade)
		return upgrade.Progress.Phase
	}
	return ""
}

// objects are a Cluster and its parts at a time, for people.
type objects struct{ parts, machines []history.Fact }

func (w *world) snapshot() fmt.Stringer {
	return objects{parts: append([]history.Fact{w.cluster}, w.parts()...), machines: w.machines}
}

func (o objects) String() string {
	var text strings.Builder
	for _, p := range o.parts {
		fmt.Fprintf(&text, "  %s %s: %s, %d replicas", p.Kind, p.Name, p.Version, p.Replicas)
		if p.Kind == history.KindCluster {
			c := p.Reconciled()
			fmt.Fprintf(&text, ", hooks %q, TopologyReconciled %s %s: %q", p.Hooks(), c.Status, c.Reason, c.Message)
		}
		text.WriteString("\n")
	}
	for _, m := range o.machines {
		fmt.Fprintf(&text, "  Machine %s: asks %s, runs %q, ready %t, deleting %t", m.Name, m.Version, m.Reported,
			isReady(m), m.Deleting)
		if machine, ok := m.Object.(*clusterv1.Machine); ok {
			fmt.Fprintf(&text, ", node %q, phase %q", machine.Status.NodeRef.Name, phaseOf(machine))
		}
		text.WriteString("\n")
	}
	return text.String()
}
