package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/condition"
)

type extensionWorld struct {
	t         *testing.T
	client    client.Client
	r         *ExtensionConfigReconciler
	conflicts map[string][]string
	ready     bool
	problem   error
	recorder  *events.FakeRecorder
	writes    int
	writeErr  error
}

// newExtensionWorld has the ExtensionConfigs a, b and c; a has a condition of Cluster API's.
func newExtensionWorld(t *testing.T) *extensionWorld {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := runtimev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &extensionWorld{t: t, ready: true, recorder: events.NewFakeRecorder(16)}
	var objects []client.Object
	for _, name := range []string{"a", "b", "c"} {
		objects = append(objects, &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2}})
	}
	if a, ok := objects[0].(*runtimev1.ExtensionConfig); ok {
		a.Status.Conditions = []metav1.Condition{{Type: "Discovered", Status: "True", Reason: "Discovered"}}
	}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&runtimev1.ExtensionConfig{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			w.writes++
			if w.writeErr != nil {
				return w.writeErr
			}
			return c.SubResource(sub).Patch(ctx, object, patch, opts...)
		},
	}).Build()
	w.r = &ExtensionConfigReconciler{
		Client: w.client, Recorder: w.recorder, Now: func() time.Time { return time.Unix(1000, 0) },
		Conflicts: func(context.Context) (map[string][]string, bool, error) { return w.conflicts, w.ready, w.problem },
	}
	return w
}

// reconcile returns the writes and Events of one reconcile, and the messages that stand on ExtensionConfigs after it.
func (w *extensionWorld) reconcile(want time.Duration) (writes, events int, messages map[string]string) {
	w.t.Helper()
	w.writes = 0
	result, err := w.r.Reconcile(w.t.Context(), reconcile.Request{})
	if err != nil || result.RequeueAfter != want {
		w.t.Errorf("Reconcile = %v, %v, want to look again after %v", result, err, want)
	}
	var list runtimev1.ExtensionConfigList
	if err := w.client.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	messages = map[string]string{}
	for _, config := range list.Items {
		if config.Name == "a" && !meta.IsStatusConditionTrue(config.Status.Conditions, "Discovered") {
			w.t.Error("Cluster API's condition is gone")
		}
		c := meta.FindStatusCondition(config.Status.Conditions, v1alpha1.UpdateExtensionsConflictCondition)
		if c == nil {
			continue
		}
		if c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.SeveralExtensionsReason || c.ObservedGeneration != 2 || c.LastTransitionTime.Unix() != 1000 {
			w.t.Errorf("condition %+v", c)
		}
		messages[config.Name] = c.Message
	}
	for len(w.recorder.Events) > 0 {
		if event := <-w.recorder.Events; !strings.HasPrefix(event, "Warning SeveralExtensions Machines are not updated in place") {
			w.t.Errorf("Event %q", event)
		}
		events++
	}
	return w.writes, events, messages
}

func TestExtensionConfig(t *testing.T) {
	t.Parallel()
	w := newExtensionWorld(t)
	w.expect("nobody is in the way", 0, 0, nil)

	const head = "Machines are not updated in place where a hook for it has more than one extension:"
	const fix = ". Fix: keep one, and register the others as Updater objects"
	w.conflicts = map[string][]string{"UpdateMachine": {"update.a", "update.b"}, "CanUpdateMachine": {"can-too.a", "can.a", "can.b"}}
	both := head + " CanUpdateMachine has can-too.a, can.a, can.b; UpdateMachine has update.a, update.b" + fix
	w.expect("two are", 2, 2, map[string]string{"a": both, "b": both})
	w.expect("they still are", 0, 0, map[string]string{"a": both, "b": both})

	w.conflicts["UpdateMachine"] = append(w.conflicts["UpdateMachine"], "update.c")
	third := head + " UpdateMachine has update.a, update.b, update.c" + fix
	all := head + " CanUpdateMachine has can-too.a, can.a, can.b; UpdateMachine has update.a, update.b, update.c" + fix
	w.expect("a third comes", 3, 3, map[string]string{"a": all, "b": all, "c": third})

	w.conflicts = map[string][]string{"UpdateMachine": {"update.a", "update.c"}}
	left := head + " UpdateMachine has update.a, update.c" + fix
	w.expect("one goes", 3, 2, map[string]string{"a": left, "c": left})
	w.conflicts = nil
	w.expect("it is solved", 2, 0, nil)
	w.expect("it stays solved", 0, 0, nil)
}

