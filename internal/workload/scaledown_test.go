package workload_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// TestScaleDownAnnotations: annotation and marker are on the node, other annotations stay, and so
// does what a person wrote, before the update or during it.
func TestScaleDownAnnotations(t *testing.T) {
	const ours = v1alpha1.ScaleDownDisabledAnnotation
	disabled := map[string]string{autoscalerAnnotation: "true", ours: "", "team": "a"}
	for name, tt := range map[string]struct {
		before, want, after map[string]string
		edit                func(map[string]string)
	}{
		"nobody":   {before: map[string]string{"team": "a"}, want: disabled, after: map[string]string{"team": "a"}},
		"a person": {before: map[string]string{autoscalerAnnotation: "true"}, want: map[string]string{autoscalerAnnotation: "true"}, after: map[string]string{autoscalerAnnotation: "true"}},
		"a person allows it": {before: map[string]string{autoscalerAnnotation: "false"},
			want: map[string]string{autoscalerAnnotation: "false"}, after: map[string]string{autoscalerAnnotation: "false"}},
		"a person allows it during the update": {before: map[string]string{"team": "a"}, want: disabled,
			edit:  func(a map[string]string) { a[autoscalerAnnotation] = "false" },
			after: map[string]string{autoscalerAnnotation: "false", "team": "a"}},
		"a person takes both away": {before: map[string]string{"team": "a"}, want: disabled,
			edit:  func(a map[string]string) { delete(a, autoscalerAnnotation); delete(a, ours) },
			after: map[string]string{"team": "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putNode("a", porttest.ReadyNode("v1.33.4", start))
			edit := func(change func(map[string]string)) map[string]string {
				w.server.mu.Lock()
				defer w.server.mu.Unlock()
				n := w.server.nodes["a"]
				if n.Annotations == nil {
					n.Annotations = map[string]string{}
				}
				change(n.Annotations)
				return maps.Clone(n.Annotations)
			}
			look := func(map[string]string) {}
			edit(func(a map[string]string) { maps.Copy(a, tt.before) })
			if err := w.nodes.DisableScaleDown(t.Context(), cluster, "a"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, edit(look)); diff != "" {
				t.Errorf("during the update (-want +got):\n%s", diff)
			}
			if tt.edit != nil {
				edit(tt.edit)
			}
			if err := w.nodes.EnableScaleDown(t.Context(), cluster, "a"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.after, edit(look)); diff != "" {
				t.Errorf("after the update (-want +got):\n%s", diff)
			}
		})
	}
}
