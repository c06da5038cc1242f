package plan

import (
	"fmt"

	"github.com/windlass-dev/windlass/pkg/version"
)

// ReasonCode names why an operation is in a plan. The names are stable.
type ReasonCode string

const (
	// ReasonTarget: it is the target of the upgrade.
	ReasonTarget ReasonCode = "Target"
	// ReasonLatestOfMinor: the control plane goes through every minor, at the newest version on offer.
	ReasonLatestOfMinor ReasonCode = "LatestOfMinor"
	// ReasonFloor: an upgrade graph wants this version before a later minor.
	ReasonFloor ReasonCode = "Floor"
	// ReasonDetour: the shortest way that an upgrade graph leaves open leads through this version.
	ReasonDetour ReasonCode = "Detour"
	// ReasonListed: a GenerateUpgradePlan response names it.
	ReasonListed ReasonCode = "Listed"
	// ReasonEveryMinor: a StopRule makes these workers stop at every minor.
	ReasonEveryMinor ReasonCode = "EveryMinor"
	// ReasonNamed: a StopRule names this stop.
	ReasonNamed ReasonCode = "Named"
	// ReasonBegun: some workers have gone there already, and the others share their list.
	ReasonBegun ReasonCode = "Begun"
	// ReasonShared: other workers must go there, and all share one list.
	ReasonShared ReasonCode = "Shared"
	// ReasonSkew: kubelets would lag too far behind after the next control plane step.
	ReasonSkew ReasonCode = "Skew"
	// ReasonTransition: the update method could not catch up after the next control plane step.
	ReasonTransition ReasonCode = "Transition"
)

// Reason says why an operation is in a plan. It is a comparable value; Message puts it into words.
type Reason struct {
	Code ReasonCode
	// Version is the version that the operation goes to, or for ReasonFloor the floor itself.
	Version version.Version
	// Leaves and Before are set for worker stops (ReasonSkew, ReasonTransition, ReasonShared): the minor that kubelets must
	// have left before the control plane reaches the other. For ReasonFloor, Before is the minor that the floor guards.
	Leaves, Before version.Minor
	// Limit is how many minors a kubelet may lag, or an update method can jump.
	Limit uint32
	// Detail is what the author of an upgrade graph says about the floor, the blocked edge or the StopRule behind it; it may
	// be empty.
	Detail string
}

// Message returns one sentence without a full stop, which cites the rule.
func (r Reason) Message() string {
	switch r.Code {
	case ReasonTarget:
		return fmt.Sprintf("%s is the target of the upgrade", r.Version)
	case ReasonLatestOfMinor:
		return fmt.Sprintf("the control plane moves one minor at a time: %s is the newest %s on offer", r.Version, r.Version.Minor())
	case ReasonFloor:
		return fmt.Sprintf("the upgrade graph has a floor: before %s reach at least %s%s", r.Before, r.Version, because(r.Detail))
	case ReasonDetour:
		return fmt.Sprintf("the upgrade graph leaves no shorter or newer way than through %s%s", r.Version, because(r.Detail))
	case ReasonListed:
		return fmt.Sprintf("the GenerateUpgradePlan response lists %s", r.Version)
	case ReasonEveryMinor, ReasonNamed:
		return r.demanded("these workers")
	case ReasonBegun:
		return fmt.Sprintf("the workers upgrade to %s has begun, and all workers share its stops", r.Version)
	case ReasonShared:
		return r.shared()
	case ReasonSkew:
		return fmt.Sprintf("workers must leave %s before the control plane reaches %s: kubelet may lag %s", r.Leaves, r.Before, minors(r.Limit))
	case ReasonTransition:
		return fmt.Sprintf("workers must leave %s before the control plane reaches %s: they can move %s at a time in place", r.Leaves, r.Before, minors(r.Limit))
	default:
		return string(r.Code)
	}
}

// demanded is the Message of a stop that a StopRule demands of some workers.
func (r Reason) demanded(of string) string {
	where := "every minor"
	if r.Code != ReasonEveryMinor {
		where = r.Version.String()
	}
	return fmt.Sprintf("the upgrade graph makes %s stop at %s%s", of, where, because(r.Detail))
}

func (r Reason) shared() string {
	const all = "all workers share one list of stops, and "
	if r.Before == (version.Minor{}) {
		return all + r.demanded("others")
	}
	return all + fmt.Sprintf("others must leave %s before the control plane reaches %s", r.Leaves, r.Before)
}

// String is Message, so that a Reason prints as a sentence.
func (r Reason) String() string { return r.Message() }

func minors(n uint32) string {
	if n == 1 {
		return "1 minor"
	}
	return fmt.Sprintf("%d minors", n)
}
