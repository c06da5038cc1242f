package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/simulate/scenario"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// readControlPlane reads a control plane object of the kubeadm provider, or of one with the same fields. What it does not say is a
// KubeadmControlPlane's default. Without an object, its class's template says some of it; template may be nil.
func readControlPlane(o snapshot.Objects, template *unstructured.Unstructured) (scenario.ControlPlane, error) {
	into := scenario.ControlPlane{Replicas: new(1)}
	if n := o.Cluster.Spec.Topology.ControlPlane.Replicas; n != nil {
		into.Replicas = new(int(*n))
	}
	into.FailureDomains = domains(machinesOf(o.Machines, clusterv1.MachineControlPlaneLabel, nil))
	if len(into.FailureDomains) == 0 {
		for _, d := range o.Cluster.Status.FailureDomains {
			if d.ControlPlane != nil && *d.ControlPlane {
				into.FailureDomains = append(into.FailureDomains, d.Name)
			}
		}
		slices.Sort(into.FailureDomains)
	}
	if o.ControlPlane == nil {
		if template == nil {
			return into, nil
		}
		var err error
		into.MaxSurge, err = controlPlaneSurge(template, *into.Replicas, "spec", "template", "spec")
		return into, err
	}
	ref := snapshot.Ref{Object: o.ControlPlane, Kind: o.ControlPlane.GetKind(), Field: "spec.replicas"}
	n, found, err := unstructured.NestedInt64(o.ControlPlane.Object, "spec", "replicas")
	if err != nil {
		return into, &snapshot.FieldError{Ref: ref, Problem: "it must be a whole number", Err: err}
	}
	if found {
		into.Replicas = new(int(n))
	}
	into.MaxSurge, err = controlPlaneSurge(o.ControlPlane, *into.Replicas, "spec")
	return into, err
}

// isGuarded reports whether a policy of the scenario forbids to replace machines.
func (r *reader) isGuarded(policy string) bool {
	p := r.policies[policy]
	return p != nil && p.selected.Guarded
}

// keepControlPlaneSurge writes down the maxSurge of a control plane that is updated in place: a scenario's default is another one than Cluster API's.
// Without an object and a template nothing is known of it. A guarded control plane that gets a machine more is blocked.
func (r *reader) keepControlPlaneSurge(c Cluster, g snapshot.UpdateGroup, into *scenario.ControlPlane) {
	if into.Policy == "" {
		return
	}
	if c.Objects.ControlPlane != nil || c.ControlPlaneTemplate != nil {
		into.MaxSurge = cmp.Or(into.MaxSurge, new(1))
	}
	switch guarded := r.isGuarded(into.Policy); {
	case guarded && *into.Replicas < scenario.MinSurgelessReplicas:
		r.block(c, g, scenario.FewReplicas(*into.Replicas)+fmt.Sprintf("; scale it to %d or more and set maxSurge 0, or let its machines be replaced", scenario.MinSurgelessReplicas))
	case guarded && into.MaxSurge != nil && *into.MaxSurge > 0:
		r.block(c, g, scenario.SurgeBlocks(*into.MaxSurge)+". Fix: set maxSurge 0")
	}
}

// keepSurge does the same for a MachineDeployment, which its class or its topology describes where there is no object.
func (r *reader) keepSurge(c Cluster, g snapshot.UpdateGroup, into *scenario.Pool) {
	if into.Policy == "" {
		return
	}
	if updatesOnDelete(c, g) {
		// Such a group has no maxUnavailable. The maxInFlight of its policy takes the place.
		most := min(int(r.policies[into.Policy].selected.MaxInFlight), into.Replicas)
		into.MaxSurge, into.MaxUnavailable = new(intstr.FromInt32(0)), new(intstr.FromInt(most))
		return
	}
	if g.MachineDeployment != nil || g.InClass != nil || g.InTopology.Rollout.Strategy.Type != "" {
		into.MaxSurge, into.MaxUnavailable = cmp.Or(into.MaxSurge, new(intstr.FromInt32(1))), cmp.Or(into.MaxUnavailable, new(intstr.FromInt32(0)))
	}
	if !r.isGuarded(into.Policy) || into.MaxSurge == nil {
		return
	}
	// What cannot be understood is told when the scenario is translated.
	n, err := intstr.GetScaledValueFromIntOrPercent(into.MaxSurge, into.Replicas, true)
	switch {
	case err != nil || n == 0:
	case c.Engine == v1alpha1.EngineManager:
		// The rules for groups whose Machines are kept make no spare Machine, and update at least
		// one at a time: with other numbers, those of a group without maxSurge.
		into.MaxSurge = new(intstr.FromInt32(0))
	default:
		r.block(c, g, scenario.SurgeBlocks(n)+". Fix: set maxSurge 0 and maxUnavailable 1 or more")
	}
}

