package refusal_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/refusal"
)

var (
	group       = schema.GroupResource{Group: "windlass.dev", Resource: "updatepolicies"}
	kind        = schema.GroupKind{Group: "windlass.dev", Kind: "UpdatePolicy"}
	errQuota    = apierrors.NewForbidden(group, "a", errors.New("exceeded quota: objects, requested: 1, used: 10, limited: 10"))
	errTooLarge = apierrors.NewRequestEntityTooLargeError("limit is 3145728")
	errEtcd     = apierrors.NewInternalError(errors.New("etcdserver: request is too large"))
	errInvalid  = apierrors.NewInvalid(kind, "a", nil)
	errDropped  = &refusal.DroppedError{Kind: "UpdatePolicy a", Fields: []string{"status.groups"}}
)

func TestReasonOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want refusal.Reason
	}{
		"none":           {},
		"quota":          {errQuota, refusal.QuotaExceeded},
		"too large":      {errTooLarge, refusal.TooLarge},
		"a long record":  {&record.TooLongError{Key: "a", Bytes: 2, Limit: 1}, refusal.TooLarge},
		"etcd":           {errEtcd, refusal.TooLarge},
		"invalid":        {errInvalid, refusal.Invalid},
		"dropped":        {errDropped, refusal.FieldsDropped},
		"no rights":      {apierrors.NewForbidden(group, "a", errors.New("no rights")), ""},
		"a conflict":     {apierrors.NewConflict(group, "a", errors.New("changed")), ""},
		"gone":           {apierrors.NewNotFound(group, "a"), ""},
		"a busy server":  {apierrors.NewTooManyRequestsError("busy"), ""},
		"another error":  {errors.New("exceeded quota"), ""},
		"an HTML answer": {apierrors.NewGenericServerResponse(http.StatusRequestEntityTooLarge, "patch", group, "a", "", 0, true), refusal.TooLarge},
	} {
		for form, err := range map[string]error{"": test.err, " wrapped": fmt.Errorf("writing: %w", test.err), " joined": errors.Join(errors.New("x"), test.err)} {
			if test.err == nil && form != "" {
				continue
			}
			t.Run(name+form, func(t *testing.T) {
				t.Parallel()
				got, is := refusal.ReasonOf(err)
				if got != test.want || is != (test.want != "") {
					t.Errorf("the reason is %q, %t, want %q", got, is, test.want)
				}
			})
		}
	}
}

// world is a Reconciler whose results the test sets.
type world struct {
	backOff reconcile.TypedReconciler[reconcile.Request]
	result  reconcile.Result
	errs    map[string]error
	logged  []string
	calls   int
}

func newWorld(controller string) *world {
	w := &world{errs: map[string]error{}}
	w.backOff = refusal.BackOff(controller, reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
		w.calls++
		return w.result, w.errs[request.Name]
	}))
	return w
}

func (w *world) reconcile(t *testing.T, name string) (time.Duration, error) {
	t.Helper()
	log := funcr.New(func(_, args string) { w.logged = append(w.logged, args) }, funcr.Options{})
	result, err := w.backOff.Reconcile(logr.NewContext(t.Context(), log), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	return result.RequeueAfter, err
}

// TestBackOff holds that refused writes are retried ever more seldom, logged once per reason and once when
// they end, and that other objects and errors are not affected.
func TestBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, checkBackOff)
}

func checkBackOff(t *testing.T) {
	w := newWorld("backoff")
	w.errs["a"] = fmt.Errorf("writing: %w", errInvalid)
	spent := time.Duration(0)
	var delays []time.Duration
	for spent < 24*time.Hour {
		delay, err := w.reconcile(t, "a")
		if err != nil || delay <= 0 {
			t.Fatalf("the result is %v, %v", delay, err)
		}
		spent += delay
		time.Sleep(delay) //nolint:forbidigo // synctest's clock.
		delays = append(delays, delay)
	}
	var want []time.Duration
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600} {
		want = append(want, time.Duration(seconds)*time.Second)
	}
	if diff := cmp.Diff(want, delays[:len(want)]); diff != "" {
		t.Errorf("delays differ (-want +got):\n%s", diff)
	}
	if len(delays) > 160 {
		t.Errorf("a day has %d tries", len(delays))
	}
	if len(w.logged) != 1 {
		t.Errorf("logged %q", w.logged)
	}
	if _, err := w.reconcile(t, "b"); err != nil || w.calls != len(delays)+1 {
		t.Errorf("another object: %v after %d calls", err, w.calls)
	}
	w.errs["a"] = errQuota
	if _, err := w.reconcile(t, "a"); err != nil || len(w.logged) != 2 {
		t.Errorf("another reason: %v, logged %q", err, w.logged)
	}
	other := errors.New("the connection is gone")
	w.errs["a"] = other
	if _, err := w.reconcile(t, "a"); !errors.Is(err, other) || len(w.logged) != 2 {
		t.Errorf("another error: %v, logged %q", err, w.logged)
	}
	w.errs["a"], w.result = nil, reconcile.Result{RequeueAfter: time.Hour}
	for range 2 {
		if delay, err := w.reconcile(t, "a"); err != nil || delay != time.Hour || len(w.logged) != 3 {
			t.Errorf("success: %v, %v, logged %q", delay, err, w.logged)
		}
	}
	w.errs["a"], w.result = errTooLarge, reconcile.Result{RequeueAfter: time.Millisecond}
	again := 0
	for spent = 0; spent < time.Hour; again++ {
		delay, err := w.reconcile(t, "a")
		if err != nil || delay < time.Second || len(w.logged) != 4 {
			t.Fatalf("again: %v, %v, logged %q", delay, err, w.logged)
		}
		spent += delay
		time.Sleep(delay) //nolint:forbidigo // synctest's clock.
	}
	if again > 16 {
		t.Errorf("a result that asks for a retry at once has %d tries in an hour", again)
	}
	checkCounted(t, "backoff", map[string]float64{"Invalid": float64(len(delays)), "QuotaExceeded": 1, "TooLarge": float64(again)})
}

