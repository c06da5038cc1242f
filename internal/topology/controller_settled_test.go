package topology

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/exp/topology/scope"

	"github.com/windlass-dev/windlass/pkg/version"
)

// read is what the controller reads of the Cluster.
func (w *world) read() (*scope.ClusterBlueprint, *scope.ClusterState) {
	w.t.Helper()
	run := &run{Reconciler: w.r, cluster: w.Cluster()}
	if err := run.read(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return run.blueprint, run.current
}

// TestFingerprint holds what a computation of desired objects is repeated for.
func TestFingerprint(t *testing.T) {
	w := newWorld(t).running("v1.31.0")
	versions := Versions{ControlPlane: "v1.31.0", MachineDeployments: map[string]Worker{"a": {Version: "v1.31.0"}}}
	hold, stamp := false, version.Version{}
	fingerprint := func() string {
		t.Helper()
		blueprint, current := w.read()
		got, err := fingerprintInputs(blueprint, current, versions, hold, stamp)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, tt := range []struct {
		name   string
		change func()
		same   bool
	}{
		{name: "nothing", change: func() {}, same: true},
		{name: "a status of the Cluster", change: func() { w.merge("Cluster", "c", "status: {phase: Provisioned}") }, same: true},
		{name: "a status of the control plane", change: func() { w.provision("v1.30.0") }, same: true},
		{name: "a status of a group", change: func() { w.merge("MachineDeployment", "a", "status: {replicas: 1}") }, same: true},
		{name: "the Cluster's spec", change: func() { w.merge("Cluster", "c", "spec: {topology: {controlPlane: {replicas: 3}}}") }},
		{name: "the Cluster's annotations", change: func() { w.merge("Cluster", "c", "metadata: {annotations: {a: b}}") }},
		{name: "the class", change: func() { w.merge("ClusterClass", "stable", "{metadata: {labels: {a: b}}}") }},
		{name: "a template of the class", change: func() { w.merge("DevMachineTemplate", "worker", "spec: {template: {spec: {size: large}}}") }},
		{name: "a template's labels", change: func() { w.merge("DevMachineTemplate", "control-plane", "metadata: {labels: {a: b}}") }},
		{name: "the control plane", change: func() { w.merge("KubeadmControlPlane", "", "spec: {replicas: 5}") }},
		{name: "a group", change: func() { w.merge("MachineDeployment", "b", "spec: {replicas: 5}") }},
		{name: "a group's annotations", change: func() { w.merge("MachineDeployment", "b", "metadata: {annotations: {a: b}}") }},
		{name: "the control plane's version", change: func() { versions.ControlPlane = "v1.32.0" }},
		{name: "a group that is held", change: func() { versions.MachineDeployments["a"] = Worker{Version: "v1.31.0", Hold: true} }},
		{name: "the control plane is held", change: func() { hold = true }},
		{name: "the stamp", change: func() { stamp = version.MustParse("v1.32.0") }},
	} {
		before := fingerprint()
		tt.change()
		if same := fingerprint() == before; same != tt.same {
			t.Errorf("after a change of %s the fingerprint is the same: %t, want %t", tt.name, same, tt.same)
		}
	}
}

// TestFingerprintOfRestoredSpecs holds for each object that its spec counts, not the generation
// alone: an etcd that is restored repeats a generation with another spec.
func TestFingerprintOfRestoredSpecs(t *testing.T) {
	w := newWorld(t).running("v1.31.0")
	blueprint, current := w.read()
	fingerprint := func() string {
		t.Helper()
		got, err := fingerprintInputs(blueprint, current, Versions{}, false, version.Version{})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	changed := map[string]int{}
	for _, object := range involved(blueprint, current) {
		if object.GetUID() == "" && object.GetName() == "" {
			continue
		}
		before := fingerprint()
		switch o := object.(type) {
		case *unstructured.Unstructured:
			if err := unstructured.SetNestedField(o.Object, "restored", "spec", "restored"); err != nil {
				t.Fatal(err)
			}
		case *clusterv1.Cluster:
			o.Spec.Topology.ControlPlane.Replicas = new(int32(7))
		case *clusterv1.ClusterClass:
			o.Spec.Patches = append(o.Spec.Patches, clusterv1.ClusterClassPatch{Name: "restored"})
		case *clusterv1.MachineDeployment:
			o.Spec.Replicas = new(int32(7))
		case *clusterv1.MachinePool:
			o.Spec.Replicas = new(int32(7))
		case *clusterv1.MachineHealthCheck:
			o.Spec.ClusterName = "restored"
		}
		if fingerprint() == before {
			t.Errorf("another spec of %T %s changes nothing", object, object.GetName())
		}
		changed[fmt.Sprintf("%T", object)]++
	}
	if len(changed) < 4 {
		t.Errorf("only %v were there", changed)
	}
}

// TestSettledClusterIsNotComputed checks that the computation is left out for a time, and never where extensions patch.
func TestSettledClusterIsNotComputed(t *testing.T) {
	w := newWorld(t).running("v1.31.0")
	if _, known := w.r.settled.Get(w.Key, w.now); !known {
		t.Fatal("a settled Cluster is not remembered")
	}
	// What is remembered of objects would not be asked for after this, but a computation would ask for each.
	w.r.objects.Forget(w.Key)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if writes := w.Take(); len(writes) > 0 {
		t.Errorf("a settled Cluster was computed again: %s", writes)
	}
	w.now = w.now.Add(settledFor)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if writes := w.Take(); len(writes) == 0 {
		t.Error("what was remembered does not end")
	}
	w.merge("ClusterClass", "stable", "{spec: {patches: [{name: outside, external: {generatePatchesExtension: patch.test}}]}, status: {observedGeneration: 2}}")
	for range 3 {
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	w.calls = nil
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if len(w.calls) != 1 {
		t.Errorf("an external patch was asked for %d times in one reconcile: %s", len(w.calls), w.calls)
	}
}

// TestForget checks that nothing is kept of a Cluster that is gone.
func TestForget(t *testing.T) {
	w := newWorld(t).running("v1.31.0")
	w.answers["BeforeClusterUpgrade"] = answer{retryAfter: time.Minute}
	w.merge("Cluster", "c", "spec: {topology: {version: v1.32.0}}")
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if len(w.r.answers.Of(w.Key)) == 0 {
		t.Fatal("a blocking answer is not kept")
	}
	w.merge("Cluster", "c", "metadata: {finalizers: null}")
	if err := w.Inner.Delete(t.Context(), w.object("Cluster", "c")); err != nil {
		t.Fatal(err)
	}
	if result, err := w.reconcile(); err != nil || result.RequeueAfter > 0 {
		t.Errorf("a Cluster that is gone: %v, %v", result, err)
	}
	if _, known := w.r.settled.Get(w.Key, w.now); known || len(w.r.answers.Of(w.Key)) > 0 {
		t.Error("something is kept of a Cluster that is gone")
	}
}

// TestUnmanagedCluster checks that a Cluster without a topology is left alone.
func TestUnmanagedCluster(t *testing.T) {
	w := newWorld(t)
	w.merge("Cluster", "c", "spec: {topology: null}")
	if result, err := w.reconcile(); err != nil || result.RequeueAfter > 0 || len(w.Take()) > 0 {
		t.Errorf("reconcile = %v, %v", result, err)
	}
}
