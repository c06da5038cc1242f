package statuscmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spf13/cobra"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/view"
)

// screen shows a status and what changes in it.
type screen struct {
	out    io.Writer
	format view.Format
	layout view.Screen
	// size returns the columns and rows of the terminal, which shows only the latest status, as a tree. It is nil for
	// files and pipes, for documents, and for a terminal that cannot move its cursor (TERM=dumb).
	size func() (width, height int)
	// tick comes each second while there is a terminal, because what is drawn there has ages.
	tick  <-chan time.Time
	shown *status.Report
	// outage is why what is shown may be old; nil where it is not.
	outage error
	// drawn says that the terminal shows a frame.
	drawn bool
	// disagreed is when the condition and the objects began to disagree; zero while they agree.
	disagreed time.Time
}

func newScreen(cmd *cobra.Command, format view.Format) *screen {
	s := &screen{out: cmd.OutOrStdout(), format: format, layout: cli.NewScreen(cmd)}
	if terminal := cli.Terminal(s.out); terminal != nil && format == view.Table && os.Getenv("TERM") != "dumb" {
		s.size = func() (width, height int) { return cli.TerminalSize(terminal) }
		s.tick = time.Tick(time.Second)
	}
	return s
}

// show shows a status if it is not the one that is shown already.
func (s *screen) show(r status.Report, now time.Time) error {
	before := s.shown
	if before != nil && !s.format.Structured() {
		r = s.omitBriefNote(r, now)
	}
	if before != nil && isSame(*before, r) {
		return nil
	}
	s.shown = &r
	switch {
	case s.size != nil:
		return s.draw(now)
	case s.format.Structured():
		return view.WriteNext(s.out, s.format, before == nil, r)
	case before == nil:
		return view.WriteStatus(s.out, s.format, s.layout, r, now)
	}
	return view.WriteChanges(s.out, status.Changes(*before, r), now)
}

// isSame reports whether nothing has changed but when the controller was last seen, which is said of one
// that is gone in another field.
func isSame(before, after status.Report) bool {
	if before.Chain != nil && after.Chain != nil {
		seen := *after.Chain
		seen.EngineSeen = before.Chain.EngineSeen
		after.Chain = &seen
	}
	return reflect.DeepEqual(before, after)
}

// showOutage shows once that the management cluster does not answer, and once that it answers again. An outage begins
// after the first status was shown. JSON and YAML do not contain it.
func (s *screen) showOutage(outage error, now time.Time) error {
	before := s.outage
	s.outage = outage
	switch {
	case (before == nil) == (outage == nil) || s.format.Structured():
		return nil
	case s.size != nil:
		return s.draw(now)
	case outage == nil:
		return view.WriteChanges(s.out, []string{"The management cluster answers again"}, now)
	default:
		return view.WriteChanges(s.out, []string{describeOutage(outage)}, now)
	}
}

func describeOutage(outage error) string {
	return fmt.Sprintf("The management cluster does not answer, so this may be old; it is asked again: %v", outage)
}

// omitBriefNote omits a disagreement of condition and objects that is younger than a re-read: controllers need
// about a second to write a condition.
func (s *screen) omitBriefNote(r status.Report, now time.Time) status.Report {
	switch {
	case r.Chain == nil:
	case r.Chain.Disagreement == "":
		s.disagreed = time.Time{}
	case s.disagreed.IsZero():
		s.disagreed = now
		fallthrough
	case now.Sub(s.disagreed) < contextAge/2:
		quiet := *r.Chain
		quiet.Disagreement = ""
		r.Chain = &quiet
	}
	return r
}

// draw draws the latest status on the terminal.
func (s *screen) draw(now time.Time) error {
	var tree strings.Builder
	width, height := s.size()
	layout := s.layout
	layout.Width = width
	if s.outage != nil {
		if err := view.WriteNotes(&tree, layout, []string{describeOutage(s.outage)}); err != nil {
			return err
		}
	}
	if err := view.WriteTree(&tree, layout, *s.shown, now); err != nil {
		return err
	}
	err := drawFrame(s.out, tree.String(), height, !s.drawn)
	s.drawn = true
	return err
}

