package pools_test

import (
	"context"
	"sync"
	"syscall"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// processes freezes a process when the history shows a certain fact: before it writes much more.
type processes struct {
	mu   sync.Mutex
	trap *trap
}

// trap is a fact that freezes the process pid. It closes sprung.
type trap struct {
	pid    int
	match  func(history.Fact) bool
	sprung chan struct{}
}

func newProcesses(h rig.History) *processes {
	p := &processes{}
	h.OnFact(p.see)
	return p
}

func (p *processes) see(f history.Fact) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trap == nil || !p.trap.match(f) {
		return
	}
	// A process that has ended is an error of the test that kills it.
	_ = syscall.Kill(p.trap.pid, syscall.SIGSTOP)
	close(p.trap.sprung)
	p.trap = nil
}

// arm sets the trap.
func (p *processes) arm(pid int, match func(history.Fact) bool) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = &trap{pid: pid, match: match, sprung: make(chan struct{})}
	return p.trap
}

// pid returns the process of a child of the plane.
func (p *plane) pid(ctx context.Context, t *testing.T, name string) int {
	t.Helper()
	status, err := p.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range status.Children {
		if child.Name == name && child.PID > 0 {
			return child.PID
		}
	}
	t.Fatalf("the plane runs no process %s", name)
	return 0
}

// crash is the end of an engine at a fact that act leads to. frozen is called when the engine is
// frozen, before it is killed.
type crash struct {
	from        setup.Engine
	at          func(history.Fact) bool
	act, frozen func()
}

// crashAt freezes the engine at the first fact that matches, kills it, and starts the other engine.
func (p *plane) crashAt(ctx context.Context, t *testing.T, c crash) (to setup.Engine) {
	t.Helper()
	trap := p.processes.arm(p.pid(ctx, t, c.from.Child()), c.at)
	c.act()
	select {
	case <-trap.sprung:
	case <-ctx.Done():
		t.Fatal(context.Cause(ctx))
	}
	c.frozen()
	if _, err := p.KillChild(ctx, c.from.Child()); err != nil {
		t.Fatal(err)
	}
	to = other(c.from)
	p.Switch(ctx, t, to)
	return to
}

func other(e setup.Engine) setup.Engine {
	if e == setup.EngineWindlass {
		return setup.EngineStock
	}
	return setup.EngineWindlass
}
