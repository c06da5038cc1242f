package topology_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/topology"
)

// enable turns feature gates on for this process: the tests of this package all run with them.
func enable(t *testing.T) {
	t.Helper()
	if err := feature.MutableGates.Set("RuntimeSDK=true,MachinePool=true"); err != nil {
		t.Fatal(err)
	}
}

// noWorkloadCluster is for upstream's generator, whose MachinePools have no Nodes here.
type noWorkloadCluster struct{ clustercache.ClusterCache }

// TestComputeDesiredIsUpstreams compares with upstream's generator, for a Cluster that is about to be created and for one in a steady state.
func TestComputeDesiredIsUpstreams(t *testing.T) {
	enable(t)
	for _, name := range []string{"full", "v1beta1", "bare"} {
		for _, steady := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s steady=%t", name, steady), func(t *testing.T) {
				w := newWorld(t, fixture(name))
				if steady {
					w.settle()
					w.provision()
				}
				blueprint, current := w.read()
				before := toJSON(t, blueprint, current)
				ours, err := w.objects.ComputeDesired(t.Context(), blueprint, current, everywhere(current.Cluster, current.Cluster.Spec.Topology.Version))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, toJSON(t, blueprint, current)); diff != "" {
					t.Errorf("computing changed its input:\n%s", diff)
				}
				theirs := w.generate(blueprint, current)
				if !steady {
					unname(ours, theirs)
				}
				if diff := cmp.Diff(theirs, ours, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("desired objects differ (-upstream +ours):\n%s", diff)
				}
			})
		}
	}
}

