package controllers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/controllers"
)

var request = reconcile.Request{NamespacedName: types.NamespacedName{Name: "hosts"}}

func newUpdater() *v1alpha1.Updater {
	return &v1alpha1.Updater{
		ObjectMeta: metav1.ObjectMeta{Name: "hosts", Generation: 3},
		Spec:       v1alpha1.UpdaterSpec{InProcess: &v1alpha1.InProcessUpdater{Kind: v1alpha1.K8sdUpdater, K8sd: &v1alpha1.K8sdConfig{Channel: "{minor}-classic/stable"}}},
	}
}

// prober is a Prober that says the next of its answers, and the last one again.
type prober struct {
	answers []error
	asked   int
	// before is called before each answer.
	before func()
}

func (p *prober) Check(_ context.Context, u *v1alpha1.Updater) error {
	answer := p.answers[min(p.asked, len(p.answers)-1)]
	p.asked++
	if p.before != nil {
		p.before()
	}
	u.Spec.Order = 99 // What it is given is its own.
	return answer
}

func newClient(t *testing.T, writes *int, writeError error, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Updater{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				*writes++
				if writeError != nil {
					return writeError
				}
				return c.SubResource(sub).Patch(ctx, object, patch, opts...)
			},
		}).Build()
}

func conditionOf(status metav1.ConditionStatus, reason, message string, at int64) []metav1.Condition {
	return []metav1.Condition{{Type: "Ready", Status: status, Reason: reason, Message: message, ObservedGeneration: 3, LastTransitionTime: metav1.Unix(at, 0)}}
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	writes, seconds := 0, int64(1000)
	c := newClient(t, &writes, nil, newUpdater())
	p := &prober{answers: []error{nil, nil, down, down, nil}}
	r := &controllers.UpdaterReconciler{Client: c, Prober: p, Now: func() time.Time { seconds++; return time.Unix(seconds, 0) }}
	for i, want := range []struct {
		conditions []metav1.Condition
		writes     int
	}{
		{conditionOf("True", "Reachable", "", 1001), 1},
		{conditionOf("True", "Reachable", "", 1001), 1},
		{conditionOf("False", "Unreachable", "connection refused", 1003), 2},
		{conditionOf("False", "Unreachable", "connection refused", 1003), 2},
		{conditionOf("True", "Reachable", "", 1005), 3},
	} {
		result, err := r.Reconcile(t.Context(), request)
		if err != nil || result.RequeueAfter != time.Minute {
			t.Fatalf("Reconcile = %+v, %v, want to look again in a minute", result, err)
		}
		var got v1alpha1.Updater
		if err := c.Get(t.Context(), request.NamespacedName, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v1alpha1.UpdaterStatus{ObservedGeneration: 3, Conditions: want.conditions}, got.Status); diff != "" || writes != want.writes {
			t.Errorf("after %d times, %d writes, want %d; status (-want +got):\n%s", i+1, writes, want.writes, diff)
		}
	}
	if p.asked != 5 {
		t.Errorf("the updater was asked %d times, want 5", p.asked)
	}
}

