package controllers

import (
	"context"
	"testing"
)

// prefetches counts calls, and calls then at each.
type prefetches struct {
	calls int
	then  func()
}

func (p *prefetches) Prefetch(context.Context) error {
	p.calls++
	p.then()
	return nil
}

// TestPrefetcher prepares at once, and ends with its context. While another process prepares
// machines, it does not.
func TestPrefetcher(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		serves bool
		want   int
	}{
		"alone":          {true, 1},
		"beside another": {false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			counted := &prefetches{then: cancel}
			p := &Prefetcher{Prefetching: counted, Serves: func(context.Context) bool {
				if !test.serves {
					cancel()
				}
				return test.serves
			}}
			if err := p.Start(ctx); err != nil || counted.calls != test.want {
				t.Errorf("%d calls, error %v; want %d calls", counted.calls, err, test.want)
			}
		})
	}
}
