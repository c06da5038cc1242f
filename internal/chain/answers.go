package chain

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Answers remembers, for every Cluster, the hooks that did not let it pass, so that they are not called before their time. It is memory only:
// after a restart they are asked again. Safe for concurrent use.
type Answers struct {
	mu        sync.Mutex
	byCluster map[types.NamespacedName][]Answer
}

// Of returns what is remembered of a Cluster.
func (a *Answers) Of(cluster types.NamespacedName) []Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.byCluster[cluster])
}

// Remember keeps one answer for a Cluster. Only one hook can be due at a time, so it takes the place of all others.
func (a *Answers) Remember(cluster types.NamespacedName, answer Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byCluster == nil {
		a.byCluster = map[types.NamespacedName][]Answer{}
	}
	a.byCluster[cluster] = []Answer{answer}
}

// Forget drops what is remembered of a Cluster.
func (a *Answers) Forget(cluster types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byCluster, cluster)
}
