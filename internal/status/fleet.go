package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// FleetFacts are the objects that an overview of Clusters is made from, in any order.
type FleetFacts struct {
	Clusters []*clusterv1.Cluster
	// Gates are those of the Clusters' namespaces, and Machines the metadata of their Machines.
	Gates    []v1alpha1.UpgradeGate
	Machines []*metav1.PartialObjectMetadata
	// Hidden says what could not be read, and is not counted.
	Hidden []string
}

// Fleet is how the upgrades of several Clusters stand: first those that wait for a person, then those
// that are held, then those that move, each by how long, and the others by namespace and name.
//
// Its JSON is as stable as that of Report.
type Fleet struct {
	// AsOf is when the objects were read.
	AsOf     time.Time           `json:"asOf"`
	Clusters text.List[Overview] `json:"clusters"`
	Hidden   text.List[string]   `json:"hidden"`
}

// Overview is how the upgrade of one Cluster stands, as far as the Cluster, the gates of its namespace
// and annotations of its Machines show it. A Report has more.
type Overview struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// State is Unknown for a Cluster without a managed topology.
	State ChainState `json:"state"`
	// NeedsPerson says that nothing continues until a person does something.
	NeedsPerson bool `json:"needsPerson"`
	// From, Target, Step and StepsLeft are of an upgrade that is under way: see [Glance]. Otherwise Target
	// is what the topology asks for.
	From      version.Version `json:"from"`
	Target    version.Version `json:"target"`
	Step      int             `json:"step"`
	StepsLeft int             `json:"stepsLeft"`
	// UpToDate of Machines are as their groups ask for, as Cluster API counts them.
	UpToDate int32 `json:"upToDate"`
	Machines int32 `json:"machines"`
	// Failed counts the machines whose update has failed finally.
	Failed int             `json:"failed"`
	Holds  text.List[Hold] `json:"heldBy"`
}

// ComputeFleet returns the overview of Clusters.
func ComputeFleet(f FleetFacts, now time.Time) Fleet {
	gates := map[string][]*v1alpha1.UpgradeGate{}
	for i := range f.Gates {
		g := &f.Gates[i]
		gates[g.Namespace] = append(gates[g.Namespace], g)
	}
	failed := failedMachines(f.Machines)
	fleet := Fleet{AsOf: now.UTC(), Hidden: f.Hidden}
	for _, c := range f.Clusters {
		key := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
		fleet.Clusters = append(fleet.Clusters, overviewOf(c, gates[c.Namespace], failed[key], now))
	}
	slices.SortFunc(fleet.Clusters, compareUrgency)
	return fleet
}

// failures are the machines of a Cluster whose update has failed finally.
type failures struct {
	count int
	since time.Time
}

func failedMachines(machines []*metav1.PartialObjectMetadata) map[types.NamespacedName]failures {
	failed := map[types.NamespacedName]failures{}
	for _, m := range machines {
		phase, since := UpdatePhase(m)
		if phase != string(inplace.Failed) {
			continue
		}
		key := types.NamespacedName{Namespace: m.Namespace, Name: capi.ClusterName(m)}
		f := failed[key]
		if f.count++; f.since.IsZero() || since.Before(f.since) {
			f.since = since
		}
		failed[key] = f
	}
	return failed
}

func overviewOf(
	c *clusterv1.Cluster, gates []*v1alpha1.UpgradeGate, failed failures, now time.Time,
) Overview {
	glance := ComputeGlance(c, gates, now)
	o := Overview{
		Namespace: c.Namespace, Cluster: c.Name, Failed: failed.count,
		From: glance.From, Target: glance.To, Step: glance.Step, StepsLeft: glance.Left,
		UpToDate: countUpToDate(c), Machines: countDesired(c), Holds: glance.Holds,
	}
	if o.Target.IsZero() {
		o.Target, _ = version.Parse(c.Spec.Topology.Version)
	}
	for i, h := range o.Holds {
		if h.Kind == HeldByFailure || h.Kind == HeldByRule {
			failure, _ := snapshot.TopologyFailure(c)
			o.Holds[i].Message = failure.Message
		}
	}
	if failed.count > 0 {
		o.Holds = append(o.Holds, Hold{
			Kind: HeldByMachines, Since: failed.since.UTC(),
			Message: text.Count(failed.count, "failed update"),
		})
	}
	o.State = stateOf(c, glance.UnderWay, len(o.Holds) > 0)
	o.NeedsPerson = slices.ContainsFunc(o.Holds, func(h Hold) bool { return h.Kind != HeldByHook && !h.Approved })
	return o
}

// countDesired counts the machines that a Cluster should have.
func countDesired(c *clusterv1.Cluster) int32 {
	var n int32
	if s := c.Status.ControlPlane; s != nil && s.DesiredReplicas != nil {
		n += *s.DesiredReplicas
	}
	if s := c.Status.Workers; s != nil && s.DesiredReplicas != nil {
		n += *s.DesiredReplicas
	}
	return n
}

func stateOf(c *clusterv1.Cluster, underWay, held bool) ChainState {
	switch {
	case !c.DeletionTimestamp.IsZero():
		return ChainDeleting
	case isPaused(c):
		return ChainPaused
	case held:
		return ChainHeld
	case underWay:
		return ChainUpgrading
	case !conditions.IsTrue(c, clusterv1.ClusterControlPlaneInitializedCondition):
		return ChainCreating
	case !c.Spec.Topology.IsDefined():
		return ChainUnknown
	}
	return ChainUpToDate
}

// compareUrgency sorts Clusters by what needs a person.
func compareUrgency(a, b Overview) int {
	rank := func(o Overview) int {
		switch {
		case o.NeedsPerson:
			return 0
		case o.State == ChainHeld:
			return 1
		case o.State == ChainUpgrading:
			return 2
		}
		return 3
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), compareSince(a.since(), b.since()),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Cluster, b.Cluster))
}

// since is when the first hold began; zero if that is not known.
func (o Overview) since() time.Time {
	var first time.Time
	for _, h := range o.Holds {
		if first.IsZero() || !h.Since.IsZero() && h.Since.Before(first) {
			first = h.Since
		}
	}
	return first
}

// compareSince sorts times; one that is not known is last.
func compareSince(a, b time.Time) int {
	switch {
	case a.IsZero() == b.IsZero():
		return a.Compare(b)
	case a.IsZero():
		return 1
	}
	return -1
}
