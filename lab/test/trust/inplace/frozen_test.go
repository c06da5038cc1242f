package inplace

import (
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// TestFrozenProcess freezes a process that is about to begin an update. Another process ends the update meanwhile; then the first one continues. Neither
// elects a leader, so that nothing but the record keeps the first one from acting on what it read.
func TestFrozenProcess(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "a")
	updater := newUpdater(t, plane, pool, "u")
	updater.Update = finishes(pool)
	var freeze atomic.Bool
	reached, release := make(chan struct{}), make(chan struct{})
	pool.Workload.Before = func(r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v1/nodes") && freeze.CompareAndSwap(true, false) {
			close(reached)
			<-release
		}
	}
	first, second := plane.Run(t), plane.Run(t)
	decide(t, first, pool)
	pool.Move(t, "a")
	request := pool.Update(t, "a")

	// The first process has read the Machine, and asks for its node.
	freeze.Store(true)
	answered := make(chan wire.Answer, 1)
	go func() { answered <- first.Call(t, wire.UpdateMachine, request) }()
	<-reached
	first.Signal(t, syscall.SIGSTOP)
	close(release)

	update(t, second, pool, "a")
	last := pool.Machine(t, "a").Annotations[v1alpha1.LastUpdateAnnotation]
	if last == "" {
		t.Fatal("the second process has recorded no end")
	}
	version := pool.Machine(t, "a").ResourceVersion
	// The second process may have asked more than once: an end that it could not record is asked for again.
	ran := len(updater.Requests(wire.UpdateMachine.Hook))

	first.Signal(t, syscall.SIGCONT)
	answer := <-answered
	if answer.Status == runtimehooksv1.ResponseStatusSuccess && answer.RetryAfterSeconds == 0 {
		t.Errorf("the frozen process says that it is done: %+v", answer)
	}
	if got := len(updater.Requests(wire.UpdateMachine.Hook)); got != ran {
		t.Errorf("the frozen process ran the updater %d times", got-ran)
	}
	after := pool.Machine(t, "a")
	if got := after.Annotations[v1alpha1.LastUpdateAnnotation]; got != last {
		t.Errorf("last-update was %s, and is %s", last, got)
	}
	if got := after.Annotations[v1alpha1.UpdateProgressAnnotation]; got != "" {
		t.Errorf("an update has begun again: %s", got)
	}
	if after.ResourceVersion != version {
		t.Error("the frozen process has written to the Machine")
	}
}
