package statuscmd

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/view"
)

// screen shows a status and what changes in it.
type screen struct {
	out    io.Writer
	format view.Format
	// redraw says that out is a terminal, which shows nothing but the latest status.
	redraw bool
	shown  *status.Report
}

func newScreen(out io.Writer, format view.Format) *screen {
	return &screen{out: out, format: format, redraw: !format.Structured() && cli.Terminal(out) != nil}
}

// clearScreen moves to the upper left corner and erases what stands on the terminal.
const clearScreen = "\x1b[H\x1b[2J\x1b[3J"

// show shows a status if it is not the one that is shown already.
func (s *screen) show(r status.Report, now time.Time) error {
	before := s.shown
	if before != nil && reflect.DeepEqual(*before, r) {
		return nil
	}
	s.shown = &r
	switch {
	case s.redraw:
		if _, err := fmt.Fprintf(s.out, "%sCluster %s/%s at %s\n\n", clearScreen, r.Namespace, r.Cluster, now.UTC().Format(time.TimeOnly)); err != nil {
			return fmt.Errorf("writing the status: %w", err)
		}
		return view.WriteStatus(s.out, s.format, r, now)
	case before == nil:
		return view.WriteStatus(s.out, s.format, r, now)
	case s.format.Structured():
		if s.format == view.YAML {
			if _, err := io.WriteString(s.out, "---\n"); err != nil {
				return fmt.Errorf("writing the status: %w", err)
			}
		}
		return view.WriteStatus(s.out, s.format, r, now)
	}
	return view.WriteChanges(s.out, status.Changes(*before, r), now)
}

// watch shows a Cluster's status until an upgrade is done or ctx ends, which is no error, or the Cluster cannot be read any more.
func watch(ctx context.Context, m management.Cluster, key types.NamespacedName, screen *screen) error {
	// Once without the cache: what cannot be read at all is said in the usual words, and the kind of control plane is known.
	facts, err := fetchFacts(ctx, m, key)
	if err != nil {
		return err
	}
	return m.Watch(ctx, key, watchedObjects(facts), func(ctx context.Context, w *management.Watch, cached management.Cluster) error {
		return follow(ctx, w, reader{cached: cached, live: m, key: key}, screen)
	})
}

// follow shows the status, and again whenever something has changed, until the upgrade that it has seen is done.
func follow(ctx context.Context, w *management.Watch, reader reader, screen *screen) error {
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
		if err := screen.show(report, now); err != nil {
			return err
		}
		upgrading = upgrading || isUpgrading(report)
		if upgrading && isDone(report) {
			return nil
		}
		select {
		case <-ctx.Done():
			return w.Ended(ctx)
		case <-w.Changed:
		case <-readAgain(facts):
		}
	}
}

// readAgain tells when what is not watched must be read again, if it is a part of what is shown.
func readAgain(f status.Facts) <-chan time.Time {
	if f.Upgrade == nil && f.Lock == nil {
		return nil
	}
	return time.After(contextAge)
}

func isUpgrading(r status.Report) bool {
	return r.Chain != nil && (r.Chain.State == status.ChainUpgrading || r.Chain.State == status.ChainHeld)
}

// isDone reports whether nothing is left to do. A machine whose update has ended without Cluster API having noticed counts as under update.
func isDone(r status.Report) bool {
	return r.Chain != nil && r.Chain.State == status.ChainUpToDate && len(r.Updates) == 0
}

// contextAge is how old what says how an upgrade goes on may get while it is followed: where plans come from, gates and Events. These are
// not watched, because not everybody may, and because much of it is about other Clusters; most of what changes there changes the
// Cluster's condition as well.
const contextAge = 10 * time.Second

// reader reads what a status is computed from while it is followed.
type reader struct {
	cached, live management.Cluster
	key          types.NamespacedName
	// upgrade is what was last read of the upgrade's context, and readAt when that was.
	upgrade *status.UpgradeFacts
	readAt  time.Time
}

func (r *reader) read(ctx context.Context, now time.Time) (status.Facts, error) {
	f, err := fetchFacts(ctx, r.cached, r.key)
	if err != nil {
		return f, err
	}
	if err := fetchLock(ctx, r.live, &f); err != nil || f.Upgrade == nil {
		return f, err
	}
	if r.upgrade != nil && now.Sub(r.readAt) < contextAge {
		f.Upgrade = new(*r.upgrade)
		return f, nil
	}
	if err := fetchUpgradeContext(ctx, r.live, &f); err != nil {
		return f, err
	}
	r.upgrade, r.readAt = f.Upgrade, now
	return f, nil
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
