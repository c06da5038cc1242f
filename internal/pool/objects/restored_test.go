package objects_test

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// TestRestoredObjectIsApplied restores an object to its state before an intent: it has the same UID, an
// older resourceVersion and older content. While the cache may lag, nothing is sent. Then the intent
// is applied, however often the object is looked at meanwhile, and whatever the clock does.
func TestRestoredObjectIsApplied(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		step time.Duration
		// silent is how many looks send nothing.
		silent int
	}{
		"looks while the cache may lag": {step: keyed.CacheLag / 4, silent: 3},
		"looks every half hour":         {step: objects.Lifetime - time.Minute},
		"a clock that is set back":      {step: -12 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, now := newWorld(t), start
			w.Put(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "default"}})
			applier := objects.NewApplier(w.Client, func() time.Time { return now })
			if err := applier.Apply(t.Context(), manager, intent()); err != nil {
				t.Fatal(err)
			}
			restored := w.machine()
			version, err := strconv.Atoi(restored.ResourceVersion)
			if err != nil {
				t.Fatal(err)
			}
			restored.ResourceVersion = strconv.Itoa(version - 1)
			restored.Spec.Version, restored.Labels["ours"] = "v1.32.0", "0"
			w.Take()
			for look := range tt.silent + 1 {
				now = now.Add(tt.step)
				desired := intent()
				if err := applier.ApplyIfChanged(t.Context(), manager, desired, restored); err != nil {
					t.Fatal(err)
				}
				if sent := len(w.Take()); sent != 0 != (look == tt.silent) {
					t.Errorf("look %d sent %d requests", look+1, sent)
				}
			}
		})
	}
}
