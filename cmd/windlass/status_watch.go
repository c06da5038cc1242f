package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/view"
)

// statusScreen shows a status and what changes in it.
type statusScreen struct {
	out    io.Writer
	format view.Format
	// redraw says that out is a terminal, which shows nothing but the latest status.
	redraw bool
	shown  *status.Report
}

func newStatusScreen(out io.Writer, format view.Format) *statusScreen {
	return &statusScreen{out: out, format: format, redraw: !format.Structured() && cli.Terminal(out) != nil}
}

// clearScreen moves to the upper left corner and erases what stands on the terminal.
const clearScreen = "\x1b[H\x1b[2J\x1b[3J"

// show shows a status if it is not the one that is shown already.
func (s *statusScreen) show(r status.Report, now time.Time) error {
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

// watchStatus shows a Cluster's status until an upgrade is done or ctx ends, which is no error, or the Cluster cannot be read any more.
func watchStatus(ctx context.Context, m managementCluster, key types.NamespacedName, screen *statusScreen) error {
	// Once without the cache: what cannot be read at all is said in the usual words, and the kind of control plane is known.
	facts, err := m.fetchStatus(ctx, key)
	if err != nil {
		return err
	}
	return watchObjects(ctx, m, key, watchedObjects(facts), func(ctx context.Context, w *statusWatch, cached managementCluster) error {
		return w.follow(ctx, statusReader{cached: cached, live: m, key: key}, screen)
	})
}

// watchObjects watches kinds of objects of a Cluster while follow runs, which gets what reads them from memory. That the watch ended with ctx is no error.
func watchObjects(ctx context.Context, m managementCluster, key types.NamespacedName, kinds []client.Object, follow func(context.Context, *statusWatch, managementCluster) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &statusWatch{changed: make(chan struct{}, 1), fail: cancel}
	c, err := w.newCache(m, key)
	if err != nil {
		return err
	}
	for _, o := range kinds {
		if err := w.add(ctx, c, o); err != nil {
			return err
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	running.Go(func() {
		if err := c.Start(ctx); err != nil {
			cancel(fmt.Errorf("watching the management cluster: %w", err))
		}
	})
	if !c.WaitForCacheSync(ctx) {
		return w.ended(ctx)
	}
	cached := m
	cached.Reader, cached.Cached = c, true
	return follow(ctx, w, cached)
}

// follow shows the status, and again whenever something has changed, until the upgrade that it has seen is done.
func (w *statusWatch) follow(ctx context.Context, reader statusReader, screen *statusScreen) error {
	upgrading := false
	for {
		now := time.Now()
		facts, err := reader.read(ctx, now)
		if ctx.Err() != nil {
			return w.ended(ctx)
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
			return w.ended(ctx)
		case <-w.changed:
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

// statusReader reads what a status is computed from while it is followed.
type statusReader struct {
	cached, live managementCluster
	key          types.NamespacedName
	// upgrade is what was last read of the upgrade's context, and readAt when that was.
	upgrade *status.UpgradeFacts
	readAt  time.Time
}

func (r *statusReader) read(ctx context.Context, now time.Time) (status.Facts, error) {
	f, err := r.cached.fetchStatus(ctx, r.key)
	if err != nil {
		return f, err
	}
	if err := r.live.fetchLock(ctx, &f); err != nil || f.Upgrade == nil {
		return f, err
	}
	if r.upgrade != nil && now.Sub(r.readAt) < contextAge {
		f.Upgrade = new(*r.upgrade)
		return f, nil
	}
	if err := r.live.fetchUpgradeContext(ctx, &f); err != nil {
		return f, err
	}
	r.upgrade, r.readAt = f.Upgrade, now
	return f, nil
}

// statusWatch tells when something has changed.
type statusWatch struct {
	// changed holds one signal at most: what has changed is looked up all at once.
	changed chan struct{}
	fail    context.CancelCauseFunc
}

// ended says why a watch ended; an interruption is no error.
func (w *statusWatch) ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
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

func (w *statusWatch) newCache(m managementCluster, key types.NamespacedName) (cache.Cache, error) {
	ofCluster := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabel: key.Name})}
	c, err := cache.New(m.Config, cache.Options{
		Scheme: m.Scheme, Mapper: m.Mapper,
		DefaultNamespaces: map[string]cache.Config{key.Namespace: {}},
		DefaultTransform:  cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&clusterv1.MachineDeployment{}: ofCluster, &clusterv1.Machine{}: ofCluster, &clusterv1.MachinePool{}: ofCluster,
		},
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			// Whatever else goes wrong may fix itself, and is tried again.
			if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err) {
				w.fail(&management.ReadError{Item: r.TypeDescription(), Err: fmt.Errorf("watching: %w", err)})
				return
			}
			toolscache.DefaultWatchErrorHandler(ctx, r, err)
		},
	})
	if err != nil {
		return nil, &management.ReadError{Item: "the management cluster", Err: err}
	}
	return c, nil
}

// add watches the objects of a kind. One that the server does not know has none.
func (w *statusWatch) add(ctx context.Context, c cache.Cache, kind client.Object) error {
	informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return &management.ReadError{Item: fmt.Sprintf("%T", kind), Err: err}
	}
	signal := func() {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { signal() }, UpdateFunc: func(_, _ any) { signal() }, DeleteFunc: func(any) { signal() },
	})
	if err != nil {
		return fmt.Errorf("watching %T: %w", kind, err)
	}
	return nil
}
