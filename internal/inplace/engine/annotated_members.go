package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/keyed"
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
// the cache. From then on every write of a Machine by this process is noted, of upgrades that
// annotations ask for and of updates that Cluster API asks for. What others write meanwhile, a cache that
// lags does not show: a Machine that Cluster API has just marked counts later. Its update has not begun
// then, because only this process begins one. A group marks a Machine under the resourceVersion that it
// decided on, so what others wrote on that Machine is never overlooked. A Machine that the cache does
// not show after keyed.CacheLag is forgotten, and the group is read live again. It is safe for concurrent
// use.
type members struct {
	now func() time.Time

	mu sync.Mutex
	// groups are those that are looked at.
	groups map[types.NamespacedName]*memberGroup
}

type memberGroup struct {
	// isRead says that the group was read live.
	isRead bool
	// newer are Machines that the cache need not show.
	newer map[types.UID]newerMachine
}

// newerMachine is a Machine as it was read or written at a time.
type newerMachine struct {
	*clusterv1.Machine
	at time.Time
}

func newMembers(now func() time.Time) *members {
	return &members{now: now, groups: map[types.NamespacedName]*memberGroup{}}
}

// open has the writes of a group's Machines noted from now on. It reports whether the group was read
// live, and the cache may show all that it does not show yet.
func (s *members) open(group types.NamespacedName) (isRead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups[group] == nil {
		s.groups[group] = &memberGroup{newer: map[types.UID]newerMachine{}}
	}
	g, now := s.groups[group], s.now()
	for _, m := range g.newer {
		if !keyed.Lags(m.at, now) {
			g.newer, g.isRead = map[types.UID]newerMachine{}, false
			break
		}
	}
	return g.isRead
}

// addRead notes the Machines of a group as they were read from the API server.
func (s *members) addRead(group types.NamespacedName, machines []clusterv1.Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[group]
	if g == nil {
		return // It was removed meanwhile.
	}
	g.isRead = true
	for i := range machines {
		g.add(newerMachine{&machines[i], s.now()})
	}
}

// addWritten notes a Machine as the API server returned it to a write, if its group is looked at.
func (s *members) addWritten(m *clusterv1.Machine) {
	name := groupInIndex(m)
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.groups[types.NamespacedName{Namespace: m.Namespace, Name: name}]; g != nil {
		g.add(newerMachine{m.DeepCopy(), s.now()})
	}
	if name != unlabelled {
		return
	}
	// The group is not known here. Those to which the Machine does not belong forget it when they merge.
	for group, g := range s.groups {
		if group.Namespace == m.Namespace {
			g.add(newerMachine{m.DeepCopy(), s.now()})
		}
	}
}

// add notes a Machine, which must not be changed any more.
func (g *memberGroup) add(m newerMachine) {
	if old, known := g.newer[m.UID]; !known || isOlder(old.Machine, m.Machine) {
		g.newer[m.UID] = m
	}
}

// remove forgets a group about which there is nothing to do.
func (s *members) remove(group types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.groups, group)
}

// merge puts newer Machines in the place of cached ones, and forgets what the cache has caught up with.
func (s *members) merge(group types.NamespacedName, cached []clusterv1.Machine) []*clusterv1.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[group]
	if g == nil {
		g = &memberGroup{} // It was removed meanwhile.
	}
	newer := map[types.UID]newerMachine{}
	merged := make([]*clusterv1.Machine, 0, len(cached))
	for i := range cached {
		m := &cached[i]
		if n, known := g.newer[m.UID]; known && isOlder(m, n.Machine) {
			newer[m.UID] = n
			m = n.Machine
		}
		merged = append(merged, m)
	}
	g.newer = newer
	return merged
}

func isOlder(a, b *clusterv1.Machine) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}

// readMembersOf returns the Machines of a MachineDeployment, of all its MachineSets. They must not be changed.
func (e *Engine) readMembersOf(ctx context.Context, cluster, group types.NamespacedName) ([]*clusterv1.Machine, error) {
	labels := labelsOf(cluster, group)
	others, err := e.listUnlabelled(ctx, cluster, group, func(client.Object) bool { return true })
	if err != nil {
		return nil, err
	}
	if !e.members.open(group) {
		machines, err := e.listMachines(ctx, cluster, labels)
		if err != nil {
			return nil, err
		}
		machines, err = appendEach(ctx, e.Live, machines, others)
		if err != nil {
			return nil, err
		}
		e.members.addRead(group, machines)
	}
	cached := &clusterv1.MachineList{}
	if err := e.Client.List(ctx, cached, client.InNamespace(group.Namespace), labels, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Machines of MachineDeployment %s: %w", group, err)
	}
	labelled := slices.DeleteFunc(cached.Items, func(m clusterv1.Machine) bool { return groupInIndex(&m) != group.Name })
	all, err := appendEach(ctx, e.Client, labelled, others)
	return e.members.merge(group, all), err
}

// appendEach appends the Machines with these names, as a reader has them.
func appendEach(
	ctx context.Context, reader client.Reader, machines []clusterv1.Machine, named []metav1.PartialObjectMetadata,
) ([]clusterv1.Machine, error) {
	for i := range named {
		m, key := &clusterv1.Machine{}, client.ObjectKeyFromObject(&named[i])
		if err := reader.Get(ctx, key, m); client.IgnoreNotFound(err) != nil {
			return machines, fmt.Errorf("reading Machine %s: %w", key, err)
		} else if err == nil {
			machines = append(machines, *m)
		}
	}
	return machines, nil
}