// generate calls upstream's generator as its controller does.
func (w *world) generate(blueprint *scope.ClusterBlueprint, current *scope.ClusterState) *scope.ClusterState {
	w.t.Helper()
	generator, err := desiredstate.NewGenerator(w.Client, noWorkloadCluster{}, patcher{},
		cache.New[cache.HookEntry](w.t.Context(), cache.HookCacheDefaultTTL), cache.New[desiredstate.GenerateUpgradePlanCacheEntry](w.t.Context(), cache.HookCacheDefaultTTL))
	if err != nil {
		w.t.Fatal(err)
	}
	s := scope.New(current.Cluster)
	s.Blueprint, s.Current = blueprint, current
	theirs, err := generator.Generate(w.t.Context(), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return theirs
}

// provision gives the control plane the status of one that runs at its version.
func (w *world) provision() {
	w.t.Helper()
	_, current := w.read()
	object := current.ControlPlane.Object
	version, _, _ := unstructured.NestedString(object.Object, "spec", "version")
	if err := unstructured.SetNestedField(object.Object, version, "status", "version"); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Inner.Update(w.t.Context(), object, client.FieldOwner("manager")); err != nil {
		w.t.Fatal(err)
	}
}

func toJSON(t *testing.T, values ...any) string {
	t.Helper()
	encoded, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// unname replaces the random ends of names.
func unname(states ...*scope.ClusterState) {
	random := regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}"`)
	for _, state := range states {
		var all []any
		all = append(all, state.Cluster, state.InfrastructureCluster, state.ControlPlane.Object, state.ControlPlane.InfrastructureMachineTemplate, state.ControlPlane.MachineHealthCheck)
		for _, md := range state.MachineDeployments {
			all = append(all, md.Object, md.BootstrapTemplate, md.InfrastructureMachineTemplate, md.MachineHealthCheck)
		}
		for _, mp := range state.MachinePools {
			all = append(all, mp.Object, mp.BootstrapObject, mp.InfrastructureMachinePoolObject)
		}
		for _, object := range all {
			encoded, err := json.Marshal(object)
			if err != nil || string(encoded) == "null" {
				continue
			}
			if err := json.Unmarshal(random.ReplaceAll(encoded, []byte(`-RANDOM"`)), object); err != nil {
				panic(err)
			}
		}
	}
}

// TestComputeDesiredAtDifferentVersions checks that patches see the version that each object is given.
func TestComputeDesiredAtDifferentVersions(t *testing.T) {
	enable(t)
	w := newWorld(t, fixture("full"))
	w.settle()
	w.setTopologyVersion("v1.32.0")
	blueprint, current := w.read()
	versions := topology.Versions{
		ControlPlane: "v1.31.5",
		MachineDeployments: map[string]topology.Worker{
			"a": {Version: "v1.30.7"}, "b": {Version: "v1.31.0", Hold: true},
		},
		MachinePools: map[string]topology.Worker{"p": {Version: "v1.29.3"}},
	}
	desired, err := w.objects.ComputeDesired(t.Context(), blueprint, current, versions)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{
		"control plane":         field(desired.ControlPlane.Object, "spec", "version"),
		"control plane patch":   desired.ControlPlane.Object.GetAnnotations()["seen"],
		"control plane image":   field(desired.ControlPlane.InfrastructureMachineTemplate, "spec", "template", "spec", "image"),
		"control plane webhook": field(desired.ControlPlane.InfrastructureMachineTemplate, "spec", "template", "spec", "external"),
		"a":                     desired.MachineDeployments["a"].Object.Spec.Template.Spec.Version,
		"a image":               field(desired.MachineDeployments["a"].InfrastructureMachineTemplate, "spec", "template", "spec", "image"),
		"a webhook":             field(desired.MachineDeployments["a"].InfrastructureMachineTemplate, "spec", "template", "spec", "external"),
		"a bootstrap":           field(desired.MachineDeployments["a"].BootstrapTemplate, "spec", "template", "spec", "topology"),
		"b image":               field(desired.MachineDeployments["b"].InfrastructureMachineTemplate, "spec", "template", "spec", "image"),
		"p":                     desired.MachinePools["p"].Object.Spec.Template.Spec.Version,
		"p image":               field(desired.MachinePools["p"].InfrastructureMachinePoolObject, "spec", "image"),
	}
	want := map[string]string{
		"control plane": "v1.31.5", "control plane patch": "v1.32.0 v1.31.5", "control plane image": "cp-v1.31.5-z1", "control plane webhook": "v1.31.5",
		"a": "v1.30.7", "a image": "md-v1.30.7-z1", "a webhook": "v1.30.7", "a bootstrap": "a of v1.32.0",
		"b image": "md-v1.31.0-z2", "p": "v1.29.3", "p image": "mp-v1.29.3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// TestComputeDesiredIgnoresTheUpgrade checks that a Cluster in the middle of an upgrade is not steered.
func TestComputeDesiredIgnoresTheUpgrade(t *testing.T) {
	enable(t)
	w := newWorld(t, fixture("full"))
	w.settle()
	w.setTopologyVersion("v1.32.0")
	cluster := w.Cluster()
	cluster.Annotations["runtime.cluster.x-k8s.io/pending-hooks"] = "AfterClusterUpgrade,AfterControlPlaneUpgrade"
	cluster.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation] = "v1.31.0"
	if err := w.Inner.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	w.Take()
	blueprint, current := w.read()
	versions := everywhere(cluster, "v1.31.0")
	desired, err := w.objects.ComputeDesired(t.Context(), blueprint, current, versions)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cluster.Annotations, desired.Cluster.Annotations); diff != "" {
		t.Errorf("annotations of the Cluster:\n%s", diff)
	}
	if requests := w.Take(); len(requests) > 0 {
		t.Errorf("computing wrote: %s", requests)
	}
	delete(versions.MachineDeployments, "b")
	if _, err := w.objects.ComputeDesired(t.Context(), blueprint, current, versions); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("a missing version: %v", err)
	}
}

func (w *world) setTopologyVersion(version string) {
	w.t.Helper()
	cluster := w.Cluster()
	cluster.Spec.Topology.Version = version
	if err := w.Inner.Update(w.t.Context(), cluster); err != nil {
		w.t.Fatal(err)
	}
}

func field(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}