// block notes why the upgrade does not end.
func (r *reader) block(c Cluster, g snapshot.UpdateGroup, why string) {
	r.blocked = append(r.blocked, fmt.Sprintf("%s: blocked: %s", subject(c, g), why))
}

// controlPlaneSurge reads maxSurge where v1beta2 of the kubeadm provider has it, or v1beta1, below the path of the control plane's spec; nil where it
// is in neither place. A control plane that Cluster API refuses is an error.
func controlPlaneSurge(object *unstructured.Unstructured, replicas int, spec ...string) (*int, error) {
	for _, below := range [][]string{{"rollout", "strategy", "rollingUpdate", "maxSurge"}, {"rolloutStrategy", "rollingUpdate", "maxSurge"}} {
		path := slices.Concat(spec, below)
		value, found, err := unstructured.NestedFieldNoCopy(object.Object, path...)
		if err != nil || !found {
			continue
		}
		ref := snapshot.Ref{Object: object, Kind: object.GetKind(), Field: strings.Join(path, ".")}
		surge := intstr.Parse(fmt.Sprint(value))
		resolved, err := intstr.GetScaledValueFromIntOrPercent(&surge, replicas, true)
		if err != nil {
			return nil, &snapshot.FieldError{Ref: ref, Problem: "it must be 0 or 1", Err: err}
		}
		if resolved == 0 && replicas < scenario.MinSurgelessReplicas {
			return nil, &snapshot.FieldError{Ref: ref, Problem: fmt.Sprintf("it is 0 and there are %d replicas, but Cluster API refuses maxSurge 0 below %d. Fix: set it to 1, or have more replicas",
				replicas, scenario.MinSurgelessReplicas)}
		}
		return new(resolved), nil
	}
	return nil, nil //nolint:nilnil // Documented: it is not there.
}

// deployment reads a MachineDeployment; where there is none yet, what its topology and class say.
func (r *reader) deployment(c Cluster, g snapshot.UpdateGroup) scenario.Pool {
	group := groupOf(c.Request.Inventory, g.Name)
	into := scenario.Pool{Name: g.Name, Version: group.Version.String(), Replicas: 1}
	if n := g.InTopology.Replicas; n != nil {
		into.Replicas = int(*n)
	}
	machines := machinesOf(c.Objects.Machines, clusterv1.ClusterTopologyMachineDeploymentNameLabel, &g.Topology)
	into.FailureDomains = domains(machines)
	surge, unavailable := g.InTopology.Rollout.Strategy.RollingUpdate.MaxSurge, g.InTopology.Rollout.Strategy.RollingUpdate.MaxUnavailable
	domain := g.InTopology.FailureDomain
	if class := g.InClass; class != nil {
		rolling := class.Rollout.Strategy.RollingUpdate
		surge, unavailable, domain = cmp.Or(surge, rolling.MaxSurge), cmp.Or(unavailable, rolling.MaxUnavailable), cmp.Or(domain, class.FailureDomain)
	}
	if md := g.MachineDeployment; md != nil {
		if md.Spec.Replicas != nil {
			into.Replicas = int(*md.Spec.Replicas)
		}
		strategy := md.Spec.Rollout.Strategy
		surge, unavailable, domain = strategy.RollingUpdate.MaxSurge, strategy.RollingUpdate.MaxUnavailable, md.Spec.Template.Spec.FailureDomain
		setLagging(&into, md.Spec.Template.Spec.Version, group.Version, machines, md.Status.Versions)
	}
	into.MaxSurge, into.MaxUnavailable = surge, unavailable
	if len(into.FailureDomains) == 0 && domain != "" {
		into.FailureDomains = []string{domain}
	}
	if g.IsOnDelete() && !updatesOnDelete(c, g) {
		r.note("%s has the strategy OnDelete, so that its machines wait for a person; it is simulated as if it were RollingUpdate", subject(c, g))
	}
	return into
}

