package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/snapshot"
)

// minSurgelessReplicas is how many replicas a KubeadmControlPlane must have before its webhook accepts maxSurge 0.
const minSurgelessReplicas = 3

// IsKubeadm reports whether the control plane is a KubeadmControlPlane, or nothing says that it is not.
func IsKubeadm(f Facts) bool {
	ref := f.Objects.Cluster.Spec.ControlPlaneRef
	switch {
	case f.Objects.ControlPlane != nil:
		return f.Objects.ControlPlane.GetKind() == "KubeadmControlPlane"
	case ref.IsDefined():
		return ref.Kind == "KubeadmControlPlane"
	case f.Class != nil && f.Class.Spec.ControlPlane.TemplateRef.Kind != "":
		return f.Class.Spec.ControlPlane.TemplateRef.Kind == "KubeadmControlPlaneTemplate"
	default:
		return true
	}
}

// Obstacle is why Cluster API replaces machines of a group that is to be updated in place without asking.
type Obstacle struct {
	Message string
	// Unknown says that it cannot be told whether it does.
	Unknown bool
}

// Obstacles returns the first obstacle of each group that has one, by the group's subject; one that is certain goes before
// one that is not.
func Obstacles(f Facts) map[string]Obstacle {
	groups := listGroups(f)
	obstacles := map[string]Obstacle{}
	for _, run := range []func(Facts, []group, *findings){checkReplicas, checkSurge} {
		into := &findings{}
		run(f, groups, into)
		for _, found := range into.list {
			before, known := obstacles[found.Subject]
			if found.Severity != OK && (!known || before.Unknown && !found.Unknown) {
				obstacles[found.Subject] = Obstacle{Message: found.Message, Unknown: found.Unknown}
			}
		}
	}
	return obstacles
}

// askProvider tells how to find out whether a provider asks the hooks.
const askProvider = "see that its provider asks the hook (CAPRKE2 does from v0.25), and that its manager runs with " +
	"--feature-gates=InPlaceUpdates=true; a provider that does not ask replaces machines, or upgrades them itself"

// hasAsked reports whether a provider has asked the hooks about a Machine of its control plane: the
// Machine has a decision, or a refusal.
func hasAsked(g group) bool {
	return slices.ContainsFunc(g.machines, func(m *clusterv1.Machine) bool {
		return len(record.DecisionsOf(m.Annotations)) > 0 ||
			meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.UpdateBlockedCondition)
	})
}

func checkReplicas(f Facts, groups []group, into *findings) {
	for _, g := range inPlace(groups) {
		if !g.ControlPlane {
			continue
		}
		replicas := snapshot.ControlPlaneReplicas(f.Objects)
		switch {
		case !IsKubeadm(f) && !hasAsked(g):
			into.unknown(g.Subject, askProvider,
				"it is unknown whether its provider asks the hook CanUpdateMachine: no Machine of it shows that it did")
		case !IsKubeadm(f):
			into.ok(g.Subject, "its provider has asked the hook CanUpdateMachine")
		case replicas == nil:
			into.unknown(g.Subject, fmt.Sprintf("see that it has %d replicas or more", minSurgelessReplicas), "its replicas are not known")
		case *replicas < minSurgelessReplicas:
			fix := fmt.Sprintf("scale it to %d or more and set maxSurge 0, or let its machines be replaced", minSurgelessReplicas)
			if g.selected.Guarded {
				fix = guard.ControlPlane{Kind: "KubeadmControlPlane", Replicas: int(*replicas), MaxSurge: 1}.Fix()
			}
			into.add(g.atRisk(), g.Subject, fix,
				"stock Cluster API cannot keep a control plane of %d: it adds a machine before it asks, because its webhook refuses maxSurge 0 below %d replicas%s",
				*replicas, minSurgelessReplicas, isStuck(f, g))
		default:
			into.ok(g.Subject, "%d replicas: maxSurge 0 is possible", *replicas)
		}
	}
}

func checkSurge(f Facts, groups []group, into *findings) {
	for _, g := range inPlace(groups) {
		if g.ControlPlane {
			checkControlPlaneSurge(f, g, into)
		} else {
			checkDeploymentSurge(f, g, into)
		}
	}
}

