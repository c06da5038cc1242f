package upgradecmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
)

// patience is how long nothing may happen before that is said.
const patience = 30 * time.Second

const nothingBegun = "nothing has begun; is windlass extension or manager running with --in-place-upgrades?"

const notAdopted = "the machines are upgraded; Cluster API has not adopted the version yet"

var errFollowTimeout = errors.New("--timeout has passed")

// intent is what is waited for: the end of the upgrade to an option, or of what was cancelled.
type intent struct {
	option string
	cancel bool
}

// outcome reports whether what was waited for has ended. The error is the verdict where it did not end well.
func (i intent) outcome(t target, v reading) (ended bool, err error) {
	a := v.asking
	switch {
	case a.State == status.UpgradeUnreadable:
		return true, cli.Refusedf("the upgrade record of %s cannot be read. Fix: see windlass status %s -n %s", t, t.cluster.Name, t.cluster.Namespace)
	case a.To != "" && (i.cancel || a.To != i.option):
		return true, cli.Refusedf("%s now has another request: %s", t, a.To)
	case i.cancel:
		return cancelled(t, v)
	case a.State == status.UpgradeFailed:
		return true, i.failure(t, v)
	case a.To == i.option:
		return false, nil
	case a.State == status.UpgradeDone && a.Release == i.option:
		return i.isAdopted(v), nil
	default:
		return true, cli.Refusedf("%s was cancelled on %s", i.option, t)
	}
}

// isAdopted reports whether Cluster API has taken over the version of a MachineDeployment that the
// end of an upgrade raises: it has seen the spec, has moved all Machines to it, and counts them as up
// to date. The count alone may still be that of the old spec. Until then another request would meet
// Machines that are moved.
func (i intent) isAdopted(v reading) bool {
	md, ok := v.object.(*clusterv1.MachineDeployment)
	if !ok {
		return true
	}
	if md.Status.ObservedGeneration < md.Generation {
		return false
	}
	if !i.isRaised(md, v.machines) {
		return true
	}
	if slices.ContainsFunc(v.machines, func(m *clusterv1.Machine) bool {
		_, moves := m.Annotations[clusterv1.UpdateInProgressAnnotation]
		return moves || m.Spec.Version != md.Spec.Template.Spec.Version
	}) {
		return false
	}
	counted, wanted := md.Status.UpToDateReplicas, md.Spec.Replicas
	return counted == nil || wanted == nil || *counted >= *wanted
}

// isRaised reports whether the spec of a MachineDeployment has the version that the upgrade leads to:
// the one that was asked for, or with a channel or revision the one that all nodes run.
func (i intent) isRaised(md *clusterv1.MachineDeployment, machines []*clusterv1.Machine) bool {
	version := md.Spec.Template.Spec.Version
	if asked, ok := strings.CutPrefix(i.option, string(request.Version)+"="); ok {
		return asked == version
	}
	return !slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool {
		return m.Status.NodeInfo == nil || m.Status.NodeInfo.KubeletVersion != version
	})
}

// maxReason is how many bytes of the reason of a failure the verdict has.
const maxReason = 200

// failure says how many machines are upgraded, why the upgrade failed, and what to do.
func (i intent) failure(t target, v reading) error {
	words := fmt.Sprintf("%s has not reached %s", t, i.option)
	if g := v.group(); g != nil {
		words += fmt.Sprintf(" (%d of %s upgraded", g.Done, countMachines(g.Machines))
		if g.Failed > 0 {
			words += fmt.Sprintf(", %d failed", g.Failed)
		}
		if g.InFlight > 0 {
			words += fmt.Sprintf(", %d still in flight", g.InFlight)
		}
		words += ")"
	}
	whole, fix, found := strings.Cut(strings.TrimSpace(v.asking.Message), " Fix: ")
	if !found {
		fix = "remove the cause"
	}
	whole = strings.TrimSuffix(whole, ".")
	why := text.Bound(whole, maxReason)
	if why != whole {
		fix += fmt.Sprintf(" (windlass status %s -n %s shows the whole message)", t.cluster.Name, t.cluster.Namespace)
		why = strings.TrimSuffix(why, ".")
	}
	return cli.Refusedf("%s: %s. Fix: %s, then run %s", words, why, fix, t.command("--retry"))
}

// success is the verdict on an upgrade, or its cancellation, that ended well.
func (i intent) success(t target, v reading) string {
	if i.cancel {
		return fmt.Sprintf("Nothing of %s is being upgraded any longer", t)
	}
	words := fmt.Sprintf("Upgraded %s to %s", t, i.option)
	if g := v.group(); g != nil {
		words += fmt.Sprintf(": %d of %s", g.Done, countMachines(g.Machines))
	}
	return words
}

func countMachines(n int) string {
	if n == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", n)
}

// group returns the upgrade of the target if that is a group; nil otherwise.
func (v reading) group() *status.GroupUpgrade {
	if v.upgrades == nil || len(v.upgrades.Groups) == 0 {
		return nil
	}
	return &v.upgrades.Groups[0]
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
	// all prints every change between shown, which is what was printed or need not be, and what is read.
	all   bool
	shown *status.InPlaceUpgrades
	// noted says that the wait for Cluster API was told.
	noted bool
	// digest selects what is printed otherwise.
	digest status.UpgradeDigest
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
	if f.all {
		changes := status.ComputeUpgradeChanges(f.shown, v.upgrades)
		f.shown = v.upgrades
		return f.printer.changes(changes, now)
	}
	var lines []string
	lines, f.digest = f.digest.Next(v.upgrades)
	return f.printer.lines(lines, now)
}

// follow prints what changes until the upgrade has ended. Whatever keeps it from that, the upgrade continues.
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
			if reached, err := f.observe(v, now); reached || err != nil {
				return reached, err
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

// observe prints what has changed, and reports whether the end was reached, and how that was.
func (f *follower) observe(v reading, now time.Time) (reached bool, err error) {
	if err := f.print(v, now); err != nil {
		return false, err
	}
	ended, err := f.intent.outcome(f.target, v)
	if !ended && err == nil && v.asking.State == status.UpgradeDone && !f.noted {
		f.noted = true
		f.printer.Note(notAdopted)
	}
	if !ended || err != nil {
		return ended, err
	}
	return true, f.printer.verdict(f.intent.success(f.target, v), now)
}

// isOlder reports whether a cache does not show yet what was written.
func isOlder(seen, written string) bool {
	order, err := resourceversion.CompareResourceVersion(seen, written)
	return err == nil && order < 0
}
