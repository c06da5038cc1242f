package updatepolicy_test

import (
	"testing"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
)

func TestFailsOpen(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec v1alpha1.UpdaterSpec
		want bool
	}{
		"in this process":    {v1alpha1.UpdaterSpec{InProcess: &v1alpha1.InProcessUpdater{}}, false},
		"remote":             {v1alpha1.UpdaterSpec{Remote: &v1alpha1.RemoteUpdater{}}, false},
		"remote, which must": {v1alpha1.UpdaterSpec{Remote: &v1alpha1.RemoteUpdater{FailurePolicy: v1alpha1.UpdaterFail}}, false},
		"remote, which may":  {v1alpha1.UpdaterSpec{Remote: &v1alpha1.RemoteUpdater{FailurePolicy: v1alpha1.UpdaterIgnore}}, true},
	} {
		if got := updatepolicy.FailsOpen(&v1alpha1.Updater{Spec: test.spec}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