func checkControlPlaneSurge(f Facts, g group, into *findings) {
	if !IsKubeadm(f) {
		checkProviderSurge(f, g, into)
		return
	}
	if n := snapshot.ControlPlaneReplicas(f.Objects); n != nil && *n < minSurgelessReplicas {
		// CheckReplicas has said that no setting helps.
		return
	}
	const fix = "set spec.rollout.strategy.rollingUpdate.maxSurge of the KubeadmControlPlane to 0 (in the template of its ClusterClass, where it has one)"
	if f.Objects.ControlPlane == nil && f.ControlPlaneTemplate == nil {
		into.unknown(g.Subject, fix, "its maxSurge is unknown: there is no control plane object and no template")
		return
	}
	surge := "1 (the default)"
	if value := controlPlaneSurge(f); value != nil {
		surge = fmt.Sprint(value)
	}
	if surge == "0" {
		into.ok(g.Subject, "maxSurge is 0")
		return
	}
	into.add(g.atRisk(), g.Subject, fix, "maxSurge is %s: Cluster API creates a machine before it asks, and deletes one in the end%s%s", surge, refusedBy(g), isStuck(f, g))
}

// isStuck says that the control plane is stuck now; empty if it is not.
func isStuck(f Facts, g group) string {
	if f.Objects.ControlPlane == nil {
		return ""
	}
	to := capi.VersionAt(f.Objects.ControlPlane, "spec", "version")
	if _, ok := snapshot.Stuck(f.Objects, g.selected, to); !ok {
		return ""
	}
	return fmt.Sprintf("; it is stuck now on its way to %s", to)
}

func controlPlaneSurge(f Facts) any {
	return controlPlaneField(f, "rollout.strategy.rollingUpdate.maxSurge", "rolloutStrategy.rollingUpdate.maxSurge")
}

// checkProviderSurge looks for maxSurge where other providers keep it. One that has no such field, or
// does not set it, may have any default.
func checkProviderSurge(f Facts, g group, into *findings) {
	const fix = "set maxSurge 0 in the rollout strategy of the control plane, if its provider has that field"
	switch value := controlPlaneSurge(f); {
	case value == nil && !hasAsked(g):
	case value == nil:
		into.unknown(g.Subject, fix, "its maxSurge is not set: its provider may create a machine before it asks")
	case fmt.Sprint(value) == "0":
		into.ok(g.Subject, "maxSurge is 0")
	default:
		into.add(g.atRisk(), g.Subject, fix,
			"maxSurge is %v: its provider creates a machine before it asks, and deletes one in the end%s%s",
			value, refusedBy(g), isStuck(f, g))
	}
}

// refusedBy says what becomes of replacements in a guarded group.
func refusedBy(g group) string {
	if g.selected.Guarded {
		return "; the guard refuses that, so that nothing is updated"
	}
	return ""
}

// strategy is what a MachineDeployment's rollout is bounded by; nil fields have Cluster API's
// defaults.
type strategy struct {
	maxSurge, maxUnavailable *intstr.IntOrString
	replicas                 int32
}

// deploymentStrategy reads the object, or what Cluster API will create.
func deploymentStrategy(g group) strategy {
	md := g.Deployment()
	s := md.Spec.Rollout.Strategy.RollingUpdate
	return strategy{
		maxSurge: s.MaxSurge, maxUnavailable: s.MaxUnavailable,
		replicas: *cmp.Or(md.Spec.Replicas, new(int32(1))),
	}
}

func checkOnDelete(f Facts, g group, fix string, into *findings) {
	if g.selected.UpdateOnDelete && f.Engine == v1alpha1.EngineManager {
		into.ok(g.Subject, "its rollout strategy is OnDelete, "+
			"and the UpdatePolicy has windlass manager update its machines in place")
		return
	}
	if f.Engine == v1alpha1.EngineManager {
		fix += "; or onDelete InPlace in the UpdatePolicy"
	}
	into.add(g.atRisk(), g.Subject, fix,
		"its rollout strategy is OnDelete: "+
			"Cluster API never asks, and replaces a machine when somebody deletes it")
}

func checkDeploymentSurge(f Facts, g group, into *findings) {
	const field = "rollout.strategy (in the Cluster's topology, its ClusterClass or the MachineDeployment)"
	if g.MachineDeployment == nil && g.InTopology.Rollout.Strategy.Type == "" && g.InClass == nil {
		into.unknown(g.Subject, "give its ClusterClass", "its rollout strategy is unknown: the MachineDeployment and its class in the ClusterClass are missing")
		return
	}
	if g.IsOnDelete() {
		checkOnDelete(f, g, "set the type RollingUpdate in "+field, into)
		return
	}
	s := deploymentStrategy(g)
	budget, err := pool.Resolve(
		s.replicas, cmp.Or(s.maxSurge, new(intstr.FromInt32(1))), s.maxUnavailable)
	fix := "set maxSurge 0 and maxUnavailable 1 or more in " + field
	switch {
	case err != nil:
		into.add(Error, g.Subject, fix, "its rollout strategy cannot be read: %v", err)
	case budget.Surge > 0 && g.selected.Guarded && f.Engine == v1alpha1.EngineManager:
		// The rules for groups whose Machines are kept never make a spare Machine.
		into.ok(g.Subject, "maxSurge is %s, and windlass manager creates no machine for it",
			describe(s.maxSurge, budget.Surge, 1))
	case budget.Surge > 0:
		into.add(g.atRisk(), g.Subject, fix,
			"maxSurge is %s: Cluster API may create a machine, and deletes one in the end%s",
			describe(s.maxSurge, budget.Surge, 1), refusedBy(g))
	default:
		into.ok(g.Subject, "maxSurge is 0, maxUnavailable %s",
			describe(s.maxUnavailable, budget.Unavailable, 0))
	}
}

