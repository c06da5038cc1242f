package demo

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// register remembers which Machines there ever were, and which of them were deleted. It is safe for concurrent use.
type register struct {
	mu    sync.Mutex
	names map[types.UID]string
	// deleted are those whose deletion has begun.
	deleted map[types.UID]string
}

func newRegister() *register {
	return &register{names: map[types.UID]string{}, deleted: map[types.UID]string{}}
}

func (r *register) see(uid types.UID, name string, deleting bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[uid] = name
	if deleting {
		r.deleted[uid] = name
	}
}

// census is what a register holds at one moment.
type census struct{ names, deleted map[types.UID]string }

func (r *register) census() census {
	r.mu.Lock()
	defer r.mu.Unlock()
	return census{names: maps.Clone(r.names), deleted: maps.Clone(r.deleted)}
}

// since returns the names of the Machines that were created and deleted since another census was taken, sorted.
func (c census) since(before census) (created, deleted []string) {
	return news(c.names, before.names), news(c.deleted, before.deleted)
}

func news(now, before map[types.UID]string) []string {
	var names []string
	for uid, name := range now {
		if _, known := before[uid]; !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