func (w *extensionWorld) expect(what string, writes, events int, messages map[string]string) {
	w.t.Helper()
	gotWrites, gotEvents, got := w.reconcile(time.Minute)
	if gotWrites != writes || gotEvents != events {
		w.t.Errorf("%s: %d writes and %d Events, want %d and %d", what, gotWrites, gotEvents, writes, events)
	}
	if messages == nil {
		messages = map[string]string{}
	}
	if diff := cmp.Diff(messages, got); diff != "" {
		w.t.Errorf("%s: messages (-want +got):\n%s", what, diff)
	}
}

func TestReconcileWaitsForExtensions(t *testing.T) {
	t.Parallel()
	w := newExtensionWorld(t)
	w.conflicts = map[string][]string{"UpdateMachine": {"update.a", "update.b"}}
	w.reconcile(time.Minute)
	// A condition is not taken away because nothing is known yet.
	w.conflicts, w.ready = nil, false
	if writes, _, messages := w.reconcile(time.Second); writes > 0 || len(messages) != 2 {
		t.Errorf("%d writes, messages on %v", writes, messages)
	}
}

func TestExtensionConfigErrors(t *testing.T) {
	t.Parallel()
	resource := runtimev1.GroupVersion.WithResource("extensionconfigs").GroupResource()
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		problem, writeErr, want error
		after                   time.Duration
		writes                  int
	}{
		"conflicts that cannot be found out": {problem: broken, want: broken},
		"a write that fails":                 {writeErr: broken, want: broken, writes: 1},
		"another writer was faster":          {writeErr: apierrors.NewConflict(resource, "a", nil), after: time.Second, writes: 2},
		"an ExtensionConfig that goes":       {writeErr: apierrors.NewNotFound(resource, "a"), after: time.Minute, writes: 2},
	} {
		w := newExtensionWorld(t)
		w.conflicts, w.problem, w.writeErr = map[string][]string{"UpdateMachine": {"update.a", "update.b"}}, tt.problem, tt.writeErr
		result, err := w.r.Reconcile(t.Context(), reconcile.Request{})
		if !errors.Is(err, tt.want) || result.RequeueAfter != tt.after || w.writes != tt.writes || len(w.recorder.Events) > 0 {
			t.Errorf("%s: Reconcile = %v, %v after %d writes and %d Events", name, result, err, w.writes, len(w.recorder.Events))
		}
	}
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	var extensions []string
	for i := range 500 {
		extensions = append(extensions, fmt.Sprintf("update-machine.extension-%d", i))
	}
	slices.Sort(extensions)
	for config, message := range computeMessages(map[string][]string{"UpdateMachine": extensions}) {
		if len(message) > condition.MaxBytes || !strings.Contains(message, " and 495 more. Fix: ") {
			t.Fatalf("the message of %s has %d bytes: %s", config, len(message), message)
		}
	}
}

func TestRegisters(t *testing.T) {
	t.Parallel()
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 1}}
	before := registers(config)
	config.Status.Conditions = []metav1.Condition{{Type: "Discovered", Status: "True"}}
	config.Labels = map[string]string{"a": "b"}
	if registers(config) != before {
		t.Error("a condition or a label counts as a change")
	}
	config.Status.Handlers = []runtimev1.ExtensionHandler{{Name: "update.a"}}
	discovered := registers(config)
	config.Generation++
	if discovered == before || registers(config) == discovered {
		t.Error("a handler, or a new spec, does not count as a change")
	}
}
