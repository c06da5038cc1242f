package bounds

import (
	"fmt"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

const (
	// resources is how many resources a ClusterResourceSet may have.
	resources = 100
	// pools is how many MachineDeployments the Cluster with a topology has. settingBytes is how long
	// the text is that a patch of its class writes into the templates of each.
	pools, settingBytes = 5, 10 << 10
)

// addForManager adds what the first tenant has of kinds that only the manager reads.
func (w *world) addForManager(t *testing.T) {
	t.Helper()
	w.addClass(t)
	for i := range many {
		w.plane.Create(t,
			w.set(name("ms-%d", i)), w.healthCheck(name("mhc-%d", i)), w.machinePool(name("mp-%d", i)))
	}
	w.plane.Create(t, w.resourceSet("crs"), w.binding("c"), w.drainRule(), w.claim())
	// A manager that cannot ask an extension when it starts ends.
	w.asked = wire.NewUpdater(t)
	w.plane.CreateForTest(t, w.extensionConfig())
	w.plane.Create(t, w.classy())
	// Those of topologies have a finalizer that controllers of their own remove.
	md, set := w.deployment("md-owned", false), w.set("ms-owned")
	for _, o := range []client.Object{md, set} {
		o.SetLabels(map[string]string{
			clusterv1.ClusterNameLabel: "classy", clusterv1.ClusterTopologyOwnedLabel: "",
			clusterv1.ClusterTopologyMachineDeploymentNameLabel: o.GetName(),
		})
	}
	md.Spec.ClusterName, set.Spec.ClusterName = "classy", "classy"
	w.plane.Create(t, md, set)
}

// addClass adds the ClusterClass of the samples with its templates, and many variables.
func (w *world) addClass(t *testing.T) {
	t.Helper()
	source, err := devplane.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.ReadObjects([]string{filepath.Join(source, "config", "samples", "dev", "class.yaml")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects[1:] {
		o.SetNamespace(w.namespace)
		w.plane.Create(t, o)
	}
	w.class = &clusterv1.ClusterClass{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, w.class); err != nil {
		t.Fatal(err)
	}
	w.class.Namespace, w.class.Spec.Upgrade = w.namespace, clusterv1.ClusterClassUpgrade{}
	const variables = 100
	for i := range variables {
		w.class.Spec.Variables = append(w.class.Spec.Variables, clusterv1.ClusterClassVariable{
			Name: name("v-%d", i), Required: new(false), Schema: clusterv1.VariableSchema{
				OpenAPIV3Schema: clusterv1.JSONSchemaProps{Type: "string", Description: filler(4 << 10)},
			},
		})
	}
	w.plane.Create(t, w.largestClass())
}

// largestClass is the ClusterClass as it was created.
func (w *world) largestClass() client.Object { return w.class.DeepCopy() }

// classy is a Cluster whose topology writes a long text into the templates of many pools.
func (w *world) classy() client.Object {
	cluster := &clusterv1.Cluster{
		TypeMeta:   typeOf("Cluster"),
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "classy"},
		Spec: clusterv1.ClusterSpec{Topology: clusterv1.Topology{
			ClassRef: clusterv1.ClusterClassRef{Name: "in-memory"}, Version: wire.From,
			ControlPlane: clusterv1.ControlPlaneTopology{Replicas: new(int32(3))},
		}},
	}
	set := func(variable, value string) {
		cluster.Spec.Topology.Variables = append(cluster.Spec.Topology.Variables, clusterv1.ClusterVariable{
			Name: variable, Value: apiextensionsv1.JSON{Raw: fmt.Appendf(nil, "%q", value)},
		})
	}
	set("logLevel", filler(settingBytes))
	set("startup", "1s")
	for i := range 50 {
		set(name("v-%d", i), filler(4<<10))
	}
	workers := &cluster.Spec.Topology.Workers
	for i := range pools {
		workers.MachineDeployments = append(workers.MachineDeployments, clusterv1.MachineDeploymentTopology{
			Class: "worker", Name: name("pool-%d", i), Replicas: new(int32(0)),
		})
	}
	return cluster
}

func (w *world) set(name string) *clusterv1.MachineSet {
	md := w.deployment(name, true)
	return &clusterv1.MachineSet{
		TypeMeta: typeOf("MachineSet"), ObjectMeta: md.ObjectMeta, Spec: clusterv1.MachineSetSpec{
			ClusterName: "c", Replicas: new(int32(0)), Selector: md.Spec.Selector, Template: md.Spec.Template,
		},
	}
}

func (w *world) machinePool(name string) *clusterv1.MachinePool {
	md := w.deployment(name, true)
	return &clusterv1.MachinePool{
		TypeMeta: typeOf("MachinePool"), ObjectMeta: md.ObjectMeta, Spec: clusterv1.MachinePoolSpec{
			ClusterName: "c", Replicas: new(int32(0)), Template: md.Spec.Template,
		},
	}
}

func (w *world) healthCheck(name string) *clusterv1.MachineHealthCheck {
	return &clusterv1.MachineHealthCheck{
		TypeMeta: typeOf("MachineHealthCheck"), ObjectMeta: w.meta(name), Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: "c", Selector: *largestSelector(),
			Checks: clusterv1.MachineHealthCheckChecks{NodeStartupTimeoutSeconds: new(int32(600))},
		},
	}
}

func (w *world) drainRule() client.Object {
	rule := &clusterv1.MachineDrainRule{
		TypeMeta: typeOf("MachineDrainRule"), ObjectMeta: w.meta("rule"), Spec: clusterv1.MachineDrainRuleSpec{
			Drain: clusterv1.MachineDrainRuleDrainConfig{Behavior: clusterv1.MachineDrainRuleDrainBehaviorSkip},
		},
	}
	for i := range 5 {
		selector := largestSelector()
		selector.MatchExpressions[0].Key = key(v1alpha1.MaxSelectorTerms + i)
		rule.Spec.Machines = append(rule.Spec.Machines, clusterv1.MachineDrainRuleMachineSelector{
			Selector: selector, ClusterSelector: largestSelector(),
		})
	}
	return rule
}

func (w *world) resourceSet(name string) *addonsv1.ClusterResourceSet {
	set := &addonsv1.ClusterResourceSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: addonsv1.GroupVersion.String(), Kind: "ClusterResourceSet"},
		ObjectMeta: w.meta(name), Spec: addonsv1.ClusterResourceSetSpec{ClusterSelector: *largestSelector()},
	}
	for i := range resources {
		set.Spec.Resources = append(set.Spec.Resources, addonsv1.ResourceRef{Name: fmt.Sprintf("r-%d", i), Kind: "ConfigMap"})
	}
	return set
}

