package engine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

var kubeadmControlPlaneKind = controlplanev1.GroupVersion.WithKind("KubeadmControlPlane")

// fewestReplicas is the fewest replicas with which Cluster API updates a KubeadmControlPlane in place: below, it adds a machine first.
const fewestReplicas = 3

// readGroup reads all that is decided on; nil where the object does not exist.
func (e *Engine) readGroup(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName) (*groupRun, error) {
	object := unstructuredOf(gvk)
	if err := e.Live.Get(ctx, key, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // There is nothing to do, which is no error.
		}
		return nil, fmt.Errorf("reading %s %s: %w", gvk.Kind, key, err)
	}
	r := &groupRun{Engine: e, gvk: gvk, object: object, conditions: capi.Conditions(object)}
	name, err := clusterName(object)
	if err != nil {
		return nil, err
	}
	if r.cluster, err = e.readCluster(ctx, key.Namespace, name); err != nil {
		return nil, err
	}
	annotations := object.GetAnnotations()
	r.facts = request.Group{
		Now: e.now(), ControlPlane: gvk.GroupKind() != deploymentKind.GroupKind(), Marks: e.keys.marks(annotations), Retry: has(object, v1alpha1.UpdateRetryAnnotation),
		Paused: isPaused(r.cluster, object), Deleting: object.GetDeletionTimestamp() != nil, Topology: topologyOf(r.cluster, object), Replicas: replicasOf(object),
	}
	r.facts.Record, r.facts.Unreadable = readRecord[request.Record](annotations)
	r.facts.Spec = capi.VersionAt(object, versionPath(r.facts.ControlPlane)...)
	if err := r.readPolicy(ctx); err != nil {
		return nil, err
	}
	if err := r.readOrder(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// clusterName finds the Cluster that a group belongs to: control plane objects name it by label or owner only.
func clusterName(object *unstructured.Unstructured) (string, error) {
	if name, _, _ := unstructured.NestedString(object.Object, "spec", "clusterName"); name != "" {
		return name, nil
	}
	if name := capi.ClusterName(object); name != "" {
		return name, nil
	}
	return "", fmt.Errorf("%s %s names no Cluster: it has neither the label %s nor a Cluster as owner", object.GetKind(), client.ObjectKeyFromObject(object), clusterv1.ClusterNameLabel)
}

// replicasOf is how many machines a group should have; Cluster API's default is 1.
func replicasOf(object *unstructured.Unstructured) int {
	replicas, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if err != nil || !found {
		return 1
	}
	return int(replicas)
}

// readPolicy reads the machines, and how they are upgraded. Where that cannot be told none begins.
func (r *groupRun) readPolicy(ctx context.Context) error {
	group := snapshot.GroupOf(r.cluster, r.object, r.facts.ControlPlane)
	selected, conflict, err := r.upgradePolicy(ctx, &group, "")
	if err != nil {
		return err
	}
	r.facts.MaxInFlight, r.facts.Canary = int(selected.MaxInFlight), selected.Alone
	r.facts.CannotRaise = r.cannotRaise(selected, conflict)
	if err := r.readMembers(ctx, conflict); err != nil {
		return err
	}
	if r.facts.ControlPlane {
		r.facts.Topology.Stuck = stuckControlPlane(r.cluster, r.object, r.machines, selected)
	}
	return nil
}

// readMembers reads the machines of the group: of all MachineSets of a MachineDeployment; of a control plane, which has few, live, those that it controls.
func (r *groupRun) readMembers(ctx context.Context, conflict string) error {
	cluster := client.ObjectKeyFromObject(r.cluster)
	var err error
	if !r.facts.ControlPlane {
		r.machines, err = r.readMembersOf(ctx, cluster, client.ObjectKeyFromObject(r.object))
	} else {
		err = r.eachMachine(ctx, cluster, func(m *clusterv1.Machine) {
			if metav1.IsControlledBy(m, r.object) {
				r.machines = append(r.machines, m)
			}
		}, client.HasLabels{clusterv1.MachineControlPlaneLabel})
	}
	for _, m := range r.machines {
		r.facts.Members = append(r.facts.Members, r.member(m, conflict))
	}
	return err
}

// member reads a machine of the group.
func (r *groupRun) member(m *clusterv1.Machine, conflict string) request.Member {
	member := request.Member{
		Name: m.Name, Created: m.CreationTimestamp.Time, Marks: r.keys.marks(m.Annotations), Deleting: !m.DeletionTimestamp.IsZero(),
		NotReady: notReady(m), NoNode: m.Status.NodeRef.Name == "", Kubelet: kubeletOf(m), Updating: updatedByClusterAPI(m) != "",
	}
	if note, noted := readKubeletNote(m, member.Marks.Release); noted {
		member.Kubelet, member.Unchanged = note.kubelet, note.unchanged // Cluster API notes a new kubelet later.
	}
	member.Spec, _ = version.Parse(m.Spec.Version)
	var unreadable string
	member.Upgrade, unreadable = readRecord[request.Upgrade](m.Annotations)
	member.Remediation = RemediationAsked(m, nil)
	switch {
	case isPaused(r.cluster, m):
		member.Held = "it or its Cluster is paused"
	case member.Remediation != "":
		member.Held = "it is marked for remediation:  " + member.Remediation
	case updatedByClusterAPI(m) != "":
		member.Held = updatedByClusterAPI(m)
	case unreadable != "":
		member.Held = "what is recorded of its upgrade cannot be read"
	case conflict != "":
		member.Held = conflict
	}
	return member
}

// readOrder finds out for workers what is asked of the control plane.
func (r *groupRun) readOrder(ctx context.Context) error {
	if r.facts.ControlPlane {
		return nil
	}
	machines, err := r.listControlPlane(ctx, client.ObjectKeyFromObject(r.cluster))
	if err != nil {
		return err
	}
	r.facts.ControlPlaneFirst, err = r.controlPlaneFirst(ctx, r.cluster, machines)
	return err
}

// cannotRaise says why the version of the group's spec cannot be raised without its machines being replaced; empty if it can. It can where Cluster API asks
// whether it may update them in place, and nothing else is allowed.
func (r *groupRun) cannotRaise(policy policy.Policy, conflict string) string {
	field := versionField(r.facts.ControlPlane)
	switch {
	case r.facts.Topology.Cluster != "":
		return fmt.Sprintf("it is that of Cluster %s's topology", r.facts.Topology.Cluster)
	case r.gvk.GroupKind() != deploymentKind.GroupKind() && r.gvk.GroupKind() != kubeadmControlPlaneKind.GroupKind():
		return fmt.Sprintf("a %s may replace its machines for it; set %s yourself when that may happen", r.gvk.Kind, field)
	case r.facts.ControlPlane && r.facts.Replicas < fewestReplicas:
		return fmt.Sprintf("Cluster API replaces the machines of a KubeadmControlPlane of %d for it; set %s yourself when that may happen", r.facts.Replicas, field)
	case conflict != "":
		return fmt.Sprintf("it is not known whether machines may be replaced for it: %s; fix that, then set %s", conflict, field)
	case !policy.InPlace || policy.FallbackReplace:
		return fmt.Sprintf("Cluster API would replace the machines for it; make an UpdatePolicy with strategy %s and fallback %s for the group, then set %s",
			v1alpha1.ExternalUpdate, v1alpha1.FallbackNone, field)
	}
	return ""
}
