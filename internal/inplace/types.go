package inplace

import (
	"fmt"
	"reflect"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Step is one updater's part of an update.
type Step struct {
	Updater string `json:"updater" record:"key"`
	// SetsVersion says that the updater moves the kubelet to the desired version.
	SetsVersion bool `json:"setsVersion,omitempty"`
	// NeedsDrain says that the node should be drained before the updater runs, where the policy drains.
	NeedsDrain bool `json:"needsDrain,omitempty"`
	// Asks says that the updater is asked before the drain whether it can begin. Others have answered
	// that with what they cover.
	Asks bool `json:"asks,omitempty"`
	// MaxMinors is how many minors the updater moves a kubelet at once; 0 means any number.
	MaxMinors int `json:"maxMinors,omitempty"`
}

// Decision is the recorded answer to the question whether a machine, or the machines of a MachineSet, can be updated in
// place: yes, by these steps.
type Decision struct {
	// ID identifies the decision: it is a digest of everything below but Decided.
	ID string `json:"id" record:"key"`
	// Target is the name of the MachineSet that machines move to; empty for a control plane Machine's own.
	Target string `json:"target,omitempty"`
	Steps  []Step `json:"steps"`
	// CurrentDigest and DesiredDigest are of the specs that were compared.
	CurrentDigest string `json:"currentDigest"`
	DesiredDigest string `json:"desiredDigest"`
	// Fingerprint is that of a control plane Machine's desired objects; see cover.Fingerprint. The live objects of a Machine are compared with the template
	// of its MachineSet instead, so it is empty for MachineSets.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Changes are the fields that the update changes.
	Changes []cover.Change `json:"changes,omitempty"`
	// Dirty are the fields that differ and are not applied.
	Dirty   []cover.Pointer `json:"dirty,omitempty"`
	Decided time.Time       `json:"decided"`
}

// Phase is where an update is.
type Phase string

// The phases, in their usual order.
const (
	// Draining: the node is cordoned and being drained.
	Draining Phase = "Draining"
	// Updating: the first step's updater runs.
	Updating Phase = "Updating"
	// BackingOff: the last attempt failed; the next one starts at Progress.NotBefore.
	BackingOff Phase = "BackingOff"
	// Verifying: the updater says that it is done; the node must be Ready at the desired version.
	Verifying Phase = "Verifying"
	// Soaking: the node is Ready at the desired version, and must stay so for a while.
	Soaking Phase = "Soaking"
	// Failed: all attempts failed. Only a person, or remediation, moves the machine from here.
	Failed Phase = "Failed"
)

// Finished is a step that has ended well.
type Finished struct {
	Updater  string `json:"updater" record:"key"`
	Attempts int    `json:"attempts"`
	// Seconds is from the start of the first attempt to the end of the last.
	Seconds int64 `json:"seconds"`
}

// Progress is how far a machine's update has come. It is recorded on the Machine before each effect.
type Progress struct {
	// ID identifies the update; operation ids derive from it.
	ID string `json:"id" record:"key"`
	// Decision is the ID of the Decision that is carried out, and Target its MachineSet.
	Decision string `json:"decision"`
	Target   string `json:"target,omitempty"`
	// Policy is the name of the UpdatePolicy that counted when the update began; empty for none.
	Policy string `json:"policy,omitempty"`
	// Fingerprint is that of the machine's objects when the update began; empty for updates that no decision of Cluster API's began.
	Fingerprint string `json:"fingerprint,omitempty"`
	// From and To are Kubernetes versions; From is the kubelet's at the start.
	From version.Version `json:"from,omitzero"`
	To   version.Version `json:"to,omitzero"`
	// Within says, where To is not known before, with which versions the update may end.
	Within *Within `json:"within,omitempty"`
	// Steps are the steps that have not ended, the first of which is the current one; Done are those that have.
	Steps []Step     `json:"steps"`
	Done  []Finished `json:"done,omitempty"`
	Phase Phase      `json:"phase"`
	// Attempt counts the current step's attempts from 1, and starts again when a person asks for a retry.
	Attempt int `json:"attempt"`
	// Operations counts all attempts of all steps; Operation is the id of the current one.
	Operations int    `json:"operations"`
	Operation  string `json:"operation"`
	// Began is when the update began, StepBegan the current step's first attempt, Started the current attempt or phase.
	Began     time.Time `json:"began"`
	StepBegan time.Time `json:"stepBegan"`
	Started   time.Time `json:"started"`
	// Retried is when a person last asked for a retry, after the update had failed finally.
	Retried *time.Time `json:"retried,omitempty"`
	// NotBefore is when the next attempt may start.
	NotBefore *time.Time `json:"notBefore,omitempty"`
	// Verified is since when the node has been Ready at the desired version.
	Verified *time.Time `json:"verified,omitempty"`
	// LastError is why the last attempt failed.
	LastError string `json:"lastError,omitempty"`
	// Unanswered says that the last attempt ended with its time while the updater could not be asked: it may have worked.
	Unanswered bool `json:"unanswered,omitempty"`
	// Unended says that an attempt ended with its time and without a result, and no later one has had one: its change may still run.
	Unended bool `json:"unended,omitempty"`
	// Drained says that the node was drained for this update.
	Drained bool `json:"drained,omitempty"`
	// CanBegin is the operation that an updater, asked before the drain, said it can begin; empty where
	// none was asked.
	CanBegin string `json:"canBegin,omitempty"`
	// Cordoned says that the node was cordoned for this update, and must be uncordoned after it.
	Cordoned bool `json:"cordoned,omitempty"`
	// Dirty are the fields that differ and are not applied.
	Dirty []cover.Pointer `json:"dirty,omitempty"`
}

// At returns p as it counts at the time now, for a clock that was ahead when p was recorded: no time
// in it is after now, and NotBefore is at most one backoff away. It returns p itself where that
// changes nothing. p may be nil.
func (p *Progress) At(now time.Time) *Progress {
	if p == nil {
		return nil
	}
	at := *p
	at.Began, at.StepBegan = record.Past(p.Began, now), record.Past(p.StepBegan, now)
	at.Started = record.Past(p.Started, now)
	at.Retried, at.Verified = record.PastOf(p.Retried, now), record.PastOf(p.Verified, now)
	at.NotBefore = record.PastOf(p.NotBefore, now.Add(backoff(p.Attempt)))
	if reflect.DeepEqual(&at, p) {
		return p
	}
	return &at
}

// Within is a range of minors, both ends included: an update whose exact version is not known before must end in it.
type Within struct {
	Oldest version.Minor `json:"oldest"`
	Newest version.Minor `json:"newest"`
}

// Has reports whether a version is in the range.
func (w Within) Has(v version.Version) bool {
	return !v.Minor().Before(w.Oldest) && !w.Newest.Before(v.Minor())
}

// String names the range for people.
func (w Within) String() string {
	if w.Oldest == w.Newest {
		return "a release of " + w.Oldest.String()
	}
	return fmt.Sprintf("a release from %s to %s", w.Oldest, w.Newest)
}

// Deadline is when the current attempt, or the time for its result to show on the node, is over.
func (p *Progress) Deadline(policy Policy) time.Time { return p.Started.Add(policy.AttemptTimeout) }

// goal names what a node must report at the end.
func (p *Progress) goal() string {
	if p.Within != nil {
		return p.Within.String()
	}
	return p.To.String()
}

// reached reports whether a kubelet is what the update is to end with.
func (p *Progress) reached(kubelet version.Version) bool {
	if p.Within != nil {
		return !kubelet.IsZero() && p.Within.Has(kubelet)
	}
	return p.To.RunBy(kubelet)
}

// beyond reports whether a kubelet is newer than the update may end with: no waiting fixes that.
func (p *Progress) beyond(kubelet version.Version) bool {
	return p.Within != nil && !kubelet.IsZero() && p.Within.Newest.Before(kubelet.Minor())
}

// Owed is what an update that was given up has not done. The Machine's objects carry the desired state of that update already,
// so no later comparison finds it: the next update does it.
type Owed struct {
	Steps []Step          `json:"steps"`
	Dirty []cover.Pointer `json:"dirty,omitempty"`
}

// Summary is what stays on a Machine of its last finished update.
type Summary struct {
	ID       string          `json:"id" record:"key"`
	Decision string          `json:"decision"`
	Target   string          `json:"target,omitempty"`
	From     version.Version `json:"from,omitzero"`
	To       version.Version `json:"to,omitzero"`
	Done     []Finished      `json:"done"`
	Began    time.Time       `json:"began"`
	Ended    time.Time       `json:"ended"`
}

// Policy is what the user wants of an update.
type Policy struct {
	// MaxInFlight is how many machines are updated at once; 0 means any number.
	MaxInFlight int
	// Canary is how many machines of a group are updated at once until one of them has finished the
	// update or failed it finally; 0 means that MaxInFlight is the only limit.
	Canary int
	Drain  bool
	Soak   time.Duration
	// MaxAttempts is how often an updater may try; at least 1.
	MaxAttempts int
	// AttemptTimeout is how long an attempt may take, and how long its result may take to show on the node.
	AttemptTimeout time.Duration
	// Remediate hands a machine whose update failed finally to remediation.
	Remediate bool
}

// Longest is how long an update with one updater may take once it has begun: all attempts, and the
// soak time after the last.
func (p Policy) Longest() time.Duration {
	return time.Duration(p.MaxAttempts)*p.AttemptTimeout + p.Soak
}

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
}

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
