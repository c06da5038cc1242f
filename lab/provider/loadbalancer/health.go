package loadbalancer

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

// maxSilent is how many requests in a row may be without an answer: a busy API server is slow, and not lost.
const maxSilent = 3

// health is what is known about a backend. The zero value is a backend that has not answered yet.
type health struct {
	ready bool
	// silent counts the requests since the last answer.
	silent int
}

// next returns the health after one more probe. lost means that connections to the backend must be reset.
func (h health) next(p probe) (result health, lost bool) {
	switch p {
	case answeredReady:
		return health{ready: true}, false
	case answeredNotReady:
		return health{}, false
	case silent:
		h.silent++
		if h.silent < maxSilent {
			return h, false
		}
		return health{silent: maxSilent}, true
	case unreachable:
	}
	return health{}, true
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
