package guardwebhook_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // The webhooks convert it for as long as it is served.
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	upstream "sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/index"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestMain(m *testing.M) {
	// Managed topologies are behind a gate, which windlass manager opens.
	if err := feature.MutableGates.Set("ClusterTopology=true"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const (
	controlPlaneGroup = "controlplane.example.com"
	controlPlaneKind  = "ExampleControlPlane"
	versionField      = "spec.topology.version"
)

// cell is what one Cluster runs, and what its class offers.
type cell struct {
	// target is the topology's version; controlPlane is the version of that object, target when empty.
	target, controlPlane string
	// reported is what the control plane's status says: controlPlane when empty, nothing when "-".
	reported string
	// entries says that it is in status.versions.
	entries bool
	// deployment and pool are the groups' versions: target when empty, no such group when "-". machine is what a machine of the deployment has.
	deployment, pool, machine string
	versions                  []string
	extension, pending        bool
	// unreconciled is the class's.
	unreconciled bool
}

func (c cell) at() string { return or(c.controlPlane, c.target) }

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// settled reports whether nothing is under way.
func (c cell) settled() bool {
	all := []string{c.at(), or(c.reported, c.at()), or(c.deployment, c.target), or(c.pool, c.target), or(c.machine, c.target)}
	return !c.pending && !slices.ContainsFunc(all, func(v string) bool { return v != c.target && v != "-" })
}

func class(name string, c cell) *clusterv1.ClusterClass {
	template := func(kind string) clusterv1.ClusterClassTemplateReference {
		return clusterv1.ClusterClassTemplateReference{APIVersion: "example.com/v1beta2", Kind: kind + "Template", Name: "t"}
	}
	class := &clusterv1.ClusterClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Generation: 2},
		Spec: clusterv1.ClusterClassSpec{
			Infrastructure: clusterv1.InfrastructureClass{TemplateRef: template("ExampleCluster")},
			ControlPlane:   clusterv1.ControlPlaneClass{TemplateRef: template("ExampleControlPlane")},
			Workers: clusterv1.WorkersClass{
				MachineDeployments: []clusterv1.MachineDeploymentClass{{
					Class:          "worker",
					Bootstrap:      clusterv1.MachineDeploymentClassBootstrapTemplate{TemplateRef: template("ExampleConfig")},
					Infrastructure: clusterv1.MachineDeploymentClassInfrastructureTemplate{TemplateRef: template("ExampleMachine")},
				}},
				MachinePools: []clusterv1.MachinePoolClass{{
					Class:          "pool",
					Bootstrap:      clusterv1.MachinePoolClassBootstrapTemplate{TemplateRef: template("ExampleConfig")},
					Infrastructure: clusterv1.MachinePoolClassInfrastructureTemplate{TemplateRef: template("ExamplePool")},
				}},
			},
			KubernetesVersions: c.versions,
		},
		Status: clusterv1.ClusterClassStatus{
			ObservedGeneration: 2,
			Conditions: []metav1.Condition{{
				Type: clusterv1.ClusterClassVariablesReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now(),
			}},
		},
	}
	if c.extension {
		class.Spec.Upgrade.External.GenerateUpgradePlanExtension = "plan.extension"
	}
	if c.unreconciled {
		class.Status.ObservedGeneration = 1
	}
	return class
}

func cluster(name string, c cell) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: clusterv1.ClusterSpec{
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: controlPlaneGroup, Kind: controlPlaneKind, Name: name + "-cp"},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "example.com", Kind: "ExampleCluster", Name: name},
			Topology:          clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: c.target},
		},
	}
	if c.deployment != "-" {
		cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "md", Class: "worker"}}
	}
	if c.pool != "-" {
		cluster.Spec.Topology.Workers.MachinePools = []clusterv1.MachinePoolTopology{{Name: "mp", Class: "pool"}}
	}
	if c.pending {
		cluster.Annotations = map[string]string{runtimev1.PendingHooksAnnotation: "AfterClusterUpgrade,AfterWorkersUpgrade"}
	}
	return cluster
}

func owned(cluster, name, label, topology string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: cluster + "-" + name, Namespace: namespace, Labels: map[string]string{
		clusterv1.ClusterNameLabel: cluster, clusterv1.ClusterTopologyOwnedLabel: "", label: topology,
	}}
}

