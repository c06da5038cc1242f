package journal

import (
	"fmt"
	"time"
)

// Outage is a time in which all attempts of one operation failed.
type Outage struct {
	// From is when the first attempt that failed began. To is when the next attempt that succeeded
	// ended, so an outage is never reported as shorter than it was for the client.
	From, To time.Time
	// Open says that no attempt has succeeded since. To is then the end of the last attempt.
	Open bool
	// Attempts is how many failed, and Error is that of the first one.
	Attempts int
	Error    string
}

// Duration is how long the outage lasted.
func (o Outage) Duration() time.Duration { return o.To.Sub(o.From) }

// Availability is how one operation fared.
type Availability struct {
	Succeeded, Failed int
	// Slowest is the longest attempt that succeeded.
	Slowest time.Duration
	// Outages are in order, and do not overlap.
	Outages []Outage
}

// Total is the time of all outages.
func (a Availability) Total() time.Duration {
	var total time.Duration
	for _, o := range a.Outages {
		total += o.Duration()
	}
	return total
}

// Longest is the time of the longest outage.
func (a Availability) Longest() time.Duration {
	var longest time.Duration
	for _, o := range a.Outages {
		longest = max(longest, o.Duration())
	}
	return longest
}

// Recovered reports whether the last attempt succeeded. Without an attempt nobody knows, so it is
// false.
func (a Availability) Recovered() bool {
	if n := len(a.Outages); n > 0 && a.Outages[n-1].Open {
		return false
	}
	return a.Succeeded > 0
}

// Problems returns why a control plane did not answer as it should: no attempt succeeded, an outage
// has no end, or one was longer than a limit. A limit of 0 is none.
func (a Availability) Problems(limit time.Duration) []string {
	var problems []string
	if a.Succeeded == 0 {
		problems = append(problems, "no attempt succeeded")
	}
	for _, o := range a.Outages {
		switch {
		case o.Open:
			problems = append(problems, fmt.Sprintf("an outage has no end: since %s, %d attempts failed: %s",
				o.From.Format(time.RFC3339), o.Attempts, o.Error))
		case limit > 0 && o.Duration() > limit:
			problems = append(problems, fmt.Sprintf("an outage took %s, at most %s are expected: %s",
				o.Duration(), limit, o.Error))
		}
	}
	return problems
}

// Measure returns how an operation fared. The attempts must be in the order of the journal.
func Measure(attempts []Attempt, operation Operation) Availability {
	var result Availability
	var current *Outage
	for _, a := range attempts {
		if a.Operation != operation {
			continue
		}
		switch {
		case !a.Failed() && current != nil:
			current.To = a.Ended
			result.Outages = append(result.Outages, *current)
			current = nil
		case a.Failed() && current == nil:
			current = &Outage{From: a.Began, Error: a.Error}
		}
		if a.Failed() {
			result.Failed++
			current.Attempts++
			current.To = a.Ended
			continue
		}
		result.Succeeded++
		result.Slowest = max(result.Slowest, a.Ended.Sub(a.Began))
	}
	if current != nil {
		current.Open = true
		result.Outages = append(result.Outages, *current)
	}
	return result
}
