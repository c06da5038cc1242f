package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

// check is one check of a cluster.
type check struct {
	id ID
	// global says that what it finds concerns all groups. Findings about guardSubject do, too.
	global bool
	// needs are the sources without which there is nothing to say; CheckUnread says which could not
	// be read.
	needs []Source
	run   func(f Facts, groups []group, into *findings)
}

// checks are all checks but the one that sums them up, in the order of reports.
var checks = []check{
	{id: CheckPolicy, needs: []Source{SourcePolicies}, run: checkPolicy},
	{id: CheckFeatureGates, global: true, needs: []Source{SourceManagers}, run: checkFeatureGates},
	{id: CheckExtension, global: true, needs: []Source{SourceExtensions}, run: checkExtension},
	{id: CheckUpdaters, needs: []Source{SourceUpdaters, SourceNamespace}, run: checkUpdaters},
	{id: CheckGuard, run: checkGuard},
	{id: CheckReplicas, run: checkReplicas},
	{id: CheckSurge, run: checkSurge},
	{id: CheckRollout, run: checkRollout},
	{id: CheckLimits, needs: []Source{SourcePolicies}, run: checkLimits},
	{id: CheckBounds, run: checkBounds},
	{id: CheckTemplates, needs: []Source{SourceTemplates}, run: checkTemplates},
	{id: CheckSettings, run: checkSettings},
	{id: CheckHealthChecks, needs: []Source{SourceHealthChecks}, run: checkHealthChecks},
	{id: CheckAutoscaler, run: checkAutoscaler},
	{id: CheckManagedFields, needs: []Source{SourceTemplates}, run: checkManagedFields},
	{id: CheckTopology, global: true, run: checkTopology},
	{id: CheckWebhooks, run: checkWebhooks},
	{id: CheckPaused, run: checkPaused},
	{id: CheckMachines, run: checkMachines},
	{id: CheckUnread, global: true, run: checkUnread},
}

// Examine runs all checks. It returns first what they sum up to for each group, then each check's findings. Every check
// that could run and found nothing wrong has a finding. The verdict answers in one sentence whether the machines can be
// updated in place.
func Examine(f Facts) (found []Finding, answer string) {
	groups := listGroups(f)
	found = examine(f, groups)
	return found, verdict(f, groups, found)
}

func examine(f Facts, groups []group) []Finding {
	var all []Finding
	for _, c := range checks {
		if slices.ContainsFunc(c.needs, f.unread) {
			continue
		}
		into := &findings{id: c.id}
		c.run(f, groups, into)
		all = append(all, into.list...)
	}
	summary := &findings{id: CheckMachinesKept}
	for _, g := range groups {
		sumUp(g, all, summary)
	}
	return append(summary.list, all...)
}

// sumUp says for a group what its findings, and those that concern all groups, come to.
func sumUp(g group, all []Finding, into *findings) {
	errors, warnings := concerning(g, all, Error), concerning(g, all, Warning)
	switch {
	case g.err == nil && !g.selected.InPlace:
		into.ok(g.Subject, "machines are replaced one by one, as Cluster API does by itself")
	case len(errors) > 0:
		into.add(Error, g.Subject, "", "machines cannot be updated in place: see %s", join(errors))
	case len(warnings) > 0:
		into.add(Warning, g.Subject, "", "machines can be updated in place, unless a check prevents it: see %s", join(warnings))
	default:
		into.ok(g.Subject, "machines can be updated in place")
	}
}

// concerning names the checks with findings of that severity which keep machines of the group from
// being updated. Fields that were left alone, a remediation that may happen, or a limit that a
// person has set keep no machine from it, and neither do settings that only a later version lacks, nor
// webhooks of Cluster API, which most updates do not need.
func concerning(g group, all []Finding, severity Severity) []string {
	var names []string
	for _, f := range all {
		apart := slices.Contains([]ID{CheckHealthChecks, CheckManagedFields, CheckMachines, CheckLimits, CheckWebhooks}, f.ID) ||
			f.ID == CheckSettings && f.Severity == Warning
		if f.Severity != severity || apart {
			continue
		}
		about := f.Subject == g.Subject || f.Subject == guardSubject ||
			slices.ContainsFunc(checks, func(c check) bool { return c.id == f.ID && c.global })
		if about && !slices.Contains(names, string(f.ID)) {
			names = append(names, string(f.ID))
		}
	}
	return names
}

const (
	notInstalled = "Windlass is not installed: the management cluster does not serve UpdatePolicies, " +
		"so that machines are replaced"
	fixInstall = "install it, as docs/how-to/install.md describes, if machines are to be kept"
)