// drawFrame draws a text on a terminal of that many rows.
func drawFrame(out io.Writer, text string, height int, isFirst bool) error {
	drawing := frame(text, height)
	if isFirst {
		// What the terminal shows scrolls away, so that the first frame does not overwrite it.
		drawing = strings.Repeat("\n", max(height-1, 0)) + drawing
	}
	if _, err := io.WriteString(out, drawing); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}

// Control sequences of terminals. Frames overwrite lines in place, because a screen that is erased first flickers.
const (
	home      = "\x1b[H"
	eraseLine = "\x1b[K"
	eraseRest = "\x1b[J"
)

// frame returns what draws a text on a terminal of that many rows. The last row stays empty for the cursor; what does
// not fit is counted.
func frame(text string, rows int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := max(rows-1, 2); len(lines) > most {
		cut := len(lines) - most + 1
		lines = append(lines[:most-1:most-1], fmt.Sprintf("… %d more lines", cut))
	}
	return home + strings.Join(lines, eraseLine+"\n") + eraseLine + "\n" + eraseRest
}

// watch shows a Cluster's status until an upgrade is done or ctx ends, which is no error, or the Cluster cannot be read any more.
func watch(ctx context.Context, m management.Cluster, key types.NamespacedName, screen *screen) error {
	// Once without the cache: what cannot be read at all is said in the usual words, and the kind of control plane is known.
	facts, err := m.StatusFacts(ctx, key)
	if err != nil {
		return err
	}
	return m.Watch(ctx, key, watchedObjects(facts), func(ctx context.Context, w *management.Watch, cached management.Cluster) error {
		return follow(ctx, w, newReader(cached, m, key, w.Signal), screen)
	})
}

// follow shows the status, and again whenever something has changed, until the upgrade that it has seen is done.
func follow(ctx context.Context, w *management.Watch, reader *reader, screen *screen) error {
	upgrading := false
	for {
		now := time.Now()
		facts, err := reader.read(ctx, now)
		if ctx.Err() != nil {
			return w.Ended(ctx)
		}
		if err != nil {
			return err
		}
		report := status.Compute(facts, now)
		if err := screen.showOutage(reader.outage, now); err != nil {
			return err
		}
		if err := screen.show(report, now); err != nil {
			return err
		}
		upgrading = upgrading || isUpgrading(report)
		if upgrading && isDone(report) {
			return nil
		}
		rested := time.After(restFactor * (time.Since(now) - reader.waited))
		if err := screen.wait(ctx, rested, w.Changed, reader.again(facts, time.Now())); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return w.Ended(ctx)
		}
	}
}

// restFactor is how many times longer than a look at the objects in memory the pause after it is, so that
// following a Cluster of 30,000 machines in which something always changes takes a fifth of a processor.
// To wait for a busy API server takes no processor.
const restFactor = 4

// wait returns when something has changed after the rest, when objects must be read again, or when ctx ends. Meanwhile
// ages on the terminal grow.
func (s *screen) wait(ctx context.Context, rested <-chan time.Time, changed <-chan struct{}, again <-chan time.Time) error {
	var ready <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-rested:
			ready = changed
		case <-ready:
			return nil
		case <-again:
			return nil
		case now := <-s.tick:
			if err := s.draw(now); err != nil {
				return err
			}
		}
	}
}

func isUpgrading(r status.Report) bool {
	return r.Chain != nil && (r.Chain.State == status.ChainUpgrading || r.Chain.State == status.ChainHeld)
}

// isDone reports whether nothing is left to do. A machine whose update has ended without Cluster API having noticed counts as under update.
func isDone(r status.Report) bool {
	return r.Chain != nil && r.Chain.State == status.ChainUpToDate && len(r.Updates) == 0
}

// contextAge is how old what says how an upgrade goes on may get while it is followed: where plans come from, gates and Events. These are
// not watched, because not everybody may, and because much of it is about other Clusters. No answer may be older than 5 s.
const contextAge = 4 * time.Second

