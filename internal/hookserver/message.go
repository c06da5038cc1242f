package hookserver

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/text"
)

// maxMessageBytes bounds what a response says and what is logged of a request. A condition's message may have 32768
// bytes, of which Cluster API needs some for its own words; a person reads far fewer.
const maxMessageBytes = 2048

// boundMessage makes text from outside fit for a condition and a log.
func boundMessage(s string) string { return text.Bound(s, maxMessageBytes) }

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// maxOutcomes bounds the memory of outcomes: well above the clusters of one management cluster.
const maxOutcomes = 10_000

// newOutcomes returns what remembers the last answer about each cluster.
func newOutcomes() *keyed.Once[types.NamespacedName] {
	return keyed.NewOnce[types.NamespacedName](keyed.Forever, maxOutcomes)
}

// isNew reports whether an outcome differs from the last one about the same cluster, and remembers
// it. A full memory is dropped, which repeats some lines in the log.
func isNew(outcomes *keyed.Once[types.NamespacedName], cluster types.NamespacedName, outcome string) bool {
	const longest = 253
	if len(cluster.Name) > longest || len(cluster.Namespace) > longest {
		// Not the name of any object; keep the memory's bound.
		return true
	}
	return outcomes.Changed(cluster, outcome, time.Time{})
}
