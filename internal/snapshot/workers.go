package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/text"
)

// Limits of a rollout of workers, beside LongHold.
const (
	// slowMachine is how long a new Machine may lack its infrastructure or its Node.
	slowMachine = time.Hour
	// longLoop is how long no new Machine may become Ready while MachineHealthChecks delete Machines.
	longLoop = 4 * time.Hour
	// attempts are how many Machines a MachineHealthCheck must have had the time to delete: the first
	// one may be an exception. loopAttempts are those without a Machine that is marked now.
	attempts, loopAttempts = 2, 8
)

// workerRollout is a rollout of a MachineDeployment that is under way.
type workerRollout struct {
	o  Objects
	md *clusterv1.MachineDeployment
	// old are not what the MachineDeployment asks for. pending are, and are not Ready.
	old, pending []*clusterv1.Machine
	// since is when it began, or when the last new Machine became Ready.
	since time.Time
	// check is the MachineHealthCheck with the shortest timeout for a Node to appear; nil without one.
	check   *clusterv1.MachineHealthCheck
	timeout time.Duration
}

// NeedsHealthChecks reports whether MachineHealthChecks and UpdatePolicies tell why the rollout of a
// MachineDeployment does not continue.
func NeedsHealthChecks(o Objects) bool {
	return slices.ContainsFunc(o.MachineDeployments, func(md *clusterv1.MachineDeployment) bool {
		_, ok := findWorkerRollout(md, o, nil)
		return ok
	})
}

// WorkerStandstills returns the rollouts of MachineDeployments that make no progress for long, by name.
func WorkerStandstills(o Objects, a Around, now time.Time) (found []Standstill) {
	byName := func(a, b *clusterv1.MachineDeployment) int { return strings.Compare(a.Name, b.Name) }
	for _, md := range slices.SortedFunc(slices.Values(o.MachineDeployments), byName) {
		if s, ok := WorkerStandstill(md, o, a, now); ok {
			found = append(found, s)
		}
	}
	return found
}

// WorkerStandstill returns why the rollout of a MachineDeployment makes no progress: no new Machine has become
// Ready for long, because a MachineHealthCheck deletes each, because a provider does not create it, or
// because there is none. ok is false if it makes progress, or has not stood still for long.
func WorkerStandstill(
	md *clusterv1.MachineDeployment, o Objects, a Around, now time.Time,
) (s Standstill, ok bool) {
	r, ok := findWorkerRollout(md, o, a.HealthChecks)
	if !ok {
		return Standstill{}, false
	}
	for _, rule := range []func() (Standstill, bool){
		r.lacksInfrastructure, r.isMarked, r.isUnready, r.isDeleted,
		func() (Standstill, bool) { return r.hasNone(a) },
	} {
		if s, ok := rule(); ok && s.IsLong(now) {
			s.Subject = "MachineDeployment " + md.Name
			s.Message = "its rollout makes no progress: " + s.Message
			return s, true
		}
	}
	return Standstill{}, false
}

func findWorkerRollout(
	md *clusterv1.MachineDeployment, o Objects, checks []*clusterv1.MachineHealthCheck,
) (r workerRollout, ok bool) {
	since, rolls := rollsOutSince(md)
	if !rolls || rests(md, o.Cluster) {
		return workerRollout{}, false
	}
	r = workerRollout{o: o, md: md, since: since}
	for _, m := range o.Machines {
		owner, _ := capi.OwnerOf(m)
		if !owner.IsMachineDeployment() || owner.Name != md.Name || capi.IsControlPlane(m) {
			continue
		}
		ready := machineCondition(m, clusterv1.MachineReadyCondition)
		switch {
		case !isAsAsked(m, md.Spec.Template.Spec.Version):
			r.old = append(r.old, m)
		case ready == nil || ready.Status != metav1.ConditionTrue:
			r.pending = append(r.pending, m)
		case ready.LastTransitionTime.After(r.since):
			r.since = ready.LastTransitionTime.UTC()
		}
	}
	slices.SortFunc(r.pending, func(a, b *clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) })
	r.check, r.timeout = startupCheck(md, o.Cluster, checks)
	return r, true
}

