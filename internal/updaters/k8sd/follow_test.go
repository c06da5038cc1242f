package k8sd_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
)

// follow asks about an operation that nobody wants any longer.
func (w *world) follow(t *testing.T, operation, option string) inplace.Answer {
	t.Helper()
	request := porttest.UpdateMachine(machine, porttest.UpdaterTo, operation)
	request.Desired.Machine.Annotations[v1alpha1.InPlaceUpgradeOptionAnnotation] = option
	request.Desired.Machine.Annotations[v1alpha1.InPlaceUpgradeFollowAnnotation] = "true"
	answer := w.updater(t).UpdateMachine(t.Context(), request)
	w.checkSecret(t, answer.Message)
	return answer
}

// Whatever is on record: when nobody wants the operation any longer nothing begins, and what may run counts.
func TestFollowBeginsNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		record   string
		outcome  inplace.Outcome
		words    string
		notBegun bool
	}{
		"no record":                 {outcome: inplace.Fails, words: "nothing was begun", notBegun: true},
		"not sent":                  {record: `{"operation":"a","state":"not-sent"}`, outcome: inplace.Fails, words: "nothing was begun", notBegun: true},
		"asked":                     {record: `{"operation":"a","state":"requesting"}`, words: "when none runs, remove the annotation windlass.dev/k8sd-refresh"},
		"done":                      {record: `{"operation":"a","state":"done","message":"it is there"}`, outcome: inplace.Finishes, words: "it is there"},
		"failed":                    {record: `{"operation":"a","state":"failed","message":"no space"}`, outcome: inplace.Fails, words: "no space"},
		"an earlier one, not sent":  {record: `{"operation":"z","state":"not-sent"}`, outcome: inplace.Fails, words: "nothing was begun", notBegun: true},
		"an earlier one, asked":     {record: `{"operation":"z","state":"requesting"}`, words: "whether the refresh has begun is not known"},
		"an earlier one, done":      {record: `{"operation":"z","state":"done","message":"it is there"}`, outcome: inplace.Fails, words: "nothing was begun", notBegun: true},
		"an earlier one, failed":    {record: `{"operation":"z","state":"failed","message":"no"}`, outcome: inplace.Fails, words: "nothing was begun", notBegun: true},
		"an earlier one, forgotten": {record: `{"operation":"z","state":"running","changeId":"99"}`, outcome: inplace.Fails, words: "nothing was begun for this attempt; change 99", notBegun: true},
		"unreadable":                {record: `{`, words: "nobody knows whether a refresh runs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if test.record != "" {
				w.annotate(v1alpha1.RefreshAnnotation, test.record)
			}
			before := w.annotations()
			for _, option := range []string{newSnap, local, "gone=1"} {
				answer := w.follow(t, "a", option)
				w.expect(t, answer, test.outcome, test.words, 0)
				if answer.NotBegun != test.notBegun {
					t.Errorf("the answer is %+v", answer)
				}
			}
			if state, _ := w.server.Machine(machine.Name); state.Requests != 0 && name != "an earlier one, forgotten" || !maps.Equal(before, w.annotations()) {
				t.Errorf("%d requests; annotations are %v", state.Requests, w.annotations())
			}
		})
	}
}

// A change that runs is followed to its end, whichever attempt began it.
func TestFollowsChanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// begin begins the change.
		begin    func(*testing.T, *world)
		fails    string
		goes     string
		outcome  inplace.Outcome
		ends     string
		notBegun bool
	}{
		"its own":        {begin: asks("a"), goes: "change 1 is Doing", outcome: inplace.Finishes, ends: "change 1 is done"},
		"its own, fails": {begin: asks("a"), fails: "no space", goes: "change 1 is Doing", outcome: inplace.Fails, ends: "change 1 ended as Error: no space"},
		"an earlier one's": {
			begin: asks("z"), goes: "change 1 of an earlier attempt is Doing",
			outcome: inplace.Fails, ends: "nothing was begun for this attempt; change 1 of an earlier one has ended", notBegun: true,
		},
		"another controller's": {begin: func(t *testing.T, w *world) {
			t.Helper()
			id, err := w.server.Begin(machine.Name, k8sdtest.Option{Channel: "1.32-classic/stable"})
			if err != nil {
				t.Fatal(err)
			}
			w.annotate(changeID, id)
		}, goes: "change 1 is Doing", outcome: inplace.Finishes, ends: "change 1 is done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			test.begin(t, w)
			w.faults(t, k8sdtest.Faults{FailChanges: test.fails})
			w.expect(t, w.follow(t, "a", newSnap), inplace.InProgress, test.goes, 1)
			w.server.Stop()
			w.expect(t, w.follow(t, "a", newSnap), inplace.Unknown, "change 1", 1)
			if err := w.server.Start(); err != nil {
				t.Fatal(err)
			}
			w.pass(takes)
			for range 2 {
				answer := w.follow(t, "a", newSnap)
				w.expect(t, answer, test.outcome, test.ends, 1)
				if answer.NotBegun != test.notBegun {
					t.Errorf("the answer is %+v", answer)
				}
			}
		})
	}
}

