package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Verification is what was found out about all that can happen to an upgrade.
type Verification struct {
	// Namespace and Cluster are empty where nothing but versions was given.
	Namespace, Cluster string
	From, To           version.Version
	// Groups are the names of those that were explored.
	Groups []string
	// Unrepresented says that those do not stand for all that there are.
	Unrepresented bool
	Studies       []VerifiedStudy
	// Counterexample is nil when none was found.
	Counterexample *Counterexample
	Notes          []string
}

// VerifiedStudy is one kind of disturbance.
type VerifiedStudy struct {
	Name        string `json:"name"`
	Varies      string `json:"varies"`
	States      int    `json:"states"`
	Transitions int    `json:"transitions"`
	// Complete says that there are no other states.
	Complete bool    `json:"complete"`
	Seconds  float64 `json:"seconds"`
}

// Counterexample is a way to what must not be.
type Counterexample struct {
	Study   string              `json:"study"`
	Problem string              `json:"problem"`
	Trace   status.List[string] `json:"trace"`
}

// Complete reports whether everything was visited.
func (v Verification) Complete() bool {
	if v.Unrepresented {
		return false
	}
	for _, s := range v.Studies {
		if !s.Complete {
			return false
		}
	}
	return true
}

func (v Verification) sum() (states, transitions int, seconds float64) {
	for _, s := range v.Studies {
		states, transitions, seconds = states+s.States, transitions+s.Transitions, seconds+s.Seconds
	}
	return states, transitions, seconds
}

// The types below are the stable interface of `windlass verify -o json` and `-o yaml`.

type verificationDocument struct {
	Namespace string          `json:"namespace"`
	Cluster   string          `json:"cluster"`
	From      version.Version `json:"from"`
	To        version.Version `json:"to"`
	// Safe says that no counterexample was found; without Complete that is not a proof.
	Safe           bool                       `json:"safe"`
	Complete       bool                       `json:"complete"`
	States         int                        `json:"states"`
	Transitions    int                        `json:"transitions"`
	Seconds        float64                    `json:"seconds"`
	Groups         status.List[string]        `json:"groups"`
	Studies        status.List[VerifiedStudy] `json:"studies"`
	Counterexample *Counterexample            `json:"counterexample"`
	Notes          status.List[string]        `json:"notes"`
}

// WriteVerification shows a verification.
func WriteVerification(w io.Writer, f Format, v Verification) error {
	switch f {
	case JSON, YAML:
		return writeDocument(w, f, newVerificationDocument(v))
	case Table:
		return writeText(w, verificationText(v))
	case Mermaid, Wide:
		return fmt.Errorf("format %q shows no verification", f)
	default:
		return fmt.Errorf("unknown format %q", f)
	}
}

func newVerificationDocument(v Verification) verificationDocument {
	d := verificationDocument{
		Namespace: v.Namespace, Cluster: v.Cluster, From: v.From, To: v.To, Safe: v.Counterexample == nil, Complete: v.Complete(),
		Groups: v.Groups, Studies: v.Studies, Counterexample: v.Counterexample, Notes: v.Notes,
	}
	d.States, d.Transitions, d.Seconds = v.sum()
	return d
}

func verificationText(v Verification) string {
	var b strings.Builder
	subject := strings.TrimSpace("the upgrade of " + v.Cluster)
	if v.Cluster == "" {
		subject = "the upgrade"
	}
	fmt.Fprintf(&b, "%s from %s to %s\n\n", strings.ToUpper(subject[:1])+subject[1:], v.From, v.To)
	for _, s := range v.Studies {
		visited := "all of them"
		if !s.Complete {
			visited = "cut off there"
		}
		fmt.Fprintf(&b, "%-12s %8d states, %9d transitions, %s\n", s.Name, s.States, s.Transitions, visited)
		fmt.Fprintf(&b, "             %s\n", s.Varies)
	}
	b.WriteString("\n")
	states, transitions, seconds := v.sum()
	switch c := v.Counterexample; {
	case c != nil:
		fmt.Fprintf(&b, "NOT SAFE (%s): %s\n", c.Study, c.Problem)
		for i, line := range c.Trace {
			fmt.Fprintf(&b, "%4d. %s\n", i+1, line)
		}
	case !v.Complete():
		fmt.Fprintf(&b, "No fault was found in %d states and %d transitions, in %.1f s. That is not all that can happen.\n", states, transitions, seconds)
	default:
		fmt.Fprintf(&b, "Every interleaving of this upgrade is safe: %d states, %d transitions, in %.1f s.\n", states, transitions, seconds)
	}
	for _, note := range v.Notes {
		fmt.Fprintf(&b, "Note: %s\n", note)
	}
	return b.String()
}
