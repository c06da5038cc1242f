package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/record"
)

// takingUpdater is a scripted updater that takes whole groups over.
type takingUpdater struct {
	*scripted
	w *world
	// declined and stays are the reasons of an updater that takes nothing now, or does not stop.
	declined, stays string
	err             error
	// taken are the hand-overs in the order in which they were accepted, and stopped are operations with the
	// reasons.
	taken   []port.Taking
	stopped []string
}

func (u *takingUpdater) Take(
	_ context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest, t port.Taking,
) (declined string, err error) {
	err = u.w.faults.around("hand-over", func() error { //nolint:contextcheck // A test reads with its own.
		h := u.w.handedOver("old")
		if h == nil || h.Operation != t.Operation || h.State != pool.HandOverAsked {
			u.w.Errorf("machines are handed over before the intent is on the MachineSet: %+v", h)
		}
		for key := range request.Current.MachineSet.Annotations {
			if strings.HasPrefix(key, "windlass.dev/") {
				u.w.Errorf("the updater is shown %s", key)
			}
		}
		if u.err == nil && u.declined == "" {
			u.taken = append(u.taken, t)
		}
		return u.err
	})
	return u.declined, err
}

func (u *takingUpdater) Stop(_ context.Context, set *clusterv1.MachineSet, operation, reason string) (string, error) {
	if u.stays == "" {
		u.stopped = append(u.stopped, set.Name+" "+operation+" "+reason)
	}
	return u.stays, u.err
}

func (w *world) handedOver(set string) *pool.HandedOver {
	w.Helper()
	object := &clusterv1.MachineSet{}
	w.must(w.client.Get(w.Context(), clientKey(set), object))
	h, err := pool.HandedOverOf(object)
	w.must(err)
	return h
}

// handing is a world with a group that is handed over, and an updater that is registered with the protocol.
func handing(t *testing.T, fallback v1alpha1.UpdateFallback) (*world, *takingUpdater) {
	t.Helper()
	policy := external(func(p *v1alpha1.UpdatePolicySpec) { p.HandOver, p.Fallback = v1alpha1.HandOverGroup, fallback })
	w := newWorld(t, policy, deployment(), machineSet("old", from))
	w.updater("kubelet", 0, versionPatch)
	u := &takingUpdater{w: w, scripted: w.updaterWith("handover", 1, versionPatch, func(s *v1alpha1.UpdaterSpec) {
		s.Remote.Protocol = v1alpha1.HandOverProtocol
	})}
	w.restartHanding(u)
	return w, u
}

// restartHanding makes a new engine that opens the updater.
func (w *world) restartHanding(u *takingUpdater) {
	w.restart()
	open := w.engine.Open
	w.engine.Open = func(ctx context.Context, object *v1alpha1.Updater) (port.Updater, error) {
		if object.Name == "handover" {
			return u, nil
		}
		return open(ctx, object)
	}
}

// handOver hands machines of set old over, which are to have a version.
func (w *world) handOver(version string, b pool.HandOverBudget) (pool.Coverage, error) {
	w.Helper()
	current, desired := machineSet("old", from), machineSet("new", version)
	w.putSets(current, desired, infrastructure.Raw, infrastructure.Raw)
	return w.engine.HandOver(w.Context(), &runtimehooksv1.CanUpdateMachineSetRequest{
		Current: runtimehooksv1.CanUpdateMachineSetRequestObjects{MachineSet: *current, InfrastructureMachineTemplate: infrastructure},
		Desired: runtimehooksv1.CanUpdateMachineSetRequestObjects{MachineSet: *desired, InfrastructureMachineTemplate: infrastructure},
	}, b)
}

var (
	oneAtOnce = pool.HandOverBudget{AtOnce: 1}
	isTaken   = pool.Coverage{Answer: pool.AnswerHandedOver, Updater: "handover"}
)