// rests reports whether nobody rolls a MachineDeployment out: it is paused, waits for deletions, or goes.
func rests(md *clusterv1.MachineDeployment, cluster *clusterv1.Cluster) bool {
	paused := annotations.IsPaused(cluster, md) || md.Spec.Paused != nil && *md.Spec.Paused
	onDelete := md.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType
	return paused || onDelete || !cluster.DeletionTimestamp.IsZero() || !md.DeletionTimestamp.IsZero()
}

// rollsOutSince returns since when a MachineDeployment replaces its Machines, by its own conditions.
func rollsOutSince(md *clusterv1.MachineDeployment) (since time.Time, rolls bool) {
	if c := meta.FindStatusCondition(md.Status.Conditions, clusterv1.MachineDeploymentRollingOutCondition); c != nil {
		return c.LastTransitionTime.UTC(), c.Status == metav1.ConditionTrue
	}
	c := meta.FindStatusCondition(md.Status.Conditions, clusterv1.MachineDeploymentMachinesUpToDateCondition)
	if c == nil || c.Status != metav1.ConditionFalse || md.Spec.Replicas == nil || md.Status.UpToDateReplicas == nil {
		return time.Time{}, false
	}
	return c.LastTransitionTime.UTC(), *md.Status.UpToDateReplicas < *md.Spec.Replicas
}

// startupCheck returns the MachineHealthCheck that gives the new Machines of a MachineDeployment the least
// time until they have a Node; nil without one.
func startupCheck(
	md *clusterv1.MachineDeployment, cluster *clusterv1.Cluster, checks []*clusterv1.MachineHealthCheck,
) (check *clusterv1.MachineHealthCheck, timeout time.Duration) {
	const usual = 10 * time.Minute // Cluster API's default.
	of := labels.Merge(md.Spec.Template.Labels, labels.Set{
		clusterv1.ClusterNameLabel: cluster.Name, clusterv1.MachineDeploymentNameLabel: md.Name,
	})
	for _, h := range checks {
		selector, err := metav1.LabelSelectorAsSelector(&h.Spec.Selector)
		if err != nil || !selector.Matches(of) || h.Spec.ClusterName != cluster.Name || annotations.HasPaused(h) {
			continue
		}
		t := usual
		if s := h.Spec.Checks.NodeStartupTimeoutSeconds; s != nil {
			t = time.Duration(*s) * time.Second
		}
		if t > 0 && (check == nil || cmp.Or(cmp.Compare(t, timeout), strings.Compare(h.Name, check.Name)) < 0) {
			check, timeout = h, t
		}
	}
	return check, timeout
}

// lacksInfrastructure is that the provider does not create a new Machine.
func (r workerRollout) lacksInfrastructure() (Standstill, bool) {
	for _, m := range r.pending {
		c := machineCondition(m, clusterv1.MachineInfrastructureReadyCondition)
		if c == nil || c.Status != metav1.ConditionFalse {
			continue
		}
		s := Standstill{Since: later(r.since, c.LastTransitionTime.Time), limit: max(slowMachine, attempts*r.timeout)}
		if _, marked := failedCheck(m); marked {
			s.Since, s.limit = r.since, attempts*r.timeout
		}
		s.Message = fmt.Sprintf("Machine %s has no infrastructure since %s: %s",
			m.Name, clock(c.LastTransitionTime.Time), said(c))
		s.Fix = r.fixTemplate()
		if r.check != nil {
			s.Message += "; " + r.deletes()
			s.Fix += "; or, if the machine only needs longer, " + r.fixTimeout()
		}
		return s, true
	}
	return Standstill{}, false
}

// isMarked is that a MachineHealthCheck has marked a new Machine.
func (r workerRollout) isMarked() (Standstill, bool) {
	for _, m := range r.pending {
		c, marked := failedCheck(m)
		if !marked {
			continue
		}
		s := Standstill{Since: r.since, limit: attempts * r.timeout}
		if m.Status.NodeRef.IsDefined() {
			s.Message = fmt.Sprintf("no new Machine has become Ready since %s, and a MachineHealthCheck marks Machine %s, "+
				"which is then deleted: %s", clock(r.since), m.Name, said(c))
			s.Fix = "see why its Node is unhealthy"
			return s, true
		}
		s.Message = fmt.Sprintf("no new Machine has become Ready since %s: %s; Machine %s is marked%s",
			clock(r.since), r.deletes(), m.Name, ageAt(m, c.LastTransitionTime.Time))
		if r.check == nil {
			s.Message += ": " + said(c)
		}
		s.Fix = r.fixTimeout()
		return s, true
	}
	return Standstill{}, false
}