func checkPolicy(f Facts, groups []group, into *findings) {
	policies := policy.CompileAll(f.Policies)
	for _, g := range groups {
		switch s := g.selected; {
		case g.err != nil:
			into.add(Error, g.Subject, "correct the UpdatePolicies; until then the extension refuses all changes of this group",
				"%v%s", g.err, alsoInvalid(policies, g.err))
		case f.NotInstalled:
			into.add(Warning, g.Subject, fixInstall, notInstalled)
		case s.Name == "":
			into.add(Warning, g.Subject, "write an UpdatePolicy with strategy ExternalUpdate that selects it, if its machines are to be kept",
				"no UpdatePolicy selects it, so that its machines are replaced")
		case !s.InPlace:
			into.ok(g.Subject, "UpdatePolicy %q: strategy RollingUpdate, machines are replaced", s.Name)
		case s.Guarded:
			into.ok(g.Subject, "UpdatePolicy %q: in place only (fallback None)", s.Name)
		default:
			into.ok(g.Subject, "UpdatePolicy %q: in place, replaced where updaters do not cover a change (fallback RollingUpdate)", s.Name)
		}
	}
	checkMachinePools(f, policies, into)
	checkIdlePolicies(f, policies, groups, into)
	checkPoolNames(f, groups, into)
}

// checkIdlePolicies says which policies select nothing: those that the extension found so, and all of the namespace where the
// Cluster's groups are selected by none, unless the extension has counted groups of other Clusters.
func checkIdlePolicies(f Facts, policies policy.Set, groups []group, into *findings) {
	none := !slices.ContainsFunc(groups, func(g group) bool { return g.err != nil || g.selected.Name != "" })
	for i := range f.Policies {
		p := &f.Policies[i]
		if p.Namespace != f.Objects.Cluster.Namespace || isUndecided(p, policies, groups) {
			continue
		}
		counted := f.Live && p.Status.GroupCount != nil && p.Status.ObservedGeneration == p.Generation
		where := "nothing"
		switch {
		case counted && *p.Status.GroupCount == 0:
		case none && !counted:
			where = "nothing of this Cluster"
		default:
			continue
		}
		into.add(Warning, "UpdatePolicy "+p.Name, "see that its targets are right: clusterName, clusterSelector, controlPlane, machineDeployments, selector",
			"it selects %s: is clusterName right? %s", where, describeTargets(p.Spec.Targets, f.Objects.Cluster.Name))
	}
}

// isUndecided reports whether a policy may count for a group once conflicts end and invalid policies are
// correct. The groups of other Clusters are known by the status alone.
func isUndecided(p *v1alpha1.UpdatePolicy, policies policy.Set, groups []group) bool {
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.GuardingCondition); c != nil {
		undecided := []string{v1alpha1.GuardConflictReason, v1alpha1.GuardInvalidPolicyReason}
		if slices.Contains(undecided, c.Reason) {
			return true
		}
	}
	if meta.IsStatusConditionFalse(p.Status.Conditions, v1alpha1.ReadyCondition) {
		return true
	}
	return slices.ContainsFunc(groups, func(g group) bool {
		return g.err != nil && slices.ContainsFunc(policies, func(c *policy.Compiled) bool {
			return c.Policy.Name == p.Name && c.Selects(g.Group)
		})
	})
}

// maxInvalid bounds how many invalid policies a finding names.
const maxInvalid = 10

// alsoInvalid names the invalid policies besides the one that err is about; empty if err is about
// another fault.
func alsoInvalid(policies policy.Set, err error) string {
	first, ok := errors.AsType[*policy.InvalidError](err)
	if !ok {
		return ""
	}
	others := text.Some{Most: maxInvalid}
	for _, c := range policies {
		if c.Invalid != nil && c.Invalid.Name != first.Name {
			others.Add(c.Policy.Name)
		}
	}
	if others.Len() == 0 {
		return ""
	}
	return "; invalid as well: " + others.Join(", ")
}

// describeTargets says which Clusters targets name, and whether one is nearly the name of a Cluster.
func describeTargets(targets []v1alpha1.UpdateTarget, cluster string) string {
	var names []string
	for _, t := range targets {
		if name := t.ClusterName; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "Its targets name no Cluster"
	}
	near := ""
	for _, name := range names {
		near = cmp.Or(near, text.DescribeNearest(name, []string{cluster}))
	}
	return fmt.Sprintf("Its targets name %q%s", names, near)
}

// guardSubject is the subject of findings about the guard that concern all groups.
const guardSubject = "guard"

func checkGuard(f Facts, groups []group, into *findings) {
	// While it is not known which policy counts for a group, the guard refuses.
	mayGuard := policy.CompileAll(f.Policies).MayGuard()
	guarded := slices.DeleteFunc(slices.Clone(groups), func(g group) bool {
		return !g.selected.Guarded && (g.err == nil || !mayGuard)
	})
	if len(guarded) == 0 {
		into.ok(guardSubject, "not needed: no group has an UpdatePolicy with fallback None")
		return
	}
	if f.unread(SourceGuard) || f.unread(SourceNamespace) {
		return
	}
	if !f.Live {
		into.unknown(guardSubject, askLive, "manifests do not show whether the guard is installed")
		return
	}
	guard := updatepolicy.SelectGuard(f.Guard, f.Objects.Cluster.Namespace, f.NamespaceLabels)
	if !guard.Active {
		reportNoGuard(f, guarded, guard, into)
		return
	}
	uncovered := slices.DeleteFunc(guarded, func(g group) bool { return guard.Covers(g.Group) })
	if len(uncovered) > 0 {
		message, fix := cutFix(updatepolicy.DescribeUncovered(uncovered[0].String(), len(uncovered)))
		into.add(Error, guardSubject, fix, "%s", message)
		return
	}
	into.ok(guardSubject, "it is asked before Machines of namespace %s are created or deleted", f.Objects.Cluster.Namespace)
}

