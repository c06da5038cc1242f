package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/topology"
)

// steady is a world whose Cluster exists and needs nothing.
func steady(t *testing.T, path string) *world {
	t.Helper()
	enable(t)
	w := newWorld(t, path)
	w.settle()
	w.events = nil
	return w
}

// again reconciles at the topology's version and expects exactly these writes.
func (w *world) again(want ...string) topology.Result {
	w.t.Helper()
	return w.at(everywhere(w.Cluster(), w.Cluster().Spec.Topology.Version), topology.ApplyOptions{}, want...)
}

func (w *world) at(versions topology.Versions, options topology.ApplyOptions, want ...string) topology.Result {
	w.t.Helper()
	result, err := w.reconcile(versions, options)
	if err != nil {
		w.t.Fatal(err)
	}
	got := w.Take()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("writes (-want +got):\n%s", diff)
	}
	return result
}

func (w *world) update(object client.Object, change func()) {
	w.t.Helper()
	if err := w.Inner.Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		w.t.Fatal(err)
	}
	change()
	if err := w.Inner.Update(w.t.Context(), object, client.FieldOwner("somebody")); err != nil {
		w.t.Fatal(err)
	}
}

func TestApplyCreates(t *testing.T) {
	enable(t)
	w := newWorld(t, fixture("full"))
	result, err := w.reconcile(everywhere(w.Cluster(), "v1.31.0"), topology.ApplyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"create *v1.Secret", "apply DevCluster", "apply MachineHealthCheck", "apply DevMachineTemplate", "apply KubeadmControlPlane", "patch Cluster",
		"apply DevMachineTemplate", "apply KubeadmConfigTemplate", "apply MachineDeployment", "apply MachineHealthCheck",
		"apply DevMachineTemplate", "apply KubeadmConfigTemplate", "apply MachineDeployment",
		"apply DevMachinePool", "apply KubeadmConfig", "apply MachinePool",
	}
	if diff := cmp.Diff(want, w.Take()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if len(result.Changes) != len(want)-1 || len(w.events) != len(want)-1 {
		t.Errorf("%d changes and %d Events for %d writes, of which one is the shim", len(result.Changes), len(w.events), len(want))
	}
	for _, change := range result.Changes {
		if change.ResourceVersion == "" || change.Key.Name == "" || change.Kind.Kind == "" {
			t.Errorf("incomplete change %+v", change)
		}
	}

	_, current := w.read()
	shim := &corev1.Secret{}
	if err := w.Inner.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "c-shim"}, shim); err != nil {
		t.Fatal(err)
	}
	for _, object := range []*unstructured.Unstructured{current.InfrastructureCluster, current.ControlPlane.Object} {
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != shim.UID {
			t.Errorf("%s is owned by %v, not by the shim", object.GetKind(), owners)
		}
	}
	if _, found, _ := unstructured.NestedMap(current.InfrastructureCluster.Object, "spec", "controlPlaneEndpoint"); found {
		t.Error("the empty endpoint was applied")
	}
	if got := current.Cluster.Labels; got[clusterv1.ClusterNameLabel] != "c" {
		t.Errorf("labels of the Cluster: %v", got)
	}

	// The Cluster's controller becomes the owner: the shim goes.
	w.again()
	w.Adopt()
	w.again("delete *v1.Secret", "dry-run DevCluster", "dry-run DevCluster", "dry-run KubeadmControlPlane", "dry-run KubeadmControlPlane")
	w.again()
}

