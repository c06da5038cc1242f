package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

var swapped = inAsked("swapped")

// switches is how often the engines change in the short form.
const switches = 6

// testSwaps changes the engine again and again in one chain: while a hook blocks, the control plane is upgrading, and workers are, from either engine to
// the other. Clusters that rest stay as they are, to the generation of every object.
func (w *world) testSwaps(ctx context.Context, t *testing.T) {
	t.Helper()
	v := versions()
	w.AwaitArrived(ctx, t, swapped, v[1])
	w.AwaitArrived(ctx, t, lively, v[1])
	resting := w.rest(lively.Name)
	block := func(hook, step string) rule {
		r := rule{Cluster: swapped.Name, Hook: hook, Step: step, RetryAfterSeconds: 1, Message: "engines change"}
		w.extension.set(t, r)
		return r
	}
	pass := func(r rule) { w.extension.set(t, rule{Cluster: r.Cluster, Hook: r.Hook, Step: r.Step}) }
	// blocks waits until the engine that runs now has been blocked.
	blocks := func(r rule) {
		t.Helper()
		w.awaitCalls(ctx, t, swapped, r, w.extension.count(t, swapped, r)+2)
	}

	before := block("BeforeControlPlaneUpgrade", v[2])
	// The long form goes a minor further, and changes engines while workers upgrade between two steps of the control plane.
	last := 2
	if long() {
		last = 3
	}
	after := block("AfterControlPlaneUpgrade", v[last])
	w.SetTarget(ctx, t, swapped, v[last])
	blocks(before)
	w.Switch(ctx, t, setup.EngineStock) // a hook is blocking
	pass(before)
	w.awaitMoving(ctx, t, "", v[2])
	w.Switch(ctx, t, setup.EngineWindlass) // the control plane is upgrading
	if long() {
		w.awaitMoving(ctx, t, "md-0", v[2])
		w.Switch(ctx, t, setup.EngineStock) // workers are upgrading
		w.awaitMoving(ctx, t, "", v[last])
		w.Switch(ctx, t, setup.EngineWindlass)
	}
	blocks(after)
	w.Switch(ctx, t, setup.EngineStock)
	blocks(after)
	w.Switch(ctx, t, setup.EngineWindlass) // a hook is blocking
	blocks(after)
	w.Switch(ctx, t, setup.EngineStock)
	pass(after)
	w.awaitMoving(ctx, t, "md-0", v[last])
	w.Switch(ctx, t, setup.EngineWindlass) // workers are upgrading
	w.AwaitArrived(ctx, t, swapped, v[last])
	target, want := last, slices.Concat(creationHooks(), upgradeHooks(v[2:last+1]...))
	if long() {
		w.SetTarget(ctx, t, swapped, v[4])
		w.awaitMoving(ctx, t, "", v[4])
		w.Switch(ctx, t, setup.EngineStock) // the control plane is upgrading
		w.AwaitArrived(ctx, t, swapped, v[4])
		w.Switch(ctx, t, setup.EngineWindlass)
		w.AwaitArrived(ctx, t, swapped, v[4])
		target, want = 4, append(want, upgradeHooks(v[4])...)
	}

	w.History.CheckOrder(t, swapped, rig.Ways{"": v[2 : target+1], "md-0": v[2 : target+1]}, 1)
	order, repeated := completed(w.extension.calls(t, swapped))
	// An engine that is stopped between a call and what it records of it leaves the call to the next one.
	if len(repeated) > 0 {
		t.Logf("called again: %q", repeated)
	}
	if len(repeated) > switches {
		t.Errorf("%d hooks were called again after they had passed, and the engines changed %d times", len(repeated), switches)
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(resting, w.rest(lively.Name), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("a Cluster that rests was changed (-before +after):\n%s", diff)
	}
}

// rest is what must not change of a Cluster at rest: which objects there are, and the generations of their specs.
func (w *world) rest(name string) []string {
	o := w.History.Now(inListed(name))
	all := append([]history.Fact{o.Cluster, o.ControlPlane}, o.Others...)
	for _, g := range o.Groups {
		all = append(all, g)
	}
	for _, machines := range o.Machines {
		all = append(all, machines...)
	}
	var lines []string
	for _, f := range all {
		lines = append(lines, fmt.Sprintf("%s %s %s generation %d", f.Kind, f.Name, f.UID, f.Object.GetGeneration()))
	}
	slices.Sort(lines)
	return lines
}

// awaitMoving waits until a group, or the control plane where name is empty, is on its way to a version: one machine has come, and not all.
func (w *world) awaitMoving(ctx context.Context, t *testing.T, name, to string) {
	t.Helper()
	w.History.Await(ctx, t, fmt.Sprintf("waiting until %q is on its way to %s", name, to), func() string {
		o := w.History.Now(swapped)
		if !slices.ContainsFunc(o.Machines[name], func(m history.Fact) bool { return m.Version == to }) {
			return o.Cluster.Reconciled().Message
		}
		return ""
	})
}