// TestBackOffOfABusyObject: refusals that events of the object cause before the delay is over make no
// retry later.
func TestBackOffOfABusyObject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("busy")
		w.errs["a"] = errInvalid
		began := time.Now()
		for range 20 {
			if _, err := w.reconcile(t, "a"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) //nolint:forbidigo // synctest's clock.
		}
		delay, err := w.reconcile(t, "a")
		if passed := time.Since(began); err != nil || passed+delay != time.Second {
			t.Errorf("after %s and 21 events the retry is in %s, %v", passed, delay, err)
		}
	})
}

// TestBackOffOfAQuota: a write that a quota refuses is retried each minute, also after it was refused for
// another reason: nothing else shows that the quota was raised.
func TestBackOffOfAQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("quota")
		for _, refused := range []error{errInvalid, errQuota} {
			w.errs["a"] = refused
			for range 20 {
				delay, err := w.reconcile(t, "a")
				if err != nil || delay <= 0 || errors.Is(refused, errQuota) && delay > time.Minute {
					t.Fatalf("after %v the retry is in %s, %v", refused, delay, err)
				}
				time.Sleep(delay) //nolint:forbidigo // synctest's clock.
			}
			// The reason changes before the long delay ends.
			if _, err := w.reconcile(t, "a"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func checkCounted(t *testing.T, controller string, want map[string]float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	for range 2 {
		if err := refusal.Register(registry); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "windlass_refused_writes_total" {
		t.Fatalf("gathered %v, %v", families, err)
	}
	got := map[string]float64{}
	for _, series := range families[0].GetMetric() {
		labels := map[string]string{}
		for _, label := range series.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		if labels["controller"] == controller {
			got[labels["reason"]] = counted(series)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counted differs (-want +got):\n%s", diff)
	}
}

func counted(series *dto.Metric) float64 { return series.GetCounter().GetValue() }

func TestCheckStored(t *testing.T) {
	t.Parallel()
	sent := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.PodStatus{
		Message: "m", StartTime: &metav1.Time{Time: time.Unix(5, 7)},
		Conditions: []corev1.PodCondition{{Type: "A", Message: "x"}, {Type: "B", Message: "y"}},
	}}
	for name, test := range map[string]struct {
		edit func(*corev1.PodStatus)
		want []string
	}{
		"all":                  {edit: func(*corev1.PodStatus) {}},
		"more":                 {edit: func(s *corev1.PodStatus) { s.Reason = "r" }},
		"less of a second":     {edit: func(s *corev1.PodStatus) { s.StartTime = &metav1.Time{Time: time.Unix(5, 0)} }},
		"another item":         {edit: func(s *corev1.PodStatus) { s.Conditions = append(s.Conditions, corev1.PodCondition{}) }},
		"no field":             {edit: func(s *corev1.PodStatus) { s.Message = "" }, want: []string{"status.message"}},
		"no item":              {edit: func(s *corev1.PodStatus) { s.Conditions = s.Conditions[:1] }, want: []string{"status.conditions"}},
		"no field of an item":  {edit: func(s *corev1.PodStatus) { s.Conditions[1].Message = "" }, want: []string{"status.conditions[1].message"}},
		"no list, and another": {edit: func(s *corev1.PodStatus) { s.Conditions, s.Message = nil, "" }, want: []string{"status.conditions", "status.message"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			returned := sent.DeepCopy()
			test.edit(&returned.Status)
			var got []string
			if lost, is := errors.AsType[*refusal.DroppedError](refusal.CheckStored(sent, returned)); is {
				got = lost.Fields
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("dropped fields differ (-want +got):\n%s", diff)
			}
		})
	}
}
