package porttest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing" //nolint:depguard // A suite of contract tests is imported by tests only.

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/port"
)

// UpdaterWorld is what RunUpdaterSuite needs of an implementation of port.Updater: an updater that covers a change of the
// Kubernetes version, and a machine at UpdaterFrom that takes its time to update.
type UpdaterWorld struct {
	Updater port.Updater
	Machine types.NamespacedName
	// Advance makes all updates that have started come to their end. They take time: before it, none has ended.
	Advance func()
	// Works counts how often a machine was really changed.
	Works func() int
}

// The versions of the suite's machine: the one it has, and those it is updated to.
const (
	UpdaterFrom = "v1.31.4"
	UpdaterTo   = "v1.32.1"
	UpdaterNext = "v1.33.0"
)

// UpdaterCluster is the name of the machine's cluster.
const UpdaterCluster = "cluster"

// maxAnswers is how often an update that was advanced may have to be asked for until it ends.
const maxAnswers = 3

// RunUpdaterSuite tests that an implementation keeps the contract of port.Updater. Each test has a world of its own.
func RunUpdaterSuite(t *testing.T, newWorld func(t *testing.T) UpdaterWorld) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, UpdaterWorld){
		"it can be asked":                          testUpdaterCheck,
		"a machine's version is covered":           testUpdaterCoversMachine,
		"a machine set's version is covered":       testUpdaterCoversMachineSet,
		"nothing to do gives no patch":             testUpdaterNothing,
		"a request is left as it was":              testUpdaterLeavesRequests,
		"an update ends once":                      testUpdaterUpdates,
		"many ask at once":                         testUpdaterConcurrently,
		"a second update follows the first":        testUpdaterTwice,
		"a machine that nobody knows":              testUpdaterUnknownMachine,
		"requests without anything in them":        testUpdaterEmptyRequests,
		"a caller that does not wait is not told":  testUpdaterCancelled,
		"an answer in progress says when to retry": testUpdaterRetryAfter,
	} {
		t.Run(name, func(t *testing.T) { test(t, newWorld(t)) })
	}
}

// CanUpdateMachine is a request about a change of version.
func CanUpdateMachine(machine types.NamespacedName, from, to string) *runtimehooksv1.CanUpdateMachineRequest {
	objects := func(version string) runtimehooksv1.CanUpdateMachineRequestObjects {
		return runtimehooksv1.CanUpdateMachineRequestObjects{
			Machine:               *updaterMachine(machine, version),
			InfrastructureMachine: updaterObject("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachine", machine, map[string]any{"image": "base"}),
			BootstrapConfig:       updaterObject("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig", machine, map[string]any{"format": "cloud-config"}),
		}
	}
	return &runtimehooksv1.CanUpdateMachineRequest{Current: objects(from), Desired: objects(to)}
}

// CanUpdateMachineSet is a request about a change of version.
func CanUpdateMachineSet(machineSet types.NamespacedName, from, to string) *runtimehooksv1.CanUpdateMachineSetRequest {
	objects := func(version string) runtimehooksv1.CanUpdateMachineSetRequestObjects {
		set := clusterv1.MachineSet{}
		set.APIVersion, set.Kind = clusterv1.GroupVersion.String(), "MachineSet"
		set.Namespace, set.Name, set.Spec.ClusterName = machineSet.Namespace, machineSet.Name, UpdaterCluster
		set.Spec.Template.Spec = updaterMachine(machineSet, version).Spec
		template := func(spec map[string]any) map[string]any {
			return map[string]any{"template": map[string]any{"spec": spec}}
		}
		return runtimehooksv1.CanUpdateMachineSetRequestObjects{
			MachineSet: set,
			InfrastructureMachineTemplate: updaterObject("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachineTemplate", machineSet,
				template(map[string]any{"image": "base"})),
			BootstrapConfigTemplate: updaterObject("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", machineSet,
				template(map[string]any{"format": "cloud-config"})),
		}
	}
	return &runtimehooksv1.CanUpdateMachineSetRequest{Current: objects(from), Desired: objects(to)}
}

// UpdateMachine is a request to update a machine.
func UpdateMachine(machine types.NamespacedName, to, operation string) *runtimehooksv1.UpdateMachineRequest {
	request := &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{
		Machine:               *updaterMachine(machine, to),
		InfrastructureMachine: updaterObject("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachine", machine, map[string]any{"image": "base"}),
		BootstrapConfig:       updaterObject("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig", machine, map[string]any{"format": "cloud-config"}),
	}}
	request.Desired.Machine.Annotations = map[string]string{v1alpha1.OperationIDAnnotation: operation}
	return request
}