// TestReconcileKeepsLastRequest holds that a request which is noted while the updater is looked at stays.
func TestReconcileKeepsLastRequest(t *testing.T) {
	t.Parallel()
	writes := 0
	noted := &v1alpha1.UpdaterRequest{Hook: "UpdateMachine", Outcome: v1alpha1.RequestAnswered, Time: metav1.Unix(5, 0)}
	before := newUpdater()
	before.Status.LastRequest = &v1alpha1.UpdaterRequest{Hook: "CanUpdateMachine", Outcome: v1alpha1.RequestFailed, Time: metav1.Unix(1, 0)}
	c := newClient(t, &writes, nil, before)
	p := &prober{answers: []error{nil}, before: func() {
		var u v1alpha1.Updater
		if err := c.Get(t.Context(), request.NamespacedName, &u); err != nil {
			t.Fatal(err)
		}
		changed := u.DeepCopy()
		changed.Status.LastRequest = noted
		if err := c.Status().Patch(t.Context(), changed, client.MergeFrom(&u)); err != nil {
			t.Fatal(err)
		}
	}}
	if _, err := (&controllers.UpdaterReconciler{Client: c, Prober: p, Now: time.Now}).Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.Updater
	if err := c.Get(t.Context(), request.NamespacedName, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(noted, got.Status.LastRequest); diff != "" || len(got.Status.Conditions) != 1 {
		t.Errorf("conditions are %v, the last request (-want +got):\n%s", got.Status.Conditions, diff)
	}
}

func TestReconcileInvalid(t *testing.T) {
	t.Parallel()
	writes := 0
	u := newUpdater()
	u.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
	c, p := newClient(t, &writes, nil, u), &prober{answers: []error{nil}}
	if _, err := (&controllers.UpdaterReconciler{Client: c, Prober: p, Now: func() time.Time { return time.Unix(7, 0) }}).Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.Updater
	if err := c.Get(t.Context(), request.NamespacedName, &got); err != nil {
		t.Fatal(err)
	}
	want := conditionOf("False", "InvalidSpec", `spec.selector: Invalid value: "Is" is not a valid label selector operator`, 7)
	stalled := want[0]
	stalled.Type, stalled.Status = "Stalled", metav1.ConditionTrue
	want = append(want, stalled)
	if diff := cmp.Diff(want, got.Status.Conditions); diff != "" || p.asked != 0 {
		t.Errorf("asked %d times, want not at all; conditions (-want +got):\n%s", p.asked, diff)
	}
}

func TestReconcileCutsMessages(t *testing.T) {
	t.Parallel()
	for _, letter := range []string{"x", "ü", "€"} {
		writes := 0
		c := newClient(t, &writes, nil, newUpdater())
		p := &prober{answers: []error{errors.New("<html>\n" + strings.Repeat(letter, 5000))}}
		if _, err := (&controllers.UpdaterReconciler{Client: c, Prober: p, Now: time.Now}).Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		var got v1alpha1.Updater
		if err := c.Get(t.Context(), request.NamespacedName, &got); err != nil {
			t.Fatal(err)
		}
		message := got.Status.Conditions[0].Message
		if len(message) > 1024 || len(message) < 1020 || strings.Contains(message, "\n") || !utf8.ValidString(message) || !strings.HasSuffix(message, letter+"...") {
			t.Errorf("the message has %d bytes: %s", len(message), message)
		}
	}
}

func TestUpdaterErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	resource := v1alpha1.GroupVersion.WithResource("updaters").GroupResource()
	for name, tt := range map[string]struct {
		objects    []client.Object
		writeError error
		cancelled  bool
		want       error
		wantAfter  time.Duration
		wantWrites int
	}{
		"one that is gone":                      {},
		"one that goes meanwhile":               {objects: []client.Object{newUpdater()}, writeError: apierrors.NewNotFound(resource, "hosts"), wantWrites: 1},
		"a write that fails is tried again":     {objects: []client.Object{newUpdater()}, writeError: broken, want: broken, wantWrites: 1},
		"a process that ends knows nothing":     {objects: []client.Object{newUpdater()}, cancelled: true},
		"an updater that is well, as a control": {objects: []client.Object{newUpdater()}, wantAfter: time.Minute, wantWrites: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			writes := 0
			p := &prober{answers: []error{nil}}
			if tt.cancelled {
				p.answers, p.before = []error{context.Canceled}, cancel
			}
			r := &controllers.UpdaterReconciler{Client: newClient(t, &writes, tt.writeError, tt.objects...), Prober: p, Now: time.Now}
			result, err := r.Reconcile(ctx, request)
			if !errors.Is(err, tt.want) || result.RequeueAfter != tt.wantAfter || writes != tt.wantWrites {
				t.Errorf("Reconcile = %+v, %v after %d writes, want error %v, %v and %d writes", result, err, writes, tt.want, tt.wantAfter, tt.wantWrites)
			}
		})
	}
}
