package intervention

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
)

// maxShown bounds what is shown of a message that others wrote, in bytes.
const maxShown = 200

// retrying collects what windlass retry changes.
type retrying struct {
	Facts
	plan    Plan
	skipped skips
	// nextUpdate, nextUpgrade and nextPool say which kinds of retry there are.
	nextUpdate, nextUpgrade, nextPool bool
}

func decideRetry(f Facts) (Plan, *RefusalError) {
	r := &retrying{Facts: f}
	report := f.report()
	group, all := f.group(report)
	inScope := func(name string) bool { return all || name == group }
	covered := r.retryUpgradesOfGroups(report, inScope)
	r.retryUpgradesOfMachines(report, inScope, covered)
	r.retryUpdates(report, inScope)
	r.retryPools(report, inScope)
	r.plan.Skipped = r.skipped.lines()
	if len(r.plan.Changes)+len(r.plan.Done) == 0 {
		return Plan{}, refuseRetry(f, report, inScope, r.plan.Skipped)
	}
	r.tellNext()
	return r.plan, nil
}

// ask has a retry written to an object, or says that it is there.
func (r *retrying) ask(gvk schema.GroupVersionKind, o metav1.Object, why string) {
	if has(o, v1alpha1.UpdateRetryAnnotation) {
		r.plan.Done = append(r.plan.Done, fmt.Sprintf("%s %s/%s: a retry is asked for already", gvk.Kind,
			o.GetNamespace(), o.GetName()))
		return
	}
	r.plan.Changes = append(r.plan.Changes, annotate(gvk, o, v1alpha1.UpdateRetryAnnotation, why))
}

// retryUpgradesOfGroups retries upgrades that annotations of groups ask for, and returns these
// groups: a retry of a group retries its failed machines.
func (r *retrying) retryUpgradesOfGroups(report status.Report, inScope func(string) bool) (covered map[string]bool) {
	covered = map[string]bool{}
	if report.InPlace == nil || r.Target.Kind == Machine {
		return covered
	}
	for _, g := range report.InPlace.Groups {
		if !inScope(g.Name) || !hasFailed(g.Asking) {
			continue
		}
		if gvk, o := r.owner(g.Name, g.Object); o != nil {
			covered[g.Name], r.nextUpgrade = true, true
			r.ask(gvk, o, fmt.Sprintf("its upgrade to %s failed: %s", g.To, text.Bound(g.Message, maxShown)))
		}
	}
	return covered
}

// hasFailed reports whether an upgrade has failed finally, or would have but for a retry that
// nobody has begun.
func hasFailed(a status.Asking) bool {
	waits := a.State == status.UpgradeAsked || a.State == status.UpgradeHeld
	return a.To != "" && (a.State == status.UpgradeFailed || a.Retry && waits)
}

// owner returns the object of a group.
func (f Facts) owner(group, object string) (schema.GroupVersionKind, metav1.Object) {
	if group == status.ControlPlaneGroup && f.ControlPlane != nil && f.ControlPlane.GetName() == object {
		return f.ControlPlane.GroupVersionKind(), f.ControlPlane
	}
	for _, md := range f.MachineDeployments {
		if md.Name == object {
			return capi.MachineDeploymentKind, md
		}
	}
	return schema.GroupVersionKind{}, nil
}

func (r *retrying) retryUpgradesOfMachines(
	report status.Report, inScope func(string) bool, covered map[string]bool,
) {
	if report.InPlace == nil {
		return
	}
	machines := r.machines()
	for _, m := range report.InPlace.Machines {
		object := machines[m.Machine]
		if !inScope(m.Group) || object == nil || !hasFailed(m.Asking) || covered[m.Group] && !m.ByHand {
			continue
		}
		r.nextUpgrade = true
		r.ask(machineKind, object, fmt.Sprintf("its upgrade to %s failed: %s", m.To,
			text.Bound(m.Message, maxShown)))
	}
}

// retryUpdates retries updates that Cluster API asks for and that have no attempt left.
func (r *retrying) retryUpdates(report status.Report, inScope func(string) bool) {
	machines := r.machines()
	for _, u := range report.Updates {
		object := machines[u.Machine]
		switch {
		case u.State != status.Failed || !inScope(u.Group) || object == nil:
		case u.Phase != inplace.Failed:
			r.skipped.add(u.Machine, "its update was refused before it began, so there is no attempt to retry: "+
				text.Bound(cmp.Or(u.Message, "the reason is not recorded"), maxShown))
		default:
			r.nextUpdate = true
			r.ask(machineKind, object, fmt.Sprintf("its update to %s failed after %s: %s", u.To,
				text.Count(u.Attempt, "attempt"), text.Bound(u.LastError, maxShown)))
		}
	}
}

