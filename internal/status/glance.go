package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Glance is what a Cluster and the gates of its namespace show of an upgrade, without any other
// object. It is cheap enough to be computed for all Clusters. A Chain is exact; a Glance relies
// on the Cluster's status.
type Glance struct {
	// UnderWay reports whether the Cluster has a managed topology and is being upgraded. Otherwise
	// the other fields are zero.
	UnderWay bool
	// From is the version at which the upgrade began where that is recorded, else the oldest
	// version in the Cluster's status. To is the target. Both are empty where they cannot be
	// parsed.
	From, To version.Version
	// Step is the number of the control plane's present step, from 1; 0 before the first. It counts
	// if Recorded.
	Step     int
	Recorded bool
	// Left is how many steps of the control plane follow the present one, by the plan in the
	// Cluster's status.
	Left int
	// UpToDate is how many machines Cluster API counts as up to date. It changes with each machine
	// that is updated or replaced.
	UpToDate int32
	// Holds are sorted by kind, one of a kind. Since is zero where no object records it.
	Holds []Hold
	// Gates are those that hold the Cluster, by name.
	Gates []GateHold
}

// GateHold is a gate that holds a Cluster at a hook.
type GateHold struct {
	Gate  string
	Hook  v1alpha1.GateHook
	Since time.Time
	// Approved is that of [Hold].
	Approved bool
}

// ComputeGlance reads a Cluster and the gates of its namespace.
func ComputeGlance(
	cluster *clusterv1.Cluster, gates []*v1alpha1.UpgradeGate, now time.Time,
) Glance {
	if !cluster.Spec.Topology.IsDefined() || !cluster.DeletionTimestamp.IsZero() {
		return Glance{}
	}
	controlPlane, workers := reportedVersions(cluster)
	// A record that cannot be read counts as none.
	recorded, _ := snapshot.ReadRecorded(cluster)
	g := Glance{From: oldest(slices.Concat(controlPlane, workers))}
	g.To, _ = version.Parse(cluster.Spec.Topology.Version)
	g.UnderWay = snapshot.Pending(cluster).Has(chain.AfterClusterUpgrade) ||
		recorded.Chain != nil || isOlder(g.From, g.To)
	if !g.UnderWay {
		return Glance{}
	}
	if p := recorded.Chain; p != nil && !isPast(p, controlPlane) {
		g.From, g.Step, g.Recorded = p.From, len(p.Steps), true
	}
	if cluster.Status.ControlPlane != nil {
		g.Left = len(cluster.Status.ControlPlane.UpgradePlan)
	}
	g.UpToDate = countUpToDate(cluster)
	g.Gates = gatesAt(cluster, gates, now)
	g.Holds = glanceHolds(cluster, g.Gates)
	return g
}

// reportedVersions are the versions that the Cluster's status lists. Those that cannot be parsed
// are left out.
func reportedVersions(cluster *clusterv1.Cluster) (controlPlane, workers []version.Version) {
	parse := func(reported []clusterv1.StatusVersion) []version.Version {
		var versions []version.Version
		for _, r := range reported {
			if v, err := version.Parse(r.Version); err == nil {
				versions = append(versions, v)
			}
		}
		return versions
	}
	if s := cluster.Status.ControlPlane; s != nil {
		controlPlane = parse(s.Versions)
	}
	if s := cluster.Status.Workers; s != nil {
		workers = parse(s.Versions)
	}
	return controlPlane, workers
}

func countUpToDate(cluster *clusterv1.Cluster) int32 {
	var n int32
	if s := cluster.Status.ControlPlane; s != nil && s.UpToDateReplicas != nil {
		n += *s.UpToDateReplicas
	}
	if s := cluster.Status.Workers; s != nil && s.UpToDateReplicas != nil {
		n += *s.UpToDateReplicas
	}
	return n
}

func isOlder(a, b version.Version) bool {
	return !a.IsZero() && !b.IsZero() && version.Compare(a, b) == version.Less
}

func oldest(versions []version.Version) version.Version {
	var found version.Version
	for _, v := range versions {
		if found.IsZero() || isOlder(v, found) {
			found = v
		}
	}
	return found
}

// isPast reports whether the control plane runs a version beyond the recorded steps: another engine
// took a step since.
func isPast(p *chain.Progress, controlPlane []version.Version) bool {
	last := p.From
	if n := len(p.Steps); n > 0 {
		last = p.Steps[n-1].To
	}
	return slices.ContainsFunc(controlPlane, func(v version.Version) bool {
		return isOlder(last, v)
	})
}

