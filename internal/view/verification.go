package view

import (
	"fmt"
	"io"
	"strconv"
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
	if counterexample != nil {
		v.Safe, v.Counterexample = false, counterexample
	}
}

// WriteVerification shows a verification.
func WriteVerification(w io.Writer, f Format, s Screen, v Verification) error {
	return show(w, f, v, texts{table: func() string { return verificationText(s, v) }})
}

func verificationText(s Screen, v Verification) string {
	var b strings.Builder
	s.verdict(&b, verificationTone(v), verificationVerdict(v))
	if c := v.Counterexample; c != nil {
		fmt.Fprintf(&b, "\nThe shortest way there (%s):\n", c.Study)
		for i, line := range c.Trace {
			s.hanging(&b, fmt.Sprintf("%4d. ", i+1), line)
		}
	}
	rows := make([][]string, 0, len(v.Studies))
	for _, study := range v.Studies {
		visited := "all"
		switch {
		case v.Counterexample != nil && v.Counterexample.Study == study.Name:
			visited = "to the fault"
		case !study.Complete:
			visited = "cut off"
		}
		rows = append(rows, []string{study.Name, strconv.Itoa(study.States), strconv.Itoa(study.Transitions), visited, study.Varies})
	}
	b.WriteString("\n")
	s.table(&b, []string{"Study", "States", "Transitions", "Visited", "What happens at any point"}, rows)
	fmt.Fprintf(&b, "\n%d states and %d transitions in %.1f s\n", v.States, v.Transitions, v.Seconds)
	for _, note := range v.Notes {
		b.WriteString("\n")
		s.paragraph(&b, "Note: "+note)
	}
	return b.String()
}

func verificationTone(v Verification) tone {
	switch {
	case v.Counterexample != nil:
		return bad
	case !v.Complete:
		return fair
	default:
		return good
	}
}

// verificationVerdict answers in one sentence whether an upgrade is safe.
func verificationVerdict(v Verification) string {
	subject := "upgrade"
	if v.Cluster != "" {
		subject += " of " + v.Cluster
	}
	subject += fmt.Sprintf(" from %s to %s", v.From, v.To)
	switch c := v.Counterexample; {
	case c != nil:
		return fmt.Sprintf("The %s is NOT SAFE: %s", subject, c.Problem)
	case !v.Complete:
		return fmt.Sprintf("The %s has no fault in what was explored, which is not all that can happen.", subject)
	default:
		return fmt.Sprintf("The %s is safe in every interleaving of the studies below.", subject)
	}
}