// retryPools lets rollouts continue that windlass manager holds although no failed Machine is left,
// or because their time is over.
func (r *retrying) retryPools(report status.Report, inScope func(string) bool) {
	if r.Target.Kind == Machine {
		return
	}
	for _, g := range report.Groups {
		if g.Kind != "MachineDeployment" || !inScope(g.Name) {
			continue
		}
		_, o := r.owner(g.Name, g.Object)
		if md, ok := o.(*clusterv1.MachineDeployment); ok {
			if why := r.heldPool(md); why != "" && !r.asks(md) {
				r.nextPool = true
				r.ask(capi.MachineDeploymentKind, md, why)
			}
		}
	}
}

// asks reports whether a retry of the object is a part of the plan.
func (r *retrying) asks(md *clusterv1.MachineDeployment) bool {
	return slices.ContainsFunc(r.plan.Changes, func(c Change) bool {
		return c.GVK == capi.MachineDeploymentKind && c.Name == md.Name
	})
}

// heldPool says why only a retry of the MachineDeployment itself lets its rollout continue; empty
// if it is not so.
func (r *retrying) heldPool(md *clusterv1.MachineDeployment) string {
	c := meta.FindStatusCondition(md.Status.Conditions, v1alpha1.UpdateBlockedCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	if pool.Reason(c.Reason) == pool.ReasonGroupDeadline {
		return "its rollout is beyond groupDeadlineSeconds"
	}
	canaries, err := record.FailedCanariesOf(md.Annotations)
	if err != nil || canaries == nil || canaries.Retried {
		return ""
	}
	alive := r.machines()
	isGone := func(name string) bool { return alive[name] == nil || !alive[name].DeletionTimestamp.IsZero() }
	if i := slices.IndexFunc(canaries.Machines, isGone); i >= 0 {
		return fmt.Sprintf("the update of Machine %s, one of the first ones, failed, and the Machine is gone",
			canaries.Machines[i])
	}
	return ""
}

func (r *retrying) tellNext() {
	next := func(is bool, sentence string) {
		if is {
			r.plan.Next = append(r.plan.Next, sentence)
		}
	}
	next(r.nextUpdate, "Cluster API asks Windlass about each Machine as soon as it sees the annotation. "+
		"Windlass then begins the first attempt again, and removes the annotation")
	next(r.nextUpgrade, "windlass extension or manager sees the annotation at once, retries the failed "+
		"machines, and removes it")
	next(r.nextPool, "windlass manager sees the annotation at once, lets the next Machine of the rollout "+
		"begin, and removes it")
	if why := r.paused(); why != "" {
		r.plan.Next = append(r.plan.Next, "The retry waits, because "+why)
	}
}

// refuseRetry says what is under way instead of a failure.
func refuseRetry(
	f Facts, report status.Report, inScope func(string) bool, skipped []string,
) *RefusalError {
	refused := &RefusalError{
		What: "nothing of " + f.Target.String() + " has failed finally",
		Why:  "no update is under way, and no annotation asks for one",
		Fix:  "see what it waits for: " + f.Target.status(),
	}
	if len(skipped) > 0 {
		refused.Why = skipped[0]
		return refused
	}
	for _, u := range report.Updates {
		if inScope(u.Group) {
			refused.Why = "Machine " + u.Machine + " is " + describeUpdate(u)
			return refused
		}
	}
	for _, b := range report.Blocked {
		if inScope(b.Group) {
			refused.Why = fmt.Sprintf("%s %s is blocked (%s), and a retry does not end that: %s", b.Kind, b.Name,
				b.Reason, text.Bound(b.Message, maxShown))
			return refused
		}
	}
	if report.InPlace == nil {
		return refused
	}
	for _, m := range report.InPlace.Machines {
		if inScope(m.Group) && m.State.IsOpen() {
			refused.Why = fmt.Sprintf("the upgrade of Machine %s is %s", m.Machine, m.State)
			return refused
		}
	}
	return refused
}

// describeUpdate says where an update is.
func describeUpdate(u status.Update) string {
	if u.Phase == "" {
		return string(u.State)
	}
	words := fmt.Sprintf("%s (%s), attempt %d", u.State, u.Phase, u.Attempt)
	if u.MaxAttempts > 0 {
		words += fmt.Sprintf(" of %d", u.MaxAttempts)
	}
	if u.Phase == inplace.BackingOff {
		words += ", and is tried again by itself"
	}
	return words
}
