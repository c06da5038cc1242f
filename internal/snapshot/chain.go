package snapshot

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Chain reads a Cluster's objects into the state of its chain, without what does not stand in them: Source, Answers, and the limits of
// groups. Objects.Machines must hold the Machines of all groups: unlike a plan, a step must not begin on what a status said before it
// was up to date. The error is a *FieldError.
func Chain(o Objects) (chain.State, chain.Recorded, error) {
	s, recorded, err := readChain(o)
	if err != nil && (s.Paused || s.Deleting) {
		// Nothing else counts, and what cannot be read must not keep a Cluster from being deleted.
		recorded = readHooks(o.Cluster)
		return chain.State{Paused: s.Paused, Deleting: s.Deleting}.With(recorded), recorded, nil
	}
	return s, recorded, err
}

// readChain returns what it has read also with an error.
func readChain(o Objects) (chain.State, chain.Recorded, error) {
	s := chain.State{Paused: annotations.IsPaused(o.Cluster, o.Cluster), Deleting: !o.Cluster.DeletionTimestamp.IsZero()}
	recorded, err := ReadRecorded(o.Cluster)
	if err != nil {
		return s, recorded, err
	}
	s.Begun = o.Cluster.Spec.InfrastructureRef.IsDefined() || o.Cluster.Spec.ControlPlaneRef.IsDefined()
	s.Generation = o.Cluster.Generation
	s.Initialized = conditions.IsTrue(o.Cluster, clusterv1.ClusterControlPlaneInitializedCondition)
	s.Concurrency = Concurrency(o.Cluster)
	s.Blockers = Blockers(o.Cluster)
	s = s.With(recorded)
	if s.Target, err = parseField(Ref{Object: o.Cluster, Kind: "Cluster", Field: "spec.topology.version"}, o.Cluster.Spec.Topology.Version); err != nil {
		return s, recorded, err
	}
	if s.ControlPlane, err = chainControlPlane(o.ControlPlane); err != nil {
		return s, recorded, err
	}
	s.ControlPlane.Unjoined = s.ControlPlane.Upgrading && Unjoined(o.Machines, s.ControlPlane.Running)
	s.Groups, s.Leaving, err = chainGroups(o)
	return s, recorded, err
}

