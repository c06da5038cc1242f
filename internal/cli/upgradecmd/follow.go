package upgradecmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/status"
)

// patience is how long nothing may happen before that is said.
const patience = 30 * time.Second

const nothingBegun = "nothing has begun; is windlass extension or manager running with --in-place-upgrades?"

var errFollowTimeout = errors.New("--timeout has passed")

// intent is what is waited for: the end of the upgrade to an option, or of what was cancelled.
type intent struct {
	option string
	cancel bool
}

// outcome reports whether what was waited for has ended; the error says how, where it did not end well.
func (i intent) outcome(t target, v reading) (ended bool, err error) {
	a := v.asking
	switch {
	case a.State == status.UpgradeUnreadable:
		return true, cli.Refusedf("what is recorded on %s cannot be read; see windlass status %s -n %s", t, t.cluster.Name, t.cluster.Namespace)
	case a.To != "" && (i.cancel || a.To != i.option):
		return true, cli.Refusedf("%s is asked for %s by now", t, a.To)
	case i.cancel:
		return cancelled(t, v)
	case a.State == status.UpgradeFailed:
		return true, cli.Refusedf("%s has not reached %s: %s; to try again: %s", t, i.option, a.Message, t.command("--retry"))
	case a.To == i.option:
		return false, nil
	case a.State == status.UpgradeDone && a.Release == i.option:
		return true, nil
	default:
		return true, cli.Refusedf("%s was cancelled on %s", i.option, t)
	}
}

// cancelled reports whether nothing runs any longer; the error says why nobody can tell.
func cancelled(t target, v reading) (ended bool, err error) {
	if v.asking.Reason == request.ReasonRecordUnreadable {
		return true, cli.Refusedf("%s is not asked any longer, but %s", t, v.asking.Message)
	}
	return isCancelled(v), nil
}

// isCancelled reports whether nothing runs any longer.
func isCancelled(v reading) bool {
	if v.asking.State == status.UpgradeCancelling || v.asking.State == status.UpgradeRunning {
		return false
	}
	if v.upgrades != nil {
		for _, m := range v.upgrades.Machines {
			if m.State == status.UpgradeCancelling {
				return false
			}
		}
	}
	return true
}

// follower follows an upgrade to its end.
type follower struct {
	target target
	intent intent
	// written is the resource version from which on the object has what was asked for.
	written string
	timeout time.Duration
	clock   cli.Clock
	printer printer
	// shown is what has been said, or need not be.
	shown *status.InPlaceUpgrades
}

// show says how it stands now.
func (f *follower) show(ctx context.Context, m management.Cluster) error {
	now := f.clock.Now()
	v, err := f.target.read(ctx, m, now)
	if err != nil {
		return err
	}
	return f.print(v, now)
}

func (f *follower) print(v reading, now time.Time) error {
	changes := status.ComputeUpgradeChanges(f.shown, v.upgrades)
	f.shown = v.upgrades
	return f.printer.changes(changes, now)
}

// follow prints what changes until the upgrade has ended. Whatever keeps it from that, the upgrade goes on.
func (f *follower) follow(ctx context.Context, m management.Cluster) error {
	ctx, cancel := f.clock.Limit(ctx, f.timeout, fmt.Errorf("%w: it has not ended within %s", errFollowTimeout, f.timeout))
	defer cancel()
	reached := false
	err := m.Watch(ctx, client.ObjectKeyFromObject(f.target.cluster), f.target.kinds(), func(ctx context.Context, w *management.Watch, cached management.Cluster) error {
		var err error
		reached, err = f.untilEnd(ctx, w, cached)
		return err
	})
	switch {
	case reached:
		return err
	case errors.Is(err, errFollowTimeout):
		return f.unfinished(err)
	case err == nil:
		return f.unfinished(errors.New("interrupted"))
	default:
		return fmt.Errorf("%w; the upgrade continues", err)
	}
}

// kinds are the kinds of objects whose changes matter.
func (t target) kinds() []client.Object {
	if t.kind == kindMachine {
		return []client.Object{t.object}
	}
	return []client.Object{t.object, &clusterv1.Machine{}}
}

func (f *follower) unfinished(err error) error {
	return &cli.ExitError{Code: cli.ExitUnfinished, Err: fmt.Errorf("%w; the upgrade continues. Fix: to follow it, run windlass status %s -n %s -w", err, f.target.cluster.Name, f.target.cluster.Namespace)}
}

// untilEnd reports whether the end was reached, and how that was, or else why it was not.
func (f *follower) untilEnd(ctx context.Context, w *management.Watch, cached management.Cluster) (reached bool, err error) {
	impatient := f.clock.After(patience)
	for {
		now := f.clock.Now()
		v, err := f.target.read(ctx, cached, now)
		switch {
		case ctx.Err() != nil:
			return false, w.Ended(ctx)
		case management.IsGone(err):
			return true, cli.Refusedf("%s is gone", f.target)
		case err != nil:
			return false, err
		case !isOlder(v.object.GetResourceVersion(), f.written):
			if err := f.print(v, now); err != nil {
				return false, err
			}
			if ended, err := f.intent.outcome(f.target, v); ended {
				return true, err
			}
			if v.asking.State != status.UpgradeAsked {
				impatient = nil
			}
		}
		select {
		case <-ctx.Done():
			return false, w.Ended(ctx)
		case <-w.Changed:
		case <-impatient:
			impatient = nil
			f.printer.Note(nothingBegun)
		}
	}
}

// isOlder reports whether a cache does not show yet what was written.
func isOlder(seen, written string) bool {
	order, err := resourceversion.CompareResourceVersion(seen, written)
	return err == nil && order < 0
}
