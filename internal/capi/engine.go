package capi

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// ManagerLease is the name of the lease of Cluster API's core manager. windlass manager holds the
// same one, so that never both drive Clusters.
const ManagerLease = "controller-leader-election-capi"

// silence is how long after the end of its duration a lease still tells who leads: a manager may be
// renewing it, and the clocks of two machines differ.
const silence = time.Minute

// succession is how long after a manager has released its lease another one may still take it.
const succession = 15 * time.Second

// EngineFacts are what tells which engine drives a Cluster.
type EngineFacts struct {
	Cluster *clusterv1.Cluster
	// Infrastructure is the infrastructure cluster object; nil if it was not read.
	Infrastructure metav1.Object
	// Leases are those with the name ManagerLease, in all namespaces.
	Leases []*coordinationv1.Lease
	Now    time.Time
}

// Engine returns v1alpha1.EngineManager if windlass manager drives the Cluster, and an empty string
// if stock Cluster API does, or if that is unknown. known tells these two apart.
//
// The engine of a Cluster with a topology keeps an annotation on the infrastructure cluster object,
// unless the Cluster is paused. Of other Clusters the holder of the lease tells.
func (f EngineFacts) Engine() (engine string, known bool) {
	if f.Infrastructure != nil && f.Cluster.Spec.Topology.IsDefined() {
		engine = f.Infrastructure.GetAnnotations()[v1alpha1.EngineAnnotation]
		if engine != "" || !annotations.IsPaused(f.Cluster, f.Cluster) {
			return engine, true
		}
	}
	return f.leader()
}

// leader goes by the holders of leases. It is unknown what a stock manager leaves out, so beside
// one windlass manager drives only what its watch filter names.
func (f EngineFacts) leader() (engine string, known bool) {
	var stock, ours, named bool
	for _, l := range f.Leases {
		if !isHeld(l, f.Now) {
			continue
		}
		limits, isOurs := parseHolder(*l.Spec.HolderIdentity)
		switch {
		case !isOurs:
			stock = true
		case limits.include(f.Cluster):
			ours, named = true, named || limits.watchFilter != ""
		}
	}
	switch {
	case ours && (!stock || named):
		return v1alpha1.EngineManager, true
	case ours:
		return "", false
	}
	return "", stock
}

// SilentSince returns when a manager last renewed the lease for a Cluster, if nobody holds one any
// more; zero if somebody does, or if that is unknown. engine is what Engine returned. A manager that
// stops removes its identity from the lease: such a lease counts if windlass manager drives the
// Cluster.
func (f EngineFacts) SilentSince(engine string) time.Time {
	var last time.Time
	for _, l := range f.Leases {
		holder, renewed := l.Spec.HolderIdentity, l.Spec.RenewTime
		if l.Name != ManagerLease || holder == nil || renewed == nil {
			continue
		}
		limits, ours := parseHolder(*holder)
		released := *holder == "" && engine == v1alpha1.EngineManager
		passing := released && f.Now.Before(renewed.Add(succession))
		switch {
		case ours && !limits.include(f.Cluster):
		case passing, isHeld(l, f.Now):
			return time.Time{}
		case ours, released:
			last = later(last, renewed.Time)
		}
	}
	return last
}

// LastSeen returns when a core manager that may drive the Cluster last renewed its lease; zero if that
// is unknown.
func (f EngineFacts) LastSeen() time.Time {
	var last time.Time
	for _, l := range f.Leases {
		holder, renewed := l.Spec.HolderIdentity, l.Spec.RenewTime
		if l.Name != ManagerLease || holder == nil || *holder == "" || renewed == nil {
			continue
		}
		if limits, ours := parseHolder(*holder); !ours || limits.include(f.Cluster) {
			last = later(last, renewed.Time)
		}
	}
	return last
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// isHeld reports whether somebody holds a lease.
func isHeld(l *coordinationv1.Lease, now time.Time) bool {
	holder, renewed, seconds := l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds
	if l.Name != ManagerLease || holder == nil || *holder == "" || renewed == nil || seconds == nil {
		return false
	}
	return now.Before(renewed.Add(time.Duration(*seconds)*time.Second + silence))
}

// The words of a holder: v1alpha1.EngineManager, ";" and a limit each, "_", and what names the
// replica.
const (
	holderEnd       = "_"
	limitStart      = ";"
	limitNamespace  = "namespace="
	limitWatchLabel = "watch-filter="
)

// HolderPrefix begins the identity of windlass manager in its lease. An empty namespace or watch
// filter limits it to none.
func HolderPrefix(namespace, watchFilter string) string {
	prefix := v1alpha1.EngineManager
	if namespace != "" {
		prefix += limitStart + limitNamespace + namespace
	}
	if watchFilter != "" {
		prefix += limitStart + limitWatchLabel + watchFilter
	}
	return prefix + holderEnd
}

// limits are what a manager is limited to; empty for no limit.
type limits struct{ namespace, watchFilter string }

func (l limits) include(c *clusterv1.Cluster) bool {
	filtered := l.watchFilter == "" || c.Labels[clusterv1.WatchLabel] == l.watchFilter
	return filtered && (l.namespace == "" || c.Namespace == l.namespace)
}

// parseHolder reads the identity of a manager: HolderPrefix, the host, "_" and a UUID. ours is
// false for other identities.
func parseHolder(identity string) (l limits, ours bool) {
	for range 2 { // Hosts and UUIDs contain no underscore; watch filters may.
		i := strings.LastIndex(identity, holderEnd)
		if i < 0 {
			return limits{}, false
		}
		identity = identity[:i]
	}
	words := strings.Split(identity, limitStart)
	for _, word := range words[1:] {
		if namespace, ok := strings.CutPrefix(word, limitNamespace); ok {
			l.namespace = namespace
		}
		if filter, ok := strings.CutPrefix(word, limitWatchLabel); ok {
			l.watchFilter = filter
		}
	}
	return l, words[0] == v1alpha1.EngineManager
}
