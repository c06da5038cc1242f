package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port"
)

// TestEveryWriteFails breaks a whole update at every write with every answer that an API server or a network gives, once without and once with the effect.
// Every time it comes to the same end, each updater has done its work once, and no finished work is begun again.
func TestEveryWriteFails(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "machines"}
	policy := external(func(p *v1alpha1.UpdatePolicySpec) { p.Drain, p.SoakSeconds = true, 10 })
	for name, err := range map[string]error{
		"409": apierrors.NewConflict(resource, "a", fmt.Errorf("the object has been modified")), "429": apierrors.NewTooManyRequests("slow down", 1),
		"500": apierrors.NewInternalError(fmt.Errorf("etcd has no leader")), "timeout": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := map[string]int{}
			for at := 1; ; at++ {
				w, files, kubelet := halves(t, policy)
				w.nodes.SetDrain(inCluster, "a", 1)
				w.faults.at, w.faults.err = at, err
				if err := w.finishHalves(); err != nil {
					t.Fatalf("broken %s: %v", w.faults.what, err)
				}
				if w.faults.passed < at {
					break
				}
				broken[w.faults.what]++
				w.checkHalves(t, files, kubelet)
				for _, k := range []*worker{files, kubelet} {
					if len(k.polls) != 1 {
						t.Errorf("updater %s began %d operations: %v", k.name, len(k.polls), k.polls)
					}
				}
				if t.Failed() {
					t.Fatalf("broken %s", w.faults.what)
				}
			}
			want := []string{"after patch of *v1beta2.Machine", "after patch of *v1beta2.MachineSet", "before patch of *v1beta2.Machine", "before patch of *v1beta2.MachineSet"}
			for _, what := range want {
				if broken[what] == 0 {
					t.Errorf("nothing broke %s; broken: %v", what, slices.Sorted(maps.Keys(broken)))
				}
			}
		})
	}
}

// TestConflicts changes the Machine of an update right before its first record is written.
func TestConflicts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*clusterv1.Machine)
		// calls is how often the updater is called in that call of the hook.
		calls int
	}{
		"in what decisions do not depend on": {change: func(m *clusterv1.Machine) { m.Status.Phase = "Running" }, calls: 1},
		"in its records":                     {change: func(m *clusterv1.Machine) { m.Annotations[v1alpha1.LastUpdateAnnotation] = `{}` }},
		"in its marks":                       {change: func(m *clusterv1.Machine) { delete(m.Annotations, clusterv1.UpdateInProgressAnnotation) }},
		"in its labels":                      {change: func(m *clusterv1.Machine) { m.Labels["x"] = "y" }},
		"in its remediation": {change: func(m *clusterv1.Machine) {
			m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason}}
		}},
		"in its owner, by a return": {change: func(m *clusterv1.Machine) {
			m.OwnerReferences[0].Name = "old"
			delete(m.Annotations, runtimev1.PendingHooksAnnotation)
		}},
		"in its owner": {change: func(m *clusterv1.Machine) { m.OwnerReferences[0].Name = "newest" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := moving(t, external(nil))
			s.answers(inplace.InProgress, "at work")
			changed := 0
			w.interfere(func(m *clusterv1.Machine) {
				if changed++; changed > 1 {
					return
				}
				status := m.DeepCopy()
				tt.change(m)
				tt.change(status)
				w.must(w.client.Update(t.Context(), m))
				status.ResourceVersion = m.ResourceVersion
				w.must(w.client.Status().Update(t.Context(), status))
			})
			reply, err := w.update("a")
			if err != nil || reply.Done || reply.RetryAfter <= 0 || len(s.updates) != tt.calls {
				t.Errorf("reply %+v, error %v, calls %v", reply, err, s.updates)
			}
			if begun := w.progress("a") != nil; begun != (tt.calls > 0) {
				t.Errorf("begun %v", begun)
			}
			if want := 1 + tt.calls; changed != want {
				t.Errorf("%d tries to write, want %d", changed, want)
			}
		})
	}
}

