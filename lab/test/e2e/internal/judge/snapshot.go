package judge

import (
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/lab/internal/history"
)

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
			fmt.Fprintf(&text, ", hooks %q, TopologyReconciled %s %s: %q",
				p.Hooks(), c.Status, c.Reason, c.Message)
		}
		text.WriteString("\n")
	}
	for _, m := range o.machines {
		fmt.Fprintf(&text, "  Machine %s: asks %s, runs %q, ready %t, deleting %t",
			m.Name, m.Version, m.Reported, isReady(m), m.Deleting)
		if machine, ok := m.Object.(*clusterv1.Machine); ok {
			fmt.Fprintf(&text, ", node %q, phase %q", machine.Status.NodeRef.Name, phaseOf(machine))
		}
		text.WriteString("\n")
	}
	return text.String()
}
