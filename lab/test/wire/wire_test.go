package wire_test

import (
	"testing"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

func TestMain(m *testing.M) { wire.Main(m) }

// TestPool updates a machine in place as Cluster API does: it shows that what forged calls are compared with works.
func TestPool(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "a")
	updater := wire.NewUpdater(t)
	updater.Update = func(request *runtimehooksv1.UpdateMachineRequest) wire.Answer {
		pool.Workload.SetNode(request.Desired.Machine.Name, request.Desired.Machine.Spec.Version)
		return wire.Answer{Status: runtimehooksv1.ResponseStatusSuccess}
	}
	object := updater.Object("wire-pool")
	plane.Create(t, object)
	extension := plane.Run(t)
	if answer := extension.Call(t, wire.CanUpdateMachineSet, pool.Question(t)); answer.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Fatalf("CanUpdateMachineSet: %+v", answer)
	}
	pool.Move(t, "a")
	for {
		answer := extension.Call(t, wire.UpdateMachine, pool.Update(t, "a"))
		if answer.Status != runtimehooksv1.ResponseStatusSuccess {
			t.Fatalf("UpdateMachine: %+v", answer)
		}
		if answer.RetryAfterSeconds == 0 {
			break
		}
		t.Log(answer.Message)
		extension.Wait(t, answer)
	}
	if got := len(updater.Requests(wire.UpdateMachine.Hook)); got != 1 {
		t.Errorf("the updater was asked %d times", got)
	}
}
