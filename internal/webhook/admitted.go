package webhook

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/core/guard"
)

// admittedLifetime is how long an admitted request may be on its way: longer than the API server waits for any webhook, so that
// no request is decided by a list of Machines that is older than what was forgotten.
const admittedLifetime = 15 * time.Second

// admitted remembers the requests that were just admitted. A request that was admitted shows in a list of Machines only some
// time later; two of them at once would both be decided by the same list, and both be the last one that is allowed.
//
// Whether an admitted request really happens is not known either: it may fail after this webhook. So what it changes is
// counted, or not, as is the more careful for the next request: at worst, that one is refused for some seconds.
type admitted struct {
	now func() time.Time

	mu sync.Mutex
	// creates are the Machines of each group, by the UID of its owner, and until when they may be on their way.
	creates map[types.UID]map[types.UID]time.Time
	// deletes are Machines, of whichever group.
	deletes map[types.UID]time.Time
}

func newAdmitted(now func() time.Time) *admitted {
	return &admitted{now: now, creates: map[types.UID]map[types.UID]time.Time{}, deletes: map[types.UID]time.Time{}}
}

// decide completes a request with the number of its group's Machines, answers it, and remembers it if it is allowed.
func (a *admitted) decide(request guard.Request, owner, machine types.UID, members []member, dryRun bool) guard.Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget()
	if request.Operation == guard.Create {
		a.countForCreate(&request.Group, owner, members)
	} else {
		a.countForDelete(&request.Group, machine, members)
	}
	verdict := guard.Decide(request)
	switch {
	case !verdict.Allowed || dryRun:
	case request.Operation == guard.Delete:
		a.deletes[machine] = a.now().Add(admittedLifetime)
	case a.creates[owner] == nil:
		a.creates[owner] = map[types.UID]time.Time{machine: a.now().Add(admittedLifetime)}
	default:
		a.creates[owner][machine] = a.now().Add(admittedLifetime)
	}
	return verdict
}

// rememberDelete remembers a request to delete that was allowed without a count.
func (a *admitted) rememberDelete(machine types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget()
	a.deletes[machine] = a.now().Add(admittedLifetime)
}

func (a *admitted) forget() {
	now := a.now()
	expired := func(_ types.UID, expires time.Time) bool { return !now.Before(expires) }
	maps.DeleteFunc(a.deletes, expired)
	for owner, creates := range a.creates {
		maps.DeleteFunc(creates, expired)
		if len(creates) == 0 {
			delete(a.creates, owner)
		}
	}
}

// countForCreate counts all Machines that may be there, and as replaceable those that are there for sure.
func (a *admitted) countForCreate(group *guard.Group, owner types.UID, members []member) {
	made := maps.Clone(a.creates[owner])
	group.Machines, group.Replaceable = len(members), 0
	for _, m := range members {
		delete(made, m.uid)
		if _, deleted := a.deletes[m.uid]; m.replaceable && !deleted {
			group.Replaceable++
		}
	}
	group.Machines += len(made)
}

// countForDelete counts the Machines that are there for sure, and as replaceable all that may be there. A Machine whose deletion was
// admitted and is asked for again is there: the deletion failed after us.
func (a *admitted) countForDelete(group *guard.Group, machine types.UID, members []member) {
	group.Machines, group.Replaceable = 0, 0
	for _, m := range members {
		if _, deleted := a.deletes[m.uid]; !deleted || m.uid == machine {
			group.Machines++
		}
		if m.replaceable {
			group.Replaceable++
		}
	}
}
