//go:build linux

package kubeadm_test

import (
	"context"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/journal"
	"github.com/windlass-dev/windlass/lab/internal/journal/recorder"
)

const (
	// goesOn is how many writes must succeed while a machine has no power, and goesOnIn how long they
	// may take. etcd elects a leader first if that machine had it.
	goesOn, goesOnIn = 20, time.Minute
	// longestOutage is for writes at a machine whose power is not cut.
	longestOutage = 30 * time.Second
)

// writer is a client that writes and reads at the API server of one machine.
type writer struct {
	recorder *recorder.Recorder
	journal  journal.Live
}

func (m *machine) startWriter(ctx context.Context, t *testing.T) *writer {
	t.Helper()
	config := m.config(t)
	config.Host = "https://" + m.Address() + ":6443"
	api, err := recorder.NewAPI(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{}
	w.recorder = recorder.Start(ctx, recorder.Options{API: api, Journal: &w.journal})
	t.Cleanup(func() { _ = w.recorder.Stop() })
	return w
}

// checkGoesOn sees that writes that begin from now on succeed.
func (w *writer) checkGoesOn(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, goesOnIn)
	defer cancel()
	began, succeeded := time.Now(), 0
	if !w.journal.Await(ctx, func(attempts []journal.Attempt) bool {
		succeeded = 0
		for _, write := range journal.Acknowledged(attempts) {
			if write.Began.After(began) {
				succeeded++
			}
		}
		return succeeded >= goesOn
	}) {
		t.Errorf("%d writes succeeded in %s, want %d", succeeded, goesOnIn, goesOn)
	}
	t.Logf("%d writes succeeded in %s", succeeded, time.Since(began).Round(time.Second/10))
}

// check stops the client. It asks the member of etcd on each machine alone for all that was
// acknowledged.
func (w *writer) check(ctx context.Context, t *testing.T, machines ...*machine) {
	t.Helper()
	if err := w.recorder.Stop(); err != nil {
		t.Fatal(err)
	}
	attempts, err := w.journal.Attempts()
	if err != nil {
		t.Fatal(err)
	}
	members := make([]journal.Member, 0, len(machines))
	for _, m := range machines {
		members = append(members, recorder.AskMember(ctx, m.name, m.Run))
	}
	for _, problem := range journal.Verify(attempts, members) {
		t.Error(problem)
	}
	writes := journal.Measure(attempts, journal.Write)
	for _, problem := range writes.Problems(longestOutage) {
		t.Error(problem)
	}
	t.Logf("%d members have %d writes; %d failed; no write in %d outages, %s in total, %s at once",
		len(members), writes.Succeeded, writes.Failed, len(writes.Outages),
		writes.Total().Round(time.Second/10), writes.Longest().Round(time.Second/10))
}
