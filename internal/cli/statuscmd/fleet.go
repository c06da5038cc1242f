package statuscmd

import (
	"context"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/view"
)

// runFleet shows one row for each Cluster.
func (o *options) runFleet(cmd *cobra.Command, format view.Format) error {
	m, namespace, selector, err := o.fleet.Connect(o.kube)
	if err != nil {
		return err
	}
	screen, err := newFleetScreen(cmd, format, o.watch)
	if err != nil {
		return err
	}
	facts, err := m.FleetFacts(cmd.Context(), namespace, selector)
	if err != nil {
		return err
	}
	if !o.watch {
		fleet := status.ComputeFleet(facts, time.Now())
		return o.writeAll(
			func() error { return view.WriteFleet(screen.out, format, screen.layout, fleet) },
			func(out io.Writer) error { return view.WriteFleetPage(out, fleet) })
	}
	return m.WatchFleet(cmd.Context(), namespace, selector, facts.Hidden,
		func(ctx context.Context, w *management.Watch, cached management.Cluster) error {
			return screen.follow(ctx, w, func() (status.Fleet, error) {
				now := time.Now()
				found, err := cached.FleetFacts(ctx, namespace, selector)
				found.Hidden = facts.Hidden
				return status.ComputeFleet(found, now), err
			})
		})
}

// fleetScreen shows how Clusters stand, and what changes.
type fleetScreen struct {
	out    io.Writer
	format view.Format
	layout view.Screen
	// size is that of a terminal, and nil for documents.
	size func() (width, height int)
	// shown is what was written last; nil before.
	shown *status.Fleet
}

// newFleetScreen refuses to follow a table in files and pipes, where each change would be the whole
// table.
func newFleetScreen(cmd *cobra.Command, format view.Format, follows bool) (*fleetScreen, error) {
	s := &fleetScreen{out: cmd.OutOrStdout(), format: format, layout: cli.NewScreen(cmd)}
	terminal := cli.Terminal(s.out)
	switch {
	case !follows || format.Structured():
	case terminal == nil:
		return nil, cli.InputErrorf("--watch",
			"without a Cluster it draws on a terminal only. Fix: name a Cluster, or add -o json")
	default:
		s.size = func() (width, height int) { return cli.TerminalSize(terminal) }
	}
	return s, nil
}

// show writes a fleet if it is not the one that was written last. When it was read is no change.
func (s *fleetScreen) show(fleet status.Fleet) error {
	before := s.shown
	if before != nil && s.size == nil {
		same := *before
		same.AsOf = fleet.AsOf
		if reflect.DeepEqual(same, fleet) {
			return nil
		}
	}
	s.shown = &fleet
	if s.size == nil {
		return view.WriteNext(s.out, s.format, before == nil, fleet)
	}
	var text strings.Builder
	width, height := s.size()
	layout := s.layout
	layout.Width = width
	if err := view.WriteFleet(&text, s.format, layout, fleet); err != nil {
		return err
	}
	return drawFrame(s.out, text.String(), height, before == nil)
}

const (
	// fleetRest is the least time between two looks at a fleet: something always changes in a large
	// one.
	fleetRest = time.Second
	// redrawn is how often a terminal shows the ages anew.
	redrawn = 10 * time.Second
)

// follow shows a fleet, and again whenever it has changed, until ctx ends, which is no error.
func (s *fleetScreen) follow(
	ctx context.Context, w *management.Watch, read func() (status.Fleet, error),
) error {
	for {
		began := time.Now()
		fleet, err := read()
		if ctx.Err() != nil {
			return w.Ended(ctx)
		}
		if err == nil {
			err = s.show(fleet)
		}
		if err != nil {
			return err
		}
		rested := time.After(max(fleetRest, restFactor*time.Since(began)))
		select {
		case <-ctx.Done():
		case <-rested:
		}
		var again <-chan time.Time
		if s.size != nil {
			again = time.After(redrawn)
		}
		select {
		case <-ctx.Done():
			return w.Ended(ctx)
		case <-again:
		case <-w.Changed:
		}
	}
}