func asks(operation string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) { t.Helper(); w.ask(t, operation, newSnap) }
}

// What was installed stays on record, also where a change that nobody wants any longer has ended.
func TestFollowKeepsTheOption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ask(t, "a", newSnap)
	w.pass(takes)
	w.expect(t, w.follow(t, "a", "gone=1"), inplace.Finishes, "change 1 is done", 1)
	want := map[string]any{"operation": "a", "option": newSnap, "changeId": "1", "state": "done", "message": "change 1 is done"}
	if diff := cmp.Diff(want, w.record(t)); diff != "" {
		t.Error(diff)
	}
}

// Where it is certain that nothing was begun, it is said; where anything may run, it is not.
func TestNotBegun(t *testing.T) {
	t.Parallel()
	away := func(w *world) { w.server.Stop() }
	records := map[string]struct {
		record string
		want   bool
	}{
		"no record":                {"", true},
		"not sent":                 {`{"operation":"a","state":"not-sent"}`, true},
		"asked before":             {`{"operation":"a","state":"requesting"}`, false},
		"an earlier one, not sent": {`{"operation":"z","state":"not-sent"}`, true},
		"an earlier one, asked":    {`{"operation":"z","state":"requesting"}`, false},
		"an earlier one, ended":    {`{"operation":"z","state":"failed"}`, true},
		"an earlier one, running":  {`{"operation":"z","state":"running","changeId":"1"}`, false},
	}
	for name, damage := range map[string]struct {
		do func(*testing.T, *world, context.CancelFunc)
		// recorded says that the damage is done once the intent is on record.
		recorded bool
	}{
		"away":         {do: func(_ *testing.T, w *world, _ context.CancelFunc) { away(w) }},
		"no address":   {do: func(_ *testing.T, w *world, _ context.CancelFunc) { w.machines[machine].Addresses = nil }},
		"no token":     {do: func(_ *testing.T, w *world, _ context.CancelFunc) { clear(w.secrets) }},
		"not recorded": {do: func(_ *testing.T, w *world, _ context.CancelFunc) { w.onAnnotate = refuseRecords }, recorded: true},
		"given up on": {do: func(_ *testing.T, w *world, cancel context.CancelFunc) {
			w.onAnnotate = func(int, string) error { cancel(); return nil }
		}, recorded: true},
	} {
		for state, record := range records {
			if damage.recorded && (state == "asked before" || state == "an earlier one, running") {
				continue // No intent is recorded then.
			}
			t.Run(name+", "+state, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				if record.record != "" {
					w.annotate(v1alpha1.RefreshAnnotation, record.record)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				damage.do(t, w, cancel)
				answer := w.askWith(ctx, t, "a", newSnap)
				if answer.NotBegun != record.want || answer.Outcome == inplace.InProgress || answer.Outcome == inplace.Finishes {
					t.Errorf("the answer is %+v", answer)
				}
				if state, _ := w.server.Machine(machine.Name); state.Refreshes != 0 {
					t.Errorf("%d refreshes have begun", state.Refreshes)
				}
				if state == "an earlier one, asked" && w.record(t)["state"] != "requesting" {
					t.Errorf("it is forgotten that an earlier request may have begun a refresh: %v", w.record(t))
				}
			})
		}
	}
}

func refuseRecords(int, string) error { return errors.New("the API server is away") }

// What has begun, or may have, is never said not to have.
func TestMayHaveBegun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(t, k8sdtest.Faults{DropAfter: true, Times: 1})
	for _, want := range []inplace.Outcome{inplace.Unknown, inplace.InProgress} {
		if answer := w.ask(t, "a", newSnap); answer.Outcome != want || answer.NotBegun {
			t.Errorf("the answer is %+v", answer)
		}
	}
	w.server.Stop()
	if answer := w.ask(t, "a", newSnap); answer.Outcome != inplace.Unknown || answer.NotBegun {
		t.Errorf("the answer is %+v", answer)
	}
}