// describe returns what a limit is set to, and the number of machines that it counts as.
func describe(value *intstr.IntOrString, counts, unset int32) string {
	text, n := fmt.Sprintf("%d (the default)", unset), unset
	if value != nil {
		text, n = value.String(), value.IntVal
	}
	switch {
	case value != nil && value.Type == intstr.String:
		return fmt.Sprintf("%s, which is %d", text, counts)
	case n != counts:
		return fmt.Sprintf("%s, which counts as %d", text, counts)
	default:
		return text
	}
}

func checkRollout(f Facts, groups []group, into *findings) {
	for _, g := range inPlace(groups) {
		found := false
		if days := certificateDays(f, g); days > 0 {
			found = true
			into.add(g.atRisk(), g.Subject, "remove spec.rollout.before, and renew certificates on the machines",
				"spec.rollout.before is set: %d days before a machine's certificates expire Cluster API replaces it without asking%s", days, refusedBy(g))
		}
		if after := rolloutAfter(f, g); !after.IsZero() && stillToCome(after, f.Now, g.machines) {
			found = true
			into.add(g.atRisk(), g.Subject, "remove the time (rollout.after)",
				"rollout.after is %s: from then on Cluster API replaces older machines without asking%s", after.UTC().Format(time.RFC3339), refusedBy(g))
		}
		if !found {
			into.ok(g.Subject, "no rollout time is set")
		}
	}
}

// stillToCome reports whether a time lies ahead, or some machine is older than it.
func stillToCome(after, now time.Time, machines []*clusterv1.Machine) bool {
	return after.After(now) || slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool { return m.CreationTimestamp.Time.Before(after) })
}

func certificateDays(f Facts, g group) int64 {
	if !g.ControlPlane {
		return 0
	}
	days, _ := controlPlaneField(f, "rollout.before.certificatesExpiryDays", "rolloutBefore.certificatesExpiryDays").(int64)
	return days
}

// controlPlaneField returns a field of the control plane's spec, or of its template's where there is no object: the first
// path is that of v1beta2, the second that of v1beta1. It is nil where neither is there.
func controlPlaneField(f Facts, paths ...string) any {
	object, prefix := f.Objects.ControlPlane, []string{"spec"}
	if object == nil {
		object, prefix = f.ControlPlaneTemplate, []string{"spec", "template", "spec"}
	}
	if object == nil {
		return nil
	}
	for _, path := range paths {
		value, found, err := unstructured.NestedFieldNoCopy(object.Object, slices.Concat(prefix, strings.Split(path, "."))...)
		if err == nil && found {
			return value
		}
	}
	return nil
}

// rolloutAfter is the latest of the times that the objects and the topology have.
func rolloutAfter(f Facts, g group) time.Time {
	var times []metav1.Time
	if g.ControlPlane {
		times = append(times, f.Objects.Cluster.Spec.Topology.ControlPlane.Rollout.After)
		text, _ := controlPlaneField(f, "rollout.after", "rolloutAfter").(string)
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			times = append(times, metav1.NewTime(t))
		}
	}
	if g.MachineDeployment != nil {
		times = append(times, g.MachineDeployment.Spec.Rollout.After)
	}
	if g.InTopology != nil {
		times = append(times, g.InTopology.Rollout.After)
	}
	var latest time.Time
	for _, t := range times {
		if t.After(latest) {
			latest = t.Time
		}
	}
	return latest
}

// Surgeless is [snapshot.Surgeless] with the control plane's policy; ok is false if nobody knows which counts.
func (f Facts) Surgeless() (found snapshot.Failure, fatal, ok bool) {
	for _, g := range listGroups(f) {
		if g.ControlPlane && g.err == nil {
			return snapshot.Surgeless(f.Objects, g.selected)
		}
	}
	return snapshot.Failure{}, false, false
}
