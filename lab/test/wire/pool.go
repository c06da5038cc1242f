package wire

import (
	"encoding/json"
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// Versions of pools before and after an update.
const (
	From = "v1.31.0"
	To   = "v1.31.4"
)

// The names of a Pool's objects. The new MachineSet and its templates differ from the old ones in the version alone.
const (
	ClusterName = "c"
	PoolName    = "md"
	OldSet      = "md-old"
	NewSet      = "md-new"
)

// Pool is a Cluster with a MachineDeployment, as Cluster API leaves them when it asks whether machines can be updated in place: machines
// belong to the old MachineSet, and the new one has none yet.
type Pool struct {
	Namespace string
	// Workload is the Cluster's API server, with a node for each machine.
	Workload *Workload

	plane    *Plane
	machines []string
}

// InfrastructureVersion is that of the DevMachines of pools.
var InfrastructureVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}

// NewPool creates a pool in a namespace of its own, with a policy that updates it in place and never replaces a machine.
func (p *Plane) NewPool(t *testing.T, machines ...string) *Pool {
	t.Helper()
	pool := &Pool{Namespace: p.Namespace(t), Workload: NewWorkload(t), plane: p, machines: machines}
	p.Create(t,
		&clusterv1.Cluster{
			ObjectMeta: pool.meta(ClusterName, nil),
			Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}},
		},
		pool.Workload.Secret(t, pool.Namespace, ClusterName),
		&v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: "in-place"}, Spec: v1alpha1.UpdatePolicySpec{
			Targets: []v1alpha1.UpdateTarget{{ClusterName: ClusterName}}, Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone, MaxAttempts: 1,
		}},
		pool.template("DevMachineTemplate", "old"), pool.template("DevMachineTemplate", "new"),
		pool.configTemplate("old"), pool.configTemplate("new"),
	)
	deployment := &clusterv1.MachineDeployment{
		ObjectMeta: pool.meta(PoolName, nil),
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: ClusterName, Replicas: new(int32(len(machines))), Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": PoolName}},
			Template: pool.machineTemplate("new", To),
		},
	}
	p.Create(t, deployment)
	oldSet, newSet := pool.newSet(OldSet, "old", From, deployment), pool.newSet(NewSet, "new", To, deployment)
	oldSet.Spec.Replicas = new(int32(len(machines)))
	p.Create(t, oldSet, newSet)
	for _, name := range machines {
		pool.createMachine(t, name, oldSet)
	}
	return pool
}

// On returns the pool as another plane has it.
func (p *Pool) On(plane *Plane) *Pool {
	moved := *p
	moved.plane = plane
	return &moved
}

// Question is CanUpdateMachineSet as Cluster API asks it about the machines of the old MachineSet.
func (p *Pool) Question(t *testing.T) *runtimehooksv1.CanUpdateMachineSetRequest {
	t.Helper()
	objects := func(set, templates string) runtimehooksv1.CanUpdateMachineSetRequestObjects {
		machineSet := p.Set(t, set)
		machineSet.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet"}
		return runtimehooksv1.CanUpdateMachineSetRequestObjects{
			MachineSet:                    *machineSet,
			InfrastructureMachineTemplate: raw(t, p.read(t, p.template("DevMachineTemplate", templates))),
			BootstrapConfigTemplate:       raw(t, p.read(t, p.configTemplate(templates))),
		}
	}
	return &runtimehooksv1.CanUpdateMachineSetRequest{Current: objects(OldSet, "old"), Desired: objects(NewSet, "new")}
}

// Move does what Cluster API does to a machine after a positive answer: it moves to the new MachineSet, its objects get their new desired
// state, and all three are marked.
func (p *Pool) Move(t *testing.T, name string) {
	t.Helper()
	set := p.Set(t, NewSet)
	for _, object := range []client.Object{p.infrastructure(name), p.config(name)} {
		p.patch(t, object, map[string]any{"metadata": map[string]any{"annotations": map[string]any{clusterv1.UpdateInProgressAnnotation: ""}}})
	}
	machine := p.Machine(t, name)
	patch := client.MergeFrom(machine.DeepCopy())
	machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet"))}
	machine.Labels[clusterv1.MachineDeploymentUniqueLabel] = set.Labels[clusterv1.MachineDeploymentUniqueLabel]
	machine.Labels[clusterv1.MachineSetNameLabel] = set.Name
	machine.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: "", "runtime.cluster.x-k8s.io/pending-hooks": "UpdateMachine"}
	machine.Spec.Version = To
	if err := p.plane.Client.Patch(t.Context(), machine, patch); err != nil {
		t.Fatal(err)
	}
}

// Update is UpdateMachine as Cluster API calls it for a machine.
func (p *Pool) Update(t *testing.T, name string) *runtimehooksv1.UpdateMachineRequest {
	t.Helper()
	machine := p.Machine(t, name)
	machine.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"}
	machine.Status, machine.ManagedFields = clusterv1.MachineStatus{}, nil
	return &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{
		Machine: *machine, InfrastructureMachine: raw(t, p.read(t, p.infrastructure(name))), BootstrapConfig: raw(t, p.read(t, p.config(name))),
	}}
}

// Machine reads a machine.
func (p *Pool) Machine(t *testing.T, name string) *clusterv1.Machine {
	t.Helper()
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name}}
	p.plane.Get(t, machine)
	return machine
}

// Set reads a MachineSet.
func (p *Pool) Set(t *testing.T, name string) *clusterv1.MachineSet {
	t.Helper()
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name}}
	p.plane.Get(t, set)
	return set
}

