package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// forbidding reads no objects of a kind.
type forbidding struct {
	client.Reader
	kind string
}

func (f *forbidding) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if kind := object.GetObjectKind().GroupVersionKind(); f.kind != "" && kind.Kind == f.kind {
		return apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: "things"}, key.Name, errors.New("no rule"))
	}
	return f.Reader.Get(ctx, key, object, options...)
}

// forbid has the engine read no objects of a kind; the empty kind allows all.
func (w *world) forbid(kind string) {
	o := w.engine.Options
	o.Live = &forbidding{w.client, kind}
	w.engine = New(o)
}

// wantRights fails unless err and a condition say which right is missing, and how to grant it.
func wantRights(t *testing.T, err error, conditions []metav1.Condition) {
	t.Helper()
	if r, ok := errors.AsType[*RefusedError](err); !ok || r.Reason != v1alpha1.RightsMissingReason {
		t.Errorf("error %v", err)
	}
	c := meta.FindStatusCondition(conditions, v1alpha1.UpdateBlockedCondition)
	if c == nil || c.Reason != v1alpha1.RightsMissingReason {
		t.Fatalf("condition %+v", c)
	}
	for _, part := range []string{"right to get", "infrastructure.cluster.x-k8s.io", "Fix: ", "windlass.dev/aggregate-to-extension"} {
		if !strings.Contains(c.Message, part) {
			t.Errorf("the condition does not name %q: %s", part, c.Message)
		}
	}
}

func TestUpdateMachineWithoutRights(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"X", "XTemplate"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w, s := moving(t, external(nil))
			w.forbid(kind)
			_, err := w.update("a")
			wantRights(t, err, w.machine("a").Status.Conditions)
			w.forbid("")
			if _, err := w.update("a"); err != nil || len(s.updates) != 1 {
				t.Errorf("error %v, calls %v", err, s.updates)
			}
			if c := meta.FindStatusCondition(w.machine("a").Status.Conditions, v1alpha1.UpdateBlockedCondition); c != nil {
				t.Errorf("condition %+v is left", c)
			}
		})
	}
	w, _ := moving(t, external(nil))
	request := w.request("a")
	w.annotate("a", clusterv1.UpdateInProgressAnnotation, nil)
	w.forbid("X")
	w.writes.Store(0)
	_, err := w.engine.UpdateMachine(t.Context(), request)
	if u, ok := errors.AsType[*UnaskedError](err); !ok || u.Reason != NotMarked || w.writes.Load() != 0 {
		t.Errorf("a Machine that is not marked: error %v, %d writes", err, w.writes.Load())
	}
}

func TestCanUpdateMachineSetWithoutRights(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(*v1alpha1.UpdatePolicySpec)
		to   string
		// decided says that the question was answered before the right was taken.
		decided        bool
		shown, replace bool
	}{
		"in place":                          {to: to, shown: true},
		"in place or replaced":              {edit: func(p *v1alpha1.UpdatePolicySpec) { p.Fallback = v1alpha1.FallbackRollingUpdate }, to: to, shown: true},
		"nothing is asked for":              {to: from},
		"no policy":                         {edit: func(p *v1alpha1.UpdatePolicySpec) { p.Strategy, p.Fallback = v1alpha1.RollingUpdate, "" }, to: to, replace: true},
		"no policy any longer, but decided": {to: to, decided: true, shown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, external(tt.edit), deployment(), machineSet("old", from))
			w.updater("kubelet", 0, versionPatch)
			if tt.decided {
				if _, err := w.canUpdateSet(machineSet("old", from), machineSet("new", tt.to)); err != nil {
					t.Fatal(err)
				}
				policy := &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keep"}}
				w.must(w.client.Delete(t.Context(), policy))
			}
			w.forbid("XTemplate")
			w.writes.Store(0)
			coverage, err := w.canUpdateSet(machineSet("old", from), machineSet("new", tt.to))
			md := &clusterv1.MachineDeployment{}
			w.must(w.client.Get(t.Context(), clientKey("md"), md))
			switch {
			case tt.shown:
				wantRights(t, err, md.Status.Conditions)
			case w.writes.Load() != 0:
				t.Errorf("%d writes", w.writes.Load())
			}
			if tt.replace != (err == nil) || len(coverage.Patches.Machine.Data) > 0 {
				t.Errorf("coverage %+v, error %v", coverage, err)
			}
		})
	}
}
