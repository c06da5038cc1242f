package handover_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/updaters"
)

// TestTakeAndStop: one request hands all machines of a MachineSet over, with what they are to be and the
// limits, and another one ends that.
func TestTakeAndStop(t *testing.T) {
	t.Parallel()
	i := newImplementer(t)
	request := porttest.CanUpdateMachineSet(types.NamespacedName{Namespace: "ns", Name: "set"}, porttest.UpdaterFrom, porttest.UpdaterTo)
	for _, set := range []*clusterv1.MachineSet{&request.Current.MachineSet, &request.Desired.MachineSet} {
		set.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: "workers"}
	}
	u := i.connect(t)
	declined, err := u.Take(t.Context(), request, port.Taking{Operation: "op", AtOnce: 2, First: 1, Stay: 3})
	if declined != "" || err != nil {
		t.Fatalf("declined %q, error %v", declined, err)
	}
	if declined, err := u.Stop(t.Context(), &request.Current.MachineSet, "op", "paused"); declined != "" || err != nil {
		t.Fatalf("declined %q, error %v", declined, err)
	}
	asked := i.asked()
	for _, part := range []struct{ objects, version string }{
		{string(asked[0].Current.Machine.Raw), porttest.UpdaterFrom}, {string(asked[0].Desired.Machine.Raw), porttest.UpdaterTo},
	} {
		if version := versionOf(t, part.objects); version != part.version {
			t.Errorf("the version is %s, want %s", version, part.version)
		}
	}
	if len(asked[0].Desired.InfrastructureMachine.Raw) == 0 || len(asked[0].Desired.BootstrapConfig.Raw) == 0 {
		t.Errorf("the desired objects are %+v", asked[0].Desired)
	}
	asked[0].Current, asked[0].Desired = nil, nil
	common := updatesv1.HandOverRequest{
		APIVersion: updatesv1.APIVersion, Kind: "HandOverRequest", OperationID: "op",
		Cluster:  updatesv1.ObjectName{Namespace: "ns", Name: "cluster"},
		Owner:    updatesv1.Owner{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineDeployment", Namespace: "ns", Name: "workers"},
		Machines: names("m-0", "m-1"),
	}
	taken, stopped := common, common
	taken.Phase, taken.Group, taken.Budget = updatesv1.HandOver, names("m-0", "m-1", "m-2"), &updatesv1.Budget{AtOnce: 2, First: 1, Stay: 3}
	stopped.Phase, stopped.Reason = updatesv1.Cancel, "paused"
	if diff := cmp.Diff([]updatesv1.HandOverRequest{taken, stopped}, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	i.says(response(false, "night"))
	if declined, err := u.Take(t.Context(), request, port.Taking{}); declined != "night" || err != nil {
		t.Errorf("declined %q, error %v", declined, err)
	}
	i.says("yes")
	_, err = u.Stop(t.Context(), &request.Current.MachineSet, "op", "")
	if _, ok := errors.AsType[*updaters.Error](err); !ok {
		t.Errorf("an answer that is none: error %v", err)
	}
}

func versionOf(t *testing.T, machine string) string {
	t.Helper()
	var m clusterv1.Machine
	if err := json.Unmarshal([]byte(machine), &m); err != nil {
		t.Fatal(err)
	}
	return m.Spec.Version
}