// reader reads what a status is computed from while it is followed. What is not watched is read meanwhile, so
// that a slow API server delays nothing that is watched.
type reader struct {
	cached, live management.Cluster
	key          types.NamespacedName
	// known is what was last read of what is not watched. It is zero before.
	known unwatched
	// hasRead says that everything could be read once, and askedAt is when it was last asked for.
	hasRead bool
	askedAt time.Time
	// answers gets what was asked for, if asking is true; then signal tells of it.
	answers chan unwatched
	asking  bool
	signal  func()
	// outage is why the last read was answered from what was read before; nil where it was not.
	outage error
	// waited is for how long the last read waited for what is not watched.
	waited time.Duration
}

// unwatched is what is not watched of the facts: the upgrade's context and the lock. With err, it is not
// complete.
type unwatched struct {
	upgrade  *status.UpgradeFacts
	rollouts status.RolloutFacts
	around   snapshot.Around
	lock     *corev1.ConfigMap
	err      error
}

func newReader(cached, live management.Cluster, key types.NamespacedName, signal func()) *reader {
	return &reader{cached: cached, live: live, key: key, answers: make(chan unwatched, 1), signal: signal}
}

// read reads a Cluster. While an outage lasts, what is not watched is what it was before.
func (r *reader) read(ctx context.Context, now time.Time) (status.Facts, error) {
	f, err := r.cached.StatusFacts(ctx, r.key)
	if err != nil {
		return f, err
	}
	r.waited = 0
	select {
	case answer := <-r.answers:
		r.asking = false
		err = r.take(answer)
	default:
		// A Cluster whose topology is new has no context yet.
		if !r.hasRead || f.Upgrade != nil && r.known.upgrade == nil {
			r.askedAt = now
			began := time.Now()
			err = r.take(r.ask(ctx, f))
			r.waited = time.Since(began)
		}
	}
	if err != nil {
		return f, err
	}
	if !r.asking && now.Sub(r.askedAt) >= contextAge {
		r.askedAt, r.asking = now, true
		go func(f status.Facts) {
			r.answers <- r.ask(ctx, f)
			r.signal()
		}(f) // Not what is recalled below.
	}
	r.recall(&f)
	return f, nil
}

// ask reads what is not watched. It does not change f.
func (r *reader) ask(ctx context.Context, f status.Facts) unwatched {
	f.Rollouts, f.Around, f.Lock = status.RolloutFacts{}, snapshot.Around{}, nil
	if f.Upgrade != nil {
		f.Upgrade = &status.UpgradeFacts{}
	}
	err := r.live.ReadLock(ctx, &f)
	if err == nil {
		err = r.live.ReadUpgradeContext(ctx, &f)
	}
	return unwatched{f.Upgrade, f.Rollouts, f.Around, f.Lock, err}
}

// take keeps an answer. An outage is no error once everything could be read.
func (r *reader) take(answer unwatched) error {
	r.outage = nil
	switch {
	case answer.err == nil:
		r.known, r.hasRead = answer, true
		return nil
	case r.hasRead && management.IsOutage(answer.err):
		r.outage = answer.err
		return nil
	}
	return answer.err
}

// recall fills in what was read last.
func (r *reader) recall(f *status.Facts) {
	f.Rollouts, f.Around, f.Lock = r.known.rollouts, r.known.around, r.known.lock
	if f.Upgrade != nil && r.known.upgrade != nil {
		f.Upgrade = new(*r.known.upgrade)
	}
}

// again tells when what is not watched must be asked for again. Changes that come before do not delay that.
func (r *reader) again(f status.Facts, now time.Time) <-chan time.Time {
	// A change after the last question may have made something that is not watched count.
	if r.asking || !f.HasContext() && f.Lock == nil && r.outage == nil && !now.After(r.askedAt) {
		return nil
	}
	return time.After(max(0, contextAge-now.Sub(r.askedAt)))
}

func watchedObjects(f status.Facts) []client.Object {
	objects := []client.Object{&clusterv1.Cluster{}, &clusterv1.MachineDeployment{}, &clusterv1.Machine{}, &v1alpha1.UpdatePolicy{}}
	if f.Upgrade != nil {
		objects = append(objects, &clusterv1.MachinePool{})
	}
	if f.ControlPlane != nil {
		kind := &unstructured.Unstructured{}
		kind.SetGroupVersionKind(f.ControlPlane.GroupVersionKind())
		objects = append(objects, kind)
	}
	return objects
}
