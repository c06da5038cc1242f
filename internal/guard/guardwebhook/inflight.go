package guardwebhook

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/shares"
)

const (
	// inFlightLifetime is how long an admitted request may take until a live list of Machines shows it.
	inFlightLifetime = 3 * time.Second
	// maxWaiting bounds the requests about one owner that wait at the same time, and maxWait how long
	// each of them waits: for what was in flight when it came. A worker of Cluster API's controllers
	// waits as long.
	maxWaiting = 16
	maxWait    = inFlightLifetime
	// maxWaitingOfAll and maxWaitingInNamespace bound the requests that wait at the same time, about any
	// owner: each of them lists again and again, and a tenant can have many owners.
	maxWaitingOfAll, maxWaitingInNamespace = 256, 32
	// maxCreatesRemembered bounds the creations that are in flight for one owner. Cluster API's controllers have one
	// per MachineSet. It is more than farFromLimit, so that forged ones keep none from being remembered
	// that is allowed all the same.
	maxCreatesRemembered = 128
	// maxDeletes bounds the deletions in flight of all groups.
	maxDeletes = 4096
	// countLifetime is how long a count may be used again.
	countLifetime = 10 * time.Second
	// farFromLimit is how many Machines a group must be away from the first request to refuse for a count to be used again.
	farFromLimit = 100
)

// inFlight keeps the requests that were admitted moments ago. A live list of Machines does not show those yet: two requests at once
// would both be decided by the same list, and both be the last one that is allowed.
//
// The caller of the guard may be anybody. So what is kept here never decides: where the answer depends on a
// request in flight, the guard lists again, until the list shows that request, or inFlightLifetime has passed
// and it is forgotten. A forged request never shows. Where an answer still depends on one after maxWait, or
// there is no place left to wait, the caller must try again: of two requests that are decided by the same list,
// both could be the last one that is allowed.
//
// All of it is bounded. Groups and deleted Machines were read live before they are kept, so a caller cannot invent them, and everything is
// forgotten after countLifetime.
//
// It is safe for concurrent use.
type inFlight struct {
	now    func() time.Time
	places *shares.Shares

	mu     sync.Mutex
	groups map[types.UID]*groupInFlight
	// deletes are the Machines whose deletion was admitted, of any group, and when.
	deletes map[types.UID]time.Time
	// deleted counts admitted deletions.
	deleted int
}

// groupInFlight is about the Machines of one owner.
type groupInFlight struct {
	used time.Time
	// waiting counts the requests that wait for those in flight.
	waiting int
	// creates are the Machines whose creation was admitted, and when.
	creates map[types.UID]time.Time
	// created counts admitted creations.
	created int
	last    *count
}

// count is the result of a live list, with the counters from before the list, without what it did not show.
type count struct {
	at                    time.Time
	machines, replaceable int
	created, deleted      int
}

func newInFlight(now func() time.Time) *inFlight {
	return &inFlight{
		now: now, places: shares.New(maxWaitingOfAll, maxWaitingInNamespace),
		groups: map[types.UID]*groupInFlight{}, deletes: map[types.UID]time.Time{},
	}
}

// group returns what is kept about an owner that exists. The caller holds mu.
func (f *inFlight) group(owner types.UID) *groupInFlight {
	now := f.now()
	maps.DeleteFunc(f.groups, func(_ types.UID, g *groupInFlight) bool {
		return g.waiting == 0 && now.Sub(g.used) >= countLifetime
	})
	maps.DeleteFunc(f.deletes, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= inFlightLifetime })
	g := f.groups[owner]
	if g == nil {
		g = &groupInFlight{creates: map[types.UID]time.Time{}}
		f.groups[owner] = g
	}
	g.used = now
	maps.DeleteFunc(g.creates, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= inFlightLifetime })
	return g
}

// begin returns the counters for a list that is about to be read.
func (f *inFlight) begin(owner types.UID) count {
	f.mu.Lock()
	defer f.mu.Unlock()
	return count{at: f.now(), created: f.group(owner).created, deleted: f.deleted}
}

// wait takes a place for a request that waits, and returns what gives it back; nil if the owner, its
// namespace or all of them have no place left.
func (f *inFlight) wait(namespace string, owner types.UID) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.group(owner)
	if g.waiting >= maxWaiting {
		return nil
	}
	release, ok := f.places.TryAcquire(namespace)
	if !ok {
		return nil
	}
	g.waiting++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		g.waiting--
		release()
	}
}

