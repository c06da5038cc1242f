package webhook

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/core/guard"
)

const (
	// admittedLifetime is how long an admitted request may be on its way: longer than the API server waits for any webhook, so that
	// no request is decided by a list of Machines that is older than what was forgotten.
	admittedLifetime = 15 * time.Second
	// rememberedLifetime is how long admitted requests are added to what a cache shows. A watch that hangs is noticed within a minute.
	rememberedLifetime = 10 * time.Minute
	// farFromLimit is how many Machines a group must be away from the first request to refuse for a cache to be believed.
	farFromLimit = 100
)

// admitted remembers the requests that were just admitted. A request that was admitted shows in a list of Machines only some
// time later; two of them at once would both be decided by the same list, and both be the last one that is allowed.
//
// Whether an admitted request really happens is not known either: it may fail after this webhook. So what it changes is
// counted, or not, as is the more careful for the next request: at worst, that one is refused for some seconds.
//
// That decides every request, with a list that is read live. Such a list costs the API server as much as the group has Machines,
// so a group that is scaled by thousands would cost the square of that. While a group is far from its limit, one that a cache shows
// will do. It is safe although a cache has no bound on its age:
//
//   - What this process admitted is counted, as above, but for as long as a cache may lag.
//   - What it did not see, it may miss: what the leader before it admitted, or what happened while the guard was switched off. That
//     would have to be farFromLimit Machines, created or deleted within the time that the cache lags.
//   - The cache only ever allows. What it does not clearly allow is decided by a list that is read live.
//   - Machines that the cache still shows though they are gone, and those that it does not show yet, count as is more careful: a Machine
//     that is gone was deleted by a request, which is remembered.
type admitted struct {
	now func() time.Time

	mu sync.Mutex
	// creates are the Machines of each group, by the UID of its owner, and when they were admitted.
	creates map[types.UID]map[types.UID]time.Time
	// deletes are Machines, of whichever group.
	deletes map[types.UID]time.Time
}

func newAdmitted(now func() time.Time) *admitted {
	return &admitted{now: now, creates: map[types.UID]map[types.UID]time.Time{}, deletes: map[types.UID]time.Time{}}
}

// decide completes a request with the number of its group's Machines, read live, answers it, and remembers it if it is allowed.
func (a *admitted) decide(request guard.Request, owner, machine types.UID, members []member, dryRun bool) guard.Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(&request, owner, machine, members, admittedLifetime)
	verdict := guard.Decide(request)
	if verdict.Allowed && !dryRun {
		a.add(request.Operation, owner, machine)
	}
	return verdict
}

// decideFar is decide with members from a cache. It answers only what it allows, far from the limit.
func (a *admitted) decideFar(request guard.Request, owner, machine types.UID, members []member, dryRun bool) (guard.Verdict, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(&request, owner, machine, members, rememberedLifetime)
	far := request.Group.Desired - request.Group.Machines
	if request.Operation == guard.Delete {
		far = -far - request.Group.Replaceable
	}
	if far < farFromLimit {
		return guard.Verdict{}, false
	}
	if !dryRun {
		a.add(request.Operation, owner, machine)
	}
	return guard.Decide(request), true
}

// remember remembers a request that was allowed without a count. owner is empty where it is not known.
func (a *admitted) remember(operation guard.Operation, owner, machine types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget()
	a.add(operation, owner, machine)
}

func (a *admitted) add(operation guard.Operation, owner, machine types.UID) {
	switch {
	case operation == guard.Delete:
		a.deletes[machine] = a.now()
	case owner == "":
	case a.creates[owner] == nil:
		a.creates[owner] = map[types.UID]time.Time{machine: a.now()}
	default:
		a.creates[owner][machine] = a.now()
	}
}

func (a *admitted) forget() {
	old := func(_ types.UID, at time.Time) bool { return a.isOld(at, rememberedLifetime) }
	maps.DeleteFunc(a.deletes, old)
	for owner, creates := range a.creates {
		maps.DeleteFunc(creates, old)
		if len(creates) == 0 {
			delete(a.creates, owner)
		}
	}
}

func (a *admitted) isOld(at time.Time, lifetime time.Duration) bool {
	return a.now().Sub(at) >= lifetime
}

// count counts a group's Machines. Requests that were admitted less than lifetime ago may not show in members.
func (a *admitted) count(request *guard.Request, owner, machine types.UID, members []member, lifetime time.Duration) {
	a.forget()
	if request.Operation == guard.Create {
		a.countForCreate(&request.Group, owner, members, lifetime)
	} else {
		a.countForDelete(&request.Group, machine, members, lifetime)
	}
}

// countForCreate counts all Machines that may be there, and as replaceable those that are there for sure.
func (a *admitted) countForCreate(group *guard.Group, owner types.UID, members []member, lifetime time.Duration) {
	group.Machines, group.Replaceable = len(members), 0
	shown := make(map[types.UID]struct{}, len(members))
	for _, m := range members {
		shown[m.uid] = struct{}{}
		if m.replaceable && !a.isDeleted(m.uid, lifetime) {
			group.Replaceable++
		}
	}
	for uid, at := range a.creates[owner] {
		if _, ok := shown[uid]; !ok && !a.isOld(at, lifetime) {
			group.Machines++
		}
	}
}

// countForDelete counts the Machines that are there for sure, and as replaceable all that may be there. A Machine whose deletion was
// admitted and is asked for again is there: the deletion failed after us.
func (a *admitted) countForDelete(group *guard.Group, machine types.UID, members []member, lifetime time.Duration) {
	group.Machines, group.Replaceable = 0, 0
	for _, m := range members {
		if m.uid == machine || !a.isDeleted(m.uid, lifetime) {
			group.Machines++
		}
		if m.replaceable {
			group.Replaceable++
		}
	}
}

func (a *admitted) isDeleted(machine types.UID, lifetime time.Duration) bool {
	at, ok := a.deletes[machine]
	return ok && !a.isOld(at, lifetime)
}
