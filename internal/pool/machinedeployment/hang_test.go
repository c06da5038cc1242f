package machinedeployment

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// wait waits as long as an extension does, or until a request is over. It needs the clock of
// synctest.
func (w *world) wait(ctx context.Context) error {
	began, answers := time.Now(), make(<-chan time.Time)
	if !w.hangs {
		answers = time.After(w.slow)
	}
	defer func() { w.now = w.now.Add(time.Since(began)) }()
	select {
	case <-answers:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reconcileInTime runs the controller once, with the time that Cluster API's builder gives it.
func (w *world) reconcileInTime() error {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	_, err := w.r.Reconcile(ctx, ctrl.Request{NamespacedName: key})
	return err
}

// withTwoQuestions returns a kept group that has Machines in two MachineSets. After another change
// both are asked about.
func withTwoQuestions(t *testing.T) *world {
	t.Helper()
	w := scenario{begin: kept(nothing), change: (*world).upgrade}.run(t)
	w.extension = refuse("not now")
	w.settle()
	scale(4)(w)
	w.settle()
	return w
}

// TestExtensionHangs: an extension that does not answer keeps a kept group neither from being
// scaled nor from telling why it is blocked, and is asked again later only.
func TestExtensionHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withTwoQuestions(t)
		w.extension, w.hangs, w.questions = coverAll, true, 0
		w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.35.0" })
		scale(5)(w)
		began := w.now
		if err := w.reconcileInTime(); err != nil {
			t.Fatal(err)
		}
		var replicas int32
		for _, set := range w.sets() {
			replicas += *set.Spec.Replicas
		}
		if took := w.now.Sub(began); w.questions != 1 || took != askingTime || replicas != 5 {
			t.Errorf("asked %d times in %s; %d replicas", w.questions, took, replicas)
		}
		c := conditions.Get(w.md(), v1alpha1.UpdateBlockedCondition)
		if c == nil || !strings.Contains(c.Message, "no answer within 30s. Fix: ") {
			t.Errorf("the condition is %+v", c)
		}
		for _, tt := range []struct {
			after     time.Duration
			questions int
		}{{nextQuestion, 1}, {9 * time.Second, 0}, {3 * askingTime, 1}} {
			w.questions, w.now = 0, w.now.Add(tt.after)
			if err := w.reconcileInTime(); err != nil || w.questions != tt.questions {
				t.Errorf("asked %d times after %s, want %d; %v", w.questions, tt.after, tt.questions, err)
			}
		}
		w.hangs, w.now = false, w.now.Add(3*askingTime)
		w.settle()
		if w.moved != 4 || w.blocked() != "" {
			t.Errorf("moved %d, blocked by %q after an answer:\n%s", w.moved, w.blocked(), w.picture())
		}
	})
}

// TestTakerHangs: the longer a hand-over takes to fail, the longer it is not tried again. A refusal
// is an answer, however long it took.
func TestTakerHangs(t *testing.T) {
	t.Parallel()
	for fails, want := range map[error][]int{
		context.DeadlineExceeded:                   {1, 1, 2},
		&cover.NotCoveredError{Message: "refused"}: {1, 2, 3},
	} {
		w := newHandedWorld(t, true)
		w.taker.fails, w.taker.takes = fails, 20*time.Second
		var asked []int
		for _, after := range []time.Duration{0, 50 * time.Second, 10 * time.Second} {
			w.now = w.now.Add(after)
			w.mustReconcile()
			asked = append(asked, w.taker.asked)
		}
		if !slices.Equal(asked, want) {
			t.Errorf("%v: asked %v times, want %v", fails, asked, want)
		}
	}
}

// TestExtensionIsSlow: each of several questions is answered, although a run has no time for all.
func TestExtensionIsSlow(t *testing.T) {
	t.Parallel()
	for _, slow := range []time.Duration{9 * time.Second, 25 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := withTwoQuestions(t)
			w.extension, w.slow, w.questions = coverAll, slow, 0
			w.edit(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.35.0" })
			for range 2 {
				w.now = w.now.Add(nextQuestion)
				if err := w.reconcileInTime(); err != nil {
					t.Fatal(err)
				}
			}
			if w.questions != 2 || w.blocked() != "" {
				t.Errorf("%s each: asked %d times, blocked by %q", slow, w.questions, w.blocked())
			}
		})
	}
}