// TestApplyWritesOnlyChanges is the point of the memory.
func TestApplyWritesOnlyChanges(t *testing.T) {
	w := steady(t, fixture("full"))
	w.again()

	_, current := w.read()
	object := current.ControlPlane.Object
	w.update(object, func() {
		_ = unstructured.SetNestedField(object.Object, "v1.31.0", "status", "version")
		object.SetFinalizers([]string{"somebody.example/finalizer"})
		labels := object.GetLabels()
		labels["somebody.example/label"] = "x"
		object.SetLabels(labels)
	})
	md := current.MachineDeployments["a"].Object
	w.update(md, func() {
		md.Status.Phase = "Running"
		md.Annotations["machinedeployment.clusters.x-k8s.io/revision"] = "1"
	})
	w.again()

	// Somebody else's change of a field of ours is undone, and nothing else is asked about.
	w.update(md, func() { md.Spec.Template.Spec.FailureDomain = "wrong" })
	w.again("dry-run MachineDeployment", "dry-run MachineDeployment", "apply MachineDeployment")
	w.update(object, func() { labels := object.GetLabels(); labels["from-class"] = "wrong"; object.SetLabels(labels) })
	w.again("dry-run KubeadmControlPlane", "dry-run KubeadmControlPlane", "apply KubeadmControlPlane")
	w.again()

	// After a restart, and after a time, each object is asked about once.
	for _, forget := range []func(){w.restart, func() { w.now = w.now.Add(30 * time.Minute) }, func() { w.objects.Forget(w.Key) }} {
		forget()
		if _, err := w.reconcile(everywhere(current.Cluster, "v1.31.0"), topology.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		asked := w.Take()
		if len(asked) != 2*14 || slices.ContainsFunc(asked, func(request string) bool { return !strings.HasPrefix(request, "dry-run ") }) {
			t.Errorf("%d requests: %s", len(asked), asked)
		}
		w.again()
	}
}

func TestApplyVersions(t *testing.T) {
	w := steady(t, fixture("full"))
	w.setTopologyVersion("v1.32.0")
	old := everywhere(w.Cluster(), "v1.31.0")
	_, before := w.read()

	// What is held is left alone, although patches change with the topology's version; its MachineHealthCheck is not.
	held := old
	held.MachineDeployments = map[string]topology.Worker{"a": {Version: "v1.31.0", Hold: true}, "b": {Version: "v1.31.0", Hold: true}}
	held.MachinePools = map[string]topology.Worker{"p": {Version: "v1.31.0", Hold: true}}
	hold := topology.ApplyOptions{HoldControlPlane: true}
	w.at(held, hold)
	check := before.MachineDeployments["a"].MachineHealthCheck
	w.update(check, func() { check.Spec.Checks.UnhealthyNodeConditions[0].Status = "False" })
	w.at(held, hold, "dry-run MachineHealthCheck", "dry-run MachineHealthCheck", "apply MachineHealthCheck")
	w.events = nil

	// The control plane, with a mark in the same request, and its rotated template.
	held.ControlPlane = "v1.31.5"
	stamped := topology.ApplyOptions{ControlPlaneAnnotations: map[string]string{"windlass.dev/upgrade-step": "v1.31.5"}}
	result := w.at(held, stamped, "dry-run DevMachineTemplate", "dry-run DevMachineTemplate", "apply DevMachineTemplate", "apply KubeadmControlPlane", "delete DevMachineTemplate")
	if got := result.Changes[1]; got.Kind.Kind != "KubeadmControlPlane" || got.Verb != topology.Updated || got.ResourceVersion == "" {
		t.Errorf("change %+v", got)
	}
	if !slices.ContainsFunc(w.events, func(event string) bool {
		return strings.HasPrefix(event, "TopologyUpdate Updated KubeadmControlPlane") && strings.HasSuffix(event, "with version change from v1.31.0 to v1.31.5")
	}) {
		t.Errorf("Events: %q", w.events)
	}
	_, after := w.read()
	if got := after.ControlPlane.Object.GetAnnotations()["windlass.dev/upgrade-step"]; got != "v1.31.5" {
		t.Errorf("stamp %q", got)
	}
	was, is := before.ControlPlane.InfrastructureMachineTemplate, after.ControlPlane.InfrastructureMachineTemplate
	if was.GetName() == is.GetName() || !strings.HasPrefix(is.GetName(), "c-") || field(is, "spec", "template", "spec", "image") != "cp-v1.31.5-z1" {
		t.Errorf("template %s became %s with image %s", was.GetName(), is.GetName(), field(is, "spec", "template", "spec", "image"))
	}
	w.at(held, stamped)

	// One group.
	held.MachineDeployments["b"] = topology.Worker{Version: "v1.31.5"}
	w.at(held, stamped, "dry-run DevMachineTemplate", "dry-run DevMachineTemplate",
		"dry-run KubeadmConfigTemplate", "dry-run KubeadmConfigTemplate", "apply DevMachineTemplate", "apply KubeadmConfigTemplate", "apply MachineDeployment")
	_, after = w.read()
	if md := after.MachineDeployments["b"]; md.Object.Spec.Template.Spec.Version != "v1.31.5" || field(md.InfrastructureMachineTemplate, "spec", "template", "spec", "image") != "md-v1.31.5-z2" {
		t.Errorf("MachineDeployment at %s", md.Object.Spec.Template.Spec.Version)
	}
	if after.MachineDeployments["a"].Object.ResourceVersion == "" || after.MachineDeployments["a"].Object.Spec.Template.Spec.Version != "v1.31.0" {
		t.Error("the held MachineDeployment moved")
	}
	// A pool changes in place.
	held.MachinePools["p"] = topology.Worker{Version: "v1.31.5"}
	w.events = nil
	w.at(held, stamped, "apply DevMachinePool", "apply MachinePool")
	w.checkPoolEvent("brings the machines to v1.31.5")
	// So does its template alone.
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "DevMachinePoolTemplate",
	})
	template.SetNamespace("default")
	template.SetName("full-pool")
	w.update(template, func() {
		size := []string{"spec", "template", "spec", "template", "size"}
		if err := unstructured.SetNestedField(template.Object, "xl", size...); err != nil {
			t.Fatal(err)
		}
	})
	w.at(held, stamped, "apply DevMachinePool")
	w.checkPoolEvent("decides what the change of the template does to the machines")
	w.at(held, stamped)
	if len(w.events) != 0 {
		t.Errorf("a reconciliation without a change has the Events %q", w.events)
	}
	// A mark that is no longer given goes.
	w.at(held, topology.ApplyOptions{}, "apply KubeadmControlPlane")
	// A mark on the infrastructure cluster is kept while the control plane is held, and goes in the same way.
	marked := topology.ApplyOptions{HoldControlPlane: true, InfrastructureAnnotations: map[string]string{"windlass.dev/mark": "us"}}
	w.at(held, marked, "apply DevCluster")
	w.at(held, marked)
	if _, after = w.read(); after.InfrastructureCluster.GetAnnotations()["windlass.dev/mark"] != "us" {
		t.Error("the infrastructure cluster has no mark")
	}
	w.at(held, hold, "apply DevCluster")
	if _, after = w.read(); after.ControlPlane.Object.GetAnnotations()["windlass.dev/upgrade-step"] != "" {
		t.Error("the stamp stayed")
	}
}

