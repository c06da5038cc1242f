package record

import (
	"fmt"
	"reflect"
	"time"

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
	Dirty []Pointer `json:"dirty,omitempty"`
}

// At returns p as it counts at the time now, for a clock that was ahead when p was recorded: no time
// in it is after now, and NotBefore is at most one backoff away. It returns p itself where that
// changes nothing. p may be nil.
func (p *Progress) At(now time.Time) *Progress {
	if p == nil {
		return nil
	}
	at := *p
	at.Began, at.StepBegan = Past(p.Began, now), Past(p.StepBegan, now)
	at.Started = Past(p.Started, now)
	at.Retried, at.Verified = PastOf(p.Retried, now), PastOf(p.Verified, now)
	at.NotBefore = PastOf(p.NotBefore, now.Add(Backoff(p.Attempt)))
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

// Owed is what an update that was given up has not done. The Machine's objects carry the desired state of that update already,
// so no later comparison finds it: the next update does it.
type Owed struct {
	Steps []Step    `json:"steps"`
	Dirty []Pointer `json:"dirty,omitempty"`
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

// Deadline is when the current attempt, or the time for its result to show on the node, is over.
func (p *Progress) Deadline(attempt time.Duration) time.Time { return p.Started.Add(attempt) }

// Goal names what a node must report at the end.
func (p *Progress) Goal() string {
	if p.Within != nil {
		return p.Within.String()
	}
	return p.To.String()
}

// Reached reports whether a kubelet is what the update is to end with.
func (p *Progress) Reached(kubelet version.Version) bool {
	if p.Within != nil {
		return !kubelet.IsZero() && p.Within.Has(kubelet)
	}
	return p.To.RunBy(kubelet)
}

// Beyond reports whether a kubelet is newer than the update may end with: no waiting fixes that.
func (p *Progress) Beyond(kubelet version.Version) bool {
	return p.Within != nil && !kubelet.IsZero() && p.Within.Newest.Before(kubelet.Minor())
}

// MustAsk reports whether the updater is to be asked whether it can begin the current operation.
func (p *Progress) MustAsk() bool { return p.Steps[0].Asks && p.CanBegin != p.Operation }

// IsUnknown reports whether a newer release has written a phase that this one does not know. An
// updater may be at work.
func (p *Progress) IsUnknown() bool { return p.Phase != "" && !p.Phase.IsKnown() }
