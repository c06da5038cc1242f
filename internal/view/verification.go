package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Verification is what was found out about all that can happen to an upgrade, and the stable
// interface of `windlass verify -o json` and `-o yaml`.
type Verification struct {
	// Namespace and Cluster are empty where nothing but versions was given.
	Namespace string          `json:"namespace"`
	Cluster   string          `json:"cluster"`
	From      version.Version `json:"from"`
	To        version.Version `json:"to"`
	// Safe says that no counterexample was found; without Complete, which says that everything was
	// visited, that is not a proof.
	Safe     bool `json:"safe"`
	Complete bool `json:"complete"`
	// States, Transitions and Seconds are those of all Studies.
	States      int     `json:"states"`
	Transitions int     `json:"transitions"`
	Seconds     float64 `json:"seconds"`
	// Groups are the names of those that were explored.
	Groups  text.List[string]        `json:"groups"`
	Studies text.List[VerifiedStudy] `json:"studies"`
	// Counterexample is nil when none was found.
	Counterexample *Counterexample   `json:"counterexample"`
	Notes          text.List[string] `json:"notes"`
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
	Study   string            `json:"study"`
	Problem string            `json:"problem"`
	Trace   text.List[string] `json:"trace"`
}

// Add adds a study and what it found; counterexample is nil where that is nothing.
func (v *Verification) Add(s VerifiedStudy, counterexample *Counterexample) {
	v.Studies = append(v.Studies, s)
	v.States, v.Transitions, v.Seconds = v.States+s.States, v.Transitions+s.Transitions, v.Seconds+s.Seconds
	v.Complete = v.Complete && s.Complete
	v.Safe, v.Counterexample = counterexample == nil, counterexample
}

// WriteVerification shows a verification.
func WriteVerification(w io.Writer, f Format, v Verification) error {
	return show(w, f, v, texts{table: func() string { return verificationText(v) }})
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
	switch c := v.Counterexample; {
	case c != nil:
		fmt.Fprintf(&b, "NOT SAFE (%s): %s\n", c.Study, c.Problem)
		for i, line := range c.Trace {
			fmt.Fprintf(&b, "%4d. %s\n", i+1, line)
		}
	case !v.Complete:
		fmt.Fprintf(&b, "No fault was found in %d states and %d transitions, in %.1f s. That is not all that can happen.\n", v.States, v.Transitions, v.Seconds)
	default:
		fmt.Fprintf(&b, "Every interleaving of this upgrade is safe: %d states, %d transitions, in %.1f s.\n", v.States, v.Transitions, v.Seconds)
	}
	for _, note := range v.Notes {
		fmt.Fprintf(&b, "Note: %s\n", note)
	}
	return b.String()
}