func TestApplyTemplateMetadata(t *testing.T) {
	w := steady(t, fixture("v1beta1"))
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "OldMachineTemplate"})
	template.SetNamespace("default")
	template.SetName("old")
	_, before := w.read()
	w.update(template, func() { template.SetLabels(map[string]string{"new": "label"}) })
	w.again("apply OldMachineTemplate", "apply OldMachineTemplate")
	_, after := w.read()
	if was, is := before.ControlPlane.InfrastructureMachineTemplate, after.ControlPlane.InfrastructureMachineTemplate; was.GetUID() != is.GetUID() || is.GetLabels()["new"] != "label" {
		t.Error("the template was not changed in place")
	}
	w.again()

	// A control plane of the old contract refers to its template by another path.
	w.update(template, func() { _ = unstructured.SetNestedField(template.Object, "xl", "spec", "template", "spec", "size") })
	w.again("dry-run OldMachineTemplate", "dry-run OldMachineTemplate", "apply OldMachineTemplate", "apply OldControlPlane", "delete OldMachineTemplate",
		"dry-run OldMachineTemplate", "dry-run OldMachineTemplate", "apply OldMachineTemplate", "apply MachineDeployment")
	_, after = w.read()
	ref, _, _ := unstructured.NestedStringMap(after.ControlPlane.Object.Object, "spec", "machineTemplate", "infrastructureRef")
	if ref["name"] != after.ControlPlane.InfrastructureMachineTemplate.GetName() || ref["apiVersion"] != "infrastructure.cluster.x-k8s.io/v1beta1" {
		t.Errorf("reference %v", ref)
	}
	w.again()
}

