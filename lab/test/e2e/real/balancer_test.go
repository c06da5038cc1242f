//go:build linux

package real_test

import (
	"context"
	"testing"
	"time"
)

// movesIn is how long a client may be without an answer when the API server of its connection loses
// its etcd: three times what was measured.
const movesIn = 20 * time.Second

// testFrozenEtcd stops the member of etcd on the machine whose API server a client is connected to.
// That API server answers that it is not ready, or not in time. The client keeps its connection:
// the load balancer has to end it, and leads the next one to another API server.
func (c *realCluster) testFrozenEtcd(ctx context.Context, t *testing.T) {
	t.Helper()
	w := c.startWriter(ctx, t)
	began := time.Now()
	if !w.journal.awaitAnswers(ctx, began, recoversIn) {
		t.Fatalf("%s after its start, the client has no answer", recoversIn)
	}
	frozen := w.machine(ctx, t)
	host := c.host(ctx, t, frozen)
	c.run(ctx, t, host, "pkill -STOP -x etcd")
	moved := w.journal.awaitAnswers(ctx, time.Now(), movesIn)
	now := w.machine(ctx, t)
	c.run(ctx, t, host, "pkill -CONT -x etcd")
	if !moved || now == frozen {
		t.Errorf("%s after etcd on %s was stopped, the client is connected to %s: moved: %t",
			movesIn, frozen, now, moved)
	}
	w.check(ctx, t, time.Since(began))
}