// Annotate sets annotations of a machine; nil removes one.
func (p *Pool) Annotate(t *testing.T, name string, annotations map[string]any) {
	t.Helper()
	p.patch(t, p.Machine(t, name), map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

func (p *Pool) patch(t *testing.T, object client.Object, patch map[string]any) {
	t.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.plane.Client.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", data)); err != nil {
		t.Fatalf("changing %T %s: %v", object, object.GetName(), err)
	}
}

func (p *Pool) read(t *testing.T, object client.Object) client.Object {
	t.Helper()
	kind := object.GetObjectKind().GroupVersionKind()
	p.plane.Get(t, object)
	object.GetObjectKind().SetGroupVersionKind(kind)
	object.SetManagedFields(nil)
	return object
}

func (p *Pool) meta(name string, more map[string]string) metav1.ObjectMeta {
	labels := map[string]string{clusterv1.ClusterNameLabel: ClusterName}
	maps.Copy(labels, more)
	return metav1.ObjectMeta{Namespace: p.Namespace, Name: name, Labels: labels}
}

func (p *Pool) machineTemplate(templates, version string) clusterv1.MachineTemplateSpec {
	return clusterv1.MachineTemplateSpec{
		ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{
			clusterv1.ClusterNameLabel: ClusterName, clusterv1.MachineDeploymentNameLabel: PoolName, "pool": PoolName,
		}},
		Spec: clusterv1.MachineSpec{
			ClusterName: ClusterName, Version: version,
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfigTemplate", Name: templates,
			}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: InfrastructureVersion.Group, Kind: "DevMachineTemplate", Name: templates},
		},
	}
}

func (p *Pool) newSet(name, templates, version string, owner *clusterv1.MachineDeployment) *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{
		ObjectMeta: p.meta(name, map[string]string{
			clusterv1.MachineDeploymentNameLabel: PoolName, clusterv1.MachineDeploymentUniqueLabel: templates + "-abcde", "pool": PoolName,
		}),
		Spec: clusterv1.MachineSetSpec{
			ClusterName: ClusterName, Replicas: new(int32(0)), Template: p.machineTemplate(templates, version),
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": PoolName, clusterv1.MachineDeploymentUniqueLabel: templates + "-abcde"}},
		},
	}
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("MachineDeployment"))}
	return set
}

func (p *Pool) createMachine(t *testing.T, name string, set *clusterv1.MachineSet) {
	t.Helper()
	infrastructure, config := p.infrastructure(name), p.config(name)
	p.plane.Create(t, infrastructure, config)
	machine := &clusterv1.Machine{
		ObjectMeta: p.meta(name, map[string]string{
			clusterv1.MachineDeploymentNameLabel: PoolName, clusterv1.MachineSetNameLabel: set.Name, "pool": PoolName,
			clusterv1.MachineDeploymentUniqueLabel: set.Labels[clusterv1.MachineDeploymentUniqueLabel],
		}),
		Spec: clusterv1.MachineSpec{
			ClusterName: ClusterName, Version: From, ProviderID: "dev:////" + name,
			Bootstrap: clusterv1.Bootstrap{
				ConfigRef:      clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfig", Name: name},
				DataSecretName: new(name),
			},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: InfrastructureVersion.Group, Kind: "DevMachine", Name: name},
		},
		Status: clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: name}},
	}
	machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet"))}
	p.plane.Create(t, machine)
	p.Workload.SetNode(name, From)
}

// backend is the spec of DevMachines.
func backend() map[string]any {
	return map[string]any{"backend": map[string]any{"inMemory": map[string]any{}}}
}

func (p *Pool) infrastructure(name string) *unstructured.Unstructured {
	object := p.unstructured("DevMachine", name)
	object.Object["spec"] = backend()
	object.SetAnnotations(map[string]string{
		clusterv1.TemplateClonedFromNameAnnotation: "old", clusterv1.TemplateClonedFromGroupKindAnnotation: "DevMachineTemplate." + InfrastructureVersion.Group,
	})
	return object
}

func (p *Pool) template(kind, name string) *unstructured.Unstructured {
	object := p.unstructured(kind, name)
	object.Object["spec"] = map[string]any{"template": map[string]any{"spec": backend()}}
	return object
}

func (p *Pool) unstructured(kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(InfrastructureVersion.WithKind(kind))
	object.SetNamespace(p.Namespace)
	object.SetName(name)
	object.SetLabels(map[string]string{clusterv1.ClusterNameLabel: ClusterName})
	return object
}

func joining() bootstrapv1.KubeadmConfigSpec {
	return bootstrapv1.KubeadmConfigSpec{JoinConfiguration: bootstrapv1.JoinConfiguration{
		NodeRegistration: bootstrapv1.NodeRegistrationOptions{CRISocket: "unix:///run/containerd/containerd.sock"},
	}}
}

func (p *Pool) config(name string) *bootstrapv1.KubeadmConfig {
	return &bootstrapv1.KubeadmConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: bootstrapv1.GroupVersion.String(), Kind: "KubeadmConfig"}, ObjectMeta: p.meta(name, nil), Spec: joining(),
	}
}

func (p *Pool) configTemplate(name string) *bootstrapv1.KubeadmConfigTemplate {
	return &bootstrapv1.KubeadmConfigTemplate{
		TypeMeta: metav1.TypeMeta{APIVersion: bootstrapv1.GroupVersion.String(), Kind: "KubeadmConfigTemplate"}, ObjectMeta: p.meta(name, nil),
		Spec: bootstrapv1.KubeadmConfigTemplateSpec{Template: bootstrapv1.KubeadmConfigTemplateResource{Spec: joining()}},
	}
}

func raw(t *testing.T, object client.Object) runtime.RawExtension {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: data}
}
