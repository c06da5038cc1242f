package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// topologyGroup is one item of cluster.spec.topology.workers.
type topologyGroup struct {
	groupKey
	// name is unique in the inventory.
	name, field string
}

// groupObject is what is read of a MachineDeployment or MachinePool.
type groupObject struct {
	ref Ref
	// template is spec.template.spec.version, reported is status.versions.
	template string
	reported []clusterv1.StatusVersion
	// replicas is how many machines a MachineDeployment should have.
	replicas int32
	// label is the name of its topology, empty for one that is not part of a topology.
	label string
}

// groupKey is how an object finds its item of the topology, by the name that it has there.
type groupKey struct {
	kind     plan.GroupKind
	topology string
}

func readGroups(s *State, o Objects, overrides []plan.Group) error {
	groups, err := topologyGroups(o.Cluster)
	if err != nil {
		return err
	}
	objects, unmanaged, err := groupObjects(o)
	if err != nil {
		return err
	}
	machines := machineVersions(o.Machines)
	for _, g := range groups {
		key := g.groupKey
		group := plan.Group{Name: g.name, Kind: g.kind, Version: s.Inventory.ControlPlane}
		ref := Ref{Object: o.Cluster, Kind: "Cluster", Field: g.field}
		overridden, err := applyOverride(&group, overrides, ref)
		if err != nil {
			return err
		}
		if object, exists := objects[key]; exists && !overridden {
			if group.Version, ref, err = groupVersion(object, machines[key]); err != nil {
				return err
			}
		}
		delete(objects, key)
		if !overridden {
			s.Refs[plan.GroupItem(g.name)] = ref
		}
		s.Inventory.Groups = append(s.Inventory.Groups, group)
	}
	for _, object := range objects {
		unmanaged = append(unmanaged, object.ref.Kind+" "+objectName(object.ref.Object))
	}
	slices.Sort(unmanaged)
	s.Unmanaged = unmanaged
	return checkOverrides(o.Cluster, groups, overrides)
}