// glanceHolds lists what holds an upgrade, as far as the Cluster and its gates show it.
func glanceHolds(cluster *clusterv1.Cluster, gates []GateHold) []Hold {
	if isPaused(cluster) {
		return []Hold{{Kind: HeldByPause, Since: pausedSince(cluster)}}
	}
	condition := snapshot.TopologyCondition(cluster)
	if condition == nil || condition.Status != metav1.ConditionFalse {
		return nil
	}
	var holds []Hold
	switch condition.Reason {
	case clusterv1.ClusterTopologyReconciledFailedReason:
		return []Hold{{Kind: failureKind(cluster)}}
	case clusterv1.ClusterTopologyReconciledMachineDeploymentsUpgradeDeferredReason,
		clusterv1.ClusterTopologyReconciledMachinePoolsUpgradeDeferredReason:
		holds = append(holds, Hold{Kind: HeldByAnnotation})
	}
	for _, line := range snapshot.BlockingLines(condition) {
		switch hooks := hooksIn(line); {
		case strings.Contains(line, clusterv1.BeforeClusterUpgradeHookAnnotationPrefix):
			holds = append(holds, Hold{Kind: HeldByAnnotation})
		case !gatesAnswer(gates, hooks):
			holds = append(holds, Hold{Kind: HeldByHook, By: joinHooks(hooks)})
		}
	}
	if len(gates) > 0 {
		first := slices.MinFunc(gates, func(a, b GateHold) int {
			if a.Approved != b.Approved {
				return map[bool]int{true: 1, false: -1}[a.Approved]
			}
			return a.Since.Compare(b.Since)
		})
		holds = append(holds, Hold{Kind: HeldByGate, By: first.Gate, Since: first.Since, Approved: first.Approved})
	}
	slices.SortStableFunc(holds, func(a, b Hold) int { return cmp.Compare(a.Kind, b.Kind) })
	return slices.CompactFunc(holds, func(a, b Hold) bool { return a.Kind == b.Kind })
}

func isPaused(cluster *clusterv1.Cluster) bool {
	_, annotated := cluster.Annotations[clusterv1.PausedAnnotation]
	return annotated || cluster.Spec.Paused != nil && *cluster.Spec.Paused
}

// pausedSince is when the Cluster's controller noticed the pause.
func pausedSince(cluster *clusterv1.Cluster) time.Time {
	c := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.PausedCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	return c.LastTransitionTime.UTC()
}

// failureKind tells an upgrade that has no path to its target from other failures.
func failureKind(cluster *clusterv1.Cluster) HoldKind {
	if failure, _ := snapshot.TopologyFailure(cluster); failure.NoPath {
		return HeldByRule
	}
	return HeldByFailure
}

// gatesAnswer reports whether a gate holds the Cluster at one of the hooks.
func gatesAnswer(gates []GateHold, hooks []chain.Hook) bool {
	return slices.ContainsFunc(gates, func(g GateHold) bool {
		return slices.Contains(hooks, chain.Hook(g.Hook))
	})
}

// gatesAt returns the gates that hold the Cluster now. A gate keeps a Cluster in its list until it
// is asked again, so it counts only if the Cluster's condition names its hook as blocking.
func gatesAt(
	cluster *clusterv1.Cluster, gates []*v1alpha1.UpgradeGate, now time.Time,
) []GateHold {
	condition := snapshot.TopologyCondition(cluster)
	blocking := hooksIn(strings.Join(snapshot.BlockingLines(condition), "\n"))
	var found []GateHold
	for _, g := range gates {
		for _, w := range g.Status.Waiting {
			if w.ClusterUID == string(cluster.UID) && slices.Contains(blocking, chain.Hook(w.At)) {
				a, approved := approvalOf(g, w)
				found = append(found, GateHold{
					Gate: g.Name, Hook: w.At, Since: w.Since.UTC(), Approved: approved && isPending(a, now),
				})
			}
		}
	}
	slices.SortFunc(found, func(a, b GateHold) int {
		return cmp.Or(cmp.Compare(a.Gate, b.Gate), cmp.Compare(a.Hook, b.Hook),
			a.Since.Compare(b.Since))
	})
	// A status that lists a Cluster twice, by another name, must not make two series of it.
	return slices.CompactFunc(found, func(a, b GateHold) bool {
		return a.Gate == b.Gate && a.Hook == b.Hook
	})
}