// isUnready is that a new Machine has no Node, or that its Node is not Ready.
func (r workerRollout) isUnready() (Standstill, bool) {
	for _, m := range r.pending {
		c := machineCondition(m, clusterv1.MachineNodeReadyCondition)
		if c == nil || c.Status == metav1.ConditionTrue || !m.DeletionTimestamp.IsZero() {
			continue
		}
		lacks := "has no Node"
		if m.Status.NodeRef.IsDefined() {
			lacks = "has no Node that is Ready"
		}
		return Standstill{
			Since: later(r.since, c.LastTransitionTime.Time), limit: max(slowMachine, attempts*r.timeout),
			Failure: Failure{
				Message: fmt.Sprintf("Machine %s %s since %s: %s", m.Name, lacks, clock(c.LastTransitionTime.Time), said(c)),
				Fix: "see on its console, or in the logs of its kubelet and of cloud-init, why it does not join; " +
					"correct the template, because the next Machine would fail in the same way",
			},
		}, true
	}
	return Standstill{}, false
}

// isDeleted is that a MachineHealthCheck may have deleted all new Machines before the present one, which is
// too young to be marked.
func (r workerRollout) isDeleted() (Standstill, bool) {
	if r.check == nil || len(r.pending) == 0 || r.moves() {
		return Standstill{}, false
	}
	return Standstill{
		Since: r.since, limit: max(longLoop, loopAttempts*r.timeout),
		Failure: Failure{
			Message: fmt.Sprintf("no new Machine has become Ready since %s: %s; Machine %s is not Ready yet",
				clock(r.since), r.deletes(), r.pending[0].Name),
			Fix: r.fixTimeout(),
		},
	}, true
}

// hasNone is that there is no new Machine on its way, and that no old one goes. A group with an UpdatePolicy may
// wait for what the policy asks. Cluster API's checks hold new Machines while the control plane moves.
func (r workerRollout) hasNone(a Around) (Standstill, bool) {
	if len(r.pending) > 0 || len(r.old) == 0 || r.moves() || r.isHeld(a) {
		return Standstill{}, false
	}
	stay := text.Some{Most: shownOld}
	for _, m := range r.old {
		const most = 63
		stay.Add(fmt.Sprintf("%s (%s)", m.Name, text.Bound(m.Spec.Version, most)))
	}
	s := Standstill{Since: r.since}
	s.Message = fmt.Sprintf("no new Machine has become Ready since %s, none is on its way, and no old one goes: %s",
		clock(r.since), stay.Join(", "))
	s.Fix = fmt.Sprintf("see in the conditions of its MachineSets (kubectl -n %s describe machineset -l %s=%s), and in the "+
		"log of capi-controller-manager, why", r.md.Namespace, clusterv1.MachineDeploymentNameLabel, r.md.Name)
	c := meta.FindStatusCondition(r.md.Status.Conditions, clusterv1.MachineDeploymentScalingUpCondition)
	if c != nil && c.Status == metav1.ConditionTrue && c.Message != "" {
		s.Message += "; " + said(c)
	}
	if r.check != nil {
		s.Message += "; " + r.deletes()
		s.Fix += "; if new Machines come and are deleted, " + r.fixTimeout()
	}
	return s, true
}

// moves reports whether an old Machine is being deleted or updated.
func (r workerRollout) moves() bool { return slices.ContainsFunc(r.old, isInMotion) }

