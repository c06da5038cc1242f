package policy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/labelselector"
)

// The values of fields that an UpdatePolicy leaves open. The API server fills in the same; policies that are read from
// files have not passed it.
const (
	defaultMaxInFlight    = 1
	defaultCanary         = 1
	defaultMaxAttempts    = 3
	defaultAttemptTimeout = 30 * time.Minute
)

// Policy is what an UpdatePolicy asks for the groups of machines that it counts for, with what it
// leaves open filled in. Nothing may change one that was read from a Compiled: many readers share it.
type Policy struct {
	// Name is the name of the UpdatePolicy; empty for the default.
	Name string
	// Generation is the UpdatePolicy's.
	Generation int64
	// InPlace says that updaters change running machines, where they cover the change.
	InPlace bool
	// FallbackReplace says that machines are replaced where updaters do not cover the change.
	FallbackReplace bool
	// Guarded says that nothing but a person may have machines replaced: InPlace without FallbackReplace.
	Guarded bool
	// UpdateOnDelete says that groups with the strategy OnDelete are updated in place.
	UpdateOnDelete bool
	// HandOver says that an updater is handed all machines of a MachineDeployment at once, in windlass manager.
	HandOver bool
	// Ignore are the fields that need not be applied to a running machine, sorted.
	Ignore []v1alpha1.IgnorePath

	// MaxInFlight is how many machines are changed at once; 0 means any number.
	MaxInFlight int32
	// Alone is how many machines of a group are updated in place at once until one of them has finished
	// the update or failed it finally; 0 means that MaxInFlight is the only limit. It is 1 for any Canary.
	Alone int
	// Canary is how many machines are changed first; the others wait until all of these are done. Like
	// Batches and Partition it is a number or a percentage of spec.replicas, rounded up. 0 means none.
	Canary intstr.IntOrString
	// Batches are how many machines are changed after the canary. A batch begins when all machines
	// before it are done. The last one repeats. None means that all others form one batch.
	Batches []intstr.IntOrString
	// Partition is how many machines stay at the old template.
	Partition intstr.IntOrString
	// Order says which machines go first.
	Order Order

	// Prefetch is how many machines of a Cluster are prepared at once before their update may begin; 0 means none.
	Prefetch int
	// Drain says that a node is drained before its machine is updated.
	Drain bool
	// Soak is how long a machine must be available until its change is done.
	Soak time.Duration
	// MaxAttempts is how often an updater may try; at least 1.
	MaxAttempts int
	// AttemptTimeout is how long an attempt may take, and how long its result may take to show on the node.
	AttemptTimeout time.Duration
	// MachineDeadline is how long the change of a machine may take until it counts as failed,
	// GroupDeadline how long the rollout may take until it is held. 0 means no deadline.
	MachineDeadline, GroupDeadline time.Duration
	// MaxFailures is how many failed machines hold the rollout; 0 means that failed updates do not hold it.
	MaxFailures int32
	// Remediate hands a machine whose update failed finally to remediation.
	Remediate bool

	// Unknown says why nobody knows which policy counts; empty if it is known. It holds rollouts.
	Unknown string
}

// Default returns the policy of groups that no UpdatePolicy selects: machines are replaced, as Cluster API does by itself.
// Its numbers are for updates that began under an UpdatePolicy which was deleted since.
func Default() Policy {
	return Policy{
		FallbackReplace: true, MaxInFlight: defaultMaxInFlight, Alone: defaultCanary, Canary: intstr.FromInt32(defaultCanary),
		MaxAttempts: defaultMaxAttempts, AttemptTimeout: defaultAttemptTimeout,
	}
}

// Undecided returns the policy of a group while nobody can tell which UpdatePolicy counts, and why not. It holds rollouts.
// guarded says that the policy that counts may keep the machines.
func Undecided(why error, guarded bool) Policy {
	return Policy{
		FallbackReplace: true, Guarded: guarded, Unknown: why.Error(),
		MaxAttempts: defaultMaxAttempts, AttemptTimeout: defaultAttemptTimeout,
	}
}

// Longest is how long an update with one updater may take once it has begun: all attempts, and the
// soak time after the last.
func (p Policy) Longest() time.Duration {
	return time.Duration(p.MaxAttempts)*p.AttemptTimeout + p.Soak
}

// MayGuard reports whether a policy keeps the machines of the groups that it counts for. A fallback that is not set, or unknown,
// counts as None.
func MayGuard(p *v1alpha1.UpdatePolicy) bool {
	return p.Spec.Strategy == v1alpha1.ExternalUpdate && p.Spec.Fallback != v1alpha1.FallbackRollingUpdate
}

// translate fills in what a policy leaves open. What it makes of a policy that is not valid has no meaning but for Guarded.
func translate(p *v1alpha1.UpdatePolicy, last labelselector.Selector) Policy {
	s := FromSpec(&p.Spec, last)
	s.Name, s.Generation = p.Name, p.Generation
	s.Guarded = MayGuard(p)
	return s
}

// FromSpec returns what a spec asks for, with last as the selector of its order. The result shares slices with the spec.
func FromSpec(spec *v1alpha1.UpdatePolicySpec, last labelselector.Selector) Policy {
	seconds := func(n int32) time.Duration { return time.Duration(n) * time.Second }
	p := Default()
	p.InPlace = spec.Strategy == v1alpha1.ExternalUpdate
	p.FallbackReplace = !p.InPlace || spec.Fallback == v1alpha1.FallbackRollingUpdate
	p.HandOver = p.InPlace && spec.HandOver == v1alpha1.HandOverGroup
	p.UpdateOnDelete = p.InPlace && spec.OnDelete == v1alpha1.OnDeleteInPlace
	p.Ignore = sortIgnored(spec.IgnorePaths)

	p.MaxInFlight = cmp.Or(spec.MaxInFlight, p.MaxInFlight)
	if spec.Canary != nil {
		p.Canary = *spec.Canary
	}
	if p.Canary == intstr.FromInt32(0) || p.Canary == intstr.FromString("0%") {
		p.Alone = 0
	}
	p.Batches = spec.Batches
	if spec.Partition != nil {
		p.Partition = *spec.Partition
	}
	p.Order = Order{Labels: spec.Order.Labels, OneAtATime: spec.Order.OneAtATime, Last: last.Parsed()}

	if p.InPlace && !p.HandOver {
		p.Prefetch = int(spec.Prefetch.MaxInFlight)
	}
	p.Drain, p.Soak = spec.Drain, seconds(spec.SoakSeconds)
	p.MaxAttempts = cmp.Or(int(spec.MaxAttempts), p.MaxAttempts)
	p.AttemptTimeout = cmp.Or(seconds(spec.AttemptTimeoutSeconds), p.AttemptTimeout)
	p.MachineDeadline, p.GroupDeadline = seconds(spec.MachineDeadlineSeconds), seconds(spec.GroupDeadlineSeconds)
	p.Remediate = spec.OnFailure == v1alpha1.FailureRemediate
	if spec.OnFailure == v1alpha1.FailurePause {
		p.MaxFailures = max(spec.MaxFailures, 1)
	}
	return p
}

func sortIgnored(paths []v1alpha1.IgnorePath) []v1alpha1.IgnorePath {
	sorted := slices.Clone(paths)
	slices.SortFunc(sorted, func(a, b v1alpha1.IgnorePath) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), strings.Compare(a.Path, b.Path))
	})
	return sorted
}
