package hookserver

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

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

// outcomes remembers the last answer about each cluster. The zero value is empty and ready.
type outcomes struct {
	mu   sync.Mutex
	last map[types.NamespacedName][sha256.Size]byte
}

// changed reports whether an outcome differs from the last one about the same cluster, and remembers it. A full memory
// is dropped, which repeats some lines in the log.
func (o *outcomes) changed(cluster types.NamespacedName, outcome string) bool {
	const longest = 253
	if len(cluster.Name) > longest || len(cluster.Namespace) > longest {
		// Not the name of any object; keep the memory's bound.
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	digest := sha256.Sum256([]byte(outcome))
	if previous, known := o.last[cluster]; known && previous == digest {
		return false
	}
	if o.last == nil || len(o.last) >= maxOutcomes {
		o.last = map[types.NamespacedName][sha256.Size]byte{}
	}
	o.last[cluster] = digest
	return true
}
