package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// LongHold is how long an extension may block an upgrade, or a rollout may make no progress, before that
// counts as a fault.
const LongHold = 30 * time.Minute

// Around is what tells, beside the objects of a Cluster, why its upgrade does not continue. What is not
// known is zero.
type Around struct {
	// Extensions are all ExtensionConfigs. NamespaceLabels are those of the Cluster's namespace; nil if
	// they are not known.
	Extensions      []runtimev1.ExtensionConfig
	NamespaceLabels labels.Set
	// Provider is the oldest version of the control plane's provider.
	Provider version.Version
	// Core are the Deployments of Cluster API's core manager.
	Core []appsv1.Deployment
	// OwnEngine reports whether windlass manager drives the Cluster.
	OwnEngine bool
	// HealthChecks are those of the Cluster, and Policies those of its namespace.
	HealthChecks []*clusterv1.MachineHealthCheck
	Policies     []v1alpha1.UpdatePolicy
}

// Standstill is why an upgrade does not continue although no controller reports an error.
type Standstill struct {
	Failure
	// Subject is the kind and name of the object that it is about.
	Subject string
	// Since is when it began at the earliest.
	Since time.Time
	// By names the extensions that serve the hooks; empty if it is not about hooks.
	By string
	// limit is how long it may last if that is more than LongHold.
	limit time.Duration
}

// IsLong reports whether a standstill has lasted so long that it is a fault.
func (s Standstill) IsLong(now time.Time) bool {
	return !s.Since.IsZero() && now.Sub(s.Since) >= max(LongHold, s.limit)
}

// Sentence returns what is wrong and what to do.
func (s Standstill) Sentence() string { return s.Message + ". Fix: " + s.Fix }

// Standstills returns the long ones of a Cluster: of hooks, of its control plane, and of its
// MachineDeployments.
func Standstills(o Objects, a Around, now time.Time) []Standstill {
	var found []Standstill
	for _, rule := range []func(Objects, Around) (Standstill, bool){HookStandstill, RolloutStandstill} {
		if s, ok := rule(o, a); ok && s.IsLong(now) {
			found = append(found, s)
		}
	}
	return append(found, WorkerStandstills(o, a, now)...)
}

// itemPrefix is what goes before the items of the condition's message, after its first line.
const itemPrefix = "\n  * "

// BlockingLines returns the lines of a condition TopologyReconciled that say that something blocks the
// upgrade, whoever has worded them; none for nil.
func BlockingLines(c *metav1.Condition) (blocking []string) {
	if c == nil || c.Status != metav1.ConditionFalse ||
		c.Reason == clusterv1.ClusterTopologyReconciledFailedReason {
		return nil
	}
	for line := range strings.SplitSeq(c.Message, itemPrefix) {
		if strings.Contains(line, "blocking") ||
			strings.Contains(line, clusterv1.BeforeClusterUpgradeHookAnnotationPrefix) {
			blocking = append(blocking, line)
		}
	}
	return blocking
}

// upgradeHooks are those with which an extension can hold an upgrade, in the order of an upgrade.
var upgradeHooks = []string{
	"BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade",
	"BeforeWorkersUpgrade", "AfterWorkersUpgrade", "AfterClusterUpgrade",
}

// BlockingHooks returns the hooks that block the upgrade by the Cluster's condition.
func BlockingHooks(cluster *clusterv1.Cluster) (hooks []string) {
	for _, line := range BlockingLines(TopologyCondition(cluster)) {
		if strings.Contains(line, clusterv1.BeforeClusterUpgradeHookAnnotationPrefix) {
			continue
		}
		for _, hook := range upgradeHooks {
			if strings.Contains(line, hook) && !slices.Contains(hooks, hook) {
				hooks = append(hooks, hook)
			}
		}
	}
	return hooks
}

// HookStandstill returns which extensions serve the hooks that block the upgrade; ok is false if no hook
// does, if it is not known who serves them, or if Windlass is among those: its gates hold steps for as long
// as a person wants.
func HookStandstill(o Objects, a Around) (s Standstill, ok bool) {
	hooks := BlockingHooks(o.Cluster)
	var servers []*runtimev1.ExtensionConfig
	for _, hook := range hooks {
		for _, h := range capi.HandlersOf(a.Extensions, a.NamespaceLabels, hook) {
			if isWindlass(h.Extension) {
				return Standstill{}, false
			}
			if !slices.Contains(servers, h.Extension) {
				servers = append(servers, h.Extension)
			}
		}
	}
	if len(servers) == 0 {
		return Standstill{}, false
	}
	names, logs := text.Some{Most: shownServers}, text.Some{Most: shownServers}
	configs := text.Some{Most: shownServers}
	for _, e := range servers {
		names.Add(fmt.Sprintf("ExtensionConfig %s (%s)", e.Name, callee(e)))
		configs.Add(e.Name)
		if service := e.Spec.ClientConfig.Service; service.IsDefined() {
			logs.Add(fmt.Sprintf("kubectl -n %s logs service/%s", service.Namespace, service.Name))
		} else {
			logs.Add("the program behind " + callee(e))
		}
	}
	return Standstill{
		Subject: "Cluster " + o.Cluster.Name, Since: hooksBlockSince(o), By: names.Join(", "),
		Failure: Failure{
			Message: fmt.Sprintf("hook %s blocks the upgrade to %s; it is served by %s",
				strings.Join(hooks, ", "), o.Cluster.Spec.Topology.Version, names.Join(", ")),
			Fix: fmt.Sprintf("see in its log why it does not let the upgrade continue: %s; "+
				"if it never will, omit namespace %s in spec.namespaceSelector of ExtensionConfig %s, "+
				"or delete that, which ends its hooks for all Clusters",
				logs.Join(", "), o.Cluster.Namespace, configs.Join(", ")),
		},
	}, true
}

// shownServers bounds the extensions that a message names.
const shownServers = 3

func callee(e *runtimev1.ExtensionConfig) string {
	if service := e.Spec.ClientConfig.Service; service.IsDefined() {
		return "Service " + service.Namespace + "/" + service.Name
	}
	const most = 100
	return text.Bound(e.Spec.ClientConfig.URL, most)
}

// isWindlass reports whether Windlass serves the handlers of an extension: it serves all hooks under names
// of its own, and no other extension has a handler of this name.
func isWindlass(e *runtimev1.ExtensionConfig) bool {
	return slices.ContainsFunc(e.Status.Handlers, func(h runtimev1.ExtensionHandler) bool {
		return h.Name == "generate-upgrade-plan."+e.Name
	})
}

// hooksBlockSince returns a time before which the hooks cannot have begun to block: the condition turned
// False, or the last machine reached what is asked of it. The condition is False in the whole upgrade.
func hooksBlockSince(o Objects) time.Time {
	since := TopologyCondition(o.Cluster).LastTransitionTime.UTC()
	for _, m := range o.Machines {
		c := machineCondition(m, clusterv1.MachineUpToDateCondition)
		if c != nil && c.Status == metav1.ConditionTrue && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.UTC()
		}
	}
	return since
}