func (r workerRollout) isHeld(a Around) bool {
	selected, err := policy.CompileAll(a.Policies).Select(MachineDeploymentGroup(r.o.Cluster, r.md))
	if err != nil || selected.Name != "" {
		return true
	}
	if r.o.ControlPlane == nil {
		return false
	}
	asked := capi.VersionAt(r.o.ControlPlane, "spec", "version")
	reported := capi.VersionAt(r.o.ControlPlane, "status", "version")
	c := meta.FindStatusCondition(capi.Conditions(r.o.ControlPlane), clusterv1.MachinesUpToDateCondition)
	return !reported.IsZero() && asked != reported || c != nil && c.Status == metav1.ConditionFalse
}

// deletes says what the MachineHealthCheck does.
func (r workerRollout) deletes() string {
	if r.check == nil {
		return "a MachineHealthCheck marks Machines, which are then deleted"
	}
	return fmt.Sprintf("MachineHealthCheck %s has Machines deleted that have no Node after %s (nodeStartupTimeoutSeconds %d)",
		r.check.Name, r.timeout, int(r.timeout.Seconds()))
}

func (r workerRollout) fixTimeout() string {
	const generous = 4
	field, example := "nodeStartupTimeoutSeconds of the MachineHealthCheck", ""
	if r.check != nil {
		field = "nodeStartupTimeoutSeconds of MachineHealthCheck " + r.check.Name
		example = fmt.Sprintf(" (for example to %d)", int((generous * r.timeout).Seconds()))
		if _, owned := r.check.Labels[clusterv1.ClusterTopologyOwnedLabel]; owned {
			field = "nodeStartupTimeoutSeconds in healthCheck of the group, in spec.topology of the Cluster or in its ClusterClass,"
		}
	}
	return fmt.Sprintf("raise %s above the time that a machine needs until its Node is there%s, or pause it with the annotation %s; "+
		"then see why machines take that long", field, example, clusterv1.PausedAnnotation)
}

// fixTemplate is the way out of a provider's refusal. The controller of a topology takes back what is
// changed in the objects that it owns.
func (r workerRollout) fixTemplate() string {
	const again = "; the next Machine fails in the same way before that"
	name, inTopology := r.md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel]
	ref := r.md.Spec.Template.Spec.InfrastructureRef
	if !inTopology || !r.o.Cluster.Spec.Topology.IsDefined() {
		return fmt.Sprintf("correct what the provider names: make a corrected copy of %s %s, and name it in "+
			"spec.template.spec.infrastructureRef; or correct the provider's account%s", ref.Kind, ref.Name, again)
	}
	overrides := text.Some{Most: shownOld}
	for _, md := range r.o.Cluster.Spec.Topology.Workers.MachineDeployments {
		if md.Name == name {
			for _, v := range md.Variables.Overrides {
				overrides.Add(v.Name)
			}
		}
	}
	where := "spec.topology.variables"
	if overrides.Len() > 0 {
		where = fmt.Sprintf("variables.overrides (%s) of MachineDeployment %s in spec.topology.workers",
			overrides.Join(", "), name)
	}
	return fmt.Sprintf("correct what the provider names in %s of Cluster %s, or in its ClusterClass; the topology's controller "+
		"then makes a new %s; or correct the provider's account%s", where, r.o.Cluster.Name, ref.Kind, again)
}

// failedCheck returns the condition with which a MachineHealthCheck marks a Machine.
func failedCheck(m *clusterv1.Machine) (c *metav1.Condition, marked bool) {
	c = machineCondition(m, clusterv1.MachineHealthCheckSucceededCondition)
	return c, c != nil && c.Status == metav1.ConditionFalse
}

// ageAt says how old a Machine was; empty if its creation is not known.
func ageAt(m *clusterv1.Machine, at time.Time) string {
	if m.CreationTimestamp.IsZero() || at.Before(m.CreationTimestamp.Time) {
		return ""
	}
	return fmt.Sprintf(" %s after its creation", at.Sub(m.CreationTimestamp.Time).Round(time.Second))
}

// said is what a condition's author wrote, on one printable line.
func said(c *metav1.Condition) string {
	const most = 300
	return strings.TrimSuffix(text.Bound(
		text.Printable(strings.Join(strings.Fields(cmp.Or(c.Message, c.Reason)), " ")), most), ".")
}

func clock(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b.UTC()
	}
	return a
}
