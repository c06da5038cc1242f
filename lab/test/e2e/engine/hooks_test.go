package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

var hooked = inAsked("hooked")

// patience is how long nothing may move while the extension is away; the engine has called it several times by then.
const patience = 15 * time.Second

// testHooks: a hook that blocks, an extension that is away, and what the extension was asked all in all.
func (w *world) testHooks(ctx context.Context, t *testing.T) {
	t.Helper()
	v := versions()
	w.AwaitArrived(ctx, t, hooked, v[1])
	blocking := rule{Cluster: hooked.Name, Hook: "BeforeControlPlaneUpgrade", Step: v[2], RetryAfterSeconds: 1, Message: "the change board meets"}
	w.extension.set(t, blocking)
	w.SetTarget(ctx, t, hooked, v[3])
	w.awaitMessage(ctx, t, hooked, "hook BeforeControlPlaneUpgrade for v1.31.0 is blocking: the change board meets")
	w.awaitCalls(ctx, t, hooked, blocking, 3)
	if moves := w.History.Moves(hooked); len(moves) > 0 {
		t.Errorf("moved in spite of the hook: %v", moves)
	}
	w.checkStable(t, hooked, "is blocking")

	// The extension goes while it blocks the next hook, so that it is known where the chain stands.
	second := rule{Cluster: hooked.Name, Hook: "AfterControlPlaneUpgrade", Step: v[2], RetryAfterSeconds: 1, Message: "smoke tests run"}
	w.extension.set(t, second)
	w.extension.set(t, rule{Cluster: hooked.Name, Hook: blocking.Hook, Step: blocking.Step})
	w.awaitMessage(ctx, t, hooked, "hook AfterControlPlaneUpgrade for v1.31.0 is blocking: smoke tests run")
	if _, err := w.StopChild(ctx, extensionName); err != nil {
		t.Fatal(err)
	}
	w.extension.set(t, rule{Cluster: hooked.Name, Hook: second.Hook, Step: second.Step})
	w.awaitMessage(ctx, t, hooked, "hook AfterControlPlaneUpgrade for v1.31.0 failed")
	before := w.History.Moves(hooked)
	select {
	case <-time.After(patience):
	case <-ctx.Done():
		t.Fatal(context.Cause(ctx))
	}
	if diff := cmp.Diff(before, w.History.Moves(hooked)); diff != "" {
		t.Errorf("moved while the extension was away (-before +after):\n%s", diff)
	}
	w.checkStable(t, hooked, "failed")
	if _, err := w.StartChild(ctx, extensionName); err != nil {
		t.Fatal(err)
	}
	w.AwaitArrived(ctx, t, hooked, v[3])
	w.History.CheckOrder(t, hooked, rig.Ways{"": v[2:4], "md-0": v[2:4]}, 1)
	w.checkCalls(t)
}

// checkCalls: every hook let the Cluster pass once for each step, in order, and requests tell the plan.
func (w *world) checkCalls(t *testing.T) {
	t.Helper()
	v := versions()
	calls := w.extension.calls(t, hooked)
	order, repeated := completed(calls)
	if diff := cmp.Diff(append(creationHooks(), upgradeHooks(v[2], v[3])...), order); diff != "" || len(repeated) > 0 {
		t.Errorf("called again: %q; hooks (-want +got):\n%s", repeated, diff)
	}
	find := func(text string) call {
		i := slices.IndexFunc(calls, func(c call) bool { return c.String() == text })
		if i < 0 {
			t.Errorf("there was no call %q", text)
			return call{}
		}
		return calls[i]
	}
	both, last := []string{v[2], v[3]}, []string{v[3]}
	for text, want := range map[string]call{
		"BeforeClusterUpgrade v1.32.0":      {From: v[1], ControlPlane: both, Workers: both},
		"BeforeControlPlaneUpgrade v1.31.0": {From: v[1], ControlPlane: both, Workers: both},
		"AfterControlPlaneUpgrade v1.31.0":  {ControlPlane: last, Workers: both},
		"BeforeWorkersUpgrade v1.31.0":      {From: v[1], ControlPlane: last, Workers: both},
		"AfterWorkersUpgrade v1.31.0":       {ControlPlane: last, Workers: last},
		"BeforeControlPlaneUpgrade v1.32.0": {From: v[2], ControlPlane: last, Workers: last},
		"AfterControlPlaneUpgrade v1.32.0":  {Workers: last},
		"AfterWorkersUpgrade v1.32.0":       {},
		"AfterClusterUpgrade v1.32.0":       {},
		"GenerateUpgradePlan v1.32.0":       {From: v[1]},
	} {
		got := find(text)
		got.Hook, got.Cluster, got.Step, got.Passed = "", "", "", false
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the request of %s (-want +got):\n%s", text, diff)
		}
	}
}

// awaitMessage waits until the condition of a Cluster says something.
func (w *world) awaitMessage(ctx context.Context, t *testing.T, key types.NamespacedName, says string) {
	t.Helper()
	w.History.Await(ctx, t, fmt.Sprintf("waiting until %s says %q", key, says), func() string {
		condition := w.History.Now(key).Cluster.Reconciled()
		if !strings.Contains(condition.Message, says) {
			return fmt.Sprintf("it says %s: %q", condition.Reason, condition.Message)
		}
		return ""
	})
}

// awaitCalls waits until the extension has been asked so often.
func (w *world) awaitCalls(ctx context.Context, t *testing.T, key types.NamespacedName, r rule, times int) {
	t.Helper()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		n := w.extension.count(t, key, r)
		if n >= times {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("waiting for %d calls of %s: %d (%v)", times, r.Hook, n, context.Cause(ctx))
		}
	}
}

// checkStable fails the test where the condition of a Cluster has had more than one message with some text in it: each would be a write, and an
// event for everybody who watches.
func (w *world) checkStable(t *testing.T, key types.NamespacedName, says string) {
	t.Helper()
	var messages []string
	for _, f := range w.History.Of(key) {
		if m := f.Reconciled().Message; strings.Contains(m, says) && !slices.Contains(messages, m) {
			messages = append(messages, m)
		}
	}
	if len(messages) != 1 {
		t.Errorf("the condition of %s had %d messages that say %q:\n%s", key, len(messages), says, strings.Join(messages, "\n"))
	}
}