// TestGroupIsHandedOver: a group is handed over once, also after a restart, and again with another budget.
func TestGroupIsHandedOver(t *testing.T) {
	t.Parallel()
	w, u := handing(t, v1alpha1.FallbackNone)
	for _, b := range []pool.HandOverBudget{oneAtOnce, oneAtOnce, {AtOnce: 2, First: 1, Stay: 1}} {
		got, err := w.handOver(to, b)
		if diff := cmp.Diff(isTaken, got); err != nil || diff != "" {
			t.Errorf("answer (-want +got):\n%s%v", diff, err)
		}
		w.restartHanding(u)
	}
	operation := w.handedOver("old").Operation
	// How many go first is not changed during an operation.
	want := []port.Taking{
		{Operation: operation, AtOnce: 1}, {Operation: operation, AtOnce: 2, Stay: 1},
	}
	if diff := cmp.Diff(want, u.taken); diff != "" {
		t.Errorf("hand-overs (-want +got):\n%s", diff)
	}
	// Another engine decides as this one.
	coverage, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
	if err != nil || coverage.Message != "updated in place, as decided before: handover" {
		t.Errorf("the hook answers %q, %v", coverage.Message, err)
	}
}

// TestHandOverIsRefused: who declines, and what an updater that takes nothing now means.
func TestHandOverIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fallback v1alpha1.UpdateFallback
		change   func(w *world, u *takingUpdater)
		want     pool.Answer
		message  string
		fails    bool
	}{
		"declined":               {v1alpha1.FallbackNone, func(_ *world, u *takingUpdater) { u.scripted.err = declined{} }, 0, "no power", true},
		"declined, and replaced": {v1alpha1.FallbackRollingUpdate, func(_ *world, u *takingUpdater) { u.scripted.err = declined{} }, pool.AnswerNo, "no power", false},
		"not now":                {v1alpha1.FallbackRollingUpdate, func(_ *world, u *takingUpdater) { u.declined = "night" }, pool.AnswerUnknown, "night", false},
		"no answer":              {v1alpha1.FallbackRollingUpdate, func(_ *world, u *takingUpdater) { u.err = errors.New("refused") }, 0, "refused", true},
		"no such updater": {v1alpha1.FallbackRollingUpdate, func(w *world, _ *takingUpdater) {
			w.must(w.client.Delete(w.Context(), &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "handover"}}))
		}, pool.AnswerNo, "no Updater with protocol HandOver", false},
		"decided for each machine": {v1alpha1.FallbackNone, func(w *world, _ *takingUpdater) {
			w.must(w.client.Delete(w.Context(), &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "handover"}}))
			_, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
			w.must(err)
		}, pool.AnswerYes, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, u := handing(t, test.fallback)
			test.change(w, u)
			got, err := w.handOver(to, oneAtOnce)
			message := got.Reason
			if err != nil {
				message = err.Error()
			}
			if (err != nil) != test.fails || got.Answer != test.want || !strings.Contains(message, test.message) {
				t.Errorf("answer %+v, error %v", got, err)
			}
			if len(u.taken) > 0 {
				t.Errorf("machines were handed over: %+v", u.taken)
			}
		})
	}
}

// TestHandOverIsEnded: an updater is told to stop once, another change ends the operation for the one
// before, and an operation that has ended is not continued.
func TestHandOverIsEnded(t *testing.T) {
	t.Parallel()
	w, u := handing(t, v1alpha1.FallbackNone)
	handOver := func(version string) {
		t.Helper()
		if _, err := w.handOver(version, oneAtOnce); err != nil {
			t.Fatal(err)
		}
	}
	end := func() error { return w.engine.EndHandOver(t.Context(), machineSet("old", from), "paused") }
	blocked := func() bool {
		set := &clusterv1.MachineSet{}
		w.must(w.client.Get(t.Context(), clientKey("old"), set))
		return blocksMove(set.Annotations)
	}
	w.must(end())
	handOver(to)
	if !blocked() {
		t.Error("clusterctl may move a MachineSet whose Machines an updater has")
	}
	first := w.handedOver("old").Operation
	u.stays = "in the middle"
	if err := end(); err == nil || !strings.Contains(err.Error(), "in the middle") || !w.handedOver("old").IsActive() {
		t.Errorf("error %v, record %+v", err, w.handedOver("old"))
	}
	u.patch = strings.Replace(versionPatch, to, "v1.31.2", 1)
	if _, err := w.handOver("v1.31.2", oneAtOnce); err == nil || !strings.Contains(err.Error(), "in the middle") {
		t.Errorf("two changes at once: error %v", err)
	}
	u.stays = ""
	handOver("v1.31.2")
	second := w.handedOver("old").Operation
	w.must(end())
	w.must(end())
	if blocked() {
		t.Error("a hand-over that has ended blocks clusterctl move")
	}
	handOver("v1.31.2")
	third := w.handedOver("old").Operation
	want := []string{"old " + first + " the template was changed again", "old " + second + " paused"}
	if diff := cmp.Diff(want, u.stopped); diff != "" || first == second || second == third {
		t.Errorf("operations %s, %s, %s; stopped (-want +got):\n%s", first, second, third, diff)
	}
}