func (w *world) binding(cluster string) *addonsv1.ClusterResourceSetBinding {
	binding := &addonsv1.ClusterResourceSetBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: addonsv1.GroupVersion.String(), Kind: "ClusterResourceSetBinding"},
		ObjectMeta: w.meta(cluster), Spec: addonsv1.ClusterResourceSetBindingSpec{ClusterName: cluster},
	}
	for i := range 100 {
		binding.Spec.Bindings = append(binding.Spec.Bindings, addonsv1.ResourceSetBinding{
			ClusterResourceSetName: fmt.Sprintf("crs-%d", i), Resources: []addonsv1.ResourceBinding{{
				ResourceRef: addonsv1.ResourceRef{Name: "r", Kind: "ConfigMap"}, Applied: new(true),
			}},
		})
	}
	return binding
}

func (w *world) extensionConfig() *runtimev1.ExtensionConfig {
	return &runtimev1.ExtensionConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: runtimev1.GroupVersion.String(), Kind: "ExtensionConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: "bounds"}, Spec: runtimev1.ExtensionConfigSpec{
			ClientConfig:      runtimev1.ClientConfig{URL: w.asked.URL, CABundle: w.asked.Authority.PEM},
			NamespaceSelector: largestSelector(), Settings: map[string]string{"filler": filler(annotationBytes)},
		},
	}
}

func (w *world) claim() client.Object {
	return &ipamv1.IPAddressClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: ipamv1.GroupVersion.String(), Kind: "IPAddressClaim"},
		ObjectMeta: w.meta("claim"), Spec: ipamv1.IPAddressClaimSpec{
			PoolRef: ipamv1.IPPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "Pool", Name: "p"},
		},
	}
}

func (w *world) address() client.Object {
	return &ipamv1.IPAddress{
		TypeMeta:   metav1.TypeMeta{APIVersion: ipamv1.GroupVersion.String(), Kind: "IPAddress"},
		ObjectMeta: w.meta("address"), Spec: ipamv1.IPAddressSpec{
			ClaimRef: ipamv1.IPAddressClaimReference{Name: "claim"}, Address: "10.0.0.1", Prefix: new(int32(24)),
			PoolRef: ipamv1.IPPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "Pool", Name: "p"},
		},
	}
}
