package chain

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/keyed"
)

// Answers remembers, for every Cluster, the hook that did not let it pass, so that it is not called before its time. It is memory only:
// after a restart it is asked again. Safe for concurrent use.
type Answers struct {
	// Only one hook can be due at a time.
	byCluster keyed.Memory[types.NamespacedName, Answer]
}

// Of returns what is remembered of a Cluster.
func (a *Answers) Of(cluster types.NamespacedName) []Answer {
	if answer, known := a.byCluster.Get(cluster, time.Time{}); known {
		return []Answer{answer}
	}
	return nil
}

// Remember keeps one answer for a Cluster. It takes the place of all others.
func (a *Answers) Remember(cluster types.NamespacedName, answer Answer) {
	a.byCluster.Put(cluster, answer, time.Time{}, keyed.Forever)
}

// Forget drops what is remembered of a Cluster.
func (a *Answers) Forget(cluster types.NamespacedName) { a.byCluster.Forget(cluster) }
