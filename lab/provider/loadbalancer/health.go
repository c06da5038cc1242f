package loadbalancer

import "time"

// probe is the outcome of one request for /readyz.
type probe int

const (
	// answeredReady is status 200.
	answeredReady probe = iota
	// answeredNotReady is any other status.
	answeredNotReady
	// unreachable means that nothing accepts connections at the address.
	unreachable
	// silent means that there was no answer in time.
	silent
)

// health is what is known about a backend. The zero value is a backend that has not answered yet.
type health struct {
	ready bool
	// lastReady is when the backend last answered that it is ready.
	lastReady time.Time
}

// next returns the health after one more probe, which ended at a time. lost means that connections
// to the backend must be reset: nothing accepts connections, or the backend has not been ready for
// patience. An API server without its etcd is slow to answer that it is not ready, so that status
// 500 and silence alternate. Both count alike.
func (h health) next(p probe, now time.Time, patience time.Duration) (result health, lost bool) {
	if p == answeredReady {
		return health{ready: true, lastReady: now}, false
	}
	lost = p == unreachable || now.Sub(h.lastReady) >= patience
	if lost || p == answeredNotReady {
		h.ready = false
	}
	return h, lost
}

// order returns the backends in the order in which a connection tries them. turn counts connections.
func order(backends []string, ready map[string]bool, turn int) []string {
	var result []string
	for i := range backends {
		if address := backends[(turn+i)%len(backends)]; ready[address] {
			result = append(result, address)
		}
	}
	return result
}