// decide answers a request by a list of its group's Machines that was read live after begin. It returns false
// where the answer depends on a request in flight, or where an allowed request could not be remembered.
func (f *inFlight) decide(
	request guard.Request, owner, machine types.UID, members []member, began count, dryRun bool,
) (guard.Verdict, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.group(owner)
	counted, careful, hopeful := f.bounds(request, g, machine, members)
	verdict := guard.Decide(careful)
	if !verdict.Allowed {
		if guard.Decide(hopeful).Allowed {
			return guard.Verdict{}, false
		}
		// All three refuse. The message has the number that a person finds.
		verdict = guard.Decide(counted)
	}
	began.machines, began.replaceable = counted.Group.Machines, counted.Group.Replaceable
	// What was in flight when the list was read counts as admitted since.
	began.created -= max(careful.Group.Machines, hopeful.Group.Machines) - began.machines
	began.deleted -= began.machines - min(careful.Group.Machines, hopeful.Group.Machines)
	g.last = &began
	isMember := slices.ContainsFunc(members, func(m member) bool { return m.uid == machine })
	if verdict.Allowed && !dryRun && (isMember || request.Operation == guard.Create) {
		return verdict, f.add(request.Operation, g, machine)
	}
	return verdict, true
}

// bounds returns a request with its group's Machines as listed, and with those of the requests in flight that speak against it, and for it.
// The caller holds mu.
func (f *inFlight) bounds(request guard.Request, g *groupInFlight, machine types.UID, members []member) (counted, careful, hopeful guard.Request) {
	listed := guard.Group{Machines: len(members)}
	most, least := listed, listed
	shown := make(map[types.UID]struct{}, len(members))
	for _, m := range members {
		shown[m.uid] = struct{}{}
		_, gone := f.deletes[m.uid]
		gone = gone && m.uid != machine
		if gone {
			least.Machines--
		}
		if m.replaceable {
			most.Replaceable++
		}
		if m.replaceable && !gone {
			least.Replaceable++
		}
	}
	for uid := range g.creates {
		if _, ok := shown[uid]; !ok && uid != machine {
			most.Machines++
		}
	}
	with := func(machines, replaceable int) guard.Request {
		r := request
		r.Group.Machines, r.Group.Replaceable = machines, replaceable
		return r
	}
	counted = with(listed.Machines, most.Replaceable)
	// Many Machines and few that may be replaced speak against a creation, and for a deletion.
	careful, hopeful = with(most.Machines, least.Replaceable), with(least.Machines, most.Replaceable)
	if request.Operation == guard.Delete {
		careful, hopeful = hopeful, careful
	}
	return counted, careful, hopeful
}

// decideFar answers a request by the last count, if it allows the request and is still far from the first one to refuse. A live list
// costs the API server as much as the group has Machines, so scaling by n with a list for each request would cost the square of n.
// One count serves half of the requests that it allows. A request that never happens only brings the next list forward.
//
// Requests that the guard did not see, while the namespace was excluded or another process served, may be missing: fewer than
// farFromLimit, since a count is used for countLifetime at most.
func (f *inFlight) decideFar(request guard.Request, owner, machine types.UID, dryRun bool) (guard.Verdict, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.group(owner)
	if g.last == nil || f.now().Sub(g.last.at) >= countLifetime {
		return guard.Verdict{}, false
	}
	request.Group.Machines, request.Group.Replaceable = g.last.machines, g.last.replaceable
	allowed, since := request.Group.Desired-g.last.machines, g.created-g.last.created
	if request.Operation == guard.Delete {
		allowed, since = -allowed-g.last.replaceable, f.deleted-g.last.deleted
	}
	if since >= allowed/2 || allowed-since < farFromLimit {
		return guard.Verdict{}, false
	}
	if !dryRun {
		f.add(request.Operation, g, machine)
	}
	return guard.Decide(request), true
}

// remember keeps a request that was allowed without a count. The owner of a creation and the Machine of a deletion exist.
func (f *inFlight) remember(operation guard.Operation, owner, machine types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if operation == guard.Create {
		f.add(operation, f.group(owner), machine)
		return
	}
	f.addDeletion(machine)
}

// addDeletion is add for a deletion.
func (f *inFlight) addDeletion(machine types.UID) bool {
	f.deleted++
	return keep(f.deletes, machine, f.now(), maxDeletes)
}

// add keeps an admitted request, and reports whether there was room for it. The caller holds mu.
func (f *inFlight) add(operation guard.Operation, g *groupInFlight, machine types.UID) bool {
	if operation == guard.Delete {
		return f.addDeletion(machine)
	}
	g.created++
	return keep(g.creates, machine, f.now(), maxCreatesRemembered)
}

// keep adds a Machine to requests that has room for most.
func keep(requests map[types.UID]time.Time, machine types.UID, at time.Time, most int) bool {
	if _, known := requests[machine]; !known && len(requests) >= most {
		return false
	}
	requests[machine] = at
	return true
}
