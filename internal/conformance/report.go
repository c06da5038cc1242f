package conformance

import "fmt"

// Status is how a point ended.
type Status string

// The statuses.
const (
	Pass    Status = "pass"
	Fail    Status = "fail"
	Skipped Status = "skipped"
)

// Point is one rule, and whether the updater keeps it.
type Point struct {
	// ID is stable over releases.
	ID     string `json:"id"`
	Title  string `json:"title"`
	Status Status `json:"status"`
	// Reason says why it failed or was skipped.
	Reason string `json:"reason,omitempty"`
	// Source is where the rule is written.
	Source string `json:"source"`
}

// Report is the result of a battery. Its points are always the same ones, in the same order.
type Report struct {
	URL    string  `json:"url"`
	Points []Point `json:"points"`
	// Warnings are what is no failure, but differs from what the user will expect: points that could not be tested, and
	// patches that have no effect.
	Warnings []string `json:"warnings,omitempty"`
}

// Count counts the points of a status.
func (r *Report) Count(status Status) int {
	count := 0
	for _, point := range r.Points {
		if point.Status == status {
			count++
		}
	}
	return count
}

// outcome is how a point ended, and why.
type outcome struct {
	status Status
	reason string
}

func passed() outcome { return outcome{status: Pass} }

func failed(format string, args ...any) outcome {
	return outcome{status: Fail, reason: fmt.Sprintf(format, args...)}
}

func skipped(format string, args ...any) outcome {
	return outcome{status: Skipped, reason: fmt.Sprintf(format, args...)}
}
