package keyed

import (
	"maps"
	"sync"
)

// Version tells one content of an object from all others. An etcd that is restored from a snapshot may
// repeat a generation or a resource version, but hardly both.
type Version struct {
	UID, ResourceVersion string
	Generation           int64
}

// Object is what VersionOf reads of an object of Kubernetes.
type Object[UID ~string] interface {
	GetUID() UID
	GetResourceVersion() string
	GetGeneration() int64
}

// VersionOf returns the version of an object. A cache of what was read from an object compares it, or
// the content itself: a generation alone may be that of another content. Each write of a status makes
// another version, so what costs a request is not kept by it.
func VersionOf[UID ~string](o Object[UID]) Version {
	return Version{
		UID: string(o.GetUID()), ResourceVersion: o.GetResourceVersion(),
		Generation: o.GetGeneration(),
	}
}

// Is reports whether both are the same content of one object. A version without UID or
// ResourceVersion, such as one from a file, is none.
func (v Version) Is(other Version) bool { return v.isKnown() && v == other }

func (v Version) isKnown() bool { return v.UID != "" && v.ResourceVersion != "" }

// Versions keeps what was computed from the objects of a scope, such as a namespace, one value for each
// object and only for its last version. It is safe for concurrent use: callers about one scope wait for
// each other, those about different scopes do not. Its zero value is ready. A nil one keeps nothing.
//
// A scope that nobody asks about is dropped, such as a namespace that is gone: after at most twice
// asksPerSweep, and twice asksPerScope for each scope, calls about others.
type Versions[V any] struct {
	// mu protects the fields and asked of each scope. It is never held while something is computed.
	mu     sync.Mutex
	scopes map[string]*scope[V]
	// asksLeft is the number of calls before those scopes are dropped that were not asked about.
	asksLeft int
}

const asksPerSweep, asksPerScope = 1000, 10

type scope[V any] struct {
	// asked is true if a call was about the scope since scopes were last dropped.
	asked  bool
	mu     sync.Mutex
	values map[string]versioned[V]
}

type versioned[V any] struct {
	version Version
	value   V
}

// Compute returns the values of all n objects of a scope, in their order. describe names an object and
// its version; compute is called only for a version that is new, and once for it, however many callers
// ask at once. What was kept of other objects of the scope is dropped. A version without UID or
// ResourceVersion, such as one from a file, is never kept.
func (v *Versions[V]) Compute(
	scopeName string, n int, describe func(i int) (name string, version Version), compute func(i int) V,
) []V {
	values := make([]V, 0, n)
	if v == nil {
		for i := range n {
			values = append(values, compute(i))
		}
		return values
	}
	if n == 0 {
		v.drop(scopeName)
		return values
	}
	s := v.scope(scopeName)
	s.mu.Lock()
	defer s.mu.Unlock()
	before, kept := s.values, make(map[string]versioned[V], n)
	for i := range n {
		name, version := describe(i)
		found, ok := before[name]
		if !ok || !found.version.Is(version) {
			found = versioned[V]{version: version, value: compute(i)}
		}
		if version.isKnown() {
			kept[name] = found
		}
		values = append(values, found.value)
	}
	s.values = kept
	return values
}

func (v *Versions[V]) scope(name string) *scope[V] {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asksLeft--; v.asksLeft < 0 {
		maps.DeleteFunc(v.scopes, func(_ string, s *scope[V]) bool { return !s.asked })
		for _, s := range v.scopes {
			s.asked = false
		}
		v.asksLeft = asksPerSweep + asksPerScope*len(v.scopes)
	}
	s, ok := v.scopes[name]
	if !ok {
		s = &scope[V]{}
		if v.scopes == nil {
			v.scopes = map[string]*scope[V]{}
		}
		v.scopes[name] = s
	}
	s.asked = true
	return s
}

// drop forgets a scope without objects. A caller that still computes for it keeps nothing.
func (v *Versions[V]) drop(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.scopes, name)
}