// TestApplyGroups adds, holds and removes groups.
func TestApplyGroups(t *testing.T) {
	w := steady(t, fixture("full"))
	cluster := w.Cluster()
	added := *cluster.Spec.Topology.Workers.MachineDeployments[1].DeepCopy()
	added.Name = "z"
	cluster.Spec.Topology.Workers.MachineDeployments = append(cluster.Spec.Topology.Workers.MachineDeployments[1:], added)
	cluster.Spec.Topology.Workers.MachinePools = nil
	if err := w.Inner.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	versions := everywhere(cluster, "v1.31.0")
	versions.MachineDeployments["z"] = topology.Worker{Version: "v1.31.0", Hold: true}
	w.at(versions, topology.ApplyOptions{}, "delete MachineHealthCheck", "delete MachineDeployment", "delete MachinePool")
	w.at(versions, topology.ApplyOptions{})

	// The cache may not show a group that exists.
	blueprint, stale := w.read()
	desired, err := w.objects.ComputeDesired(t.Context(), blueprint, stale, everywhere(cluster, "v1.31.0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"apply DevMachineTemplate apply KubeadmConfigTemplate apply MachineDeployment", ""} {
		if _, err := w.objects.Apply(t.Context(), blueprint, stale, desired, everywhere(cluster, "v1.31.0"), topology.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(w.Take(), " "); got != want {
			t.Errorf("writes %q, want %q", got, want)
		}
	}
	w.again()
}

// TestApplyHealthCheck turns a MachineHealthCheck on and off.
func TestApplyHealthCheck(t *testing.T) {
	w := steady(t, fixture("full"))
	for _, step := range []struct {
		enabled bool
		write   string
	}{{true, "apply MachineHealthCheck"}, {false, "delete MachineHealthCheck"}} {
		cluster := w.Cluster()
		cluster.Spec.Topology.Workers.MachineDeployments[1].HealthCheck.Enabled = new(step.enabled)
		if err := w.Inner.Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		w.again(step.write)
		w.again()
	}
}

var errLost = errors.New("dial tcp 10.0.0.1:43210: connection lost")

func invalid(kind string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, "c-md-a-"+fmt.Sprint(time.Now().UnixNano()), nil)
}

// TestApplyAfterFailures fails one write after another in a rotation and expects the same end, with at most the objects that it needs.
func TestApplyAfterFailures(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for _, rejects := range []bool{false, true} {
			if lost && rejects {
				continue
			}
			for failing := range 7 {
				t.Run(fmt.Sprintf("lost=%t rejects=%t write=%d", lost, rejects, failing), func(t *testing.T) {
					w := steady(t, fixture("full"))
					w.setTopologyVersion("v1.32.0")
					writes := 0
					w.Fail = func(verb, kind string) (error, bool) {
						if verb == "dry-run" {
							return nil, false
						}
						writes++
						switch {
						case writes != failing+1:
							return nil, false
						case rejects:
							return invalid(kind), false
						}
						return errLost, lost
					}
					_, err := w.reconcile(everywhere(w.Cluster(), "v1.32.0"), topology.ApplyOptions{})
					if err == nil && writes > failing {
						t.Error("the failure was swallowed")
					}
					w.Fail = nil
					w.restart()
					if _, err := w.reconcile(everywhere(w.Cluster(), "v1.32.0"), topology.ApplyOptions{}); err != nil {
						t.Fatal(err)
					}
					w.Take()
					w.again()
					_, current := w.read()
					for name, md := range current.MachineDeployments {
						if field(md.InfrastructureMachineTemplate, "spec", "template", "spec", "external") != "v1.32.0" || md.Object.Spec.Template.Spec.Version != "v1.32.0" {
							t.Errorf("MachineDeployment %s is not at v1.32.0", name)
						}
					}
					// Besides the class's two and the current three there are those that were replaced in MachineDeployments: their MachineSets need them. The
					// control plane's may be left over when its deletion failed.
					if got := w.count("DevMachineTemplate"); got < 7 || got > 8 {
						t.Errorf("%d machine templates", got)
					}
				})
			}
		}
	}
}

