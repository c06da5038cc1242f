package servertest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing" //nolint:depguard // Tests alone import this package.
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/conformance"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// World is what TestUpdater needs of an implementation of port.Updater: an updater that covers a
// change of the Kubernetes version, and a machine at porttest.UpdaterFrom whose update takes time.
type World struct {
	Updater port.Updater
	Machine types.NamespacedName
	// Advance ends all updates that have started. None ends before.
	Advance func()
	// Works returns how often a machine was really changed.
	Works func() int
}

// TestUpdater checks that an implementation keeps the contract of port.Updater: the points of
// `windlass updater verify`, and what a caller over HTTP does not see. Each test has its own world.
func TestUpdater(t *testing.T, newWorld func(t *testing.T) World) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, World){
		"conformance":                   testConformance,
		"a request does not change":     testLeavesRequests,
		"many requests at once":         testConcurrently,
		"a second update":               testSecondUpdate,
		"an update that can begin":      testCanBegin,
		"requests without objects":      testEmptyRequests,
		"a caller that no longer waits": testCancelled,
	} {
		t.Run(name, func(t *testing.T) { test(t, newWorld(t)) })
	}
}

// testConformance updates the machine once, and also asks about a machine that does not exist. The
// requests differ in nothing but the version, so an updater covers the version or nothing.
func testConformance(t *testing.T, w World) {
	t.Helper()
	server := Start(t, w.Updater)
	set := types.NamespacedName{Namespace: w.Machine.Namespace, Name: "set"}
	report, err := conformance.Run(t.Context(), conformance.Options{
		URL: server.URL, CABundle: server.CA, AllowUpdates: true, Operation: "a",
		Fixture: &conformance.Fixture{
			CanUpdateMachine:    porttest.CanUpdateMachine(w.Machine, porttest.UpdaterFrom, porttest.UpdaterTo),
			CanUpdateMachineSet: porttest.CanUpdateMachineSet(set, porttest.UpdaterFrom, porttest.UpdaterTo),
			UpdateMachine:       porttest.UpdateMachine(w.Machine, porttest.UpdaterTo, "a"),
		},
		Wait: func(context.Context, time.Duration) error {
			w.Advance()
			return nil
		},
		// The updater stays: tests of implementations restart theirs.
		Restart: func(context.Context) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range report.Points {
		if point.Status != conformance.Pass {
			t.Errorf("%s: %s: %s", point.ID, point.Status, point.Reason)
		}
	}
	if len(report.Warnings) > 0 || w.Works() != 1 {
		t.Errorf("warnings: %q; the machine was changed %d times, want once", report.Warnings, w.Works())
	}
}

func testLeavesRequests(t *testing.T, w World) {
	t.Helper()
	can := porttest.CanUpdateMachine(w.Machine, porttest.UpdaterFrom, porttest.UpdaterTo)
	canSet := porttest.CanUpdateMachineSet(w.Machine, porttest.UpdaterFrom, porttest.UpdaterTo)
	update := porttest.UpdateMachine(w.Machine, porttest.UpdaterTo, "a")
	encode := func() []byte {
		content, err := json.Marshal([]any{can, canSet, update})
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	before := encode()
	if _, err := w.Updater.CanUpdateMachine(t.Context(), can); err != nil {
		t.Error(err)
	}
	if _, err := w.Updater.CanUpdateMachineSet(t.Context(), canSet); err != nil {
		t.Error(err)
	}
	w.Updater.CanBegin(t.Context(), update)
	if w.Works() != 0 {
		t.Error("a question changed the machine")
	}
	w.Updater.UpdateMachine(t.Context(), update)
	if after := encode(); !slices.Equal(before, after) {
		t.Errorf("the requests were %s and are %s", before, after)
	}
}

// update asks for an update until it ends, and checks that it ends with works changes of the machine.
func (w World) update(t *testing.T, to, operation string, works int) {
	t.Helper()
	ask := func() inplace.Answer {
		return w.Updater.UpdateMachine(t.Context(), porttest.UpdateMachine(w.Machine, to, operation))
	}
	got := ask()
	if got.Outcome != inplace.InProgress || got.RetryAfter <= 0 {
		t.Fatalf("the first answer is %+v, want in progress and when to ask again", got)
	}
	w.untilEnd(t, ask, works)
}

// untilEnd asks until the update has ended.
func (w World) untilEnd(t *testing.T, ask func() inplace.Answer, works int) {
	t.Helper()
	const mostAnswers = 3
	var got inplace.Answer
	for range mostAnswers {
		w.Advance()
		if got = ask(); got.Outcome != inplace.InProgress {
			break
		}
	}
	w.checkFinishes(t, got, works)
}

func (w World) checkFinishes(t *testing.T, got inplace.Answer, works int) {
	t.Helper()
	if got.Outcome != inplace.Finishes || w.Works() != works {
		t.Errorf("the answer is %+v after %d changes of the machine, want the end and %d", got, w.Works(), works)
	}
}

func testConcurrently(t *testing.T, w World) {
	t.Helper()
	ask := func() inplace.Answer {
		return w.Updater.UpdateMachine(t.Context(), porttest.UpdateMachine(w.Machine, porttest.UpdaterTo, "a"))
	}
	for range 2 {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if got := ask(); got.Outcome == inplace.Fails {
					t.Errorf("an answer is %+v", got)
				}
			})
		}
		group.Wait()
		w.Advance()
	}
	w.checkFinishes(t, ask(), 1)
}

