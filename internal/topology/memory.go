package topology

import (
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// memoryExpiry is how long "nothing to change" holds. Then dry runs ask again, so that changed defaults are seen: they change neither
// the intent nor the object.
const memoryExpiry = 30 * time.Minute

// A slot is an object's place in a topology. It outlives the object: a template that takes another's place takes its entry too, so that
// memory is bounded by the topology.
type slot struct {
	// role is what the object is for.
	role role
	// group is the name of the MachineDeployment or MachinePool in the topology.
	group string
}

type role int

const (
	roleShim role = iota
	roleInfrastructureCluster
	roleControlPlane
	roleControlPlaneMachines
	roleControlPlaneHealthCheck
	roleMachineDeployment
	roleMachineDeploymentInfrastructure
	roleMachineDeploymentBootstrap
	roleMachineDeploymentHealthCheck
	roleMachinePool
	roleMachinePoolInfrastructure
	roleMachinePoolBootstrap
)

// A digest stands for a value. The zero digest stands for none and equals none.
type digest [sha256.Size]byte

// known is what was found out last about a slot's object: applying intent to an object that looks like current changes nothing.
type known struct {
	intent, spec, current digest
	at                    time.Time
}

// memory remembers what is known of objects. It is safe for concurrent use.
type memory struct {
	now func() time.Time

	mu       sync.Mutex
	clusters map[types.NamespacedName]map[slot]known
}

func newMemory(now func() time.Time) *memory {
	return &memory{now: now, clusters: map[types.NamespacedName]map[slot]known{}}
}

// get returns what is known, if it has not expired and is about an object that looks like current.
func (m *memory) get(cluster types.NamespacedName, place slot, current digest) (known, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry, ok := m.clusters[cluster][place]
	if !ok || current == (digest{}) || entry.current != current || m.now().Sub(entry.at) >= memoryExpiry {
		return known{}, false
	}
	return entry, true
}

func (m *memory) put(cluster types.NamespacedName, place slot, entry known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clusters[cluster] == nil {
		m.clusters[cluster] = make(map[slot]known)
	}
	entry.at = m.now()
	m.clusters[cluster][place] = entry
}

// drop forgets slots of one Cluster.
func (m *memory) drop(cluster types.NamespacedName, places ...slot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, place := range places {
		delete(m.clusters[cluster], place)
	}
}

func (m *memory) forget(cluster types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, cluster)
}
