package k8sd_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters/k8sd/k8sdtest"
	"github.com/windlass-dev/windlass/internal/updaterserver/servertest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	servertest.TestUpdater(t, func(t *testing.T) servertest.World {
		t.Helper()
		w := newWorld(t)
		return servertest.World{
			Updater: w.updater(t), Machine: machine, Advance: func() { w.pass(takes) },
			Works: func() int { state, _ := w.server.Machine(machine.Name); return state.Refreshes },
		}
	})
}

// What is written: the intent before the request, then the change, then the end.
func TestRefreshIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.onAnnotate = func(number int, record string) error {
		if state, _ := w.server.Machine(machine.Name); number == 0 && state.Requests != 0 {
			t.Error("the request came before its record")
		}
		if number == 0 && !strings.Contains(record, `"requested":"2026-03-01T12:00:00Z"`) {
			t.Errorf("the intent is %s", record)
		}
		return nil
	}
	w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "change 1 has begun", 1)
	want := map[string]any{"operation": "a", "option": newSnap, "changeId": "1", "state": "running"}
	if diff := cmp.Diff(want, w.record(t)); diff != "" || w.annotations()[changeID] != "1" {
		t.Errorf("annotations are %v: %s", w.annotations(), diff)
	}
	w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "change 1 is Doing", 1)
	w.pass(takes)
	w.expect(t, w.ask(t, "a", newSnap), inplace.Finishes, "change 1 is done", 1)
	want["state"], want["message"] = "done", "change 1 is done"
	if diff := cmp.Diff(want, w.record(t)); diff != "" {
		t.Error(diff)
	}
	if _, found := w.annotations()[changeID]; found || w.annotations()["kept"] == "" {
		t.Errorf("annotations are %v", w.annotations())
	}
	if len(w.written) != 3 {
		t.Errorf("it wrote %d times: %v", len(w.written), w.written)
	}
	// The end is remembered when k8sd has long forgotten the change, and when it is away.
	w.server.Stop()
	w.expect(t, w.ask(t, "a", newSnap), inplace.Finishes, "change 1 is done", 1)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		option    string
		channel   string
		installed k8sdtest.Option
		fails     string
	}{
		"a channel":              {option: "channel=latest/edge", installed: k8sdtest.Option{Channel: "latest/edge"}},
		"a revision":             {option: "revision=123", installed: k8sdtest.Option{Revision: "123"}},
		"a file":                 {option: "localPath=/opt/a=b.snap", installed: k8sdtest.Option{LocalPath: "/opt/a=b.snap"}},
		"the version":            {channel: "{minor}-classic/stable", installed: k8sdtest.Option{Channel: "1.32-classic/stable"}},
		"a version by name":      {option: "version=v1.33.2", channel: "v{minor}", installed: k8sdtest.Option{Channel: "v1.33"}},
		"a version, no channel":  {option: "version=v1.33.2", fails: "spec.inProcess.k8sd.channel"},
		"no option, no channel":  {fails: "spec.inProcess.k8sd.channel"},
		"another method":         {option: "track=1", fails: `"track" is not a method`},
		"a relative path":        {option: "localPath=k8s.snap", fails: "an absolute path"},
		"a channel of no syntax": {channel: "a/b/c/d/{minor}", fails: "is not a channel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.config.Channel = test.channel
			if test.fails != "" {
				w.expect(t, w.ask(t, "a", test.option), inplace.Fails, test.fails, 0)
				return
			}
			w.expect(t, w.ask(t, "a", test.option), inplace.InProgress, "has begun", 1)
			w.pass(takes)
			w.expect(t, w.ask(t, "a", test.option), inplace.Finishes, "is done", 1)
			if state, _ := w.server.Machine(machine.Name); state.Installed != test.installed {
				t.Errorf("installed is %+v", state.Installed)
			}
		})
	}
}

func TestFault3_EmptyChangeIDIsDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.expect(t, w.ask(t, "a", "channel="+oldSnap), inplace.Finishes, "nothing to refresh", 0)
	if diff := cmp.Diff("done", w.record(t)["state"]); diff != "" {
		t.Error(diff)
	}
	w.faults(t, k8sdtest.Faults{EmptyChangeID: true})
	w.expect(t, w.ask(t, "b", newSnap), inplace.Finishes, "nothing to refresh", 0)
}

func TestChangeFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(t, k8sdtest.Faults{FailChanges: "no space left on " + token})
	w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "", 1)
	w.pass(takes)
	w.expect(t, w.ask(t, "a", newSnap), inplace.Fails, "change 1 ended as Error: no space left on (token)", 1)
	w.expect(t, w.ask(t, "a", newSnap), inplace.Fails, "no space left", 1)
	// A new attempt is a new change.
	w.faults(t, k8sdtest.Faults{})
	w.expect(t, w.ask(t, "b", newSnap), inplace.InProgress, "change 2 has begun", 2)
}

func TestFault4_UnknownChangeIsNoPollForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "", 1)
	if err := w.server.ForgetChanges(machine.Name); err != nil {
		t.Fatal(err)
	}
	w.expect(t, w.ask(t, "a", newSnap), inplace.Fails, "does not know change 1", 1)
	w.expect(t, w.ask(t, "a", newSnap), inplace.Fails, "does not know change 1", 1)
}

// While a change runs, k8sd may be away in all ways; the change is followed to its end.
func TestAwayWhileAChangeRuns(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]k8sdtest.Faults{
		"drops":          {DropBefore: true},
		"drops later":    {DropAfter: true},
		"internal error": {InternalError: "snapd is restarting with " + token},
		"nonsense":       {Nonsense: true},
		"restarts":       {RestartFor: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "", 1)
			w.faults(t, f)
			w.pass(takes / 2)
			w.expect(t, w.ask(t, "a", newSnap), inplace.Unknown, "change 1", 1)
			w.faults(t, k8sdtest.Faults{})
			w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "change 1 is Doing", 1)
			w.server.Stop()
			w.expect(t, w.ask(t, "a", newSnap), inplace.Unknown, "refused", 1)
			if err := w.server.Start(); err != nil {
				t.Fatal(err)
			}
			w.pass(takes)
			w.expect(t, w.ask(t, "a", newSnap), inplace.Finishes, "change 1 is done", 1)
		})
	}
}

// A hanging k8sd keeps its caller only as long as that waits.
func TestHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(t, k8sdtest.Faults{Hang: true})
	for _, option := range []string{newSnap, local} {
		// The caller's time runs from the record on: what comes before it is not what hangs.
		ctx, cancel := context.WithCancel(t.Context())
		w.onAnnotate = func(int, string) error { time.AfterFunc(200*time.Millisecond, cancel); return nil }
		w.expect(t, w.askWith(ctx, t, option, option), inplace.Unknown, "canceled", 0)
		cancel()
		if diff := cmp.Diff("requesting", w.record(t)["state"]); diff != "" {
			t.Error(diff)
		}
	}
}

// Another controller began a change, and its annotation is all that there is of it.
func TestAdopts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, err := w.server.Begin(machine.Name, k8sdtest.Option{Channel: "1.32-classic/stable"})
	if err != nil {
		t.Fatal(err)
	}
	w.annotate(changeID, id)
	w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "change 1 is Doing", 1)
	if diff := cmp.Diff(map[string]any{"operation": "a", "option": "", "changeId": "1", "state": "running"}, w.record(t)); diff != "" {
		t.Error(diff)
	}
	w.pass(takes)
	w.expect(t, w.ask(t, "a", newSnap), inplace.Finishes, "change 1 is done", 1)
	// One beside a record is not taken over: the record says more.
	w.annotate(changeID, "77")
	w.expect(t, w.ask(t, "b", "revision=9"), inplace.InProgress, "change 2 has begun", 2)
}

// The process dies, or the answer is lost, at each point between the record and the change's id.
func TestFault5_LostAnswers(t *testing.T) {
	t.Parallel()
	lost := errors.New("the API server is away")
	for name, test := range map[string]struct {
		faults k8sdtest.Faults
		// from is the number of the record from which on none is written.
		from int
		// begun says that the refresh was accepted.
		begun int
	}{
		"before the request":  {faults: k8sdtest.Faults{DropBefore: true, Times: 1}, from: 9},
		"after it":            {faults: k8sdtest.Faults{DropAfter: true, Times: 1}, from: 9, begun: 1},
		"the id not recorded": {from: 1, begun: 1},
		"nonsense":            {faults: k8sdtest.Faults{Nonsense: true, Times: 1}, from: 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashed := func(t *testing.T, option string) *world {
				t.Helper()
				w := newWorld(t)
				w.faults(t, test.faults)
				w.onAnnotate = func(number int, _ string) error {
					if number >= test.from {
						return lost
					}
					return nil
				}
				w.ask(t, "a", option)
				w.onAnnotate = nil
				if state, _ := w.server.Machine(machine.Name); state.Refreshes != test.begun || w.record(t)["state"] != "requesting" {
					t.Fatalf("%d refreshes have begun, and the record is %v", state.Refreshes, w.record(t))
				}
				return w
			}
			t.Run("channel", func(t *testing.T) {
				t.Parallel()
				w := crashed(t, newSnap)
				if test.begun > 0 {
					w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "waiting for another change of the snap", 1)
					w.pass(takes)
					w.expect(t, w.ask(t, "a", newSnap), inplace.Finishes, "nothing to refresh", 1)
					return
				}
				w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "change 1 has begun", 1)
			})
			t.Run("localPath", func(t *testing.T) {
				t.Parallel()
				w := crashed(t, local)
				w.expect(t, w.ask(t, "a", local), inplace.InProgress, "is not known", test.begun)
				w.pass(takes)
				if test.begun > 0 {
					w.expect(t, w.ask(t, "a", local), inplace.Finishes, "is at v1.32.0 by /opt/k8s.snap", 1)
					return
				}
				w.expect(t, w.ask(t, "a", local), inplace.InProgress, "is not known", 0)
				w.expect(t, w.ask(t, "early", local), inplace.InProgress, "is not known", 0)
				w.pass(5 * time.Minute)
				w.expect(t, w.ask(t, "a", local), inplace.Fails, "snap changes k8s", 0)
				w.expect(t, w.ask(t, "b", local), inplace.InProgress, "change 1 has begun", 1)
			})
		})
	}
}

