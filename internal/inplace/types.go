package inplace

import (
	"time"

	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/pkg/version"
)

// The records of an update in place, and their parts; see package record.
type (
	// Step is one updater's part of an update.
	Step = record.Step
	// Decision is the recorded answer whether machines can be updated in place.
	Decision = record.Decision
	// Phase is where an update is.
	Phase = record.Phase
	// Finished is a step that has ended well.
	Finished = record.Finished
	// Progress is how far a machine's update has come.
	Progress = record.Progress
	// Within is a range of minors, both ends included.
	Within = record.Within
	// Owed is what an update that was given up has not done.
	Owed = record.Owed
	// Summary is what stays on a Machine of its last finished update.
	Summary = record.Summary
)

// The phases, in their usual order; see package record.
const (
	Draining   = record.Draining
	Updating   = record.Updating
	BackingOff = record.BackingOff
	Verifying  = record.Verifying
	Soaking    = record.Soaking
	Failed     = record.Failed
)

// Node is what is known about a machine's node.
type Node struct {
	// Exists is false where the node was not found.
	Exists bool
	// Unknown says why the node could not be looked up; empty where it could.
	Unknown string
	Ready   bool
	// ReadySince is when the node became Ready. Another clock tells it: who reads it passes it through a
	// record.Clock, so that a soak ends though that clock is ahead.
	ReadySince time.Time
	// NotReady says why the node is not Ready.
	NotReady string
	// Kubelet is the kubelet's version.
	Kubelet version.Version
	// Unschedulable says that the node is cordoned.
	Unschedulable bool
	// ScaleDown is who keeps the cluster autoscaler from removing the node.
	ScaleDown ScaleDown
}

// ScaleDown is who keeps the cluster autoscaler from removing a node.
type ScaleDown int

// Who does.
const (
	// ScaleDownAllowed: nobody.
	ScaleDownAllowed ScaleDown = iota
	// ScaleDownByUs: a marker on the node says that an update in place does.
	ScaleDownByUs
	// ScaleDownByOthers: somebody has decided about it, whether for or against.
	ScaleDownByOthers
)

// Answer is what an updater said to a request to update a machine.
type Answer struct {
	Outcome Outcome
	Message string
	// RetryAfter is when to ask again, for InProgress and Unknown; 0 means after a while.
	RetryAfter time.Duration
	// NotBegun says that it is certain that nothing of the operation has begun.
	NotBegun bool
}

// Outcome is the kind of an Answer.
type Outcome int

// The outcomes.
const (
	// Unknown: the updater was not reached, or answered with something that means nothing. The update may go on or not.
	Unknown Outcome = iota
	// InProgress: the updater is working.
	InProgress
	// Finishes: the updater says that it has done its part.
	Finishes
	// Fails: the updater says that it could not do its part.
	Fails
)