// objects are those of Cluster c.
func objects(name string, c cell) []client.Object {
	plane := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"version": c.at()}}}
	plane.SetAPIVersion(controlPlaneGroup + "/v1beta2")
	plane.SetKind(controlPlaneKind)
	plane.SetNamespace(namespace)
	plane.SetName(name + "-cp")
	switch reported := strings.TrimPrefix(or(c.reported, c.at()), "-"); {
	case c.entries:
		plane.Object["status"] = map[string]any{"versions": []any{map[string]any{"version": reported}, map[string]any{"version": c.at()}}}
	case reported != "":
		plane.Object["status"] = map[string]any{"version": reported}
	}
	list := []client.Object{plane}
	if c.deployment != "-" {
		md := &clusterv1.MachineDeployment{ObjectMeta: owned(name, "md", clusterv1.ClusterTopologyMachineDeploymentNameLabel, "md")}
		md.Spec.Template.Spec.Version = or(c.deployment, c.target)
		md.Spec.Selector.MatchLabels = map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md"}
		md.Status.Replicas = new(int32(1))
		m := &clusterv1.Machine{ObjectMeta: owned(name, "md-0", clusterv1.ClusterTopologyMachineDeploymentNameLabel, "md")}
		m.Spec.Version = or(c.machine, or(c.deployment, c.target))
		list = append(list, md, m)
	}
	if c.pool != "-" {
		mp := &clusterv1.MachinePool{ObjectMeta: owned(name, "mp", clusterv1.ClusterTopologyMachinePoolNameLabel, "mp")}
		mp.Spec.Template.Spec.Version = or(c.pool, c.target)
		list = append(list, mp)
	}
	return list
}

var topologyScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, clusterv1beta1.AddToScheme, apiextensionsv1.AddToScheme, runtimev1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}()

// reader records which kinds are read, and fails for some.
type reader struct {
	client.Reader

	mu    sync.Mutex
	kinds map[string]int
	fail  map[string]error
}

func newReader(objects ...client.Object) *reader {
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name:   strings.ToLower(controlPlaneKind) + "s." + controlPlaneGroup,
		Labels: map[string]string{clusterv1.GroupVersion.String(): "v1beta2"},
	}}
	inner := fake.NewClientBuilder().WithScheme(topologyScheme).WithObjects(append(objects, definition)...).
		WithIndex(&clusterv1.Cluster{}, index.ClusterClassRefPath, index.ClusterByClusterClassRef).Build()
	return &reader{Reader: inner, kinds: map[string]int{}, fail: map[string]error{}}
}

func (r *reader) read(object runtime.Object) error {
	kind, err := apiutil.GVKForObject(object, topologyScheme)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name := strings.TrimSuffix(kind.Kind, "List")
	r.kinds[name]++
	return r.fail[name]
}

func (r *reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := r.read(object); err != nil {
		return err
	}
	return r.Reader.Get(ctx, key, object, options...)
}

func (r *reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := r.read(list); err != nil {
		return err
	}
	return r.Reader.List(ctx, list, options...)
}

// GetReader makes a reader serve as the cache of workload clusters.
func (r *reader) GetReader(context.Context, client.ObjectKey) (client.Reader, error) { return r, nil }

var _ upstream.ClusterCacheReader = &reader{}

// causes are the fields that an error is about, with what it says; "" is for an error that is not about fields.
func causes(err error) map[string][]string {
	found := map[string][]string{}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	switch {
	case err == nil:
	case !ok || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0:
		found[""] = []string{err.Error()}
	default:
		for _, cause := range status.ErrStatus.Details.Causes {
			found[cause.Field] = append(found[cause.Field], cause.Message)
		}
	}
	return found
}

// without returns causes that are not about some fields.
func without(all map[string][]string, fields ...string) map[string][]string {
	rest := maps.Clone(all)
	maps.DeleteFunc(rest, func(field string, _ []string) bool {
		return slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(field, f) })
	})
	return rest
}

func (c cell) String() string {
	return fmt.Sprintf("target %s, control plane %s (reports %q), deployment %q (machine %q), pool %q, list %v, extension %t, pending %t",
		c.target, c.at(), c.reported, c.deployment, c.machine, c.pool, c.versions, c.extension, c.pending)
}