// A new attempt after a lost answer, without the old one having been asked for again: the file is not installed twice.
func TestNewAttemptLooksFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(t, k8sdtest.Faults{DropAfter: true, Times: 1})
	w.expect(t, w.ask(t, "a", local), inplace.Unknown, "whether the refresh has begun is not known", 1)
	w.pass(takes)
	w.expect(t, w.ask(t, "b", local), inplace.Finishes, "is at v1.32.0", 1)
	// Where nothing shows for long, a new attempt is one.
	w.faults(t, k8sdtest.Faults{DropBefore: true, Times: 1})
	w.expect(t, w.ask(t, "c", local), inplace.Unknown, "", 1)
	w.pass(5 * time.Minute)
	w.expect(t, w.ask(t, "d", local), inplace.InProgress, "change 2 has begun", 2)
}

// A request that cannot have been sent does not stand in the way of the next one.
func TestCertainlyNotSent(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*world){
		"refused":    func(w *world) { w.server.Stop() },
		"no trust":   func(w *world) { w.config.TLS.CABundle = otherCA(t) },
		"no address": func(w *world) { w.machines[machine].Addresses = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			config, addresses := w.config, w.machines[machine].Addresses
			damage(w)
			w.expect(t, w.ask(t, "a", local), inplace.Unknown, "", 0)
			if got := w.record(t); got != nil {
				t.Errorf("the record is %v", got)
			}
			w.config, w.machines[machine].Addresses = config, addresses
			if err := w.server.Start(); err != nil {
				t.Fatal(err)
			}
			w.expect(t, w.ask(t, "a", local), inplace.InProgress, "change 1 has begun", 1)
		})
	}
}

// The caller goes away between the record and the request.
func TestCancelledBeforeTheRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.onAnnotate = func(number int, _ string) error {
		if number == 0 {
			cancel()
		}
		return nil
	}
	w.expect(t, w.askWith(ctx, t, "a", local), inplace.Unknown, "canceled", 0)
	if diff := cmp.Diff("not-sent", w.record(t)["state"]); diff != "" {
		t.Error(diff)
	}
	w.expect(t, w.ask(t, "a", local), inplace.InProgress, "change 1 has begun", 1)
}

// Another change of the snap goes on: it is waited for, whatever is asked for.
func TestConflicts(t *testing.T) {
	t.Parallel()
	for _, option := range []string{newSnap, "revision=7", local} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if _, err := w.server.Begin(machine.Name, k8sdtest.Option{Revision: "5"}); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				w.expect(t, w.ask(t, "a", option), inplace.InProgress, "waiting for another change of the snap", 1)
			}
			w.pass(takes)
			w.expect(t, w.ask(t, "a", option), inplace.InProgress, "change 2 has begun", 2)
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(t, k8sdtest.Faults{InternalError: "snap not found; your token is " + token})
	w.expect(t, w.ask(t, "a", newSnap), inplace.Fails, "k8sd answered: snap not found; your token is (token)", 0)
	w.faults(t, k8sdtest.Faults{})
	w.expect(t, w.ask(t, "a", newSnap), inplace.Fails, "snap not found", 0)
	w.expect(t, w.ask(t, "b", newSnap), inplace.InProgress, "", 1)
}

