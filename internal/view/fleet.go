package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
)

// WriteFleet shows how the upgrades of several Clusters stand.
func WriteFleet(w io.Writer, f Format, s Screen, fleet status.Fleet) error {
	return show(w, f, fleet, texts{
		table: func() string { return fleetTable(s, fleet) },
		wide:  func() string { return fleetTable(Screen{All: true}, fleet) },
	})
}

func fleetTable(s Screen, fleet status.Fleet) string {
	var buffer strings.Builder
	words, worst := fleetVerdict(fleet)
	s.verdict(&buffer, worst, words)
	if len(fleet.Clusters) > 0 {
		buffer.WriteString("\n")
		head := []string{"Cluster", "State", "Upgrade", "As asked for", "Waits for"}
		rows := make([][]string, 0, len(fleet.Clusters))
		for _, o := range fleet.Clusters {
			rows = append(rows, overviewRow(o, fleet.AsOf))
		}
		s.table(&buffer, head, rows)
	}
	formatList(&buffer, s, "Not shown", len(fleet.Hidden), func(i int) (string, string) {
		return fleet.Hidden[i], "it could not be read"
	})
	return buffer.String()
}

func overviewRow(o status.Overview, asOf time.Time) []string {
	return []string{
		text.Printable(o.Namespace + "/" + o.Cluster), overviewWords[o.State], describeRoute(o),
		fmt.Sprintf("%d of %d", o.UpToDate, o.Machines), describeWaits(o, asOf),
	}
}

const noClusters = "There are no Clusters here. Fix: look in another namespace (-n), or in all (-A)"

// fleetVerdict counts Clusters by what is to be done about them.
func fleetVerdict(fleet status.Fleet) (words string, worst tone) {
	if len(fleet.Clusters) == 0 {
		return noClusters, fair
	}
	person, held, moving := 0, 0, 0
	for _, o := range fleet.Clusters {
		switch {
		case o.NeedsPerson:
			person++
		case o.State == status.ChainHeld:
			held++
		case o.State == status.ChainUpgrading:
			moving++
		}
	}
	parts := []string{text.Count(len(fleet.Clusters), "Cluster")}
	for _, part := range []struct {
		n    int
		what string
	}{
		{person, "waiting for a person"}, {held, "held by hooks"}, {moving, "being upgraded"},
		{len(fleet.Clusters) - person - held - moving, "without an upgrade under way"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	worst = good
	switch {
	case person > 0:
		worst = bad
	case held+moving > 0:
		worst = fair
	}
	return parts[0] + ": " + strings.Join(parts[1:], ", ") + ".", worst
}

// overviewWords are the states of a Cluster in a table.
var overviewWords = map[status.ChainState]string{
	status.ChainUpToDate: "at rest", status.ChainUpgrading: "upgrading", status.ChainHeld: "held",
	status.ChainCreating: "being created", status.ChainDeleting: "being deleted",
	status.ChainPaused: "paused", status.ChainUnknown: "no topology",
}

// describeRoute says between which versions an upgrade is, and at which step.
func describeRoute(o status.Overview) string {
	switch {
	case o.Target.IsZero():
		return ""
	case o.From.IsZero() || o.From.Equal(o.Target):
		return o.Target.String()
	}
	words := fmt.Sprintf("%s -> %s", o.From, o.Target)
	if o.Step > 0 {
		words += fmt.Sprintf(", CP step %d of %d", o.Step, o.Step+o.StepsLeft)
	}
	return words
}

// describeWaits names what holds a Cluster, and since when.
func describeWaits(o status.Overview, now time.Time) string {
	waits := make([]string, 0, len(o.Holds))
	for _, h := range o.Holds {
		words := describeHolder([]status.Hold{h})
		switch h.Kind {
		case status.HeldByPause:
			words = "the end of its pause"
		case status.HeldByRule, status.HeldByFailure, status.HeldByMachines:
			words = h.Message
		case status.HeldByHook, status.HeldByGate, status.HeldByAnnotation:
		}
		if !h.Since.IsZero() {
			words += ", for " + formatAge(now, h.Since)
		}
		waits = append(waits, text.Printable(words))
	}
	return strings.Join(waits, "; ")
}
