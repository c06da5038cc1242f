package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
)

// groupMember is what one of a group's Machines shows about the order in which they begin.
type groupMember struct {
	name types.NamespacedName
	// waits says that Cluster API has marked the Machine and that its update has not begun.
	waits bool
	// updating says that its update is under way. One that failed finally is not.
	updating bool
	// ended is when its last update ended; zero if none did.
	ended time.Time
}

// memberOf reads a Machine. A record that cannot be read counts as an update that is under way.
func memberOf(m client.Object) groupMember {
	member := groupMember{name: client.ObjectKeyFromObject(m)}
	last, err := readAnnotation[inplace.Summary](m, v1alpha1.LastUpdateAnnotation)
	if err == nil && last != nil {
		member.ended = last.Ended
	}
	isEnded := last != nil && last.Target != "" && last.Target == capi.TemplateOf(m)
	progress, err := readAnnotation[inplace.Progress](m, v1alpha1.UpdateProgressAnnotation)
	switch {
	case !has(m, clusterv1.UpdateInProgressAnnotation) || !m.GetDeletionTimestamp().IsZero():
	case err != nil:
		member.updating = true
	case progress != nil:
		member.updating = progress.Phase != inplace.Failed
	default:
		member.waits = !isEnded && !has(m, clusterv1.PendingAcknowledgeMoveAnnotation)
	}
	return member
}

// candidates returns the Machines of a group that could begin, sorted. self is one of them, also
// where the cache does not show that yet.
func candidates(members []groupMember, self types.NamespacedName) []types.NamespacedName {
	names := []types.NamespacedName{self}
	for _, m := range members {
		if m.waits && m.name != self {
			names = append(names, m.name)
		}
	}
	slices.SortFunc(names, compareNames)
	return names
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// chooseBy returns when the time to choose is over: a while after the group came to a standstill. It
// did when Cluster API marked the Machine that asks, or when the last update ended, whichever is
// later. Zero means that an update is under way.
func chooseBy(members []groupMember, marked time.Time, patience time.Duration) time.Time {
	since := marked
	for _, m := range members {
		if m.updating {
			return time.Time{}
		}
		if m.ended.After(since) {
			since = m.ended
		}
	}
	return since.Add(patience)
}

// markedAt returns since when Cluster API shows that a Machine is being updated; now if it does not yet.
func markedAt(m *clusterv1.Machine, now time.Time) time.Time {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpdatingCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return now
	}
	return c.LastTransitionTime.Time
}

// choose asks the updaters of an update that would begin now whether it is the Machine's turn, where they choose an order.
// isTurn is false where reply is the answer. An updater that cannot be asked, or that lets nobody begin, holds the group until
// the time to choose is over; the attempt that begins then has a deadline.
func (r *run) choose(ctx context.Context) (reply inplace.Reply, isTurn bool, err error) {
	begins := inplace.Decide(r.facts).Progress
	if begins == nil {
		return inplace.Reply{}, true, nil
	}
	var asked *port.Candidates
	for _, step := range begins.Steps {
		u, err := servingUpdater(ctx, r.Client, step.Updater, r.policy, r.Object)
		if err != nil {
			continue // Call refuses it with a reason.
		}
		opened, err := r.Open(ctx, u)
		if err != nil {
			continue // Ask reports it.
		}
		chooser, ok := opened.(port.Chooser)
		if !ok {
			continue
		}
		if asked == nil {
			if asked, err = r.readCandidates(ctx); err != nil {
				return inplace.Reply{}, false, err
			}
		}
		if why := r.askChooser(ctx, u, chooser, *asked); why != "" {
			return r.waitForTurn(why), false, nil
		}
	}
	if asked != nil {
		r.facts.Now = r.now() // The attempt's time does not include that of the question.
	}
	return inplace.Reply{}, true, nil
}

// askChooser returns why the Machine does not begin now; empty if it does.
func (r *run) askChooser(ctx context.Context, u *v1alpha1.Updater, chooser port.Chooser, c port.Candidates) string {
	bounded, cancel := context.WithTimeout(ctx, callBudget)
	defer cancel()
	choice, err := chooser.Choose(bounded, c)
	r.noteRequest(ctx, u, "Choose", r.key(), choice.Reason, err)
	why := fmt.Sprintf("updater %q chooses others first", u.Name)
	switch {
	case err != nil:
		why = fmt.Sprintf("updater %q was not asked which machine is next: %v", u.Name, err)
	case slices.Contains(choice.Machines, r.key()):
		return ""
	case len(choice.Machines) == 0:
		why = fmt.Sprintf("updater %q lets no machine begin: %s", u.Name, choice.Reason)
	}
	if !c.Deadline.IsZero() && r.now().After(c.Deadline) {
		logFor(ctx).Info("A machine begins though it was not chosen, because the time to choose is over", "machine", r.name(), "reason", why)
		return ""
	}
	return why
}

// readCandidates reads the group from the cache. A control plane controller marks one Machine at a
// time, so that there is no other.
func (r *run) readCandidates(ctx context.Context) (*port.Candidates, error) {
	var members []groupMember
	if !r.owner.group.ControlPlane {
		machines, err := r.listGroup(ctx)
		if err != nil {
			return nil, err
		}
		for i := range machines {
			member := memberOf(&machines[i])
			member.ended = r.clock.Past(r.Object.Namespace, member.ended, r.now())
			members = append(members, member)
		}
	}
	names := candidates(members, r.key())
	free := len(names)
	if !r.owner.group.ControlPlane {
		free = min(free, inplace.Free(r.policy, r.facts.Others))
	}
	return &port.Candidates{
		Cluster: r.cluster(), Machines: names, Free: free,
		Deadline: chooseBy(
			members, r.clock.Past(r.Object.Namespace, markedAt(r.Object, r.now()), r.now()),
			r.policy.AttemptTimeout,
		),
	}, nil
}

// waitForTurn returns the reply to a Machine whose turn it is not. Machines of a large group ask one after another.
func (r *run) waitForTurn(why string) inplace.Reply {
	message := "not started: " + why
	if r.owner.group.ControlPlane {
		return inplace.Reply{RetryAfter: inplace.PollQueue, Message: message}
	}
	return r.queue(inplace.Wait{Message: message})
}
