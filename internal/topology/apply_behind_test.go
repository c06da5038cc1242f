package topology_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/topology"
)

// TestApplyToGroupsReadTooEarly: a group is not sent to another version from what a cache showed before it was
// sent elsewhere.
func TestApplyToGroupsReadTooEarly(t *testing.T) {
	w := steady(t, fixture("full"))
	w.setTopologyVersion("v1.32.0")
	blueprint, early := w.read()
	if _, err := w.reconcile(everywhere(w.Cluster(), "v1.31.5"), topology.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Take()
	versions := everywhere(w.Cluster(), "v1.32.0")
	desired, err := w.objects.ComputeDesired(t.Context(), blueprint, early, versions)
	if err != nil {
		t.Fatal(err)
	}
	hold := topology.ApplyOptions{HoldControlPlane: true}
	_, err = w.objects.Apply(t.Context(), blueprint, early, desired, versions, hold)
	for _, group := range []string{`MachineDeployment "a"`, `MachineDeployment "b"`, `MachinePool "p"`} {
		if err == nil || !strings.Contains(err.Error(), group) {
			t.Errorf("error %v, want one about %s", err, group)
		}
	}
	if writes := w.Take(); len(writes) > 0 {
		t.Errorf("writes %q", writes)
	}
}
