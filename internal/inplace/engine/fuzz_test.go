package engine

import (
	"encoding/json"
	"testing"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// FuzzHooks holds that nothing panics, whatever a request and the annotations of a Machine and a MachineSet hold, and that no updater is called with an object
// that is not live.
func FuzzHooks(f *testing.F) {
	good, err := json.Marshal(runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{Machine: *machine("a", "new", to)}})
	if err != nil {
		f.Fatal(err)
	}
	const (
		progress  = `{"id":"x","phase":"Updating","steps":[{"updater":"kubelet"}],"operation":"o","to":"v1.31.1","from":"v1.30.2","target":"new"}`
		decisions = `[{"id":"d","target":"new","steps":[{"updater":"kubelet"}]}]`
	)
	f.Add(good, progress, `{}`, decisions)
	f.Add([]byte(`{"desired":{"machine":{"metadata":{"namespace":"ns","name":"a"}},"bootstrapConfig":null,"infrastructureMachine":3}}`), `{"phase":"Soaking","id":"1"}`, `null`, `[null,{}]`)
	f.Add([]byte(`{"desired":{"machine":{},"bootstrapConfig":{"kind":"K"}}}`), `{"phase":"Verifying","id":"1","steps":[]}`, `{"to":"v1"}`, `{}`)
	f.Add(good, `{"phase":"Failed","id":"1","steps":null,"attempt":-1}`, `{"steps":[{}]}`, `[{"id":"d","steps":[{"updater":""}],"changes":[{"object":"Machine","path":"no"}]}]`)
	f.Fuzz(func(t *testing.T, body []byte, progress, owed, decisions string) {
		var forged runtimehooksv1.UpdateMachineRequest
		if json.Unmarshal(body, &forged) != nil {
			return
		}
		m, set := machine("a", "new", to), machineSet("old", from)
		m.Annotations[v1alpha1.UpdateProgressAnnotation], m.Annotations[v1alpha1.UpdateOwedAnnotation] = progress, owed
		set.Annotations = map[string]string{v1alpha1.UpdateDecisionsAnnotation: decisions}
		w := newWorld(t, external(nil), deployment(), set, machineSet("new", to), m)
		s := w.updater("kubelet", 0, versionPatch)
		w.node("a", from)
		w.putObject(infrastructure.Raw, "x")
		forged.Desired.Machine.Namespace, forged.Desired.Machine.Name = namespace, "a"
		_, _ = w.engine.UpdateMachine(t.Context(), &forged)
		for range 3 {
			_, _ = w.update("a")
		}
		objects := runtimehooksv1.CanUpdateMachineRequestObjects(forged.Desired)
		_, _ = w.engine.CanUpdateMachine(t.Context(), &runtimehooksv1.CanUpdateMachineRequest{Current: objects, Desired: objects})
		templates := runtimehooksv1.CanUpdateMachineSetRequestObjects{
			MachineSet: *machineSet("old", from), InfrastructureMachineTemplate: forged.Desired.InfrastructureMachine, BootstrapConfigTemplate: forged.Desired.BootstrapConfig,
		}
		_, _ = w.engine.CanUpdateMachineSet(t.Context(), &runtimehooksv1.CanUpdateMachineSetRequest{Current: templates, Desired: templates})
		_ = w.engine.SweepMachines(t.Context())
		for _, told := range s.told {
			if len(told.InfrastructureMachine.Raw) > 0 && !jsonHas(told.InfrastructureMachine.Raw, "x:////a") || len(told.BootstrapConfig.Raw) > 0 {
				t.Errorf("the updater is told %s and %s", told.InfrastructureMachine.Raw, told.BootstrapConfig.Raw)
			}
		}
	})
}

// jsonHas reports whether an infrastructure machine has a providerID.
func jsonHas(raw []byte, providerID string) bool {
	var object struct {
		Spec struct {
			ProviderID string `json:"providerID"`
		} `json:"spec"`
	}
	return json.Unmarshal(raw, &object) == nil && object.Spec.ProviderID == providerID
}
