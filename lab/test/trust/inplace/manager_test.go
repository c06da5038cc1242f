package inplace

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

// TestManagerUpdatesInPlace runs `windlass manager` with --extension-port, where Cluster API's own
// Machine controller calls UpdateMachine in the same process: it passes objects, not JSON. A machine that is marked as Cluster API
// marks it gets its update, and the marks go when it is done.
func TestManagerUpdatesInPlace(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "a")
	updater := newUpdater(t, plane, pool, "u")
	updater.Update = finishes(pool)
	provisioned(t, plane, pool, "a")
	pauseOwners(t, plane, pool)
	manager := runManager(t, plane, pool)

	decide(t, manager, pool)
	pool.Move(t, "a")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := func(machine *clusterv1.Machine) bool {
		_, marked := machine.Annotations[clusterv1.UpdateInProgressAnnotation]
		return !marked && machine.Annotations[pendingHooks] == ""
	}
	if err := wire.Await(ctx, plane.Client, &clusterv1.MachineList{}, done, client.InNamespace(pool.Namespace)); err != nil {
		t.Fatalf("waiting for the end of the update: %v; the Machine is %s", err, mustJSON(t, pool.Machine(t, "a")))
	}
	told := updater.Requests(wire.UpdateMachine.Hook)
	if len(told) != 1 {
		t.Fatalf("the updater was asked %d times", len(told))
	}
	request := &runtimehooksv1.UpdateMachineRequest{}
	if err := json.Unmarshal(told[0].Body, request); err != nil {
		t.Fatal(err)
	}
	if request.Desired.Machine.Spec.Version != wire.To || len(request.Desired.InfrastructureMachine.Raw) == 0 ||
		len(request.Desired.BootstrapConfig.Raw) == 0 {
		t.Errorf("the updater is told %s", told[0].Body)
	}
}

// runManager runs a manager that serves the extension, for a pool's namespace, and registers the
// extension there. The URL leads nowhere: the manager calls itself directly.
func runManager(t *testing.T, plane *wire.Plane, pool *wire.Pool) *wire.Process {
	t.Helper()
	manager := plane.RunManagerWithExtension(t, "--feature-gates=ClusterTopology=true,RuntimeSDK=true,InPlaceUpdates=true",
		"--namespace", pool.Namespace, "--extension-config", pool.Namespace)
	config := &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: pool.Namespace},
		Spec: runtimev1.ExtensionConfigSpec{
			ClientConfig: runtimev1.ClientConfig{URL: "https://127.0.0.1:1", CABundle: manager.Authority.PEM},
		},
	}
	plane.Create(t, config)
	t.Cleanup(func() {
		if err := plane.Client.Delete(context.WithoutCancel(t.Context()), config); err != nil {
			t.Error(err)
		}
	})
	return manager
}

// provisioned gives a machine the status without which Cluster API does not update it.
func provisioned(t *testing.T, plane *wire.Plane, pool *wire.Pool, name string) {
	t.Helper()
	patch := []byte(`{"status":{"initialization":{"infrastructureProvisioned":true,"bootstrapDataSecretCreated":true}}}`)
	if err := plane.Client.Status().Patch(t.Context(), pool.Machine(t, name), client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

// pauseOwners keeps Cluster API from replacing the machines of a pool: the test moves them.
func pauseOwners(t *testing.T, plane *wire.Plane, pool *wire.Pool) {
	t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"` + clusterv1.PausedAnnotation + `":""}}}`)
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: wire.PoolName}}
	for _, owner := range []client.Object{deployment, pool.Set(t, wire.OldSet), pool.Set(t, wire.NewSet)} {
		if err := plane.Client.Patch(t.Context(), owner, client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
	}
}
