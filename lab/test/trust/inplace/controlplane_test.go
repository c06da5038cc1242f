package inplace

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/pkg/desiredstate"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

// controlPlane is a KubeadmControlPlane with one Machine, whose KubeadmConfigs are those that Cluster API's own code computes.
type controlPlane struct {
	plane          *wire.Plane
	workload       *wire.Workload
	cluster        *clusterv1.Cluster
	kcp            *controlplanev1.KubeadmControlPlane
	config         *bootstrapv1.KubeadmConfig
	infrastructure *unstructured.Unstructured
	machine        *clusterv1.Machine
}

// newControlPlane creates a control plane of a version, with a policy that keeps its Machine.
func newControlPlane(t *testing.T, plane *wire.Plane, version string) *controlPlane {
	t.Helper()
	c := &controlPlane{plane: plane, workload: wire.NewWorkload(t), cluster: &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: plane.Namespace(t), Name: wire.ClusterName},
		Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}},
	}}
	named := func(name string, labels ...string) metav1.ObjectMeta {
		object := metav1.ObjectMeta{Namespace: c.namespace(), Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: wire.ClusterName}}
		for _, label := range labels {
			object.Labels[label] = ""
		}
		return object
	}
	devMachines := func(kind, name string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: wire.InfrastructureVersion.Group, Kind: kind, Name: name}
	}
	c.kcp = &controlplanev1.KubeadmControlPlane{ObjectMeta: named("cp"), Spec: controlplanev1.KubeadmControlPlaneSpec{
		Version: version, Replicas: new(int32(1)),
		MachineTemplate: controlplanev1.KubeadmControlPlaneMachineTemplate{Spec: controlplanev1.KubeadmControlPlaneMachineTemplateSpec{
			InfrastructureRef: devMachines("DevMachineTemplate", "cp"),
		}},
	}, Status: controlplanev1.KubeadmControlPlaneStatus{
		Version: version, //nolint:staticcheck // Cluster API reports the version here until a later API version.
	}}
	backend := map[string]any{"backend": map[string]any{"inMemory": map[string]any{}}}
	template := c.devMachine("DevMachineTemplate", "cp", map[string]any{"template": map[string]any{"spec": backend}})
	c.infrastructure = c.devMachine("DevMachine", "cp-0", backend)
	plane.Create(t, c.cluster, c.workload.Secret(t, c.namespace(), wire.ClusterName), c.kcp, template, c.infrastructure,
		&v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace(), Name: "in-place"}, Spec: v1alpha1.UpdatePolicySpec{
			Targets:  []v1alpha1.UpdateTarget{{ClusterName: wire.ClusterName, ControlPlane: true}},
			Strategy: v1alpha1.ExternalUpdate, Fallback: v1alpha1.FallbackNone, MaxAttempts: 1,
		}})
	c.config = c.desiredConfig(t)
	plane.Create(t, c.config)
	c.machine = &clusterv1.Machine{
		ObjectMeta: named("cp-0", clusterv1.MachineControlPlaneLabel),
		Spec: clusterv1.MachineSpec{
			ClusterName: wire.ClusterName, Version: version, ProviderID: "dev:////cp-0", InfrastructureRef: devMachines("DevMachine", "cp-0"),
			Bootstrap: clusterv1.Bootstrap{
				DataSecretName: new("cp-0"),
				ConfigRef:      clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfig", Name: "cp-0"},
			},
		},
		Status: clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: "cp-0"}},
	}
	c.machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(c.kcp, controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"))}
	plane.Create(t, c.machine)
	c.workload.SetNode("cp-0", version)
	return c
}

func (c *controlPlane) namespace() string { return c.cluster.Namespace }

func (c *controlPlane) devMachine(kind, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(wire.InfrastructureVersion.WithKind(kind))
	object.SetNamespace(c.namespace())
	object.SetName(name)
	object.SetLabels(map[string]string{clusterv1.ClusterNameLabel: wire.ClusterName})
	object.SetAnnotations(map[string]string{
		clusterv1.TemplateClonedFromNameAnnotation: "cp", clusterv1.TemplateClonedFromGroupKindAnnotation: "DevMachineTemplate." + wire.InfrastructureVersion.Group,
	})
	return object
}

// desiredConfig is the KubeadmConfig that Cluster API wants for the Machine at the control plane's version.
func (c *controlPlane) desiredConfig(t *testing.T) *bootstrapv1.KubeadmConfig {
	t.Helper()
	config, err := desiredstate.ComputeDesiredKubeadmConfig(c.kcp, c.cluster, true, "cp-0", nil)
	if err != nil {
		t.Fatal(err)
	}
	config.OwnerReferences = nil
	return config
}

