package k8sd

import (
	"context"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// carryFollow says how what was begun goes on, and begins nothing. What may run on the node counts, whichever attempt asked for it: nothing may begin beside it.
func (u *Updater) carryFollow(ctx context.Context, a attempt) inplace.Answer {
	own := a.record.Operation == a.operation
	changeID := a.machine.Annotations[u.changeIDKey()]
	switch a.record.State {
	case "":
		if changeID != "" {
			return u.adopt(ctx, a, changeID)
		}
	case running:
		if own {
			return u.follow(ctx, a)
		}
		return u.followOther(ctx, a)
	case requesting:
		return updaters.Unknown("whether the refresh has begun is not known; look at `snap changes k8s` on the node: when none runs, remove the annotation %s", v1alpha1.RefreshAnnotation)
	case done, failed:
		if own {
			return computeReport(a.record)
		}
	case notSent:
	}
	return a.certain(updaters.Fails("nothing was begun"))
}

// followOther waits for the end of an earlier attempt's change.
func (u *Updater) followOther(ctx context.Context, a attempt) inplace.Answer {
	id := a.record.ChangeID
	status, forgotten, err := u.poll(ctx, a)
	switch {
	case err != nil:
		return updaters.Unknown("change %s of an earlier attempt: %v", id, err)
	case !forgotten && !status.Completed:
		return inProgress("change %s of an earlier attempt is %s", id, status.Status)
	}
	answer := updaters.Fails("nothing was begun for this attempt; change %s of an earlier one has ended", id)
	answer.NotBegun = true
	return answer
}
