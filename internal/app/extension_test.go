package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestSlimMachine keeps whole Machines whole: others than the extension read them from the same cache.
func TestSlimMachine(t *testing.T) {
	t.Parallel()
	meta := func(annotations ...string) metav1.ObjectMeta {
		o := metav1.ObjectMeta{Name: "m", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}, Annotations: map[string]string{}}
		for _, key := range annotations {
			o.Annotations[key] = "value"
		}
		return o
	}
	partial := func(kind string, o metav1.ObjectMeta) client.Object {
		p := &metav1.PartialObjectMetadata{ObjectMeta: o}
		p.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(kind))
		return p
	}
	to := v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeTo
	slim := meta(v1alpha1.UpdateProgressAnnotation, v1alpha1.LastUpdateAnnotation, clusterv1.UpdateInProgressAnnotation, v1alpha1.InPlaceUpgradeAnnotation, to)
	slim.ManagedFields = nil
	all := []string{v1alpha1.UpdateProgressAnnotation, v1alpha1.LastUpdateAnnotation, clusterv1.UpdateInProgressAnnotation, v1alpha1.InPlaceUpgradeAnnotation, to, "other"}
	for name, tt := range map[string]struct{ in, want any }{
		"metadata of a Machine":    {partial("Machine", meta(all...)), partial("Machine", slim)},
		"metadata of a MachineSet": {partial("MachineSet", meta(all...)), partial("MachineSet", meta(all...))},
		"a whole Machine":          {&clusterv1.Machine{ObjectMeta: meta(all...)}, &clusterv1.Machine{ObjectMeta: meta(all...)}},
		"no object":                {"text", "text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := SlimMachine(InPlaceUpgrades{})(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
