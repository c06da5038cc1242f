package snapshot

import (
	"fmt"

	"github.com/windlass-dev/windlass/internal/policy"
)

// Surgeless returns why a rollout of a small control plane is a danger: with maxSurge 0 it removes a machine
// before it adds one. Cluster API refuses that of a KubeadmControlPlane with fewer than three replicas, and other
// providers accept it. Fatal says that it removes the only machine. ok is false if machines are kept, and if
// the object does not ask for maxSurge 0.
func Surgeless(o Objects, selected policy.Policy) (f Failure, fatal, ok bool) {
	const fewest = 3
	if o.ControlPlane == nil || selected.InPlace {
		return Failure{}, false, false
	}
	surge, set := surgeOf(o.ControlPlane)
	replicas := aimedReplicas(o)
	if !set || surge > 0 || replicas < 1 || replicas >= fewest {
		return Failure{}, false, false
	}
	f.Fix = fmt.Sprintf("set maxSurge 1 in its rollout strategy, which needs one more host; or scale it to %d before "+
		"the upgrade; or have an updater update its machines in place, with an UpdatePolicy", fewest)
	if replicas == 1 {
		f.Message = "it has 1 replica and maxSurge 0: a rollout removes its only machine, and the etcd on it, " +
			"before there is another one"
		return f, true, true
	}
	f.Message = fmt.Sprintf("it has %d replicas and maxSurge 0: a rollout removes one machine before it adds one, and "+
		"until then etcd has a single member", replicas)
	return f, false, true
}