// TestApplyKeepsTemplatesInUse rotates templates, loses the answer to the write that refers to them, and tries again with a cache that shows nothing
// of it, but now something is rejected: what the first attempt has put to use must stay.
func TestApplyKeepsTemplatesInUse(t *testing.T) {
	for _, owner := range []string{"KubeadmControlPlane", "MachineDeployment"} {
		for _, rejected := range []string{"KubeadmConfigTemplate", owner} {
			t.Run(owner+" then "+rejected, func(t *testing.T) {
				w := steady(t, fixture("full"))
				w.setTopologyVersion("v1.32.0")
				// A group that has another version since it was read is not written. Patches see the topology's.
				versions := everywhere(w.Cluster(), "v1.31.0")
				blueprint, stale := w.read()
				desired, err := w.objects.ComputeDesired(t.Context(), blueprint, stale, versions)
				if err != nil {
					t.Fatal(err)
				}
				// Two stale attempts at the control plane end with its old template, which the first one has deleted.
				options := topology.ApplyOptions{HoldControlPlane: owner == "MachineDeployment"}
				fail := func(failing string, result error, lost bool) {
					w.Fail = func(verb, kind string) (error, bool) {
						if verb == "apply" && kind == failing {
							return result, lost
						}
						return nil, false
					}
					if _, err := w.objects.Apply(t.Context(), blueprint, stale, desired, versions, options); !errors.Is(err, result) {
						t.Fatalf("%v instead of %v", err, result)
					}
					w.Fail = nil
				}
				fail(owner, errLost, true)
				fail(rejected, invalid(rejected), false)
				// It fails where a template is missing that is referred to.
				w.read()
				if _, err := w.reconcile(versions, topology.ApplyOptions{}); err != nil {
					t.Fatal(err)
				}
				w.Take()
				w.at(versions, topology.ApplyOptions{})
			})
		}
	}
}

func (w *world) count(kind string) int {
	w.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: kind + "List"})
	if err := w.Inner.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	return len(list.Items)
}

// TestCreateErrorsAreStable checks that an error, which becomes a condition, is the same at each attempt.
func TestCreateErrorsAreStable(t *testing.T) {
	enable(t)
	for _, kind := range []string{"DevCluster", "KubeadmControlPlane", "MachineDeployment", "MachinePool"} {
		var messages []string
		w := newWorld(t, fixture("full"))
		attempts := 0
		w.Fail = func(verb, failing string) (error, bool) {
			if failing != kind || verb != "apply" {
				return nil, false
			}
			attempts++
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, w.LastName, errors.New("name "+w.LastName+" is not liked")), false
		}
		for range 2 {
			_, err := w.reconcile(everywhere(w.Cluster(), "v1.31.0"), topology.ApplyOptions{})
			var create *topology.CreateError
			if !errors.As(err, &create) || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "is not liked") {
				t.Fatalf("%s: %v", kind, err)
			}
			messages = append(messages, err.Error())
		}
		if messages[0] != messages[1] || attempts < 2 {
			t.Errorf("%s: two messages:\n%s\n%s", kind, messages[0], messages[1])
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	w := steady(t, fixture("full"))
	blueprint, current := w.read()
	versions := everywhere(current.Cluster, "v1.31.0")
	desired, err := w.objects.ComputeDesired(t.Context(), blueprint, current, versions)
	if err != nil {
		t.Fatal(err)
	}
	desired.InfrastructureCluster.SetKind("OtherCluster")
	var incompatible *topology.IncompatibleError
	if _, err := w.objects.Apply(t.Context(), blueprint, current, desired, versions, topology.ApplyOptions{}); !errors.As(err, &incompatible) {
		t.Errorf("another kind of infrastructure: %v", err)
	}

	// A cache that does not show the references yet would make a second control plane.
	cluster := current.Cluster.DeepCopy()
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	stale, err := w.objects.ReadCurrent(t.Context(), cluster, blueprint)
	if err != nil {
		t.Fatal(err)
	}
	if desired, err = w.objects.ComputeDesired(t.Context(), blueprint, stale, versions); err != nil {
		t.Fatal(err)
	}
	if _, err := w.objects.Apply(t.Context(), blueprint, stale, desired, versions, topology.ApplyOptions{}); err == nil || len(w.Take()) > 0 {
		t.Errorf("a stale Cluster: %v", err)
	}

	// Objects of somebody else are not taken over.
	infrastructure := current.InfrastructureCluster
	w.update(infrastructure, func() { infrastructure.SetLabels(nil) })
	if _, err := w.objects.ReadCurrent(t.Context(), current.Cluster, blueprint); err == nil || !strings.Contains(err.Error(), clusterv1.ClusterTopologyOwnedLabel) {
		t.Errorf("infrastructure without the label: %v", err)
	}
}
