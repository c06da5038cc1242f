package topology_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/topology"
	"github.com/windlass-dev/windlass/test/fakeapi"
)

// world is an API server with the objects of one file in it, and what is tested.
type world struct {
	*fakeapi.API
	t       *testing.T
	objects *topology.Objects
	now     time.Time
	events  []string
}

// Eventf keeps Events on the Cluster as "REASON NOTE", those on other objects with the name before.
func (w *world) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	event := reason + " " + fmt.Sprintf(note, args...)
	if mp, ok := regarding.(*clusterv1.MachinePool); ok {
		event = "MachinePool " + mp.Name + ": " + event
	}
	w.events = append(w.events, event)
}

func newWorld(t *testing.T, path string) *world {
	t.Helper()
	w := &world{API: fakeapi.New(t, path), t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	w.restart()
	return w
}

// restart forgets everything that a process remembers.
func (w *world) restart() {
	w.t.Helper()
	objects, err := topology.New(topology.ObjectOptions{
		Client: w.Client, APIReader: w.Client, Runtime: patcher{}, Recorder: w, Now: func() time.Time { return w.now },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.objects = objects
}

// read reads what a reconciliation reads.
func (w *world) read() (*scope.ClusterBlueprint, *scope.ClusterState) {
	w.t.Helper()
	cluster, class := w.Cluster(), &clusterv1.ClusterClass{}
	if err := w.Inner.Get(w.t.Context(), cluster.GetClassKey(), class); err != nil {
		w.t.Fatal(err)
	}
	blueprint, err := w.objects.ReadBlueprint(w.t.Context(), cluster, class)
	if err != nil {
		w.t.Fatal(err)
	}
	current, err := w.objects.ReadCurrent(w.t.Context(), cluster, blueprint)
	if err != nil {
		w.t.Fatal(err)
	}
	return blueprint, current
}

// everywhere is one version for all objects.
func everywhere(cluster *clusterv1.Cluster, version string) topology.Versions {
	versions := topology.Versions{ControlPlane: version, MachineDeployments: map[string]topology.Worker{}, MachinePools: map[string]topology.Worker{}}
	for _, group := range cluster.Spec.Topology.Workers.MachineDeployments {
		versions.MachineDeployments[group.Name] = topology.Worker{Version: version}
	}
	for _, group := range cluster.Spec.Topology.Workers.MachinePools {
		versions.MachinePools[group.Name] = topology.Worker{Version: version}
	}
	return versions
}

// reconcile reads, computes and applies once.
func (w *world) reconcile(versions topology.Versions, options topology.ApplyOptions) (topology.Result, error) {
	w.t.Helper()
	blueprint, current := w.read()
	desired, err := w.objects.ComputeDesired(w.t.Context(), blueprint, current, versions)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.objects.Apply(w.t.Context(), blueprint, current, desired, versions, options)
}

// settle reconciles at the topology's version, until nothing is written.
func (w *world) settle() {
	w.t.Helper()
	var last []string
	for range 5 {
		if _, err := w.reconcile(everywhere(w.Cluster(), w.Cluster().Spec.Topology.Version), topology.ApplyOptions{}); err != nil {
			w.t.Fatal(err)
		}
		if last = w.Take(); len(last) == 0 {
			return
		}
		w.Adopt()
	}
	w.t.Fatalf("there is always something to write: %s", last)
}

// patcher is an extension of an external patch: it puts the versions that it was told into infrastructure templates.
type patcher struct{ runtimeclient.Client }

func (patcher) CallExtension(_ context.Context, _ runtimecatalog.Hook, _ client.Object, _ string, request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject, _ ...runtimeclient.CallExtensionOption) error {
	generate, ok := request.(*runtimehooksv1.GeneratePatchesRequest)
	if !ok {
		return fmt.Errorf("unexpected %T", request)
	}
	for _, item := range generate.Items {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(item.Object.Raw, object); err != nil {
			return err
		}
		if object.GetKind() != "DevMachineTemplate" {
			continue
		}
		builtin := runtimehooksv1.Builtins{}
		for _, variable := range item.Variables {
			if variable.Name == "builtin" {
				if err := json.Unmarshal(variable.Value.Raw, &builtin); err != nil {
					return err
				}
			}
		}
		version := ""
		if builtin.ControlPlane != nil {
			version = builtin.ControlPlane.Version
		}
		if builtin.MachineDeployment != nil {
			version = builtin.MachineDeployment.Version
		}
		answer, ok := response.(*runtimehooksv1.GeneratePatchesResponse)
		if !ok {
			return fmt.Errorf("unexpected %T", response)
		}
		answer.Items = append(answer.Items, runtimehooksv1.GeneratePatchesResponseItem{
			UID: item.UID, PatchType: runtimehooksv1.JSONPatchType,
			Patch: fmt.Appendf(nil, `[{"op":"add","path":"/spec/template/spec/external","value":%q}]`, version),
		})
	}
	return nil
}

func fixture(name string) string { return filepath.Join("testdata", name+".yaml") }

// checkPoolEvent checks that the only Event on the MachinePool since the last check says that its
// machines are not updated in place, and what the provider does.
func (w *world) checkPoolEvent(provider string) {
	w.t.Helper()
	told := slices.DeleteFunc(w.events, func(event string) bool {
		return !strings.HasPrefix(event, "MachinePool ")
	})
	_, now := w.read()
	want := []string{fmt.Sprintf("MachinePool %s: NotUpdatedInPlace The infrastructure provider %s. "+
		"UpdatePolicies select no MachinePools: Windlass updates none of these machines in place",
		now.MachinePools["p"].Object.Name, provider)}
	if diff := cmp.Diff(want, told); diff != "" {
		w.t.Errorf("Events on the MachinePool (-want +got):\n%s", diff)
	}
	w.events = nil
}