func testSecondUpdate(t *testing.T, w World) {
	t.Helper()
	if err := w.Updater.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	w.update(t, porttest.UpdaterTo, "a", 1)
	w.update(t, porttest.UpdaterNext, "b", 2)
}

// testCanBegin asks before an update, while it goes on and after it. An updater may prepare the
// machine first, without beginning the update.
func testCanBegin(t *testing.T, w World) {
	t.Helper()
	ask := func() {
		t.Helper()
		request := porttest.UpdateMachine(w.Machine, porttest.UpdaterTo, "a")
		got := w.Updater.CanBegin(t.Context(), request)
		for range 10 {
			if got.Preparing == "" {
				break
			}
			w.Advance()
			got = w.Updater.CanBegin(t.Context(), request)
		}
		if got != (inplace.Readiness{}) {
			t.Errorf("the answer is %+v, want yes", got)
		}
		w.Advance()
	}
	ask()
	ask()
	if w.Works() != 0 {
		t.Fatal("the question began the update")
	}
	w.untilEnd(t, func() inplace.Answer {
		return w.Updater.UpdateMachine(t.Context(), porttest.UpdateMachine(w.Machine, porttest.UpdaterTo, "a"))
	}, 1)
	ask()
	if w.Works() != 1 {
		t.Error("the question began the update again")
	}
}

// testEmptyRequests leaves open whether an updater calls these requests errors.
func testEmptyRequests(t *testing.T, w World) {
	t.Helper()
	_, _ = w.Updater.CanUpdateMachine(t.Context(), &runtimehooksv1.CanUpdateMachineRequest{})
	_, _ = w.Updater.CanUpdateMachineSet(t.Context(), &runtimehooksv1.CanUpdateMachineSetRequest{})
	w.Updater.CanBegin(t.Context(), &runtimehooksv1.UpdateMachineRequest{})
	switch got := w.Updater.UpdateMachine(t.Context(), &runtimehooksv1.UpdateMachineRequest{}); got.Outcome {
	case inplace.Finishes, inplace.InProgress:
		t.Errorf("the answer about no machine is %+v", got)
	case inplace.Fails, inplace.Unknown:
	}
}

func testCancelled(t *testing.T, w World) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := w.Updater.UpdateMachine(ctx, porttest.UpdateMachine(w.Machine, porttest.UpdaterTo, "a"))
	if got.Outcome != inplace.Unknown || got.Message == "" {
		t.Errorf("the answer is %+v, want that it is unknown and why", got)
	}
	if got := w.Updater.CanBegin(ctx, porttest.UpdateMachine(w.Machine, porttest.UpdaterTo, "a")); got.Refused != "" {
		t.Errorf("the answer is %+v, and nobody waited for it", got)
	}
	can := porttest.CanUpdateMachine(w.Machine, porttest.UpdaterFrom, porttest.UpdaterTo)
	if patches, err := w.Updater.CanUpdateMachine(ctx, can); err == nil {
		t.Errorf("the patches are %+v", patches)
	}
	if err := w.Updater.Check(ctx); err == nil {
		t.Error("Check returned no error")
	}
}
