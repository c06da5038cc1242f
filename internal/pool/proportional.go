package pool

import (
	"math"
	"slices"
	"strconv"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Proportional scales the MachineSets of a paused MachineDeployment without changing how far its
// rollout is. It returns the replicas of those that change, by name. Each MachineSet must have
// spec.replicas. newest is the MachineSet of the current template; nil if there is none.
//
//   - One MachineSet with replicas, or none: that one, or the newest, gets all replicas.
//   - The new MachineSet is complete: the others get none.
//   - RollingUpdate: the difference is spread over the MachineSets in proportion to their sizes;
//     the largest gets what rounding leaves over.
//   - OnDelete: nothing changes.
func Proportional(md *clusterv1.MachineDeployment, b Budget,
	newest *clusterv1.MachineSet, old []*clusterv1.MachineSet,
) map[string]int32 {
	all := slices.Clone(old)
	if newest != nil {
		all = append(all, newest)
	}
	active := slices.DeleteFunc(
		slices.Clone(all),
		func(s *clusterv1.MachineSet) bool { return *s.Spec.Replicas == 0 },
	)
	target := map[string]int32{}
	switch {
	case len(all) == 0:
	case len(active) == 0:
		if newest == nil {
			newest = slices.MaxFunc(old, byAge)
		}
		target[newest.Name] = b.Replicas
	case len(active) == 1:
		target[active[0].Name] = b.Replicas
	case saturated(b, newest):
		for _, set := range active {
			if set != newest {
				target[set.Name] = 0
			}
		}
	case isRollingUpdate(md):
		target = b.inProportion(active, deref(md.Status.Replicas))
	}
	return changes(all, target)
}

// changes returns those of target that differ from the replicas of the MachineSets.
func changes(sets []*clusterv1.MachineSet, target map[string]int32) map[string]int32 {
	changed := map[string]int32{}
	for _, set := range sets {
		if n, ok := target[set.Name]; ok && n != *set.Spec.Replicas {
			changed[set.Name] = n
		}
	}
	return changed
}

// saturated reports whether set has all replicas of its MachineDeployment, all available, and was
// told so.
func saturated(b Budget, set *clusterv1.MachineSet) bool {
	if set == nil {
		return false
	}
	desired, err := strconv.ParseInt(set.Annotations[clusterv1.DesiredReplicasAnnotation], 10, 32)
	return err == nil && desired == int64(b.Replicas) &&
		*set.Spec.Replicas == b.Replicas && deref(set.Status.AvailableReplicas) == b.Replicas
}

// inProportion adds or removes replicas in proportion. before is status.replicas of the
// MachineDeployment, the base for MachineSets that do not say what the largest number was when they
// were scaled last.
func (b Budget) inProportion(active []*clusterv1.MachineSet, before int32) map[string]int32 {
	allowed := int32(0)
	if b.Replicas > 0 {
		allowed = b.Replicas + b.Surge
	}
	var total int32
	for _, set := range active {
		total += *set.Spec.Replicas
	}
	add := allowed - total
	if add == 0 {
		return nil
	}
	sorted := slices.SortedStableFunc(slices.Values(active), func(x, y *clusterv1.MachineSet) int {
		if c := int(*y.Spec.Replicas) - int(*x.Spec.Replicas); c != 0 {
			return c
		}
		// Of equal MachineSets the newer ones grow first, and the older ones shrink first.
		if add > 0 {
			return y.CreationTimestamp.Compare(x.CreationTimestamp.Time)
		}
		return x.CreationTimestamp.Compare(y.CreationTimestamp.Time)
	})
	target := map[string]int32{}
	var added int32
	for _, set := range sorted {
		share := b.share(set, before)
		if left := add - added; add > 0 {
			share = min(share, left)
		} else {
			share = max(share, left)
		}
		target[set.Name] = *set.Spec.Replicas + share
		added += share
	}
	largest := sorted[0].Name
	target[largest] = max(target[largest]+add-added, 0)
	return target
}

// share is how many replicas set gains or loses if its part of the group stays the same.
func (b Budget) share(set *clusterv1.MachineSet, before int32) int32 {
	size := *set.Spec.Replicas
	if b.Replicas == 0 {
		return -size
	}
	if n, err := strconv.ParseInt(
		set.Annotations[clusterv1.MaxReplicasAnnotation], 10, 32,
	); err == nil {
		before = int32(n) // #nosec G115 -- parsed with 32 bits
	}
	return roundToInt32(float64(size*(b.Replicas+b.Surge))/float64(before)) - size
}

// roundToInt32 rounds half away from zero. Division by zero results in the largest number.
func roundToInt32(x float64) int32 {
	return int32(min(max(math.Round(x), math.MinInt32), math.MaxInt32))
}
