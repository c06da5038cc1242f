//go:build linux

package real_test

import (
	"context"
	"crypto/x509"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/journal"
	"github.com/windlass-dev/windlass/lab/internal/journal/recorder"
)

const (
	// longestOutage is for control planes that keep their quorum: five times what was measured on a
	// machine with two processors.
	longestOutage = 40 * time.Second
	// recoversIn is how long the API may take to answer once a change is done.
	recoversIn = time.Minute
)

// writer is a client that writes and reads through a Cluster's load balancer.
type writer struct {
	cluster  *realCluster
	recorder *recorder.Recorder
	journal  liveJournal
	// server is the certificate of the API server that answered last.
	server atomic.Pointer[x509.Certificate]
}

func (c *realCluster) startWriter(ctx context.Context, t *testing.T) *writer {
	t.Helper()
	w := &writer{cluster: c}
	config := c.config(ctx, t)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return noting{next, w} })
	api, err := recorder.NewAPI(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	w.recorder = recorder.Start(ctx, recorder.Options{API: api, Journal: &w.journal})
	t.Cleanup(func() { _ = w.recorder.Stop() })
	return w
}

// noting notes which API server answers a writer.
type noting struct {
	next http.RoundTripper
	w    *writer
}

// RoundTrip implements http.RoundTripper.
func (n noting) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := n.next.RoundTrip(request)
	if err == nil {
		n.w.server.Store(response.TLS.PeerCertificates[0])
	}
	return response, err
}

// machine returns the name of the Machine whose API server answered last.
func (w *writer) machine(ctx context.Context, t *testing.T) string {
	t.Helper()
	for _, m := range w.cluster.machines(ctx, t) {
		if w.server.Load().VerifyHostname(m.Name) == nil {
			return m.Name
		}
	}
	t.Fatalf("no Machine has the API server of %v", w.server.Load().DNSNames)
	return ""
}

// check stops the client when the API answers, and sees that each outage had an end, and that each
// member of etcd has all that was acknowledged. Outages of a control plane of several machines are
// short, because it keeps its quorum. It logs how long the API was unavailable in the time that the
// change took.
func (w *writer) check(ctx context.Context, t *testing.T, took time.Duration) {
	t.Helper()
	if !w.journal.awaitAnswers(ctx, time.Now(), recoversIn) {
		t.Errorf("%s after the change, the API does not answer", recoversIn)
	}
	if err := w.recorder.Stop(); err != nil {
		t.Fatal(err)
	}
	attempts, err := w.journal.Attempts()
	if err != nil {
		t.Fatal(err)
	}
	limit := longestOutage
	if w.cluster.ControlPlanes < 3 {
		limit = 0
	}
	members := w.cluster.askMembers(ctx, t)
	for _, problem := range journal.Verify(attempts, members) {
		t.Error(problem)
	}
	t.Logf("%d members were asked for %d writes", len(members), len(journal.Acknowledged(attempts)))
	for _, operation := range operations {
		a := journal.Measure(attempts, operation)
		for _, problem := range a.Problems(limit) {
			t.Errorf("%ss: %s", operation, problem)
		}
		t.Logf("%s in %s: %d succeeded, %d failed; unavailable %s in total, %s at once",
			operation, took.Round(time.Second), a.Succeeded, a.Failed,
			a.Total().Round(time.Second/10), a.Longest().Round(time.Second/10))
		for _, o := range a.Outages {
			t.Logf("no %s from %s for %s, %d attempts: %s", operation, o.From.Format(time.TimeOnly),
				o.Duration().Round(time.Second/10), o.Attempts, o.Error)
		}
	}
}

var operations = []journal.Operation{journal.Write, journal.Read}

// liveJournal is a journal that can be read while it is written.
type liveJournal struct{ journal.Live }

// awaitAnswers waits until the last attempt of each operation began after a time, and succeeded. It
// reports false if that takes too long.
func (j *liveJournal) awaitAnswers(ctx context.Context, since time.Time, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return j.Await(ctx, func(attempts []journal.Attempt) bool { return answers(attempts, since) })
}

// answers reports whether the last attempt of each operation began after a time, and succeeded.
func answers(attempts []journal.Attempt, since time.Time) bool {
	for _, operation := range operations {
		last := journal.Attempt{}
		for _, a := range slices.Backward(attempts) {
			if a.Operation == operation {
				last = a
				break
			}
		}
		if last.Failed() || !last.Began.After(since) {
			return false
		}
	}
	return true
}

// TestLiveJournal waits for answers of a client that fails at first.
func TestLiveJournal(t *testing.T) {
	t.Parallel()
	since := time.Now()
	j := &liveJournal{}
	record := func(operation journal.Operation, after time.Duration, failure string) {
		t.Helper()
		began := since.Add(after)
		a := journal.Attempt{Operation: operation, Number: 1, Began: began, Ended: began, Error: failure}
		if err := journal.Append(j, a); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		operation journal.Operation
		after     time.Duration
		failure   string
		want      bool
	}{
		{journal.Write, -time.Second, "", false},
		{journal.Read, time.Second, "", false},
		{journal.Write, time.Second, "refused", false},
		{journal.Write, 2 * time.Second, "", true},
		{journal.Read, 3 * time.Second, "refused", false},
	} {
		record(step.operation, step.after, step.failure)
		if got := j.awaitAnswers(t.Context(), since, time.Millisecond); got != step.want {
			t.Errorf("after %+v: %t", step, got)
		}
	}
	answered := make(chan bool)
	go func() { answered <- j.awaitAnswers(t.Context(), since, time.Minute) }()
	record(journal.Read, 4*time.Second, "")
	if !<-answered {
		t.Error("it does not answer")
	}
}
