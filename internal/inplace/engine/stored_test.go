package engine

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// mutate has a webhook of somebody else change the annotations of each Machine that is patched. The
// answer to the patch has the change, as an API server's has.
func (w *world) mutate(change func(annotations map[string]string)) {
	w.Helper()
	w.engine.fence.Client = interceptor.NewClient(w.client, interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption,
		) error {
			if err := c.Patch(ctx, object, patch, options...); err != nil {
				return err
			}
			m, is := object.(*clusterv1.Machine)
			if !is {
				return nil
			}
			if m.Annotations == nil {
				m.Annotations = map[string]string{}
			}
			change(m.Annotations)
			return c.Update(ctx, m)
		},
	})
}

// TestRecordNotStored has a webhook remove the record of an update from each write. No updater is asked
// for an operation that is recorded nowhere: the next call would ask for another one. The Machine shows
// why. When the webhook is gone, the update runs once.
func TestRecordNotStored(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[string]string){
		"removed": func(a map[string]string) { delete(a, v1alpha1.UpdateProgressAnnotation) },
		"changed": func(a map[string]string) {
			if a[v1alpha1.UpdateProgressAnnotation] != "" {
				a[v1alpha1.UpdateProgressAnnotation] = `{}`
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := moving(t, external(nil))
			s.answers(inplace.Finishes, "")
			w.mutate(change)
			for range 3 {
				if reply, err := w.update("a"); err == nil {
					t.Errorf("the update continues without a record: %+v", reply)
				}
			}
			if len(s.updates) != 0 {
				t.Errorf("the updater was asked for operations that are recorded nowhere: %q", s.updates)
			}
			c := meta.FindStatusCondition(w.machine("a").Status.Conditions, v1alpha1.UpdateBlockedCondition)
			if c == nil || !strings.Contains(c.Message, v1alpha1.UpdateProgressAnnotation) || !strings.Contains(c.Message, "Fix:") {
				t.Errorf("the Machine shows %+v", c)
			}
			w.engine.fence.Client = w.client
			w.annotate("a", v1alpha1.UpdateProgressAnnotation, nil)
			w.node("a", to)
			w.until("a", "updated in place")
			if len(s.updates) != 1 {
				t.Errorf("the updater was asked for %q", s.updates)
			}
		})
	}
}

// TestRecordRewritten has a webhook add an annotation, and write our records with other spaces and
// another order of fields. The update runs once, as without the webhook.
func TestRecordRewritten(t *testing.T) {
	t.Parallel()
	w, s := moving(t, external(nil))
	s.answers(inplace.Finishes, "")
	w.mutate(func(a map[string]string) {
		a["example.com/seen"] += "x"
		for key, text := range a {
			var fields map[string]any
			if strings.HasPrefix(key, "windlass.dev/") && json.Unmarshal([]byte(text), &fields) == nil {
				rewritten, err := json.MarshalIndent(fields, "", "  ")
				if err != nil {
					t.Error(err)
				}
				a[key] = string(rewritten)
			}
		}
	})
	w.node("a", to)
	w.until("a", "updated in place")
	if len(s.updates) != 1 {
		t.Errorf("the updater was asked for %q", s.updates)
	}
}
