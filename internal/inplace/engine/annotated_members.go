package engine

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MemberConditions are the conditions by which a group decides about its Machines.
var MemberConditions = []string{
	clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition, clusterv1.MachineOwnerRemediatedCondition,
	clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineExternallyRemediatedCondition,
}

// members are the Machines of MachineDeployments as they were last read or written by this process,
// where the cache may not show that yet. A group is looked at each time that one of its Machines is
// farther, so reading all of them live each time would cost the square of their number.
//
// Each group is read live once: what another process has written before this one leads may not be in
// the cache. After that only this process changes what Machines are asked for, beside people, and all
// writes carry the resourceVersion that was decided on. So a cache that lags delays a group, and lets
// no more machines begin. It is safe for concurrent use.
type members struct {
	mu sync.Mutex
	// newer are Machines that the cache need not show, by group and UID. A group without a map was not
	// read yet.
	newer map[types.NamespacedName]map[types.UID]*clusterv1.Machine
}

func newMembers() *members {
	return &members{newer: map[types.NamespacedName]map[types.UID]*clusterv1.Machine{}}
}

// isRead reports whether a group was read live.
func (s *members) isRead(group types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newer[group] != nil
}

// add notes a Machine as it was read from, or returned by, the API server. It must not be changed any more.
func (s *members) add(group types.NamespacedName, machines ...*clusterv1.Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newer[group] == nil {
		s.newer[group] = map[types.UID]*clusterv1.Machine{}
	}
	for _, m := range machines {
		s.newer[group][m.UID] = m
	}
}

// remove forgets a group about which there is nothing to do.
func (s *members) remove(group types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.newer, group)
}

// merge puts newer Machines in the place of cached ones, and forgets what the cache has caught up with.
func (s *members) merge(group types.NamespacedName, cached []clusterv1.Machine) []*clusterv1.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	newer := s.newer[group]
	s.newer[group] = map[types.UID]*clusterv1.Machine{}
	merged := make([]*clusterv1.Machine, 0, len(cached))
	for i := range cached {
		m := &cached[i]
		if n := newer[m.UID]; n != nil && isOlder(m, n) {
			s.newer[group][m.UID] = n
			m = n
		}
		merged = append(merged, m)
	}
	return merged
}

func isOlder(a, b *clusterv1.Machine) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}

// readMembersOf returns the Machines of a MachineDeployment, of all its MachineSets. They must not be changed.
func (e *Engine) readMembersOf(ctx context.Context, cluster, group types.NamespacedName) ([]*clusterv1.Machine, error) {
	labels := client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name, clusterv1.MachineDeploymentNameLabel: group.Name}
	if !e.members.isRead(group) {
		machines, err := e.listMachines(ctx, cluster, labels)
		if err != nil {
			return nil, err
		}
		read := make([]*clusterv1.Machine, 0, len(machines))
		for i := range machines {
			read = append(read, &machines[i])
		}
		e.members.add(group, read...)
	}
	cached := &clusterv1.MachineList{}
	if err := e.Client.List(ctx, cached, client.InNamespace(group.Namespace), labels, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Machines of MachineDeployment %s: %w", group, err)
	}
	return e.members.merge(group, cached.Items), nil
}
