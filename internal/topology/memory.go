package topology

import (
	"crypto/sha256"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/keyed"
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
}

// memory remembers what is known of objects. It is safe for concurrent use.
type memory struct {
	now     func() time.Time
	objects keyed.Memory[place, known]
}

// place is a slot of a Cluster's topology.
type place struct {
	cluster types.NamespacedName
	slot    slot
}

// get returns what is known, if it has not expired and is about an object that looks like current.
func (m *memory) get(cluster types.NamespacedName, s slot, current digest) (known, bool) {
	entry, ok := m.objects.Get(place{cluster, s}, m.now())
	if !ok || current == (digest{}) || entry.current != current {
		return known{}, false
	}
	return entry, true
}

func (m *memory) put(cluster types.NamespacedName, s slot, entry known) {
	m.objects.Put(place{cluster, s}, entry, m.now(), memoryExpiry)
}

// drop forgets slots of one Cluster.
func (m *memory) drop(cluster types.NamespacedName, slots ...slot) {
	for _, s := range slots {
		m.objects.Forget(place{cluster, s})
	}
}

func (m *memory) forget(cluster types.NamespacedName) {
	m.objects.ForgetFunc(func(p place) bool { return p.cluster == cluster })
}
