package status

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// ControlPlaneGroup is the name of the group that a control plane is.
const ControlPlaneGroup = "control plane"

// Compute reports on a cluster. now decides nothing but whether an update is late.
func Compute(f Facts, now time.Time) Report {
	r := Report{
		Namespace: f.Cluster.Namespace, Cluster: f.Cluster.Name,
		ManagerSilentSince: f.Rollouts.SilentSince.UTC(),
	}
	groups := listGroups(f)
	records := make(map[string]machineRecord, len(f.Machines))
	for _, m := range f.Machines {
		records[m.Name] = readRecord(m)
	}
	durations := measureDurations(records)
	for _, d := range durations {
		r.Durations = append(r.Durations, d)
	}
	slices.SortFunc(r.Durations, func(a, b Duration) int { return strings.Compare(a.Updater, b.Updater) })

	offSpecs := listOffSpecs(f, groups)
	r.OffSpec = slices.SortedFunc(maps.Values(offSpecs), func(a, b OffSpec) int { return strings.Compare(a.Machine, b.Machine) })
	machines := slices.SortedFunc(slices.Values(f.Machines), func(a, b *clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) })
	for _, m := range machines {
		g := groups.of(m)
		rec := records[m.Name]
		_, offSpec := offSpecs[m.Name]
		state := computeState(m, rec, g, offSpec)
		g.Machines++
		g.Count[state]++
		g.members = append(g.members, m)
		if g.Name != "" {
			r.Machines = append(r.Machines, Machine{
				Name: m.Name, Group: g.Name, State: state, Version: m.Spec.Version,
				Runs: capi.Kubelet(m), Motion: motionOf(m, state),
			})
		}
		if slices.Contains([]State{Marked, Queued, Updating, Finished, Failed, Unreadable}, state) {
			r.Updates = append(r.Updates, computeUpdate(m, rec, state, g, durations, now))
		}
		r.Deletions = appendDeletion(r.Deletions, m, g.Name)
		for _, d := range rec.dirty {
			r.Dirty = append(r.Dirty, Dirty{Machine: m.Name, Group: g.Name, Pointer: d.Pointer, Since: d.Since})
		}
		r.Problems = append(r.Problems, rec.problems...)
		for _, b := range appendBlocked(nil, "Machine", m.Name, g.Name, m.Status.Conditions) {
			if standsStill(b, rec.progress) {
				r.Blocked = append(r.Blocked, b)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		g.Missing = max(0, g.replicas-(g.Machines-g.Count[Deleting]))
		g.Rollout = computeRollout(f, g, now)
		g.Waits = describeWaits(f, g, now)
		r.Groups = append(r.Groups, g.Group)
		r.Blocked = appendBlocked(r.Blocked, g.Kind, g.Object, g.Name, g.conditions)
	}
	var problems []Problem
	r.InPlace, problems = ComputeInPlace(f, now)
	r.Problems = append(r.Problems, problems...)
	sortReport(&r)
	if f.Upgrade != nil && f.Cluster.Spec.Topology.IsDefined() {
		r.Chain = new(computeChain(f, records, now))
	}
	return r
}

// sortReport puts what belongs to groups in the order of the groups. Names are in order already.
func sortReport(r *Report) {
	order := make(map[string]int, len(r.Groups))
	for i, g := range r.Groups {
		order[g.Name] = i
	}
	byGroup := func(a, b string) int { return cmp.Compare(order[a], order[b]) }
	slices.SortStableFunc(r.Machines, func(a, b Machine) int { return byGroup(a.Group, b.Group) })
	slices.SortStableFunc(r.Updates, func(a, b Update) int { return byGroup(a.Group, b.Group) })
	slices.SortStableFunc(r.OffSpec, func(a, b OffSpec) int { return byGroup(a.Group, b.Group) })
	slices.SortStableFunc(r.Deletions, func(a, b Deletion) int { return byGroup(a.Group, b.Group) })
	slices.SortStableFunc(r.Blocked, func(a, b Blocked) int {
		return cmp.Or(byGroup(a.Group, b.Group), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(r.Dirty, func(a, b Dirty) int {
		return cmp.Or(byGroup(a.Group, b.Group), strings.Compare(a.Machine, b.Machine),
			strings.Compare(string(a.Part), string(b.Part)), strings.Compare(a.Path, b.Path))
	})
}

// groupKey is how a Machine finds its group: the name of its MachineDeployment, empty for the control plane, which
// therefore comes first.
type groupKey string

// groupFacts are a group's part of the report, and what else is known about the group.
type groupFacts struct {
	Group
	// desired is the version that the group's owner desires, as it is written there.
	desired    string
	conditions []metav1.Condition
	owner      metav1.Object
	// unobserved says that the owner has changed since its controller wrote its status, so what Machines say of
	// being up to date is about an older state.
	unobserved bool
	// replicas is how many machines the group should have; 0 where it does not say.
	replicas int
	// selected is the policy that counts, and members are the group's Machines, by name.
	selected policy.Policy
	members  []*clusterv1.Machine
}

type groupsByKey map[groupKey]*groupFacts

// of returns the group of a Machine. One that belongs to none that was given, such as a Machine by itself, gets one of its
// own, which nobody shows.
func (g groupsByKey) of(m *clusterv1.Machine) *groupFacts {
	owner, _ := capi.OwnerOf(m)
	switch {
	case capi.IsControlPlane(m) && g[""] != nil:
		return g[""]
	case owner.IsMachineDeployment() && g[groupKey(owner.Name)] != nil:
		return g[groupKey(owner.Name)]
	}
	return &groupFacts{Group: Group{Count: make(map[State]int)}}
}

// controlPlaneReplicas returns how many Machines the control plane should have; given is false if its
// object does not say. A control plane that runs elsewhere, such as in Pods, has none: its object says
// so by Cluster API's contract.
func controlPlaneReplicas(f Facts) (n int, given bool) {
	fields := f.ControlPlane.Object
	if hosted, _, err := unstructured.NestedBool(fields, "status", "externalManagedControlPlane"); err == nil && hosted {
		return 0, true
	}
	replicas, given, err := unstructured.NestedInt64(fields, "spec", "replicas")
	if err != nil || !given {
		return 0, false
	}
	return int(replicas), true
}

func listGroups(f Facts) groupsByKey {
	groups, policies := groupsByKey{}, policy.CompileAll(f.Policies)
	if f.ControlPlane != nil {
		// What has another shape says nothing.
		desired, _, _ := unstructured.NestedString(f.ControlPlane.Object, "spec", "version")
		replicas, _ := controlPlaneReplicas(f)
		observed, reports, _ := unstructured.NestedInt64(f.ControlPlane.Object, "status", "observedGeneration")
		report, selected := selectPolicy(policies, snapshot.ControlPlaneGroup(f.Cluster, f.ControlPlane))
		groups[""] = &groupFacts{
			Group: Group{
				Name: ControlPlaneGroup, Kind: f.ControlPlane.GetKind(), Object: f.ControlPlane.GetName(),
				Count: make(map[State]int), Policy: report,
			},
			desired: desired, conditions: capi.Conditions(f.ControlPlane), owner: f.ControlPlane, replicas: replicas,
			selected: selected, unobserved: reports && observed < f.ControlPlane.GetGeneration(),
		}
	}
	for _, md := range f.MachineDeployments {
		replicas := 0
		if md.Spec.Replicas != nil {
			replicas = int(*md.Spec.Replicas)
		}
		report, selected := policyOf(f, policies, md)
		groups[groupKey(md.Name)] = &groupFacts{
			Group: Group{
				Name: cmp.Or(md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel], md.Name),
				Kind: "MachineDeployment", Object: md.Name,
				Count: make(map[State]int), Policy: report,
			},
			selected: selected, unobserved: md.Status.ObservedGeneration < md.Generation,
			desired: md.Spec.Template.Spec.Version, conditions: md.Status.Conditions,
			owner: md, replicas: replicas,
		}
	}
	return groups
}

func appendBlocked(list []Blocked, kind, name, group string, conditions []metav1.Condition) []Blocked {
	c := meta.FindStatusCondition(conditions, v1alpha1.UpdateBlockedCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return list
	}
	return append(list, Blocked{
		Kind: kind, Name: name, Group: group, Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.UTC(),
	})
}