// question changes the control plane's version, and returns CanUpdateMachine as Cluster API asks it then.
func (c *controlPlane) question(t *testing.T, version string) *runtimehooksv1.CanUpdateMachineRequest {
	t.Helper()
	before := c.kcp.DeepCopy()
	c.kcp.Spec.Version = version
	if err := c.plane.Client.Patch(t.Context(), c.kcp, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	objects := func(version string, config *bootstrapv1.KubeadmConfig) runtimehooksv1.CanUpdateMachineRequestObjects {
		machine := c.machine.DeepCopy()
		machine.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"}
		machine.Spec.Version, machine.ManagedFields, machine.Status = version, nil, clusterv1.MachineStatus{}
		return runtimehooksv1.CanUpdateMachineRequestObjects{Machine: *machine, InfrastructureMachine: c.raw(t, c.infrastructure), BootstrapConfig: c.raw(t, config)}
	}
	return &runtimehooksv1.CanUpdateMachineRequest{Current: objects(c.machine.Spec.Version, c.config), Desired: objects(version, c.desiredConfig(t))}
}

// raw is an object as Cluster API sends it.
func (c *controlPlane) raw(t *testing.T, object client.Object) runtime.RawExtension {
	t.Helper()
	if config, ok := object.(*bootstrapv1.KubeadmConfig); ok {
		config.TypeMeta = metav1.TypeMeta{APIVersion: bootstrapv1.GroupVersion.String(), Kind: "KubeadmConfig"}
	}
	object.SetManagedFields(nil)
	return runtime.RawExtension{Raw: mustJSON(t, object)}
}

// mark does what Cluster API does after a positive answer: the objects get their new desired state, and all three are marked.
func (c *controlPlane) mark(t *testing.T) {
	t.Helper()
	c.change(t, c.infrastructure, func() {
		meta := c.infrastructure.GetAnnotations()
		meta[clusterv1.UpdateInProgressAnnotation] = ""
		c.infrastructure.SetAnnotations(meta)
	})
	c.change(t, c.config, func() {
		c.config.Spec = c.desiredConfig(t).Spec
		c.config.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
	})
	c.plane.Get(t, c.machine)
	c.change(t, c.machine, func() {
		c.machine.Spec.Version = c.kcp.Spec.Version
		c.machine.Annotations[clusterv1.UpdateInProgressAnnotation], c.machine.Annotations[pendingHooks] = "", "UpdateMachine"
	})
}

func (c *controlPlane) change(t *testing.T, object client.Object, change func()) {
	t.Helper()
	before, _ := object.DeepCopyObject().(client.Object)
	change()
	if err := c.plane.Client.Patch(t.Context(), object, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// update is UpdateMachine as Cluster API calls it.
func (c *controlPlane) update(t *testing.T) *runtimehooksv1.UpdateMachineRequest {
	t.Helper()
	c.plane.Get(t, c.machine)
	machine := c.machine.DeepCopy()
	machine.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"}
	machine.Status, machine.ManagedFields = clusterv1.MachineStatus{}, nil
	return &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{
		Machine: *machine, InfrastructureMachine: c.raw(t, c.infrastructure), BootstrapConfig: c.raw(t, c.config),
	}}
}

// setEtcd sets what Cluster API has found out about the Machine's etcd member.
func (c *controlPlane) setEtcd(t *testing.T, status metav1.ConditionStatus, message string) {
	t.Helper()
	c.plane.Get(t, c.machine)
	before := c.machine.DeepCopy()
	meta.SetStatusCondition(&c.machine.Status.Conditions, metav1.Condition{
		Type: controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition, Status: status, Reason: "Reason", Message: message,
	})
	if err := c.plane.Client.Status().Patch(t.Context(), c.machine, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// TestControlPlaneMachine updates control plane Machines by an updater that covers their version alone, over the minors with which Cluster API's own code
// adds a feature gate of kubeadm to their configuration, keeps it and drops it. The update ends when Cluster API finds the Machine's etcd member healthy.
func TestControlPlaneMachine(t *testing.T) {
	plane := wire.Start(t)
	extension := plane.Run(t)
	for _, tt := range []struct{ from, to string }{
		{"v1.30.14", "v1.31.4"}, {"v1.31.4", "v1.32.8"}, {"v1.35.4", "v1.36.0"},
	} {
		t.Run(tt.from+" to "+tt.to, func(t *testing.T) {
			c := newControlPlane(t, plane, tt.from)
			updater := wire.NewUpdater(t)
			object := updater.Object(c.namespace() + "-u")
			object.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": c.namespace()}}
			plane.Create(t, object)
			updater.Update = func(request *runtimehooksv1.UpdateMachineRequest) wire.Answer {
				c.workload.SetNode(request.Desired.Machine.Name, request.Desired.Machine.Spec.Version)
				return wire.Answer{Status: runtimehooksv1.ResponseStatusSuccess}
			}
			if answer := extension.Call(t, wire.CanUpdateMachine, c.question(t, tt.to)); answer.Status != runtimehooksv1.ResponseStatusSuccess {
				t.Fatalf("CanUpdateMachine: %+v", answer)
			}
			c.mark(t)
			c.setEtcd(t, metav1.ConditionFalse, "etcd member has no leader")
			for range 3 {
				answer := extension.Call(t, wire.UpdateMachine, c.update(t))
				if answer.Status != runtimehooksv1.ResponseStatusSuccess || answer.RetryAfterSeconds == 0 || !strings.Contains(answer.Message, "has no leader") {
					t.Fatalf("with a dead member UpdateMachine answers %+v", answer)
				}
			}
			c.setEtcd(t, metav1.ConditionTrue, "")
			if answer := extension.Call(t, wire.UpdateMachine, c.update(t)); answer.Status != runtimehooksv1.ResponseStatusSuccess || answer.RetryAfterSeconds != 0 {
				t.Errorf("UpdateMachine: %+v", answer)
			}
		})
	}
}

// TestStuckControlPlane asks the webhook of windlass manager for a version to which Cluster API could not bring the control plane, whose
// policy keeps its only machine, and for the same when the policy lets machines be replaced.
func TestStuckControlPlane(t *testing.T) {
	plane := wire.Start(t)
	c := newControlPlane(t, plane, "v1.31.4")
	class := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace(), Name: "class"}}
	reference := func(kind string) clusterv1.ClusterClassTemplateReference {
		return clusterv1.ClusterClassTemplateReference{APIVersion: wire.InfrastructureVersion.String(), Kind: kind, Name: "cp"}
	}
	class.Spec.Infrastructure.TemplateRef = reference("DevClusterTemplate")
	class.Spec.ControlPlane.TemplateRef = reference("DevMachineTemplate")
	plane.Create(t, class)
	c.change(t, c.cluster, func() {
		c.cluster.Spec.Paused = new(true) // The test is about admission alone.
		c.cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: class.Name}, Version: "v1.31.4"}
		c.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: c.kcp.Name}
	})
	manager := plane.RunManager(t, "--feature-gates", "ClusterTopology=true")
	after := c.cluster.DeepCopy()
	after.Spec.Topology.Version = "v1.32.8"
	raw := func(cluster *clusterv1.Cluster) runtime.RawExtension {
		cluster.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"}
		return runtime.RawExtension{Raw: mustJSON(t, cluster)}
	}
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Update, Namespace: c.namespace(), Name: c.cluster.Name, Object: raw(after), OldObject: raw(c.cluster),
			Kind:     metav1.GroupVersionKind{Group: clusterv1.GroupVersion.Group, Version: clusterv1.GroupVersion.Version, Kind: "Cluster"},
			Resource: metav1.GroupVersionResource{Group: clusterv1.GroupVersion.Group, Version: clusterv1.GroupVersion.Version, Resource: "clusters"},
		},
	}
	ask := func() *admissionv1.AdmissionResponse {
		code, body, err := manager.Post(t.Context(), manager.Client(t, nil), manager.Webhooks+"/validate-cluster-x-k8s-io-v1beta2-cluster", review)
		var answer admissionv1.AdmissionReview
		if err != nil || json.Unmarshal(body, &answer) != nil || answer.Response == nil {
			t.Fatalf("the webhook answers %d, %v: %s", code, err, body)
		}
		return answer.Response
	}
	answer := ask()
	if answer.Allowed || answer.Result == nil || !strings.Contains(answer.Result.Message, "would be stuck: UpdatePolicy in-place keeps its machines, but with maxSurge 1") {
		t.Fatalf("the webhook answers %+v", answer)
	}
	policy := &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace(), Name: "in-place"}}
	plane.Get(t, policy)
	c.change(t, policy, func() { policy.Spec.Fallback = v1alpha1.FallbackRollingUpdate })
	loopback.Eventually(t, "the version is accepted", func() bool { return ask().Allowed }) // The manager reads policies from a cache.
}
