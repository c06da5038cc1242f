package clustercheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
)

// ID names a check. IDs are stable: scripts rely on them.
type ID string

// The checks, in the order in which they are made and reported.
const (
	// APIDiscovery: the API server is reached, runs the version of the control plane, and serves every API group.
	APIDiscovery ID = "APIDiscovery"
	// Nodes: every Machine has a Node that is Ready, without pressure, at the Machine's version.
	Nodes ID = "Nodes"
	// Certificates: no certificate that was seen expires soon.
	Certificates ID = "Certificates"
	// ConfigMapWatch: a watch reports that a ConfigMap is created, changed and deleted.
	ConfigMapWatch ID = "ConfigMapWatch" //nolint:gosec // G101: it is no credential.
	// Deployment: a Deployment becomes available, and rolls out a change.
	Deployment ID = "Deployment"
	// Service: a Pod reaches the Deployment's Pods by the DNS name of a Service.
	Service ID = "Service"
	// Job: a Job completes.
	Job ID = "Job"
	// CleanUp: what the checks created is deleted. It is reported only if that failed.
	CleanUp ID = "CleanUp"
)

// Outcome is what came of a check.
type Outcome string

// The outcomes.
const (
	Passed Outcome = "Passed"
	Failed Outcome = "Failed"
	// Warned: it should be looked at before an upgrade, which may succeed all the same. Only preflights warn.
	Warned Outcome = "Warned"
	// NotChecked: it cannot be checked in this cluster, or not after what failed before. It is neither a success nor a failure.
	NotChecked Outcome = "NotChecked"
)

// Finding is the outcome of one check. Its JSON is a part of the stable interface of `windlass check cluster`
// and `windlass preflight`.
type Finding struct {
	ID      ID      `json:"id"`
	Outcome Outcome `json:"outcome"`
	// Subject is the object that a preflight is about, such as Node a; empty for a whole check.
	Subject string `json:"subject,omitempty"`
	// Message is what was found, and Fix what to change; empty if nothing has to be changed.
	Message string `json:"message"`
	Fix     string `json:"fix"`
}

// Pass is the finding of a check that passed.
func Pass(id ID, format string, arguments ...any) Finding {
	return Finding{ID: id, Outcome: Passed, Message: fmt.Sprintf(format, arguments...)}
}

// Fail is the finding of a check that failed.
func Fail(id ID, fix, format string, arguments ...any) Finding {
	return Finding{ID: id, Outcome: Failed, Message: fmt.Sprintf(format, arguments...), Fix: fix}
}

// Skip is the finding of a check that was not made.
func Skip(id ID, format string, arguments ...any) Finding {
	return Finding{ID: id, Outcome: NotChecked, Message: fmt.Sprintf(format, arguments...)}
}

// Unreachable are the findings where the API server does not answer: the cluster may work. others are the checks that
// are then not made.
func Unreachable(problem error, others ...ID) []Finding {
	findings := []Finding{Fail(APIDiscovery, FixUnread(ClusterUser, problem), "%s: %s", notReached,
		text.Bound(fmt.Sprint(problem), maxProblemBytes))}
	for _, id := range others {
		findings = append(findings, Skip(id, notReached))
	}
	return findings
}

const (
	notReached      = "the API server is not reached"
	maxProblemBytes = 2048
)

// Worst is Failed if a check failed, else NotChecked if one was not made, else Warned if one warned, else Passed.
func Worst(findings []Finding) Outcome {
	rank := []Outcome{Passed, Warned, NotChecked, Failed}
	worst := Passed
	for _, f := range findings {
		if slices.Index(rank, f.Outcome) > slices.Index(rank, worst) {
			worst = f.Outcome
		}
	}
	return worst
}

// Verdict answers in one sentence whether the cluster works.
func Verdict(findings []Finding) string {
	var passed, failed, skipped []string
	for _, f := range findings {
		switch f.Outcome {
		case Passed:
			passed = append(passed, string(f.ID))
		case Failed:
			failed = append(failed, string(f.ID))
		case NotChecked:
			skipped = append(skipped, string(f.ID))
		case Warned:
		}
	}
	words := fmt.Sprintf("The cluster works: %s passed", text.Count(len(passed), "check"))
	if len(failed) > 0 {
		words = fmt.Sprintf("The cluster does not work: %s failed (%s)", text.Count(len(failed), "check"), strings.Join(failed, ", "))
	}
	// These are the findings of Unreachable.
	if len(passed) == 0 && len(failed) == 1 && failed[0] == string(APIDiscovery) {
		words = "It is not known whether the cluster works: the API server is not reached"
	}
	if len(skipped) > 0 {
		words += fmt.Sprintf("; not checked: %s", strings.Join(skipped, ", "))
	}
	return words + "."
}

// shown is how many items a message names.
const shown = 5

// list names the first items, sorted, and counts the others.
func list(items []string) string {
	return text.JoinSome(slices.Sorted(slices.Values(items)), shown, "; ")
}
