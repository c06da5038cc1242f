package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
)

func checkHealthChecks(f Facts, groups []group, into *findings) {
	usual, measured := status.UsualDuration(f.Objects.Machines)
	for _, g := range groups {
		if why := onDelete(g); why != "" {
			for _, h := range selecting(f, g) {
				into.add(Warning, g.Subject, onDeleteFix, "MachineHealthCheck %s: %s", h.Name, why)
			}
		}
	}
	for _, g := range inPlace(groups) {
		found := selecting(f, g)
		for _, h := range found {
			message, fix := describeHealthCheck(h, g, usual, measured)
			into.add(Warning, g.Subject, fix, "MachineHealthCheck %s: %s", h.Name, message)
		}
		if len(found) == 0 && f.Live {
			into.ok(g.Subject, "no MachineHealthCheck selects its machines")
		}
	}
}

// selecting returns the MachineHealthChecks that select a group.
func selecting(f Facts, g group) []*clusterv1.MachineHealthCheck {
	others := func(h *clusterv1.MachineHealthCheck) bool { return !selectsGroup(h, g) }
	return slices.DeleteFunc(slices.Clone(f.HealthChecks), others)
}

const (
	timeoutFix = "give it a longer timeout than an attempt, or lower attemptTimeoutSeconds; " +
		"set soakSeconds, so that the machine is healthy again before the update ends"
	onDeleteFix = "delete unhealthy Machines by hand; " +
		"or set onDelete InPlace in an UpdatePolicy, under windlass manager"
)

// describeHealthCheck says what remediation may do to a group that is updated in place, and what to
// change. An update keeps the Node that its Machine refers to, so nodeStartupTimeoutSeconds does
// not run during it.
func describeHealthCheck(
	h *clusterv1.MachineHealthCheck, g group, usual time.Duration, measured int,
) (message, fix string) {
	const harmless = "remediation replaces a machine that it finds unhealthy. That is allowed, " +
		"and does not happen to a machine under update"
	shortest, attempt := shortestTimeout(h), g.selected.AttemptTimeout
	switch {
	case shortest == 0:
	case measured > 0 && shortest < usual:
		return fmt.Sprintf("%s. Its shortest timeout (%s) is shorter than an update usually takes "+
			"(%s, of %d measured)", harmless, shortest, usual, measured), "give it a longer timeout"
	case shortest < attempt:
		return fmt.Sprintf("%s. Its shortest timeout (%s) is shorter than an attempt may take "+
			"(%s, attemptTimeoutSeconds of UpdatePolicy %q): a machine that it finds unhealthy "+
			"meanwhile can be remediated when the update ends",
			harmless, shortest, attempt, g.selected.Name), timeoutFix
	}
	return harmless, "leave it, unless a machine must not be replaced even then"
}

// onDelete says why remediation does not reach every machine of a group whose strategy is OnDelete;
// empty if it does. Both Cluster API and windlass manager remediate no Machine of an old
// MachineSet, because a rollout removes it; with OnDelete none does.
func onDelete(g group) string {
	md := g.MachineDeployment
	if md == nil || !pool.IsOnDelete(md) || g.selected.UpdateOnDelete {
		return ""
	}
	var unhealthy []string
	for _, m := range g.machines {
		if pool.IsUnhealthy(m) && m.DeletionTimestamp.IsZero() {
			unhealthy = append(unhealthy, m.Name)
		}
	}
	why := "its rollout strategy is OnDelete: after a change of the template, " +
		"unhealthy machines of the old one are not remediated"
	if len(unhealthy) > 0 {
		why += "; unhealthy now: " + shorten(unhealthy)
	}
	return why
}

// legacyFix keeps the machines, if the first change is one that no argument is part of: Cluster API
// then owns the fields of their KubeadmConfigs.
const legacyFix = "first let an update in place that changes no argument reach all of them, " +
	"such as one of the version; or replace them once"

// checkManagedFields looks for control plane Machines whose KubeadmConfigs Cluster API v1.11 or
// older has written. Nobody owns the fields of their specs, and arguments are a list with the keys
// name and value. So the apply that begins an update in place adds an argument with the new value,
// the old one stays, and the API server refuses both.
func checkManagedFields(f Facts, groups []group, into *findings) {
	if !f.Live {
		return
	}
	for _, g := range inPlace(groups) {
		if !g.ControlPlane || f.Objects.ControlPlane == nil {
			continue
		}
		arguments := argumentLists(f.Objects.ControlPlane)
		if len(f.Unowned) == 0 || len(arguments) == 0 {
			into.ok(g.Subject, "arguments of its machines can be changed in place")
			continue
		}
		into.add(Warning, g.Subject, legacyFix,
			"the KubeadmConfigs of %s were written by Cluster API v1.11 or older: a changed or "+
				"removed value in %s is refused there (\"extraArgs name must be unique\"), "+
				"and the update in place never begins: %s",
			text.Count(len(f.Unowned), "Machine"), join(arguments), shorten(f.Unowned))
	}
}

// argumentLists names the lists of arguments that a control plane object sets, sorted.
func argumentLists(object *unstructured.Unstructured) []string {
	var found []string
	var walk func(path string, value any)
	walk = func(path string, value any) {
		fields, _ := value.(map[string]any)
		for name, v := range fields {
			at := strings.TrimPrefix(path+"."+name, ".")
			isArguments := name == "extraArgs" || name == "kubeletExtraArgs"
			if list, _ := v.([]any); len(list) > 0 && isArguments {
				found = append(found, at)
			}
			walk(at, v)
		}
	}
	spec, _, _ := unstructured.NestedMap(object.Object, "spec", "kubeadmConfigSpec")
	walk("", spec)
	slices.Sort(found)
	return found
}

// selectsGroup goes by the machines that there are, and by the labels that they would have where
// there are none.
func selectsGroup(h *clusterv1.MachineHealthCheck, g group) bool {
	selector, err := metav1.LabelSelectorAsSelector(&h.Spec.Selector)
	if err != nil {
		return false
	}
	if len(g.machines) == 0 {
		return selector.Matches(labels.Set(g.MachineLabels))
	}
	return slices.ContainsFunc(g.machines, func(m *clusterv1.Machine) bool {
		return selector.Matches(labels.Set(m.Labels))
	})
}

// shortestTimeout is after how long a node's condition makes a machine unhealthy; 0 where none
// does.
func shortestTimeout(h *clusterv1.MachineHealthCheck) time.Duration {
	var shortest time.Duration
	consider := func(seconds *int32) {
		if seconds == nil {
			return
		}
		if d := time.Duration(*seconds) * time.Second; shortest == 0 || d < shortest {
			shortest = d
		}
	}
	for _, c := range h.Spec.Checks.UnhealthyNodeConditions {
		consider(c.TimeoutSeconds)
	}
	for _, c := range h.Spec.Checks.UnhealthyMachineConditions {
		consider(c.TimeoutSeconds)
	}
	return shortest
}
