package gate

import (
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/text"
)

// Gate is one gate at the step in question.
type Gate struct {
	Name string
	// Problem says why the gate cannot be evaluated; it then holds the step.
	Problem string
	// NeedsApproval says that a person has to approve the step, and Approved that one has.
	NeedsApproval, Approved bool
	// ApprovedBefore says that a person has approved the step, perhaps before the gate was changed, when it does not count.
	ApprovedBefore bool
	// HowToApprove is what to do to approve the step; it ends up in messages.
	HowToApprove string
	// Windows are when the step may begin; with none of them, at any time.
	Windows []Window
	// Checks are what is looked at in the cluster.
	Checks []Check
}

// Check is what is looked at in a cluster.
type Check string

// The checks.
const (
	NodesReady            Check = "NodesReady"
	EtcdHealthy           Check = "EtcdHealthy"
	NoDeprecatedAPIs      Check = "NoDeprecatedAPIs"
	BudgetsCanBeSatisfied Check = "BudgetsCanBeSatisfied"
)

// Reason is why a gate holds a step.
type Reason string

// The reasons.
const (
	// GateInvalid: the gate cannot be evaluated as it is written.
	GateInvalid Reason = "GateInvalid"
	// NotApproved: nobody has approved the step.
	NotApproved Reason = "NotApproved"
	// OutsideWindows: none of the windows is open.
	OutsideWindows Reason = "OutsideWindows"
	// CheckUnknown: what a check looks at could not be found out.
	CheckUnknown Reason = "CheckUnknown"
	// NodesNotReady: some Nodes are not Ready.
	NodesNotReady Reason = "NodesNotReady"
	// EtcdNotHealthy: the control plane object says that etcd is not healthy.
	EtcdNotHealthy Reason = "EtcdNotHealthy"
	// DeprecatedAPIsInUse: the API server has seen requests for APIs that the step's version removes.
	DeprecatedAPIsInUse Reason = "DeprecatedAPIsInUse"
	// BudgetsNeverSatisfied: PodDisruptionBudgets forbid every eviction for ever.
	BudgetsNeverSatisfied Reason = "BudgetsNeverSatisfied"
)

// Finding is what is not met at one gate.
type Finding struct {
	Gate   string
	Reason Reason
	// Message says what is not met, in bounded words that stay the same while that is so.
	Message string
}

// Verdict is the answer to a step.
type Verdict struct {
	// Findings are what holds the step, by name of gate and then in the order of the checks; none means that it may go on.
	Findings []Finding
	// RetryAfter is when to ask again; 0 if the step may go on.
	RetryAfter time.Duration
}

const (
	// LongestRetry is after how long a step is looked at again at the latest: a person may approve at any time, and a gate may
	// change.
	LongestRetry = time.Minute
	// checkRetry is after how long a cluster is looked at again.
	checkRetry = 30 * time.Second
	// maxGateBytes bounds what a gate says.
	maxGateBytes = 1024
)

// Needs returns which checks a verdict needs facts for: those of gates that neither a person nor the clock holds. They are sorted.
func Needs(gates []Gate, now time.Time) []Check {
	var needed []Check
	for _, g := range gates {
		if held, _ := decideFirst(g, now); len(held) == 0 {
			needed = append(needed, g.Checks...)
		}
	}
	slices.Sort(needed)
	return slices.Compact(needed)
}

// Decide returns whether a step may go on: if every gate lets it. Facts are those that Needs named for the same gates and time.
func Decide(step Step, gates []Gate, facts Facts, now time.Time) Verdict {
	var verdict Verdict
	sorted := slices.Clone(gates)
	slices.SortFunc(sorted, func(a, b Gate) int { return strings.Compare(a.Name, b.Name) })
	for _, g := range sorted {
		findings, retry := decideFirst(g, now)
		if len(findings) == 0 {
			findings, retry = decideChecks(g, step, facts), checkRetry
		}
		if len(findings) == 0 {
			continue
		}
		if verdict.RetryAfter == 0 || retry < verdict.RetryAfter {
			verdict.RetryAfter = retry
		}
		verdict.Findings = append(verdict.Findings, findings...)
	}
	return verdict
}

// needsApproval is how the message of a gate that was not approved begins.
const needsApproval = "needs approval"

// AsksForApproval reports whether the message of a gate asks for an approval.
func AsksForApproval(message string) bool { return strings.HasPrefix(message, needsApproval) }

// decideFirst finds what can be told without looking at the cluster.
func decideFirst(g Gate, now time.Time) ([]Finding, time.Duration) {
	if g.Problem != "" {
		return []Finding{{Gate: g.Name, Reason: GateInvalid, Message: "cannot evaluate it, so it holds: " + g.Problem}}, LongestRetry
	}
	var findings []Finding
	retry := LongestRetry
	if g.NeedsApproval && !g.Approved {
		message := needsApproval
		if g.ApprovedBefore {
			message += " again, since the gate has changed"
		}
		if g.HowToApprove != "" {
			message += ": " + g.HowToApprove
		}
		findings = append(findings, Finding{Gate: g.Name, Reason: NotApproved, Message: message})
	}
	if message, wait := waitForWindow(g.Windows, now); wait > 0 {
		findings = append(findings, Finding{Gate: g.Name, Reason: OutsideWindows, Message: message})
		retry = min(retry, wait)
	}
	return findings, retry
}

// waitForWindow names the window that opens next, and how long that takes; 0 if one is open, or there are none.
func waitForWindow(windows []Window, now time.Time) (message string, wait time.Duration) {
	next, opens, ok := NextWindow(windows, now)
	switch {
	case len(windows) == 0:
		return "", 0
	case !ok:
		return "waits for a window; none opens within two weeks", LongestRetry
	case !opens.After(now):
		return "", 0
	default:
		return "waits for the window " + next.String() + ", opens " + opens.Format(time.RFC3339), opens.Sub(now)
	}
}

// Gates returns the names of the gates that hold the step, sorted.
func (v Verdict) Gates() []string {
	var names []string
	for _, f := range v.Findings {
		names = append(names, f.Gate)
	}
	return slices.Compact(names)
}

// Of says what a gate waits for, in bounded words; nothing, if it does not.
func (v Verdict) Of(gate string) string {
	var messages []string
	for _, f := range v.Findings {
		if f.Gate == gate {
			messages = append(messages, f.Message)
		}
	}
	return text.Bound(strings.Join(messages, "; "), maxGateBytes)
}

// Message says which gates hold a step, and what they wait for.
func (v Verdict) Message(step Step) string {
	var messages []string
	for _, name := range v.Gates() {
		messages = append(messages, "gate "+name+": "+step.String()+": "+v.Of(name))
	}
	return strings.Join(messages, "; ")
}