// reportNoGuard reports a guard that is not active. Pools that windlass manager drives need none, and
// the finding is about each guarded group then. A guard that cannot be called refuses all requests.
func reportNoGuard(f Facts, guarded []group, guard updatepolicy.Guard, into *findings) {
	message, fix := cutFix(guard.Message)
	if guard.Reason == v1alpha1.GuardMissingReason {
		fix = guardFix
	}
	kept := func(g group) bool { return f.Engine == v1alpha1.EngineManager && !g.ControlPlane }
	unreachable := guard.Reason == v1alpha1.GuardUnreachableReason
	if unreachable || !slices.ContainsFunc(guarded, kept) {
		into.add(Error, guardSubject, fix, "%s", message)
		return
	}
	for _, g := range guarded {
		if kept(g) {
			into.ok(g.Subject, "windlass manager keeps its machines and needs no guard for that; "+
				"without the guard nothing refuses a Machine's deletion by others")
		} else {
			into.add(Error, g.Subject, fix, "%s", message)
		}
	}
}

// guardFix installs nothing but the guard: to apply all of config/default would undo what was changed since. Its precondition
// matters, because a guard that cannot be reached keeps all Machines of the management cluster from being created or deleted.
const guardFix = "first see that cert-manager runs and that the extension is Ready (kubectl -n windlass-system get certificate,deployment): " +
	"until the extension has run, no Machine is created or deleted. Then install the guard alone: " +
	"sed s/NAMESPACE/windlass-system/ config/webhook/guard.yaml | kubectl apply -f -"

// cutFix splits a message of the form "what is so. Fix: what to do".
func cutFix(message string) (problem, fix string) {
	problem, fix, _ = strings.Cut(message, ". Fix: ")
	return problem, fix
}

func checkTopology(f Facts, _ []group, into *findings) {
	subject := "Cluster " + f.Objects.Cluster.Name
	failure, ok := snapshot.TopologyFailure(f.Objects.Cluster)
	stands, since, still := snapshot.UnannouncedStep(f.Objects)
	if still {
		into.add(Warning, subject, stands.Fix, "%s, since %s", stands.Message, since.Format(time.RFC3339))
	}
	blocks, blocked := snapshot.HookStandstill(f.Objects, f.Around())
	if blocked = blocked && blocks.IsLong(f.Now); blocked {
		into.add(Warning, subject, blocks.Fix, "%s, since %s at the earliest",
			blocks.Message, blocks.Since.Format(time.RFC3339))
	}
	switch {
	case ok:
		into.add(Warning, subject, failure.Fix, "the controller of the topology changes nothing: %s", failure.Message)
	case !still && !blocked:
		into.ok(subject, "the controller of the topology has no error")
	}
}

// checkWebhooks looks at certificates, which manifests do not show.
func checkWebhooks(f Facts, _ []group, into *findings) {
	faults := f.Webhooks.Faults(f.Now)
	for _, w := range faults {
		severity := Error
		if !w.Expired {
			severity = Warning
		}
		into.add(severity, w.Subject, w.Fix, "%s", w.Message)
	}
	if len(faults) == 0 && f.Live && !f.unread(SourceWebhooks) {
		into.ok("webhooks of Cluster API", "%s checked: no certificate has expired, or will without a renewal",
			text.Count(len(f.Webhooks.Callers), "object"))
	}
}

func checkPaused(f Facts, groups []group, into *findings) {
	const fix = "unpause it when you want its machines updated: set spec.paused of the Cluster to false, " +
		"or remove the annotation cluster.x-k8s.io/paused"
	cluster := f.Objects.Cluster
	paused := false
	say := func(subject string) {
		paused = true
		into.add(Warning, subject, fix, "it is paused: Cluster API changes nothing, and updates that have begun do not continue")
	}
	if cluster.Spec.Paused != nil && *cluster.Spec.Paused {
		say("Cluster " + cluster.Name)
	}
	for _, g := range groups {
		switch {
		case g.ControlPlane && f.Objects.ControlPlane != nil && isPaused(f.Objects.ControlPlane.GetAnnotations()),
			g.MachineDeployment != nil && isPaused(g.MachineDeployment.Annotations):
			say(g.Subject)
		}
		for _, m := range g.machines {
			if isPaused(m.Annotations) {
				say("Machine " + m.Name)
			}
		}
	}
	if !paused {
		into.ok("Cluster "+cluster.Name, "nothing is paused")
	}
}

func isPaused(annotations map[string]string) bool {
	_, paused := annotations[clusterv1.PausedAnnotation]
	return paused
}

func checkUnread(f Facts, _ []group, into *findings) {
	for _, u := range f.Unread {
		into.unknown(string(u.Source), u.Fix, "cannot read it: %s", u.Problem)
	}
}
