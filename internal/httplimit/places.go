package httplimit

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// places bound how much callers hold at once, in all and of one address. When all places are held, a
// newcomer gets the oldest place of the address that holds the most, if that one holds more than the
// newcomer's address. Callers of any number of addresses thus cannot keep others out. Safe for
// concurrent use.
type places struct {
	bounds Bounds

	mu sync.Mutex
	// held are the places that are held, and taken those that ever were.
	held, taken int
	// of has the places of each address, the oldest first.
	of map[string][]*place
}

// place is what one caller holds.
type place struct {
	// number is in the order of their beginnings.
	number int
	// end takes the place away from the caller. It neither blocks nor calls leave.
	end func()
}

func newPlaces(bounds Bounds) *places {
	return &places{bounds: bounds, of: map[string][]*place{}}
}

// take returns what gives the place back, which may be called more than once; false means that there
// is no place for the address. end runs before leave returns, or not at all.
func (p *places) take(address string, end func()) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.of[address]) >= p.bounds.OfAddress {
		return nil, false
	}
	if p.held >= p.bounds.Connections {
		most := p.most()
		if len(p.of[most]) <= len(p.of[address]) {
			return nil, false
		}
		oldest := p.of[most][0]
		p.remove(most, oldest)
		oldest.end()
	}
	p.held++
	p.taken++
	taken := &place{number: p.taken, end: end}
	p.of[address] = append(p.of[address], taken)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.remove(address, taken)
	}, true
}

// most returns the address with the most places. Of several, it returns that with the oldest place.
func (p *places) most() (most string) {
	for address, held := range p.of {
		best := p.of[most]
		order := cmp.Compare(len(held), len(best))
		if order > 0 || order == 0 && held[0].number < best[0].number {
			most = address
		}
	}
	return most
}

func (p *places) remove(address string, gone *place) {
	i := slices.Index(p.of[address], gone)
	if i < 0 {
		return
	}
	p.held--
	if p.of[address] = slices.Delete(p.of[address], i, i+1); len(p.of[address]) == 0 {
		delete(p.of, address)
	}
}

// Fair returns a handler that has next serve so many requests at once. When that many run, a newcomer
// ends the oldest answer of the address with the most of them, and waits until it has ended. A
// newcomer whose address has the most itself gets 503. A caller that does not read its answer thus
// keeps no other address out.
func Fair(atOnce int, next http.Handler) http.Handler {
	all := newPlaces(Bounds{Connections: atOnce, OfAddress: atOnce})
	running := make(chan struct{}, atOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, _, _ := net.SplitHostPort(r.RemoteAddr) // Callers without an address share a place.
		leave, ok := all.take(address, func() {
			// It fails for writers that have no connection. They do not wait for a reader.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
		})
		if !ok {
			http.Error(w, "too many requests are being answered. Fix: try again", http.StatusServiceUnavailable)
			return
		}
		defer leave()
		select {
		case running <- struct{}{}:
			defer func() { <-running }()
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}