// TestHandOverEndsBeforeAnotherChange: the updater stops before the next change is answered, whatever the
// answer is, and nothing is answered as long as it does not stop.
func TestHandOverEndsBeforeAnotherChange(t *testing.T) {
	t.Parallel()
	const next = "v1.31.2"
	refuse := func(_ *world, u *takingUpdater) { u.scripted.err = declined{} }
	for name, test := range map[string]struct {
		fallback v1alpha1.UpdateFallback
		change   func(w *world, u *takingUpdater)
		version  string
		want     pool.Answer
		message  string
	}{
		"declined":               {v1alpha1.FallbackNone, refuse, next, 0, "no power"},
		"declined, and replaced": {v1alpha1.FallbackRollingUpdate, refuse, next, pool.AnswerNo, "no power"},
		"one by one": {v1alpha1.FallbackNone, func(w *world, _ *takingUpdater) {
			set := &clusterv1.MachineSet{}
			w.must(w.client.Get(w.Context(), clientKey("old"), set))
			d := record.DecisionsOf(set.GetAnnotations())[0]
			d.Steps = append(d.Steps, d.Steps[0])
			w.must(w.engine.recordDecision(w.Context(), set, d))
		}, to, pool.AnswerYes, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, u := handing(t, test.fallback)
			_, err := w.handOver(to, oneAtOnce)
			w.must(err)
			test.change(w, u)
			u.stays = "in the middle"
			if got, err := w.handOver(test.version, oneAtOnce); err == nil || !strings.Contains(err.Error(), u.stays) {
				t.Errorf("the updater does not stop: answer %+v, error %v", got, err)
			}
			u.stays = ""
			got, err := w.handOver(test.version, oneAtOnce)
			message := got.Reason
			if err != nil {
				message = err.Error()
			}
			if got.Answer != test.want || !strings.Contains(message, test.message) {
				t.Errorf("answer %+v, error %v", got, err)
			}
			if w.handedOver("old").IsActive() || len(u.stopped) != 1 {
				t.Errorf("stopped %q, record %+v", u.stopped, w.handedOver("old"))
			}
		})
	}
}

// TestHandOverCrashesAnywhere kills the process at each effect of a hand-over. The updater gets one
// operation in the end, however often it was asked.
func TestHandOverCrashesAnywhere(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		w, u := handing(t, v1alpha1.FallbackNone)
		w.faults.at, w.faults.dies, w.faults.passed = at, true, 0
		var got pool.Coverage
		hand := func() (err error) {
			got, err = w.handOver(to, oneAtOnce)
			return err
		}
		for range 5 {
			err := w.survive(hand)
			if err == nil {
				break
			}
			if !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			w.restartHanding(u)
		}
		if diff := cmp.Diff(isTaken, got); diff != "" {
			t.Fatalf("killed %s (-want +got):\n%s", w.faults.what, diff)
		}
		for _, taken := range u.taken {
			if taken.Operation != w.handedOver("old").Operation {
				t.Errorf("killed %s: operations %+v", w.faults.what, u.taken)
			}
		}
		if w.faults.passed < at {
			break
		}
	}
}
