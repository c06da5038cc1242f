package upgradecmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/view"
)

// printer prints what is done to the object of an upgrade, and what changes.
type printer struct{ cli.LinePrinter }

// said says what was done; programs learn it from the first change.
func (p printer) said(text string) error {
	if p.JSON {
		return nil
	}
	return p.Print(text + "\n")
}

// changeDocument is a line of `windlass upgrade -o json`, a stable interface: fields are never renamed or removed.
type changeDocument struct {
	Time   time.Time `json:"time"`
	Change string    `json:"change"`
	// Machine or Group is left out, both where something is not there any longer.
	Machine *status.MachineUpgrade `json:"machine,omitempty"`
	Group   *status.GroupUpgrade   `json:"group,omitempty"`
}

func (p printer) changes(changes []status.UpgradeChange, now time.Time) error {
	if len(changes) == 0 {
		return nil
	}
	if !p.JSON {
		lines := make([]string, 0, len(changes))
		for _, c := range changes {
			lines = append(lines, c.Text)
		}
		return p.lines(lines, now)
	}
	for _, c := range changes {
		d := changeDocument{Time: now.UTC(), Change: c.Text, Machine: c.Machine, Group: c.Group}
		if err := cli.WriteLine(p.Out, d); err != nil {
			return err
		}
	}
	return nil
}

// lines prints lines for people with the time of day.
func (p printer) lines(lines []string, now time.Time) error {
	if len(lines) == 0 {
		return nil
	}
	return view.WriteChanges(p.Out, lines, now)
}

// verdict prints how it ended; programs learn it from the last change and the exit status.
func (p printer) verdict(words string, now time.Time) error {
	if p.JSON {
		return nil
	}
	return p.lines([]string{words}, now)
}

// dryRunDocument is what `windlass upgrade --dry-run -o json` prints, a stable interface.
type dryRunDocument struct {
	DryRun    bool   `json:"dryRun"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Annotations are set; those that are null are removed.
	Annotations map[string]*string `json:"annotations"`
	// Machines are in the order in which they would be upgraded; empty where an upgrade is cancelled.
	Machines []planned `json:"machines"`
}

// dryRun says what would be written, and which machines it is about.
func (p printer) dryRun(t target, prefix string, v reading, w write) error {
	d := dryRunDocument{DryRun: true, Kind: t.name, Namespace: t.key.Namespace, Name: t.key.Name, Annotations: w.annotations, Machines: []planned{}}
	if !w.intent.cancel {
		d.Machines = computeOrder(v, prefix, w.intent.option)
	}
	if p.JSON {
		return cli.WriteLine(p.Out, d)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s would be written:\n", t)
	for _, key := range slices.Sorted(maps.Keys(d.Annotations)) {
		if value := d.Annotations[key]; value != nil {
			fmt.Fprintf(&text, "  %s: %q\n", key, *value)
		} else {
			fmt.Fprintf(&text, "  %s: removed\n", key)
		}
	}
	text.WriteString(describeOrder(t, d.Machines, w.intent))
	return p.said(strings.TrimSuffix(text.String(), "\n"))
}

func describeOrder(t target, machines []planned, intent intent) string {
	var text strings.Builder
	switch {
	case intent.cancel:
		return "No further machine would begin; what runs on one is followed to its end.\n"
	case len(machines) == 0:
		return "It has no machines now; those that join would get " + intent.option + ".\n"
	case t.kind == kindMachine:
		fmt.Fprintf(&text, "To %s would be brought:\n", intent.option)
	case t.kind == kindControlPlane:
		fmt.Fprintf(&text, "To %s would be brought, one at a time, in this order:\n", intent.option)
	default:
		fmt.Fprintf(&text, "To %s would be brought, as many at once as the UpdatePolicy of the group allows, or one, in this order:\n", intent.option)
	}
	for i, m := range machines {
		fmt.Fprintf(&text, "  %d. %s", i+1, m.Machine)
		if m.Kubelet != "" {
			fmt.Fprintf(&text, ", which runs %s", m.Kubelet)
		}
		if m.NotReady {
			text.WriteString(", whose node is not known to be Ready")
		}
		if m.There {
			text.WriteString(": nothing to do, it has that already")
		}
		text.WriteString("\n")
	}
	return text.String()
}