// A new attempt while the change of an old one goes on: never one on top of the other.
func TestNewAttemptOutlastsTheOldChange(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		option  string
		during  func(*testing.T, *world)
		outcome inplace.Outcome
		words   string
		begun   int
	}{
		"another option": {option: "revision=9", outcome: inplace.InProgress, words: "change 2 has begun", begun: 2},
		"the same":       {option: local, outcome: inplace.Finishes, words: "change 1 of an earlier attempt is done", begun: 1},
		"the old one fails": {
			option: local, during: func(t *testing.T, w *world) { t.Helper(); w.faults(t, k8sdtest.Faults{FailChanges: "no"}) },
			outcome: inplace.InProgress, words: "change 2 has begun", begun: 2,
		},
		"the old one is forgotten": {
			option: local, during: func(t *testing.T, w *world) {
				t.Helper()
				w.pass(takes)
				if err := w.server.ForgetChanges(machine.Name); err != nil {
					t.Fatal(err)
				}
			},
			outcome: inplace.InProgress, words: "change 2 has begun", begun: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.expect(t, w.ask(t, "a", local), inplace.InProgress, "", 1)
			w.expect(t, w.ask(t, "b", test.option), inplace.InProgress, "waiting for change 1 of an earlier attempt, which is Doing", 1)
			w.server.Stop()
			w.expect(t, w.ask(t, "b", test.option), inplace.Unknown, "change 1 of an earlier attempt", 1)
			if err := w.server.Start(); err != nil {
				t.Fatal(err)
			}
			if test.during != nil {
				test.during(t, w)
			}
			w.pass(takes)
			w.expect(t, w.ask(t, "b", test.option), test.outcome, test.words, test.begun)
		})
	}
}

// Two processes ask at once: the one that comes second with its record asks nothing.
func TestMachineChangesMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.onAnnotate = func(number int, _ string) error {
		if number == 0 {
			w.machines[machine].ResourceVersion = "changed"
		}
		return nil
	}
	w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "the Machine changed meanwhile", 0)
	w.onAnnotate = nil
	w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "change 1 has begun", 1)
}

// What cannot be recorded is not asked for; what has ended and cannot be recorded is found out again.
func TestRecordsFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := func(int, string) error { return errors.New("the API server is away") }
	w.onAnnotate = away
	w.expect(t, w.ask(t, "a", newSnap), inplace.Unknown, "the API server is away", 0)
	w.onAnnotate = nil
	w.expect(t, w.ask(t, "a", newSnap), inplace.InProgress, "", 1)
	w.pass(takes)
	w.onAnnotate = away
	w.expect(t, w.ask(t, "a", newSnap), inplace.Unknown, "change 1 is done; recording that", 1)
	w.onAnnotate = nil
	w.expect(t, w.ask(t, "a", newSnap), inplace.Finishes, "change 1 is done", 1)
	w.readError = errors.New("the API server is away")
	w.expect(t, w.ask(t, "a", newSnap), inplace.Unknown, "reading Machine default/m: the API server is away", 1)
}

func TestBadRecords(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]string{
		"no JSON":      "{",
		"no operation": `{"state":"done"}`,
		"no state":     `{"operation":"a"}`,
		"no change":    `{"operation":"a","state":"running"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.annotate(v1alpha1.RefreshAnnotation, record)
			before := w.annotations()
			w.expect(t, w.ask(t, "a", newSnap), inplace.Fails, "then remove the annotation", 0)
			if !maps.Equal(before, w.annotations()) {
				t.Errorf("annotations are %v", w.annotations())
			}
		})
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	o.Prefix = "example.com/upgrade-"
	request := porttest.UpdateMachine(machine, porttest.UpdaterTo, "a")
	if got := newUpdater(t, o).UpdateMachine(t.Context(), request); got.Outcome != inplace.InProgress {
		t.Errorf("the answer is %+v", got)
	}
	if w.annotations()["example.com/upgrade-change-id"] != "1" {
		t.Errorf("annotations are %v", w.annotations())
	}
}

// Requests about one machine are served one after another, and none waits longer than its caller.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(t, k8sdtest.Faults{Hang: true})
	asked := make(chan struct{})
	var once sync.Once
	w.onAnnotate = func(int, string) error { once.Do(func() { close(asked) }); return nil }
	u, first := w.updater(t), make(chan inplace.Answer)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { first <- u.UpdateMachine(ctx, porttest.UpdateMachine(machine, porttest.UpdaterTo, "a")) }()
	<-asked
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	got := u.UpdateMachine(short, porttest.UpdateMachine(machine, porttest.UpdaterTo, "b"))
	w.expect(t, got, inplace.Unknown, "another request about Machine default/m did not end in time", 0)
	cancel()
	w.expect(t, <-first, inplace.Unknown, "canceled", 0)
	w.onAnnotate = nil
	w.faults(t, k8sdtest.Faults{})
	w.expect(t, u.UpdateMachine(t.Context(), porttest.UpdateMachine(machine, porttest.UpdaterTo, "a")), inplace.InProgress, "change 1 has begun", 1)
}