// interfere has f change a Machine right before each write of its annotations.
func (w *world) interfere(f func(*clusterv1.Machine)) {
	w.Helper()
	inner := w.client
	o := w.engine.Options
	o.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, ok := object.(*clusterv1.Machine); ok {
				f(w.machine(object.GetName())) //nolint:contextcheck // The world has the test's context.
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	w.engine = New(o)
}

// TestFrozenBeforeAnEffect freezes a process between a record and the effect that it records, until its successor has ended the update.
func TestFrozenBeforeAnEffect(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answers(inplace.Finishes, "")
	o := w.engine.Options
	o.NewID = func() string { return "frozen" }
	frozen := false
	o.Open = func(_ context.Context, u *v1alpha1.Updater) (port.Updater, error) {
		if !frozen && w.progress("a") != nil { //nolint:contextcheck // The world has the test's context.
			frozen = true
			w.now = w.now.Add(20 * time.Second)
			w.node("a", to)
			w.until("a", "updated in place")                           //nolint:contextcheck // The world has the test's context.
			w.annotate("a", clusterv1.UpdateInProgressAnnotation, nil) //nolint:contextcheck // The world has the test's context.
		}
		return w.updaters[u.Name], nil
	}
	old := New(o)
	reply, err := old.UpdateMachine(t.Context(), w.request("a"))
	if err != nil || reply.Done || reply.RetryAfter <= 0 {
		t.Errorf("reply %+v, error %v", reply, err)
	}
	if len(s.updates) != 1 || w.progress("a") != nil {
		t.Errorf("calls %v, progress %+v", s.updates, w.progress("a"))
	}
	last, err := readAnnotation[inplace.Summary](w.machine("a"), v1alpha1.LastUpdateAnnotation)
	if err != nil || last == nil || last.ID != "frozen" {
		t.Errorf("last update %+v, error %v", last, err)
	}
}

// TestDecisionsAreFenced keeps a process from recording a decision on a MachineSet that was decided on meanwhile.
func TestDecisionsAreFenced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external(nil), deployment(), machineSet("old", from))
	w.updater("kubelet", 0, versionPatch)
	inner := w.client
	o := w.engine.Options
	o.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			set := &clusterv1.MachineSet{}
			w.must(c.Get(ctx, clientKey("old"), set))
			if set.Annotations == nil {
				set.Annotations = map[string]string{v1alpha1.UpdateDecisionsAnnotation: `[]`}
				w.must(c.Update(ctx, set))
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	w.engine = New(o)
	_, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
	if err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Fatalf("error %v", err)
	}
	if _, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to)); err != nil {
		t.Error(err)
	}
}

// TestConditionsAreFenced: a process that is frozen before it shows why an update stands still shows
// nothing once its successor has changed the Machine.
func TestConditionsAreFenced(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change map[string]string
		shown  bool
	}{
		"nobody changes the Machine":    {shown: true},
		"somebody changes a status":     {change: map[string]string{}, shown: true},
		"the successor ends the update": {change: map[string]string{v1alpha1.LastUpdateAnnotation: `{}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := moving(t, external(nil))
			inner := w.client
			o, frozen := w.engine.Options, false
			o.Client = interceptor.NewClient(inner, interceptor.Funcs{
				SubResourceApply: func(ctx context.Context, c client.Client, sub string, object runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
					if !frozen && tt.change != nil {
						m := w.machine("a") //nolint:contextcheck // The world has the test's context.
						m.Status.Phase = "Running"
						w.must(w.client.Status().Update(ctx, m))
						for key, value := range tt.change {
							w.annotate("a", key, &value) //nolint:contextcheck // As above.
						}
					}
					frozen = true
					return c.SubResource(sub).Apply(ctx, object, opts...)
				},
			})
			w.engine = New(o)
			rival := &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rival"}, Spec: external(nil)}
			rival.Spec.Targets = []v1alpha1.UpdateTarget{{ClusterName: "c"}}
			w.must(w.client.Create(t.Context(), rival))
			if _, err := w.update("a"); err == nil {
				t.Fatal("two policies are no problem")
			}
			c := meta.FindStatusCondition(w.machine("a").Status.Conditions, v1alpha1.UpdateBlockedCondition)
			if !frozen || (c != nil) != tt.shown {
				t.Errorf("frozen %v, the condition is %+v", frozen, c)
			}
		})
	}
}

// TestLastRequestIsFenced: a process that was frozen writes nothing over a newer request to an
// Updater.
func TestLastRequestIsFenced(t *testing.T) {
	t.Parallel()
	w, _ := moving(t, external(nil))
	u := &v1alpha1.Updater{}
	w.must(w.client.Get(t.Context(), client.ObjectKey{Name: "kubelet"}, u))
	successor := New(w.engine.Options)
	w.now = w.now.Add(time.Hour)
	successor.noteRequest(t.Context(), u.DeepCopy(), "UpdateMachine", clientKey("b"), "newer", nil)
	w.now = w.now.Add(-time.Minute)
	for range 2 {
		w.engine.noteRequest(t.Context(), u.DeepCopy(), "UpdateMachine", clientKey("a"), "frozen", nil)
	}
	w.must(w.client.Get(t.Context(), client.ObjectKey{Name: "kubelet"}, u))
	if last := u.Status.LastRequest; last == nil || last.Message != "newer" {
		t.Errorf("the last request is %+v", last)
	}
	w.engine.noteRequest(t.Context(), u.DeepCopy(), "UpdateMachine", clientKey("a"), "newest", nil)
	w.must(w.client.Get(t.Context(), client.ObjectKey{Name: "kubelet"}, u))
	if last := u.Status.LastRequest; last.Message != "newest" {
		t.Errorf("the last request is %+v", last)
	}
}
