package doctor

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

func checkUpdaters(f Facts, groups []group, into *findings) {
	for _, g := range inPlace(groups) {
		selected, err := updatepolicy.SelectUpdaters(f.Updaters, f.NamespaceLabels, g.MachineLabels)
		switch {
		case err != nil:
			into.add(Error, g.Subject, "correct the Updater; until then the extension refuses all changes of this group", "%v", err)
			continue
		case len(f.Updaters) == 0:
			into.add(g.atRisk(), g.Subject, "register one: config/samples/updater.yaml is an example", "no Updater is registered, so no change is possible in place")
			continue
		case len(selected) == 0:
			into.add(g.atRisk(), g.Subject, "register one whose selectors match the machines' labels", "no Updater is for its machines, so no change is possible in place")
			continue
		}
		names := make([]string, 0, len(selected))
		for i := range selected {
			names = append(names, selected[i].Name)
			if f.Live {
				checkReady(&selected[i], g, into)
			}
		}
		limit := "any number of minors"
		switch n := updatepolicy.MinorLimit(selected); {
		case n == 1:
			limit = "1 minor"
		case n > 1:
			limit = fmt.Sprintf("%d minors", n)
		}
		into.ok(g.Subject, "asked in this order: %s; they move kubelets by %s at once", join(names), limit)
	}
}

func checkReady(u *v1alpha1.Updater, g group, into *findings) {
	ready := meta.FindStatusCondition(u.Status.Conditions, v1alpha1.ReadyCondition)
	if ready != nil && ready.Status == metav1.ConditionTrue {
		return
	}
	severity, consequence := Error, "the extension refuses every change until it answers"
	if updatepolicy.FailsOpen(u) {
		severity, consequence = Warning, "meanwhile it counts as covering nothing"
	}
	if ready == nil {
		into.unknown(g.Subject, "see that the extension runs", "it is unknown whether Updater %q answers: it was not called yet", u.Name)
		return
	}
	into.add(severity, g.Subject, "see that the updater runs and can be reached", "Updater %q cannot be asked: %s; %s", u.Name, ready.Message, consequence)
}

func checkTemplates(f Facts, groups []group, into *findings) {
	if !f.Live {
		return
	}
	for _, g := range inPlace(groups) {
		found := false
		for _, r := range f.Missing {
			if (r.Group == "") == g.ControlPlane && (g.ControlPlane || r.Group == g.Object) {
				found = true
				into.add(g.atRisk(), g.Subject, "restore it, and keep templates until the last MachineSet that refers to them is gone",
					"%s refers to %s, which does not exist: Cluster API then replaces machines without asking%s", r.From, r.To, refusedBy(g))
			}
		}
		if !found {
			into.ok(g.Subject, "all templates of its machines exist")
		}
	}
}

// shownMachines bounds the list of machines in one finding.
const shownMachines = 5

func checkMachines(f Facts, groups []group, into *findings) {
	report := status.Compute(status.Facts{Objects: f.Objects, Policies: f.Policies}, f.Now)
	before := len(into.list)
	checkStandingStill(report, f.Objects.Cluster.Namespace, into)
	for _, p := range report.Problems {
		into.add(Error, p.Kind+" "+p.Name, "set the annotation "+v1alpha1.UpdateAbandonAnnotation, "annotation %s: %s", p.Annotation, p.Message)
	}
	for _, g := range groups {
		if under := inState(report, g, status.Marked, status.Queued, status.Updating, status.Finished); len(under) > 0 {
			into.add(Warning, g.Subject, "wait for the end of the update", "under update: %s; a newer desired state reaches a machine only after that", shorten(under))
		}
		if dirty := dirtyMachines(report, g); len(dirty) > 0 {
			into.add(Warning, g.Subject, "replace the machines when convenient, if they need these fields", "with fields that were not applied to the running machine: %s", shorten(dirty))
		}
	}
	checkControlPlaneRollout(f, into)
	if s, _, ok := f.Surgeless(); ok {
		into.add(Warning, f.Objects.ControlPlane.GetKind()+" "+f.Objects.ControlPlane.GetName(), s.Fix, "%s", s.Message)
	}
	for _, s := range snapshot.WorkerStandstills(f.Objects, f.Around(), f.Now) {
		into.add(Warning, s.Subject, s.Fix, "%s", s.Message)
	}
	if len(into.list) == before && f.Live {
		into.ok("Machines", "none is under update, failed, or without fields that it should have")
	}
}

