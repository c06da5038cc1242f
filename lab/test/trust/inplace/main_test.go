// Package inplace holds who can make Windlass update a machine in place, and to what: the objects of the management cluster, and no caller.
package inplace

import (
	"encoding/json"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

func TestMain(m *testing.M) {
	if agent := os.Getenv(agentVariable); agent != "" {
		os.Exit(runCommand(agent))
	}
	wire.Main(m)
}

// evil is a bootstrap config, or a template, that nobody has created.
const evil = `"files":[{"path":"/etc/cron.d/evil","content":"* * * * * root id"}]`

// newUpdater registers an updater for one pool.
func newUpdater(t *testing.T, plane *wire.Plane, pool *wire.Pool, name string) *wire.Updater {
	t.Helper()
	updater := wire.NewUpdater(t)
	object := updater.Object(pool.Namespace + "-" + name)
	object.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": pool.Namespace}}
	plane.Create(t, object)
	return updater
}

// finishes makes an updater bring a machine's node to the desired version at once.
func finishes(pool *wire.Pool) func(*runtimehooksv1.UpdateMachineRequest) wire.Answer {
	return func(request *runtimehooksv1.UpdateMachineRequest) wire.Answer {
		pool.Workload.SetNode(request.Desired.Machine.Name, request.Desired.Machine.Spec.Version)
		return wire.Answer{Status: runtimehooksv1.ResponseStatusSuccess}
	}
}

// working makes an updater work on a machine without an end.
func working(*runtimehooksv1.UpdateMachineRequest) wire.Answer {
	return wire.Answer{Status: runtimehooksv1.ResponseStatusSuccess, Message: "working", RetryAfterSeconds: 1}
}

// decide asks whether the machines of a pool can be updated in place, as Cluster API does.
func decide(t *testing.T, extension *wire.Process, pool *wire.Pool) {
	t.Helper()
	if answer := extension.Call(t, wire.CanUpdateMachineSet, pool.Question(t)); answer.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Fatalf("CanUpdateMachineSet: %+v", answer)
	}
}

// update calls UpdateMachine as Cluster API does, until the update is done.
func update(t *testing.T, extension *wire.Process, pool *wire.Pool, name string) {
	t.Helper()
	for {
		answer := extension.Call(t, wire.UpdateMachine, pool.Update(t, name))
		if answer.Status != runtimehooksv1.ResponseStatusSuccess {
			t.Fatalf("UpdateMachine: %+v", answer)
		}
		if answer.RetryAfterSeconds == 0 {
			return
		}
		extension.Wait(t, answer)
	}
}

// versions returns the resource version of every object of a pool that Windlass may write.
func versions(t *testing.T, plane *wire.Plane, pool *wire.Pool) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{
		&clusterv1.MachineList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineDeploymentList{}, &bootstrapv1.KubeadmConfigList{}, &v1alpha1.UpdatePolicyList{},
	} {
		if err := plane.Client.List(t.Context(), list, client.InNamespace(pool.Namespace)); err != nil {
			t.Fatal(err)
		}
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
		if err != nil {
			t.Fatal(err)
		}
		items, _ := raw["items"].([]any)
		for _, item := range items {
			object, _ := item.(map[string]any)
			metadata, _ := object["metadata"].(map[string]any)
			// The status of a policy is written for reasons of its own; its generation is its spec's.
			key := "resourceVersion"
			if _, ok := list.(*v1alpha1.UpdatePolicyList); ok {
				key = "uid"
			}
			text, _ := metadata[key].(string)
			name, _ := metadata["name"].(string)
			found[string(mustJSON(t, list.GetObjectKind()))+name+key] = text
		}
	}
	return found
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
