package inventory

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// notes say from how many machines everything is, and what is missing.
func (m *measurement) notes(cluster string, target version.Version) []string {
	var told []string
	for _, of := range []struct {
		who     string
		samples *samples
	}{{"workers", &m.workers}, {"the control plane", &m.controlPlane}} {
		told = append(told, of.samples.notes(fmt.Sprintf("%s of cluster %s", of.who, cluster))...)
	}
	if len(m.controlPlane.delete)+len(m.workers.delete) == 0 {
		told = append(told, "how long deleting a machine takes could not be measured: no group that made its new machines one after another says when an old one was gone")
	}
	if m.retried > 0 {
		told = append(told, fmt.Sprintf("left out: %s of updaters that took more than one attempt; see failures.updateFails", text.Count(m.retried, "time")))
	}
	if m.strange > 0 {
		told = append(told, fmt.Sprintf("left out: %s that cannot be of one machine's update, or cannot be read", text.Count(m.strange, "duration")))
	}
	if m.unchanged > 0 {
		told = append(told, fmt.Sprintf("left out: %s of cluster %s whose last update in place changed no version", text.Count(m.unchanged, "machine"), cluster))
	}
	if m.elsewhere > 0 {
		told = append(told, fmt.Sprintf("left out: %s of cluster %s not at %s", text.Count(m.elsewhere, "machine"), cluster, target))
	}
	return told
}

func (s *samples) notes(who string) []string {
	var told []string
	add := func(what string, took []time.Duration) {
		if len(took) > 0 {
			told = append(told, fmt.Sprintf("measured: %s, %s to %s, from %s (%s)",
				what, slices.Min(took).Round(time.Second), slices.Max(took).Round(time.Second), text.Count(len(took), "machine"), who))
		}
	}
	add("creating a machine", s.create)
	add("deleting a machine", s.delete)
	add("draining a node", s.drain)
	for _, name := range slices.Sorted(maps.Keys(s.updaters)) {
		add(fmt.Sprintf("updater %q until the node is Ready", name), s.updaters[name])
	}
	return told
}
