package fleet

import "time"

// kind is what an event is about.
type kind uint8

const (
	// beginCluster asks for a cluster's upgrade; id is the cluster.
	beginCluster kind = iota
	// reconcileTopology has the chain decided on; id is the cluster.
	reconcileTopology
	// reconcileGroup has a rollout decided on; id is the group.
	reconcileGroup
	// updateMachine has Cluster API ask the engine about a machine; id is the machine, as in all that follow.
	updateMachine
	// created and deleted are the ends of what a provider does. gaveUp is when a new machine that never gets Ready is given up.
	created
	deleted
	gaveUp
	// attended is when a person asks for a retry.
	attended
	// outageBegins and outageEnds are about a failure domain.
	outageBegins
	outageEnds
)

// event is something that happens at a time. Events of one time happen in the order in which they were scheduled.
type event struct {
	at   time.Duration
	seq  uint64
	id   int32
	gen  uint32
	kind kind
	// paid says that the event has its share of the budget already.
	paid bool
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// queue is a binary heap of events; container/heap would box each of them.
type queue struct {
	events []event
	seq    uint64
	// live counts those that are not about outages, which never end.
	live int
}

// isOutage reports whether an event is about a failure domain, and not about what is upgraded.
func (k kind) isOutage() bool { return k == outageBegins || k == outageEnds }

func (q *queue) push(e event) {
	q.seq++
	e.seq = q.seq
	if !e.kind.isOutage() {
		q.live++
	}
	q.events = append(q.events, e)
	for i := len(q.events) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.events[i].before(q.events[parent]) {
			return
		}
		q.events[i], q.events[parent] = q.events[parent], q.events[i]
		i = parent
	}
}

func (q *queue) pop() (event, bool) {
	if len(q.events) == 0 {
		return event{}, false
	}
	first, last := q.events[0], len(q.events)-1
	if !first.kind.isOutage() {
		q.live--
	}
	q.events[0] = q.events[last]
	q.events = q.events[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first, true
		}
		if other := child + 1; other < last && q.events[other].before(q.events[child]) {
			child = other
		}
		if !q.events[child].before(q.events[i]) {
			return first, true
		}
		q.events[i], q.events[child] = q.events[child], q.events[i]
		i = child
	}
}