// checkControlPlaneRollout says that the rollout of the control plane makes no progress, and that workers
// will not follow it.
func checkControlPlaneRollout(f Facts, into *findings) {
	if s, ok := snapshot.RolloutStandstill(f.Objects, f.Around()); ok && s.IsLong(f.Now) {
		into.add(Warning, s.Subject, s.Fix, "%s", s.Message)
	}
	if f.Objects.ControlPlane == nil {
		return
	}
	asked := capi.VersionAt(f.Objects.ControlPlane, "spec", "version")
	if s, ok := snapshot.SuffixHold(f.Objects, f.Around(), asked); ok {
		into.add(Warning, s.Subject, s.Fix, "%s", s.Message)
	}
}

// checkStandingStill says which updates do not go on by themselves.
func checkStandingStill(report status.Report, namespace string, into *findings) {
	// The groups with machines whose update failed.
	failed := map[string]bool{}
	fix := failedFix(namespace, report.Cluster, failedMachines(report))
	for _, u := range report.Updates {
		if u.State == status.Failed {
			failed[u.Group] = true
			into.add(Error, "Machine "+u.Machine, fix, "its update failed: %s", u.Text())
		}
	}
	waiting := map[string]bool{}
	for _, m := range report.Machines {
		waiting[m.Name] = m.State == status.Waiting
	}
	for _, b := range report.Blocked {
		// A Machine under update was named above. What a group says of a failed machine was said about
		// the machine.
		if (b.Kind != "Machine" || waiting[b.Name]) && (b.Reason != v1alpha1.UpdateFailedReason || !failed[b.Group]) {
			fix, message := blockedFix(b.Reason), b.Message
			if fix != followMessage {
				message, _ = cutFix(message)
			}
			into.add(Error, b.Kind+" "+b.Name, fix, "its update is blocked (%s): %s", b.Reason, message)
		}
	}
}

func failedMachines(report status.Report) (names []string) {
	for _, u := range report.Updates {
		if u.State == status.Failed {
			names = append(names, u.Machine)
		}
	}
	return names
}

// failedFix is the same for all machines whose update failed, so that what is said of many is shown once.
func failedFix(namespace, cluster string, machines []string) string {
	retry := fmt.Sprintf("windlass retry cluster %s -n %s", cluster, namespace)
	if len(machines) == 1 {
		retry = fmt.Sprintf("windlass retry machine %s -n %s", machines[0], namespace)
	}
	return fmt.Sprintf("fix the cause, then %s. "+
		"Or abandon it: change its owner's spec, then windlass abandon machine NAME -n %s. "+
		"Or have it replaced: annotate it with %s= and delete it; or remediated: onFailure Remediate in the UpdatePolicy, and a MachineHealthCheck",
		retry, namespace, v1alpha1.AllowReplacementAnnotation)
}

// followMessage is the fix of a reason whose message contains one.
const followMessage = "do what the message says"

// blockedFix says what to do about a blocked group.
func blockedFix(reason string) string {
	switch reason {
	case v1alpha1.NotCoveredReason:
		return "if an updater moves a kubelet by fewer minors at once, set the owner to a version in between, and windlass.dev/update-abandon on the Machine; " +
			"otherwise register an updater that covers these fields; or add them to ignorePaths of the UpdatePolicy, if running machines do not need them; " +
			"or set its fallback to RollingUpdate, to have machines replaced; or revert the change"
	case v1alpha1.UpdaterErrorReason:
		return "see that the updater runs, can be reached, and answers as it should: kubectl get updaters -o wide, and windlass updater verify"
	case v1alpha1.PolicyConflictReason:
		return "let only one of the UpdatePolicies select it, or let one name it more precisely"
	default:
		return followMessage
	}
}

func inState(r status.Report, g group, states ...status.State) []string {
	var names []string
	for _, m := range r.Machines {
		if slices.Contains(states, m.State) && g.has(m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

func dirtyMachines(r status.Report, g group) []string {
	var names []string
	for _, d := range r.Dirty {
		if g.has(d.Machine) && !slices.Contains(names, d.Machine) {
			names = append(names, d.Machine)
		}
	}
	return names
}

func (g group) has(machine string) bool {
	return slices.ContainsFunc(g.machines, func(m *clusterv1.Machine) bool { return m.Name == machine })
}

func shorten(names []string) string { return text.JoinSome(names, shownMachines, ", ") }
