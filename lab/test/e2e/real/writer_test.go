//go:build linux

package real_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/journal"
	"github.com/windlass-dev/windlass/lab/internal/journal/recorder"
)

// writer is a client that writes and reads through a Cluster's load balancer.
type writer struct {
	cluster  *realCluster
	recorder *recorder.Recorder
	journal  bytes.Buffer
}

func (c *realCluster) startWriter(ctx context.Context, t *testing.T) *writer {
	t.Helper()
	api, err := recorder.NewAPI(ctx, c.config(ctx, t))
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{cluster: c}
	w.recorder = recorder.Start(ctx, recorder.Options{API: api, Journal: &w.journal})
	t.Cleanup(func() { _ = w.recorder.Stop() })
	return w
}

// check stops the client, and sees that each member of etcd has all that was acknowledged. It logs
// how long the API was unavailable in the time that the change took.
func (w *writer) check(ctx context.Context, t *testing.T, took time.Duration) {
	t.Helper()
	if err := w.recorder.Stop(); err != nil {
		t.Fatal(err)
	}
	attempts, err := journal.Parse(w.journal.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	members := w.cluster.askMembers(ctx, t)
	for _, problem := range journal.Verify(attempts, members) {
		t.Error(problem)
	}
	t.Logf("%d members were asked for %d writes", len(members), len(journal.Acknowledged(attempts)))
	for _, operation := range []journal.Operation{journal.Write, journal.Read} {
		a := journal.Measure(attempts, operation)
		t.Logf("%s in %s: %d succeeded, %d failed; unavailable %s in total, %s at once",
			operation, took.Round(time.Second), a.Succeeded, a.Failed,
			a.Total().Round(time.Second/10), a.Longest().Round(time.Second/10))
	}
}
