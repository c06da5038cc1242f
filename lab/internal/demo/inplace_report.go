package demo

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/windlass-dev/windlass/internal/view"
)

// ErrReplaced says that machines were created or deleted in a run that was to keep them.
var ErrReplaced = errors.New("machines were not kept")

// ErrUncounted says that machines were updated in place more or less often than their groups were upgraded.
var ErrUncounted = errors.New("the updates in place are not those that were planned")

// ReportInPlace writes what was planned beside what happened, each machine before and after, and what replacing machines would
// have cost. It returns ErrDiffers, ErrReplaced and ErrUncounted where reality is not what was promised.
func ReportInPlace(w io.Writer, r Result) error {
	var text strings.Builder
	same, err := writeOperations(&text, r)
	if err != nil {
		return err
	}
	kept := writeMachines(&text, *r.InPlace)
	expected := machineUpdates(r.Observed, countGroup(r.InPlace.Before, controlPlaneName), r.WorkerReplicas)
	counted := expected == len(r.InPlace.Updates)
	writeVerdict(&text, r, kept, expected)
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	var problems []error
	if !same {
		problems = append(problems, ErrDiffers)
	}
	if !kept {
		problems = append(problems, ErrReplaced)
	}
	if !counted {
		problems = append(problems, ErrUncounted)
	}
	return errors.Join(problems...)
}

// writeOperations writes what was planned beside what happened, and reports whether they are the same.
func writeOperations(text *strings.Builder, r Result) (same bool, err error) {
	text.WriteString("\nPlanned, and observed on the API server's objects:\n\n")
	if same, err = view.WriteComparison(text, screen, r.Planned.Operations, r.Observed); err != nil {
		return false, err
	}
	verdict := "The observed operations are the planned ones."
	if !same {
		verdict = "The observed operations are NOT the planned ones."
	}
	fmt.Fprintf(text, "\n%s\n", verdict)
	return same, nil
}

func countGroup(machines []Identity, group string) int {
	n := 0
	for _, m := range machines {
		if m.Group == group {
			n++
		}
	}
	return n
}

// writeMachines writes a line for each machine, and reports whether all of them are the same as before.
func writeMachines(text *strings.Builder, r InPlaceResult) (kept bool) {
	text.WriteString("\nMachines before and after:\n\n")
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "GROUP\tMACHINE\tUID BEFORE\tUID AFTER\tUPDATES\tTIME EACH")
	after := map[string]Identity{}
	for _, m := range r.After {
		after[m.Name] = m
	}
	kept = len(r.Created) == 0 && len(r.Deleted) == 0 && len(r.Before) == len(r.After)
	for _, m := range r.Before {
		uid := "GONE"
		if now, is := after[m.Name]; is {
			uid = string(now.UID)
		}
		kept = kept && uid == string(m.UID)
		n, took := durationsOf(r.Updates, m)
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", partName(m.Group), m.Name, short(string(m.UID)), short(uid), n, took)
	}
	_ = table.Flush() // It writes to a strings.Builder.
	for _, name := range r.Created {
		fmt.Fprintf(text, "Machine %s was CREATED.\n", name)
	}
	for _, name := range r.Deleted {
		fmt.Fprintf(text, "Machine %s was DELETED.\n", name)
	}
	return kept
}

// durationsOf counts a machine's updates and says how long each took.
func durationsOf(updates []MachineUpdate, m Identity) (n int, took string) {
	var list []string
	for _, u := range updates {
		if u.UID == m.UID {
			list = append(list, u.Ended.Sub(u.Began).String())
		}
	}
	return len(list), strings.Join(list, " ")
}

// short keeps as much of a UID as tells it from others.
func short(uid string) string {
	head, _, _ := strings.Cut(uid, "-")
	return head
}

func writeVerdict(text *strings.Builder, r Result, kept bool, expected int) {
	p := r.InPlace
	machines := "No machine was created or deleted."
	if !kept {
		machines = fmt.Sprintf("%d machines were CREATED and %d DELETED.", len(p.Created), len(p.Deleted))
	}
	fmt.Fprintf(text, `
The upgrade took %s: %d updates in place of %d machines. %s
Replacing would have created %d machines and deleted as many.
`, r.Duration.Round(time.Second), len(p.Updates), len(p.Before), machines, expected)
	if len(p.Updates) != expected {
		fmt.Fprintf(text, "There should have been %d updates in place, one for each machine and operation.\n", expected)
	}
	if took := slowest(p.Updates); took != "" {
		fmt.Fprintf(text, "The longest update of a machine was %s.\n", took)
	}
	if p.Blocked != "" {
		fmt.Fprintf(text, "\nA change that no updater covers changed nothing. The owner's condition:\n  %s\n", p.Blocked)
	}
	if p.Refused != "" {
		fmt.Fprintf(text, "\nThe guard refused to let a machine be deleted:\n  %s\n", p.Refused)
	}
}

// slowest names the update that took longest; empty where there was none.
func slowest(updates []MachineUpdate) string {
	if len(updates) == 0 {
		return ""
	}
	took := func(u MachineUpdate) time.Duration { return u.Ended.Sub(u.Began) }
	u := slices.MaxFunc(updates, func(a, b MachineUpdate) int { return int(took(a) - took(b)) })
	return fmt.Sprintf("%s of %s to %s", took(u), u.Machine, u.To)
}
