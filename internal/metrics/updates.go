package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Updates counts updates in place of machines when their results are recorded. A nil one counts
// nothing. It is safe for concurrent use.
type Updates struct {
	durations *prometheus.HistogramVec
	attempts  *prometheus.CounterVec

	mu sync.Mutex
	// sets are the label sets of each family that have series of their own; beyond are those that
	// exceed the limit. Each has at most most elements.
	sets, beyond map[string]map[set]struct{}
	most         int
}

// set are the values of the labels of one series.
type set struct {
	cluster         types.NamespacedName
	updater, result string
}

// NewUpdates returns Updates without any. most bounds the label sets of each family.
func NewUpdates(most int) *Updates {
	labels := []string{labelNamespace, labelCluster, labelUpdater, labelResult}
	u := &Updates{
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    durationFamily,
			Help:    "How long updates in place of machines took, from the first record to the result.",
			Buckets: durationBuckets,
		}, labels),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: attemptsFamily, Help: "Attempts of updaters that have ended.",
		}, labels),
		sets: map[string]map[set]struct{}{}, beyond: map[string]map[set]struct{}{}, most: most,
	}
	for _, family := range []string{durationFamily, attemptsFamily} {
		u.sets[family], u.beyond[family] = map[set]struct{}{}, map[set]struct{}{}
	}
	return u
}

// Describe lists the two families.
func (u *Updates) Describe(descs chan<- *prometheus.Desc) {
	u.durations.Describe(descs)
	u.attempts.Describe(descs)
}

// Collect serves what was counted.
func (u *Updates) Collect(metrics chan<- prometheus.Metric) {
	u.durations.Collect(metrics)
	u.attempts.Collect(metrics)
}

// Ended counts an update that has ended. updater is the kind of the last updater that was at work.
// A negative duration, from a clock that was set back, counts as none.
func (u *Updates) Ended(cluster types.NamespacedName, updater, result string, took time.Duration) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	labels := u.admit(durationFamily, set{cluster: cluster, updater: updater, result: result})
	u.durations.With(labels).Observe(max(0, took).Seconds())
}

// Attempt counts an attempt of an updater that has ended.
func (u *Updates) Attempt(cluster types.NamespacedName, updater, result string) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	labels := u.admit(attemptsFamily, set{cluster: cluster, updater: updater, result: result})
	u.attempts.With(labels).Inc()
}

// admit returns the labels by which a set counts. Beyond the limit it counts without a Cluster. The
// caller holds mu until it has counted; otherwise prune could miss the series.
func (u *Updates) admit(family string, s set) prometheus.Labels {
	sets, beyond := u.sets[family], u.beyond[family]
	_, has := sets[s]
	switch {
	case has || len(sets) < u.most:
		sets[s] = struct{}{}
		delete(beyond, s)
	default:
		// Only a scrape prunes. Without scrapes this map must not grow either.
		if len(beyond) < u.most {
			beyond[s] = struct{}{}
		}
		s.cluster = types.NamespacedName{}
	}
	return prometheus.Labels{
		labelNamespace: s.cluster.Namespace, labelCluster: s.cluster.Name,
		labelUpdater: s.updater, labelResult: s.result,
	}
}

// prune removes the series of Clusters that do not exist.
func (u *Updates) prune(exists func(types.NamespacedName) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for family, sets := range u.sets {
		for s := range sets {
			if exists(s.cluster) {
				continue
			}
			delete(sets, s)
			gone := prometheus.Labels{
				labelNamespace: s.cluster.Namespace, labelCluster: s.cluster.Name,
			}
			if family == durationFamily {
				u.durations.DeletePartialMatch(gone)
			} else {
				u.attempts.DeletePartialMatch(gone)
			}
		}
	}
	for _, sets := range u.beyond {
		for s := range sets {
			if !exists(s.cluster) {
				delete(sets, s)
			}
		}
	}
}

// omitted returns how many label sets of a family exceed its limit, up to most.
func (u *Updates) omitted(family string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.beyond[family])
}
