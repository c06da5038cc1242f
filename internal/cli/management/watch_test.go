package management

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/status"
)

// TestKeepUpdate: what a followed fleet keeps of a Machine tells as much of its update as the whole.
func TestKeepUpdate(t *testing.T) {
	t.Parallel()
	values := map[string][]string{
		v1alpha1.UpdateProgressAnnotation: {"{", `{"id":"u","phase":"Failed","started":"2026-01-01T00:00:00Z"}`},
		v1alpha1.InPlaceUpgradeAnnotation: {
			"{", `{"option":"revision=1","message":"refused","at":"2026-01-01T00:00:00Z"}`,
		},
		clusterv1.UpdateInProgressAnnotation: {""},
		v1alpha1.LastUpdateAnnotation:        {`{"target":"set"}`},
		"other":                              {"x"},
	}
	rapid.Check(t, func(rt *rapid.T) {
		m := &metav1.PartialObjectMetadata{}
		m.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "set", Controller: new(true),
		}}
		m.Annotations = map[string]string{}
		for key, options := range values {
			if rapid.Bool().Draw(rt, key) {
				m.Annotations[key] = rapid.SampledFrom(options).Draw(rt, key+" value")
			}
		}
		type phase struct {
			phase string
			since time.Time
		}
		of := func(m *metav1.PartialObjectMetadata) (p phase) {
			p.phase, p.since = status.UpdatePhase(m)
			return p
		}
		kept, err := keepUpdate(m.DeepCopy())
		if err != nil {
			rt.Fatal(err)
		}
		after, ok := kept.(*metav1.PartialObjectMetadata)
		if !ok || of(m) != of(after) {
			rt.Fatalf("%v was %v, and is %v", m.Annotations, of(m), kept)
		}
		if _, other := after.Annotations["other"]; other {
			rt.Fatalf("%v are kept", after.Annotations)
		}
	})
}
