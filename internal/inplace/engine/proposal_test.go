package engine

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// TestFinishedUpdaterLeavesThePlan holds what the Machine's plan names while each of two updaters is at
// work.
func TestFinishedUpdaterLeavesThePlan(t *testing.T) {
	t.Parallel()
	w, _, _ := halves(t, external(nil))
	if err := w.decideHalves(); err != nil {
		t.Fatal(err)
	}
	files, kubelet := w.updaters["files"], w.updaters["kubelet"]
	files.answers(inplace.InProgress, "writing files")
	kubelet.answers(inplace.InProgress, "replacing the kubelet")
	w.until("a", "writing files")
	if plan := w.machine("a").Annotations[v1alpha1.UpdatePlanAnnotation]; plan != `["files","kubelet"]` {
		t.Errorf("the plan is %s at first", plan)
	}
	files.answers(inplace.Finishes, "")
	w.now = w.now.Add(time.Minute)
	w.until("a", "replacing the kubelet")
	if plan := w.machine("a").Annotations[v1alpha1.UpdatePlanAnnotation]; plan != `["kubelet"]` {
		t.Errorf("the plan is %s after the end of the first updater", plan)
	}
}

// shownUpdater is an updater that keeps the question.
type shownUpdater struct {
	*scripted
	question *runtimehooksv1.CanUpdateMachineRequest
}

func (a *shownUpdater) CanUpdateMachine(
	_ context.Context, request *runtimehooksv1.CanUpdateMachineRequest,
) (cover.Patches, error) {
	a.question = request
	return cover.Patches{}, nil
}

// TestQuestionHasAllObjects holds that an updater is shown all objects of a machine, current and
// desired.
func TestQuestionHasAllObjects(t *testing.T) {
	t.Parallel()
	objects := func(side string) cover.Objects {
		return cover.Objects{
			Machine:        json.RawMessage(`{"metadata":{"name":"m"},"spec":{"failureDomain":"` + side + `"}}`),
			Infrastructure: json.RawMessage(`{"spec":{"image":"` + side + `"}}`),
			Bootstrap:      json.RawMessage(`{"spec":{"format":"` + side + `"}}`),
		}
	}
	updater := &shownUpdater{scripted: &scripted{}}
	_, err := CanUpdate(t.Context(), updater, cover.Machine, objects("current"), objects("desired"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for side, shown := range map[string]runtimehooksv1.CanUpdateMachineRequestObjects{
		"current": updater.question.Current, "desired": updater.question.Desired,
	} {
		want := objects(side)
		if shown.Machine.Name != "m" || shown.Machine.Spec.FailureDomain != side {
			t.Errorf("the %s Machine is %+v", side, shown.Machine)
		}
		infrastructure, bootstrap := string(shown.InfrastructureMachine.Raw), string(shown.BootstrapConfig.Raw)
		if infrastructure != string(want.Infrastructure) || bootstrap != string(want.Bootstrap) {
			t.Errorf("the %s infrastructure machine is %s, the bootstrap config %s", side, infrastructure, bootstrap)
		}
	}
}

// TestStrategyDecides holds that machines are replaced, though an updater covers the change, unless a
// policy has the strategy ExternalUpdate.
func TestStrategyDecides(t *testing.T) {
	t.Parallel()
	rolling := external(func(p *v1alpha1.UpdatePolicySpec) { p.Strategy, p.Fallback = v1alpha1.RollingUpdate, "" })
	elsewhere := external(func(p *v1alpha1.UpdatePolicySpec) {
		p.Targets = []v1alpha1.UpdateTarget{{ClusterName: "another"}}
	})
	for name, tt := range map[string]struct {
		policy  v1alpha1.UpdatePolicySpec
		inPlace bool
	}{
		"ExternalUpdate": {external(nil), true}, "RollingUpdate": {rolling, false}, "no policy": {elsewhere, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.policy, deployment(), machineSet("old", from))
			w.updater("kubelet", 0, versionPatch)
			answer, err := w.canUpdateSet(machineSet("old", from), machineSet("new", to))
			if inPlace := len(answer.Patches.Machine.Data) > 0; err != nil || inPlace != tt.inPlace {
				t.Errorf("in place: %v, want %v; the answer is %+v, error %v", inPlace, tt.inPlace, answer, err)
			}
		})
	}
}
