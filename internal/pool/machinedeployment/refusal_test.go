package machinedeployment

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// refuse is an extension that answers Failure. The client of extensions then returns an error.
func refuse(message string) func(*setRequest, *setResponse) error {
	return func(_ *setRequest, out *setResponse) error {
		out.Status, out.Message = runtimehooksv1.ResponseStatusFailure, message
		return errors.New("the extension answered Failure: " + message)
	}
}

// refuseForGood is an extension that keeps the Machines.
func refuseForGood(message string) func(*setRequest, *setResponse) error {
	return refuse(cover.EncodeRefusal(&cover.NotCoveredError{Message: message}, 2048))
}

// noUpdate returns the reasons for which no update reaches the Machines of MachineSets.
func (w *world) noUpdate() (reasons []string) {
	w.t.Helper()
	for _, set := range w.sets() {
		if reason := set.Annotations[v1alpha1.NoUpdateAnnotation]; reason != "" {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// TestRefused checks what a Failure means for a group whose Machines are kept. Only one with the
// prefix tells that no update reaches them, so that unhealthy ones are remediated. No answer
// creates, deletes or moves any.
func TestRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*maxConditionBytes)
	const unknown = "Machine m-001: it is unknown whether the Machine can be updated in place: "
	for name, tt := range map[string]struct {
		extension       func(*setRequest, *setResponse) error
		reason, message string
		noUpdate        []string
	}{
		"with the prefix": {
			refuseForGood("no updater covers x"), "NotCovered", "no updater covers x",
			[]string{"NotCovered"},
		},
		"with a long message": {
			refuseForGood(long), "NotCovered", long[:maxConditionBytes-3] + "...", []string{"NotCovered"},
		},
		"with the prefix alone": {
			refuse(cover.NotCoveredPrefix), "NotCovered",
			"extension can-update.test gives no reason. Fix: see its log", []string{"NotCovered"},
		},
		"without the prefix": {
			extension: refuse("no updater covers x"), reason: "CoverageUnknown",
			message: unknown + "calling the extension can-update.test: the extension answered Failure: " +
				"no updater covers x",
		},
		"no answer": {
			extension: func(_ *setRequest, out *setResponse) error {
				out.Message = cover.NotCoveredPrefix + " x"
				return errors.New("connection refused")
			},
			reason:  "CoverageUnknown",
			message: unknown + "calling the extension can-update.test: connection refused",
		},
		"a Success with the prefix": {
			extension: func(_ *setRequest, out *setResponse) error {
				out.Status = runtimehooksv1.ResponseStatusSuccess
				out.Message = cover.NotCoveredPrefix + " x"
				return nil
			},
			reason: "NotCovered",
			message: "Machine m-001: the Machine cannot be updated in place, and the policy keeps " +
				"Machines: nothing covers MachineSet /spec/template/spec/version; the extension reports: " +
				cover.NotCoveredPrefix + " x",
			noUpdate: []string{"NotCovered"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scenario{begin: kept(nothing), change: (*world).upgrade}.run(t)
			w.extension = tt.extension
			w.settle()
			if w.created+w.deleted+w.moved > 0 {
				t.Errorf("created %d, deleted %d, moved %d:\n%s", w.created, w.deleted, w.moved, w.picture())
			}
			c := conditions.Get(w.md(), v1alpha1.UpdateBlockedCondition)
			if c == nil || c.Reason != tt.reason || c.Message != tt.message {
				t.Errorf("the condition is %+v, want %s: %s", c, tt.reason, tt.message)
			}
			if diff := cmp.Diff(tt.noUpdate, w.noUpdate()); diff != "" {
				t.Errorf("why no update reaches MachineSets (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRefusedByAnotherPolicy checks that a refusal replaces nothing where this program's policy
// lets Machines be replaced, as when the extension has not read an edit of the policy.
func TestRefusedByAnotherPolicy(t *testing.T) {
	t.Parallel()
	w := scenario{begin: nothing, change: (*world).upgrade}.run(t)
	w.extension = refuseForGood("no updater covers x")
	for range 3 {
		if _, err := w.reconcile(); err == nil || !strings.Contains(err.Error(), "no updater covers x") {
			t.Errorf("the error is %v", err)
		}
		w.playSets()
	}
	if w.created+w.deleted+w.moved > 0 || len(w.sets()) != 1 || w.blocked() != "" {
		t.Errorf("created %d, deleted %d, moved %d, blocked by %q:\n%s",
			w.created, w.deleted, w.moved, w.blocked(), w.picture())
	}
	w.extension = silent
	w.now = w.now.Add(answerLifetime)
	w.settle()
	if w.created != 3 || w.deleted != 3 {
		t.Errorf("created %d, deleted %d after an answer", w.created, w.deleted)
	}
}

// engine is an extension that shows its refusals on the MachineDeployment, as Windlass' own does.
type engine struct {
	w *world
	// message returns the message of a refusal.
	message func(from string) string
	shown   []string
}

func (e *engine) answer(in *setRequest, out *setResponse) error {
	message := e.message(in.Current.MachineSet.Name)
	md := e.w.md()
	conditions.Set(md, blockedBy("NotCovered", message))
	if err := e.w.Inner.Status().Update(e.w.t.Context(), md); err != nil {
		e.w.t.Fatal(err)
	}
	e.shown = append(e.shown, message)
	return refuseForGood(message)(in, out)
}

// TestConditionOfEngine checks that the controller does not write over the condition of the engine,
// also if that has a new message for each question: the controller then needs one more run.
func TestConditionOfEngine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		message func(asked int, from string) string
		// change makes the Machines those of two old MachineSets.
		change func(*world)
		asked  int
	}{
		"one message": {func(int, string) string { return "x" }, nothing, 1},
		"another message": {
			func(asked int, _ string) string { return fmt.Sprint("x", asked) }, nothing, 1,
		},
		"two MachineSets": {func(_ int, from string) string { return from }, func(w *world) {
			scale(4)(w)
			w.settle()
			w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.35.0" })
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scenario{begin: kept(nothing), change: (*world).upgrade}.run(t)
			e := &engine{w: w}
			e.message = func(from string) string { return tt.message(w.questions, from) }
			w.extension = e.answer
			w.settle()
			tt.change(w)
			w.settle()
			for range 3 {
				w.now, w.questions = w.now.Add(answerLifetime), 0
				w.events()
				for i := range 4 {
					writes := w.mustReconcile()
					if i > 1 && len(writes) > 0 {
						t.Errorf("run %d after a question writes %q", i, writes)
					}
				}
				last := e.shown[len(e.shown)-1]
				c := conditions.Get(w.md(), v1alpha1.UpdateBlockedCondition)
				if w.questions != tt.asked || c == nil || c.Message != last {
					t.Errorf("asked %d times, want %d; the condition is %+v, want the message %q",
						w.questions, tt.asked, c, last)
				}
				if events := w.events(); len(events) > 0 {
					t.Errorf("Events %q beside the engine's", events)
				}
			}
		})
	}
}

// TestConditionOfOthers checks that the controller shows refusals of an extension that does not
// show them itself, and removes the condition when the change is covered.
func TestConditionOfOthers(t *testing.T) {
	t.Parallel()
	w := scenario{begin: kept(nothing), change: (*world).upgrade}.run(t)
	w.settle()
	w.events()
	var got []string
	for _, message := range []string{"first", "second"} {
		w.extension = refuseForGood(message)
		w.now = w.now.Add(answerLifetime)
		w.settle()
		if c := conditions.Get(w.md(), v1alpha1.UpdateBlockedCondition); c != nil {
			got = append(got, c.Reason+" "+c.Message)
		}
	}
	if diff := cmp.Diff([]string{"NotCovered first", "NotCovered second"}, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	w.extension = coverAll
	w.now = w.now.Add(answerLifetime)
	w.settle()
	if w.moved != 3 || w.blocked() != "" || len(w.noUpdate()) > 0 {
		t.Errorf("moved %d, blocked by %q, no update: %q", w.moved, w.blocked(), w.noUpdate())
	}
}

// TestLongRefusal checks that a long message is not kept whole.
func TestLongRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settle()
	w.extension = refuse(cover.NotCoveredPrefix + strings.Repeat("x", 1<<20))
	from := w.sets()[0]
	to := from.DeepCopy()
	to.Name, to.Spec.Template.Spec.Version = "other", "v1.34.0"
	_, err := w.r.coverage.askKept(t.Context(), from, to, askingTime)
	refused, ok := errors.AsType[*cover.NotCoveredError](err)
	if !ok || len(refused.Message) != maxConditionBytes {
		t.Errorf("the error %T has %d bytes, want %d", err, len(fmt.Sprint(err)), maxConditionBytes)
	}
}

// TestRefusedHandOver checks that the refusal of the engine in this process counts as that of an
// extension, and that it replaces nothing in a group whose Machines are not kept.
func TestRefusedHandOver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		keep     bool
		blocked  string
		noUpdate []string
	}{
		"kept":     {true, "NotCovered", []string{"NotCovered"}},
		"not kept": {false, "CoverageUnknown", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHandedWorld(t, tt.keep)
			refused := &cover.NotCoveredError{Message: "no updater covers x"}
			w.taker.fails = fmt.Errorf("refused: %w", refused)
			w.settle()
			if w.created+w.deleted+w.moved > 0 || w.blocked() != tt.blocked {
				t.Errorf("created %d, deleted %d, moved %d, blocked by %q, want %q:\n%s",
					w.created, w.deleted, w.moved, w.blocked(), tt.blocked, w.picture())
			}
			if diff := cmp.Diff(tt.noUpdate, w.noUpdate()); diff != "" {
				t.Errorf("why no update reaches MachineSets (-want +got):\n%s", diff)
			}
		})
	}
}