func updaterMachine(name types.NamespacedName, version string) *clusterv1.Machine {
	machine := &clusterv1.Machine{}
	machine.APIVersion, machine.Kind = clusterv1.GroupVersion.String(), "Machine"
	machine.Namespace, machine.Name = name.Namespace, name.Name
	machine.Spec.ClusterName, machine.Spec.Version, machine.Spec.ProviderID = UpdaterCluster, version, "test:///"+name.Name
	return machine
}

func updaterObject(apiVersion, kind string, name types.NamespacedName, spec map[string]any) runtime.RawExtension {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "spec": spec}}
	object.SetNamespace(name.Namespace)
	object.SetName(name.Name)
	return runtime.RawExtension{Object: object}
}

func testUpdaterCheck(t *testing.T, w UpdaterWorld) {
	t.Helper()
	if err := w.Updater.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// coverage applies patches to what they are for.
func coverage(t *testing.T, scope cover.Scope, current, desired cover.Objects, patches cover.Patches) cover.Result {
	t.Helper()
	before, err := cover.New(scope, current, desired, nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := before.Apply(cover.Updater{Name: "it"}, patches)
	if err != nil {
		t.Errorf("the patches cannot be used: %v", err)
	}
	return after.Result()
}

func encodeObjects(t *testing.T, machine, infrastructure, bootstrap any) cover.Objects {
	t.Helper()
	var encoded [3]json.RawMessage
	for i, object := range []any{machine, infrastructure, bootstrap} {
		var err error
		if encoded[i], err = json.Marshal(object); err != nil {
			t.Fatal(err)
		}
	}
	return cover.Objects{Machine: encoded[0], Infrastructure: encoded[1], Bootstrap: encoded[2]}
}

func checkCovered(t *testing.T, got cover.Result) {
	t.Helper()
	if len(got.Plan) != 1 || !got.Plan[0].SetsVersion || len(got.Uncovered) > 0 {
		t.Errorf("coverage is %+v, want the version and nothing left", got)
	}
}

func testUpdaterCoversMachine(t *testing.T, w UpdaterWorld) {
	t.Helper()
	request := CanUpdateMachine(w.Machine, UpdaterFrom, UpdaterTo)
	patches, err := w.Updater.CanUpdateMachine(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	checkCovered(t, coverage(t, cover.Machine,
		encodeObjects(t, request.Current.Machine, request.Current.InfrastructureMachine, request.Current.BootstrapConfig),
		encodeObjects(t, request.Desired.Machine, request.Desired.InfrastructureMachine, request.Desired.BootstrapConfig), patches))
	if w.Works() != 0 {
		t.Error("a question changed the machine")
	}
}

func testUpdaterCoversMachineSet(t *testing.T, w UpdaterWorld) {
	t.Helper()
	request := CanUpdateMachineSet(types.NamespacedName{Namespace: w.Machine.Namespace, Name: "set"}, UpdaterFrom, UpdaterTo)
	patches, err := w.Updater.CanUpdateMachineSet(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	checkCovered(t, coverage(t, cover.MachineSet,
		encodeObjects(t, request.Current.MachineSet, request.Current.InfrastructureMachineTemplate, request.Current.BootstrapConfigTemplate),
		encodeObjects(t, request.Desired.MachineSet, request.Desired.InfrastructureMachineTemplate, request.Desired.BootstrapConfigTemplate), patches))
}

func testUpdaterNothing(t *testing.T, w UpdaterWorld) {
	t.Helper()
	request := CanUpdateMachine(w.Machine, UpdaterTo, UpdaterTo)
	patches, err := w.Updater.CanUpdateMachine(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	objects := encodeObjects(t, request.Current.Machine, request.Current.InfrastructureMachine, request.Current.BootstrapConfig)
	if got := coverage(t, cover.Machine, objects, objects, patches); len(got.Plan) > 0 {
		t.Errorf("it covers %+v of nothing", got.Plan)
	}
}

func testUpdaterLeavesRequests(t *testing.T, w UpdaterWorld) {
	t.Helper()
	encode := func(v any) string {
		content, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	can, canSet, update := CanUpdateMachine(w.Machine, UpdaterFrom, UpdaterTo), CanUpdateMachineSet(w.Machine, UpdaterFrom, UpdaterTo), UpdateMachine(w.Machine, UpdaterTo, "a")
	before := []string{encode(can), encode(canSet), encode(update)}
	if _, err := w.Updater.CanUpdateMachine(t.Context(), can); err != nil {
		t.Error(err)
	}
	if _, err := w.Updater.CanUpdateMachineSet(t.Context(), canSet); err != nil {
		t.Error(err)
	}
	w.Updater.UpdateMachine(t.Context(), update)
	if after := []string{encode(can), encode(canSet), encode(update)}; !slices.Equal(before, after) {
		t.Errorf("the requests were %s and are %s", before, after)
	}
}

// update asks for an update to its end.
func update(t *testing.T, w UpdaterWorld, to, operation string) inplace.Answer {
	t.Helper()
	request := UpdateMachine(w.Machine, to, operation)
	if got := w.Updater.UpdateMachine(t.Context(), request); got.Outcome != inplace.InProgress {
		t.Fatalf("the first answer is %+v, want in progress", got)
	}
	w.Advance()
	var got inplace.Answer
	for range maxAnswers {
		if got = w.Updater.UpdateMachine(t.Context(), request); got.Outcome != inplace.InProgress {
			break
		}
		w.Advance()
	}
	return got
}

func checkFinishes(t *testing.T, w UpdaterWorld, got inplace.Answer, works int) {
	t.Helper()
	if got.Outcome != inplace.Finishes || w.Works() != works {
		t.Errorf("the answer is %+v after %d changes of the machine, want the end and %d", got, w.Works(), works)
	}
}

func testUpdaterUpdates(t *testing.T, w UpdaterWorld) {
	t.Helper()
	checkFinishes(t, w, update(t, w, UpdaterTo, "a"), 1)
	// Asked again after the end, as after a restart of who asks.
	checkFinishes(t, w, w.Updater.UpdateMachine(t.Context(), UpdateMachine(w.Machine, UpdaterTo, "a")), 1)
}

func testUpdaterConcurrently(t *testing.T, w UpdaterWorld) {
	t.Helper()
	ask := func() {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if got := w.Updater.UpdateMachine(t.Context(), UpdateMachine(w.Machine, UpdaterTo, "a")); got.Outcome == inplace.Fails {
					t.Errorf("an answer is %+v", got)
				}
			})
		}
		group.Wait()
	}
	ask()
	w.Advance()
	ask()
	w.Advance()
	checkFinishes(t, w, w.Updater.UpdateMachine(t.Context(), UpdateMachine(w.Machine, UpdaterTo, "a")), 1)
}

func testUpdaterTwice(t *testing.T, w UpdaterWorld) {
	t.Helper()
	checkFinishes(t, w, update(t, w, UpdaterTo, "a"), 1)
	checkFinishes(t, w, update(t, w, UpdaterNext, "b"), 2)
}

func testUpdaterUnknownMachine(t *testing.T, w UpdaterWorld) {
	t.Helper()
	nobody := types.NamespacedName{Namespace: w.Machine.Namespace, Name: "nobody"}
	for range maxAnswers {
		if got := w.Updater.UpdateMachine(t.Context(), UpdateMachine(nobody, UpdaterTo, "a")); got.Outcome == inplace.Finishes {
			t.Fatalf("the answer is %+v", got)
		}
		w.Advance()
	}
	if w.Works() != 0 {
		t.Error("a machine was changed")
	}
}

func testUpdaterEmptyRequests(t *testing.T, w UpdaterWorld) {
	t.Helper()
	// Whether these are errors is the updater's matter; that it survives them is not.
	_, _ = w.Updater.CanUpdateMachine(t.Context(), &runtimehooksv1.CanUpdateMachineRequest{})
	_, _ = w.Updater.CanUpdateMachineSet(t.Context(), &runtimehooksv1.CanUpdateMachineSetRequest{})
	if got := w.Updater.UpdateMachine(t.Context(), &runtimehooksv1.UpdateMachineRequest{}); got.Outcome == inplace.Finishes || got.Outcome == inplace.InProgress {
		t.Errorf("the answer about no machine is %+v", got)
	}
}

func testUpdaterCancelled(t *testing.T, w UpdaterWorld) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := w.Updater.UpdateMachine(ctx, UpdateMachine(w.Machine, UpdaterTo, "a")); got.Outcome != inplace.Unknown || got.Message == "" {
		t.Errorf("the answer is %+v, want that it is unknown and why", got)
	}
	if patches, err := w.Updater.CanUpdateMachine(ctx, CanUpdateMachine(w.Machine, UpdaterFrom, UpdaterTo)); err == nil {
		t.Errorf("the patches are %+v", patches)
	}
	if err := w.Updater.Check(ctx); err == nil {
		t.Error("Check said nothing")
	}
}

func testUpdaterRetryAfter(t *testing.T, w UpdaterWorld) {
	t.Helper()
	if got := w.Updater.UpdateMachine(t.Context(), UpdateMachine(w.Machine, UpdaterTo, "a")); got.Outcome != inplace.InProgress || got.RetryAfter <= 0 {
		t.Errorf("the answer is %+v, want in progress and when to ask again", got)
	}
}