// machinePools reads the MachinePools of a topology.
func (r *reader) machinePools(c Cluster) []scenario.Pool {
	var pools []scenario.Pool
	for _, group := range c.Request.Inventory.Groups {
		if group.Kind != plan.MachinePool {
			continue
		}
		topology := strings.TrimPrefix(group.Name, string(plan.MachinePool)+"/")
		into := scenario.Pool{Name: group.Name, Kind: string(plan.MachinePool), Version: group.Version.String(), Replicas: 1, MaxMinorStep: int(group.MaxMinorStep)}
		for _, t := range c.Objects.Cluster.Spec.Topology.Workers.MachinePools {
			if t.Name == topology {
				into.Replicas = int(*cmp.Or(t.Replicas, new(int32(1))))
				into.FailureDomains = slices.Clone(t.FailureDomains)
			}
		}
		machines := machinesOf(c.Objects.Machines, clusterv1.ClusterTopologyMachinePoolNameLabel, &topology)
		for _, mp := range c.Objects.MachinePools {
			if mp.Labels[clusterv1.ClusterTopologyMachinePoolNameLabel] != topology {
				continue
			}
			if mp.Spec.Replicas != nil {
				into.Replicas = int(*mp.Spec.Replicas)
			}
			if len(mp.Spec.FailureDomains) > 0 {
				into.FailureDomains = slices.Clone(mp.Spec.FailureDomains)
			}
			setLagging(&into, mp.Spec.Template.Spec.Version, group.Version, machines, mp.Status.Versions)
		}
		r.note("how the provider of MachinePool %s rolls out is not known; its machines are taken to be replaced as a MachineDeployment's are by default", topology)
		pools = append(pools, into)
	}
	return pools
}

// setLagging notes machines that are older than the template asks for. All of them are taken to be as old as the oldest.
func setLagging(into *scenario.Pool, template string, oldest version.Version, machines []*clusterv1.Machine, reported []clusterv1.StatusVersion) {
	wanted, err := version.Parse(template)
	if err != nil || version.Compare(oldest, wanted) != version.Less {
		return
	}
	lagging := 0
	for _, m := range machines {
		if !runs(m, wanted) {
			lagging++
		}
	}
	if len(machines) == 0 {
		for _, r := range reported {
			if v, err := version.Parse(r.Version); err == nil && !wanted.RunBy(v) {
				lagging += int(r.Replicas)
			}
		}
	}
	lagging = min(lagging, into.Replicas)
	if lagging == 0 {
		if len(machines) > 0 {
			// What the object reports is older than its machines.
			into.Version = wanted.String()
		}
		return
	}
	into.Version, into.Oldest, into.Lagging = wanted.String(), oldest.String(), lagging
}

func runs(m *clusterv1.Machine, wanted version.Version) bool {
	v, err := version.Parse(capi.ReportedVersion(m).Version)
	return err != nil || wanted.RunBy(v)
}

// machinesOf returns the Machines that have a label, with a value unless that is nil.
func machinesOf(machines []*clusterv1.Machine, label string, value *string) []*clusterv1.Machine {
	return slices.DeleteFunc(slices.Clone(machines), func(m *clusterv1.Machine) bool {
		got, ok := m.Labels[label]
		return !ok || value != nil && got != *value
	})
}

// domains are the failure domains of Machines, sorted.
func domains(machines []*clusterv1.Machine) []string {
	var found []string
	for _, m := range machines {
		if m.Spec.FailureDomain != "" {
			found = append(found, m.Spec.FailureDomain)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
