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
	// hastened are the Clusters whose hooks are asked again soon.
	hastened keyed.Memory[types.NamespacedName, struct{}]
}

// An extension may see later than this process what changes its answer. So for hurry, a hook is asked
// again after soon.
const hurry, soon = 10 * time.Second, 2 * time.Second

// Of returns what is remembered of a Cluster.
func (a *Answers) Of(cluster types.NamespacedName) []Answer {
	if answer, known := a.byCluster.Get(cluster, time.Time{}); known {
		return []Answer{answer}
	}
	return nil
}

// Remember keeps one answer for a Cluster, and returns it as it is kept. It takes the place of all others.
func (a *Answers) Remember(cluster types.NamespacedName, answer Answer) Answer {
	if _, hastened := a.hastened.Get(cluster, answer.Given); hastened {
		if at := answer.Given.Add(soon); at.Before(answer.Until) {
			answer.Until = at
		}
	}
	a.byCluster.Put(cluster, answer, time.Time{}, keyed.Forever)
	return answer
}

// Hasten has the hook that holds a Cluster asked again at once: something that it depends on has changed.
func (a *Answers) Hasten(cluster types.NamespacedName, now time.Time) {
	a.hastened.Put(cluster, struct{}{}, now, hurry)
	a.byCluster.Edit(cluster, time.Time{}, func(answer Answer, known bool) (Answer, time.Duration, bool) {
		answer.Until = now
		return answer, keyed.Forever, known
	})
}

// Forget drops what is remembered of a Cluster.
func (a *Answers) Forget(cluster types.NamespacedName) {
	a.byCluster.Forget(cluster)
	a.hastened.Forget(cluster)
}