// topologyGroups lists the topology's groups in their order. A MachinePool may have the name of a MachineDeployment; then
// its name in the inventory is "MachinePool/NAME".
func topologyGroups(cluster *clusterv1.Cluster) ([]topologyGroup, error) {
	var groups []topologyGroup
	taken := map[groupKey]bool{}
	add := func(kind plan.GroupKind, list string, index int, topology string) error {
		g := topologyGroup{
			groupKey: groupKey{kind: kind, topology: topology}, name: topology,
			field: fmt.Sprintf("spec.topology.workers.%s[%d].name", list, index),
		}
		ref := Ref{Object: cluster, Kind: "Cluster", Field: g.field}
		if problems := validation.IsDNS1123Subdomain(topology); len(problems) > 0 {
			return &FieldError{Ref: ref, Problem: fmt.Sprintf("%q is not a name: %s", topology, strings.Join(problems, ", "))}
		}
		if taken[g.groupKey] {
			return &FieldError{Ref: ref, Problem: fmt.Sprintf("%q stands twice. Fix: give each group a name of its own", topology)}
		}
		taken[g.groupKey] = true
		if kind == plan.MachinePool && taken[groupKey{kind: plan.MachineDeployment, topology: topology}] {
			g.name = string(kind) + "/" + topology
		}
		groups = append(groups, g)
		return nil
	}
	for i, md := range cluster.Spec.Topology.Workers.MachineDeployments {
		if err := add(plan.MachineDeployment, "machineDeployments", i, md.Name); err != nil {
			return nil, err
		}
	}
	for i, mp := range cluster.Spec.Topology.Workers.MachinePools {
		if err := add(plan.MachinePool, "machinePools", i, mp.Name); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// groupObjects indexes what exists by its topology, and names what is not part of one.
func groupObjects(o Objects) (managed map[groupKey]groupObject, unmanaged []string, err error) {
	managed = map[groupKey]groupObject{}
	add := func(kind plan.GroupKind, g groupObject) error {
		if g.label == "" {
			unmanaged = append(unmanaged, g.ref.Kind+" "+objectName(g.ref.Object))
			return nil
		}
		key := groupKey{kind: kind, topology: g.label}
		if other, twice := managed[key]; twice {
			return &FieldError{
				Ref:     Ref{Object: g.ref.Object, Kind: g.ref.Kind, Field: "metadata.labels"},
				Problem: fmt.Sprintf("it belongs to the topology's %q, and so does %s; only one may", g.label, objectName(other.ref.Object)),
			}
		}
		managed[key] = g
		return nil
	}
	for _, md := range o.MachineDeployments {
		g := newGroupObject(plan.MachineDeployment, md, clusterv1.ClusterTopologyMachineDeploymentNameLabel)
		g.template, g.reported = md.Spec.Template.Spec.Version, md.Status.Versions
		g.replicas = 1
		if md.Spec.Replicas != nil {
			g.replicas = *md.Spec.Replicas
		}
		if err := add(plan.MachineDeployment, g); err != nil {
			return nil, nil, err
		}
	}
	for _, mp := range o.MachinePools {
		g := newGroupObject(plan.MachinePool, mp, clusterv1.ClusterTopologyMachinePoolNameLabel)
		g.template, g.reported = mp.Spec.Template.Spec.Version, mp.Status.Versions
		if err := add(plan.MachinePool, g); err != nil {
			return nil, nil, err
		}
	}
	return managed, unmanaged, nil
}

func newGroupObject(kind plan.GroupKind, object metav1.Object, label string) groupObject {
	return groupObject{
		ref:   Ref{Object: object, Kind: string(kind), Field: "spec.template.spec.version"},
		label: object.GetLabels()[label],
	}
}

// groupVersion returns the version that a plan starts a group from, and where it was read.
func groupVersion(g groupObject, machines []reportedVersion) (version.Version, Ref, error) {
	var template version.Version
	if g.template != "" {
		var err error
		if template, err = parseField(g.ref, g.template); err != nil {
			return version.Version{}, Ref{}, err
		}
	}
	reported := make([]reportedVersion, 0, len(g.reported))
	for i, r := range g.reported {
		field := g.ref
		field.Field = fmt.Sprintf("status.versions[%d].version", i)
		reported = append(reported, reportedVersion{ref: field, version: r.Version})
	}
	if len(reported) == 0 {
		reported = machines
	}
	versions := make([]string, len(reported))
	for i, r := range reported {
		versions[i] = r.version
	}
	oldest, at := capi.PlannedVersion(template, versions)
	switch {
	case oldest.IsZero():
		return oldest, Ref{}, &FieldError{Ref: g.ref, Problem: "it is missing, so nothing says which version the group has"}
	case at >= 0:
		return oldest, reported[at].ref, nil
	default:
		return oldest, g.ref, nil
	}
}

// reportedVersion is a version that something reports about itself.
type reportedVersion struct {
	ref     Ref
	version string
}

// keyOf returns the group of the topology that an object belongs to.
func keyOf(object metav1.Object) groupKey {
	in := capi.InTopologyOf(object)
	if in.Pool {
		return groupKey{kind: plan.MachinePool, topology: in.Name}
	}
	return groupKey{kind: plan.MachineDeployment, topology: in.Name}
}

// machineVersions lists what each group's machines run: what the kubelet says, else what the machine was made for.
func machineVersions(machines []*clusterv1.Machine) map[groupKey][]reportedVersion {
	sorted := slices.SortedFunc(slices.Values(machines), func(a, b *clusterv1.Machine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	versions := map[groupKey][]reportedVersion{}
	for _, m := range sorted {
		key := keyOf(m)
		r := capi.ReportedVersion(m)
		reported := reportedVersion{ref: Ref{Object: m, Kind: "Machine", Field: r.Field}, version: r.Version}
		if key.topology != "" && reported.version != "" {
			versions[key] = append(versions[key], reported)
		}
	}
	return versions
}

// applyOverride replaces what an override of the group says, and reports whether that is its version.
func applyOverride(group *plan.Group, overrides []plan.Group, ref Ref) (overridden bool, err error) {
	i := slices.IndexFunc(overrides, func(o plan.Group) bool { return o.Name == group.Name })
	if i < 0 {
		return false, nil
	}
	override := overrides[i]
	if override.Kind != "" && override.Kind != group.Kind {
		return false, &FieldError{Ref: ref, Problem: fmt.Sprintf("%q is a %s here and was given as a %s", group.Name, group.Kind, override.Kind)}
	}
	group.MaxMinorStep = override.MaxMinorStep
	if override.Version.IsZero() {
		return false, nil
	}
	group.Version = override.Version
	return true, nil
}

// checkOverrides refuses overrides of groups that the topology does not have: they are slips of the pen.
func checkOverrides(cluster *clusterv1.Cluster, groups []topologyGroup, overrides []plan.Group) error {
	names := make([]string, 0, len(groups))
	for _, g := range groups {
		names = append(names, g.name)
	}
	for _, o := range overrides {
		if !slices.Contains(names, o.Name) {
			return &FieldError{
				Ref:     Ref{Object: cluster, Kind: "Cluster", Field: "spec.topology.workers"},
				Problem: fmt.Sprintf("there is no group %q to override; the groups are %q", o.Name, names),
			}
		}
	}
	return nil
}
