package demo

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/view"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// ErrDiffers says that an upgrade ended at its target on another way than planned.
var ErrDiffers = errors.New("what happened is not what was planned")

// Savings compares the machines that an upgrade replaced with what the same upgrade would have cost without skipping.
type Savings struct {
	ControlPlane, Workers int
	// EveryMinor is the number of workers that would have been replaced had every group been upgraded at every minor.
	EveryMinor int
}

// computeSavings counts replacements.
func computeSavings(r Result) Savings {
	s := Savings{ControlPlane: r.Replaced[controlPlaneName]}
	for _, g := range r.Request.Inventory.Groups {
		s.Workers += r.Replaced[g.Name]
		s.EveryMinor += r.WorkerReplicas[g.Name] * everyMinor(g, r.Request)
	}
	return s
}

// everyMinor counts the upgrades that a group would need if it followed the control plane at every minor.
func everyMinor(g plan.Group, r plan.Request) int {
	minors, _ := g.Version.Minor().Lag(r.Target.Minor())
	if minors == 0 && g.Version != r.Target {
		return 1
	}
	return int(minors)
}

// Report writes what was planned beside what happened, and what skipping has saved. It returns ErrDiffers when the two
// are not the same.
func Report(w io.Writer, r Result) error {
	if _, err := fmt.Fprint(w, "\nPlanned, and observed on the API server's objects:\n\n"); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	same, err := view.WriteComparison(w, screen, r.Planned.Operations, r.Observed)
	if err != nil {
		return err
	}
	s := computeSavings(r)
	verdict := "The observed operations are the planned ones."
	if !same {
		verdict = "The observed operations are NOT the planned ones."
	}
	_, err = fmt.Fprintf(w, `
%s
The upgrade took %s and replaced %d machines: %d of the control plane, %d workers.
Upgrading every worker at every minor would have replaced %d workers: the chain saved %d.
`, verdict, r.Duration.Round(time.Second), s.ControlPlane+s.Workers, s.ControlPlane, s.Workers, s.EveryMinor, s.EveryMinor-s.Workers)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if !same {
		return ErrDiffers
	}
	return nil
}

// ReportUnfinished says how far an upgrade came that did not end. It judges nothing: what is missing may be still to come.
func ReportUnfinished(w io.Writer, r Result) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\nThe upgrade did not end; it had begun %d of %d operations.\n", min(len(r.Observed), len(r.Planned.Operations)), len(r.Planned.Operations))
	for i, o := range r.Planned.Operations {
		state := "not begun"
		if i < len(r.Observed) {
			state = "begun"
			if i+1 < len(r.Observed) {
				state = "done"
			}
		}
		fmt.Fprintf(&text, "  %-9s  %s\n", state, describe(o))
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func describe(o plan.Operation) string {
	if o.Kind == plan.ControlPlaneUpgrade {
		return fmt.Sprintf("control plane %s -> %s", o.From, o.To)
	}
	return fmt.Sprintf("%s %s -> %s", strings.Join(o.Groups, ", "), o.From, o.To)
}
