package record

import "time"

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

// IsKnown reports whether this release knows the phase.
func (p Phase) IsKnown() bool {
	switch p {
	case Draining, Updating, BackingOff, Verifying, Soaking, Failed:
		return true
	}
	return false
}

const (
	// firstBackoff is the wait after the first failed attempt; it doubles with every further one up to
	// maxBackoff.
	firstBackoff = 10 * time.Second
	maxBackoff   = 5 * time.Minute
)

// Backoff is how long to wait after the attempt-th failed attempt.
func Backoff(attempt int) time.Duration {
	wait := firstBackoff
	for range attempt - 1 {
		if wait *= 2; wait >= maxBackoff {
			return maxBackoff
		}
	}
	return wait
}