// Concurrency is how many groups of one kind may be upgrading at once. The admission webhook sees to it that the annotation holds a number.
func Concurrency(cluster *clusterv1.Cluster) int {
	n, err := strconv.Atoi(cluster.GetAnnotations()[clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation])
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// Blockers returns the annotations that hold an upgrade before it begins, sorted.
func Blockers(cluster *clusterv1.Cluster) []string {
	var found []string
	for _, key := range slices.Sorted(maps.Keys(cluster.GetAnnotations())) {
		if strings.HasPrefix(key, clusterv1.BeforeClusterUpgradeHookAnnotationPrefix) {
			found = append(found, key)
		}
	}
	return found
}

func chainControlPlane(object *unstructured.Unstructured) (chain.ControlPlane, error) {
	if object == nil {
		return chain.ControlPlane{}, nil
	}
	cp := chain.ControlPlane{Exists: true}
	ref, value, err := controlPlaneVersion(object, "spec")
	if err != nil {
		return chain.ControlPlane{}, err
	}
	if cp.Version, err = parseField(ref, value); err != nil {
		return chain.ControlPlane{}, err
	}
	reported := capi.ReportedVersions(object)
	cp.Provisioned = len(reported) > 0
	for _, r := range reported {
		ref.Field = r.Field
		v, err := parseField(ref, r.Version)
		if err != nil {
			return chain.ControlPlane{}, err
		}
		cp.Upgrading = cp.Upgrading || !cp.Version.IsReachedBy(v)
		if cp.Running.IsZero() || version.Compare(v, cp.Running) == version.Less {
			cp.Running = v
		}
	}
	if !cp.Upgrading {
		cp.Running = version.Version{}
	}
	if stamp, err := version.Parse(object.GetAnnotations()[v1alpha1.ChainStepAnnotation]); err == nil {
		cp.Stamp = stamp
	}
	return cp, nil
}

// Unjoined reports whether control plane Machines have Nodes, and none of these may be newer than a
// version: by the version that it was made for, which changes before an update in place begins, and by
// that of its kubelet.
func Unjoined(machines []*clusterv1.Machine, running version.Version) bool {
	joined := 0
	for _, m := range machines {
		if !capi.IsControlPlane(m) || !m.Status.NodeRef.IsDefined() {
			continue
		}
		joined++
		kubelet := cmp.Or(capi.Kubelet(m), m.Spec.Version)
		if mayBeNewer(m.Spec.Version, running) || mayBeNewer(kubelet, running) {
			return false
		}
	}
	return joined > 0
}

// Started returns the first control plane Machine without a Node that has a host and may be newer than a
// version; nil if there is none. kubeadm adds the host's member to etcd before the kubelet registers a Node.
func Started(machines []*clusterv1.Machine, running version.Version) *clusterv1.Machine {
	for _, m := range machines {
		provisioned := m.Status.Initialization.InfrastructureProvisioned
		if capi.IsControlPlane(m) && !m.Status.NodeRef.IsDefined() && provisioned != nil && *provisioned &&
			mayBeNewer(m.Spec.Version, running) {
			return m
		}
	}
	return nil
}

func mayBeNewer(text string, running version.Version) bool {
	v, err := version.Parse(text)
	return err != nil || version.Compare(v, running) != version.Less && !running.RunBy(v)
}

// chainGroups reads the groups of the topology, in its order, and those of it that it does not have any more, by name.
func chainGroups(o Objects) (groups, leaving []chain.Group, err error) {
	topology, err := topologyGroups(o.Cluster)
	if err != nil {
		return nil, nil, err
	}
	objects, _, err := groupObjects(o)
	if err != nil {
		return nil, nil, err
	}
	machines := groupMachines(o.Machines)
	unobserved := unobservedPools(o.MachinePools)
	groups = make([]chain.Group, 0, len(topology))
	for _, t := range topology {
		key := t.groupKey
		g := chain.Group{Name: t.name, Kind: t.kind}
		g.Defer, g.Hold = heldBack(o.Cluster, key)
		if object, exists := objects[key]; exists {
			if err := readChainGroup(&g, object, machines[key]); err != nil {
				return nil, nil, err
			}
			if !g.Upgrading {
				g.Missing = max(object.replicas-countAt(g.Version, machines[key]), 0)
			}
			g.Upgrading = g.Upgrading || unobserved[t.topology] && t.kind == plan.MachinePool
		}
		groups = append(groups, g)
		delete(objects, key)
	}
	for key, object := range objects {
		g := chain.Group{Name: key.topology, Kind: key.kind}
		if err := readChainGroup(&g, object, machines[key]); err != nil {
			return nil, nil, err
		}
		leaving = append(leaving, g)
	}
	slices.SortFunc(leaving, func(a, b chain.Group) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return groups, leaving, nil
}

// countAt counts the Machines that are made for a version, are not being deleted, and have a Node.
// A Machine without a Node has not joined, and may never.
func countAt(v version.Version, machines []*clusterv1.Machine) int32 {
	n := int32(0)
	for _, m := range machines {
		if made, err := version.Parse(m.Spec.Version); err == nil && made.Equal(v) && m.DeletionTimestamp.IsZero() && m.Status.NodeRef.IsDefined() {
			n++
		}
	}
	return n
}

// groupMachines sorts Machines by their groups.
func groupMachines(machines []*clusterv1.Machine) map[groupKey][]*clusterv1.Machine {
	byGroup := map[groupKey][]*clusterv1.Machine{}
	for _, m := range machines {
		byGroup[keyOf(m)] = append(byGroup[keyOf(m)], m)
	}
	return byGroup
}

// readChainGroup reads which version a group's object requests, and which its machines run. Pools without
// Machines count by what their status reports of nodes.
func readChainGroup(g *chain.Group, object groupObject, machines []*clusterv1.Machine) error {
	var err error
	if g.Version, err = parseField(object.ref, object.template); err != nil {
		return err
	}
	g.Exists, g.Oldest = true, g.Version
	g.Deleting = object.ref.Object.GetDeletionTimestamp() != nil
	for _, m := range machines {
		readMachine(g, m.Spec.Version, capi.Kubelet(m))
	}
	if g.Kind == plan.MachinePool && len(machines) == 0 {
		for _, r := range object.reported {
			readMachine(g, object.template, r.Version)
		}
	}
	return nil
}

// readMachine adds one machine to its group: the version that it was made for, and what its kubelet reports, if it does.
func readMachine(g *chain.Group, made, runs string) {
	kubelet, arrived := capi.RunningVersion(g.Version, made, runs)
	if arrived {
		return
	}
	g.Upgrading = true
	if !kubelet.IsZero() && version.Compare(kubelet, g.Oldest) == version.Less {
		g.Oldest = kubelet
	}
}

// unobservedPools are the pools, by topology name, whose controller has not seen the latest template, or not reported on the nodes that there are:
// what they report says nothing yet about an upgrade.
func unobservedPools(pools []*clusterv1.MachinePool) map[string]bool {
	unobserved := map[string]bool{}
	for _, mp := range pools {
		if mp.Status.ObservedGeneration < mp.Generation || len(mp.Status.Versions) == 0 && len(mp.Status.NodeRefs) > 0 {
			unobserved[mp.Labels[clusterv1.ClusterTopologyMachinePoolNameLabel]] = true
		}
	}
	return unobserved
}

// heldBack reads the annotations of a group in the topology that keep it back.
func heldBack(cluster *clusterv1.Cluster, key groupKey) (deferred, hold bool) {
	var metadata map[string]string
	for _, md := range cluster.Spec.Topology.Workers.MachineDeployments {
		if key.kind == plan.MachineDeployment && md.Name == key.topology {
			metadata = md.Metadata.Annotations
		}
	}
	for _, mp := range cluster.Spec.Topology.Workers.MachinePools {
		if key.kind == plan.MachinePool && mp.Name == key.topology {
			metadata = mp.Metadata.Annotations
		}
	}
	_, deferred = metadata[clusterv1.ClusterTopologyDeferUpgradeAnnotation]
	_, hold = metadata[clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation]
	return deferred, hold
}
