package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

// defaultSoak is how long a node must stay Ready where no UpdatePolicy says so: the grace period of Kubernetes' node monitor, for which a node that died
// may look Ready.
const defaultSoak = 40 * time.Second

// readMachine reads all that is decided on; nil where the Machine does not exist.
func (e *Engine) readMachine(ctx context.Context, key types.NamespacedName) (*machineRun, error) {
	m, read := &clusterv1.Machine{}, e.Now()
	if err := e.Live.Get(ctx, key, m); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // There is nothing to do, which is no error.
		}
		return nil, fmt.Errorf("reading Machine %s: %w", key, err)
	}
	r := &machineRun{Machine: e.NewMachine(m, read)}
	var err error
	if r.cluster, err = e.readCluster(ctx, key.Namespace, m.Spec.ClusterName); err != nil {
		return nil, err
	}
	r.facts = request.Machine{
		FreshID: e.NewID(), Name: m.Name, Marks: e.keys.marks(m.Annotations), Retry: has(m, v1alpha1.UpdateRetryAnnotation),
		Deleting: !m.DeletionTimestamp.IsZero(), Paused: isPaused(r.cluster, m), ClusterPaused: isClusterPaused(r.cluster),
		Busy:     updatedByClusterAPI(m),
		Topology: topologyOf(r.cluster, m), ControlPlane: capi.IsControlPlane(m),
	}
	if r.facts.ControlPlane {
		r.facts.OwnEtcd = etcdProblem(m)
	}
	r.facts.Upgrade, r.facts.Unreadable = readRecord[request.Upgrade](m.Annotations)
	r.facts.Remediation = RemediationAsked(m, progressOf(r.facts.Upgrade))
	// One that cannot be read shows when an upgrade begins, as a version that is too far from every other.
	r.facts.Spec, _ = version.Parse(m.Spec.Version)
	for _, read := range []func(context.Context) error{r.readPolicy, r.readLock, r.readControlPlane} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	r.Look(ctx)
	return r, nil
}

func (e *Engine) readCluster(ctx context.Context, namespace, name string) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	if err := e.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, cluster); err != nil {
		return nil, fmt.Errorf("reading Cluster %s/%s: %w", namespace, name, err)
	}
	return cluster, nil
}

// readLock reads who holds the lock of the control plane.
func (r *machineRun) readLock(ctx context.Context) error {
	if !r.facts.ControlPlane {
		return nil
	}
	found, err := r.locks.Read(ctx, r.cluster)
	r.facts.Holder = found.Holder
	return err
}

// readControlPlane reads the other Machines of the control plane, and for a worker what is asked of the control plane. While an upgrade runs neither
// matters.
func (r *machineRun) readControlPlane(ctx context.Context) error {
	u, marks := r.facts.Upgrade, r.facts.Marks
	if marks.To == "" || u != nil && !u.IsFinal() && marks.To == u.Option {
		return nil
	}
	machines, err := r.listControlPlane(ctx, client.ObjectKeyFromObject(r.cluster))
	if err != nil {
		return err
	}
	r.facts.Peers, r.facts.Etcd = nil, ""
	for i := range machines {
		if machines[i].Name == r.Object.Name {
			continue
		}
		r.facts.Peers = append(r.facts.Peers, r.peer(&machines[i]))
		if problem := etcdProblem(&machines[i]); problem != "" && r.facts.Etcd == "" {
			r.facts.Etcd = problem
		}
	}
	if r.facts.ControlPlane {
		return r.readStuck(ctx, machines)
	}
	return r.readOrder(ctx, machines)
}

// readStuck finds out whether Cluster API can bring the control plane to its version. machines are its Machines.
func (r *machineRun) readStuck(ctx context.Context, machines []clusterv1.Machine) error {
	if r.facts.Topology.Cluster == "" || !r.facts.Policy.Guarded {
		return nil
	}
	object := &unstructured.Unstructured{}
	found, err := r.readControlPlaneObject(ctx, r.cluster, object)
	if err != nil || !found {
		return err
	}
	all := make([]*clusterv1.Machine, 0, len(machines))
	for i := range machines {
		all = append(all, &machines[i])
	}
	r.facts.Topology.Stuck = stuckControlPlane(r.cluster, object, all, r.facts.Policy)
	return nil
}

// readOrder reads for a worker what it must wait for, and beside what its kubelet would run. machines are those of the control plane.
func (r *machineRun) readOrder(ctx context.Context, machines []clusterv1.Machine) (err error) {
	if len(machines) == 0 {
		if r.facts.Peers, err = r.controlPlanePeers(ctx); err != nil {
			return err
		}
	}
	r.facts.ControlPlaneFirst, err = r.controlPlaneFirst(ctx, r.cluster, machines)
	return err
}

// controlPlanePeers reads a control plane without Machines, such as a hosted or managed one, as if it were one; none where the Cluster has no control plane.
func (r *machineRun) controlPlanePeers(ctx context.Context) ([]request.Peer, error) {
	object := &unstructured.Unstructured{}
	found, err := r.readControlPlaneObject(ctx, r.cluster, object)
	if err != nil || !found {
		return nil, err
	}
	return []request.Peer{{Name: object.GetKind() + " " + object.GetName(), Kubelet: controlPlaneVersion(object)}}, nil
}

// controlPlaneVersion is the version that a control plane has, or where it does not say so, that it should have; zero where there is none.
func controlPlaneVersion(object *unstructured.Unstructured) version.Version {
	if current := capi.VersionAt(object, "status", "version"); !current.IsZero() {
		return current
	}
	return capi.VersionAt(object, "spec", "version")
}

// listMachines lists Machines of a Cluster, page by page, and sorted by name.
func (e *Engine) listMachines(ctx context.Context, cluster types.NamespacedName, options ...client.ListOption) ([]clusterv1.Machine, error) {
	var found []clusterv1.Machine
	err := e.eachMachine(ctx, cluster, func(m *clusterv1.Machine) { found = append(found, *m) }, options...)
	return found, err
}

// listControlPlane lists the Machines of a Cluster's control plane. The label alone makes none one of them.
func (e *Engine) listControlPlane(ctx context.Context, cluster types.NamespacedName) ([]clusterv1.Machine, error) {
	labelled, err := e.listMachines(ctx, cluster, client.HasLabels{clusterv1.MachineControlPlaneLabel})
	return slices.DeleteFunc(labelled, func(m clusterv1.Machine) bool { return !capi.IsControlPlane(&m) }), err
}

// eachMachine shows Machines of a Cluster to f, in the API server's order, which is that of names.
func (e *Engine) eachMachine(ctx context.Context, cluster types.NamespacedName, f func(*clusterv1.Machine), options ...client.ListOption) error {
	options = append(options, client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name})
	newList := func() *clusterv1.MachineList { return &clusterv1.MachineList{} }
	err := eachPage(ctx, e.Live, newList, func(page *clusterv1.MachineList) {
		for i := range page.Items {
			f(&page.Items[i])
		}
	}, options...)
	if err != nil {
		return fmt.Errorf("listing the Machines of Cluster %s: %w", cluster, err)
	}
	return nil
}

// oldestWorker returns the oldest kubelet among the workers; zero where there are none.
func (r *machineRun) oldestWorker(ctx context.Context) (version.Version, error) {
	var oldest version.Version
	err := r.eachMachine(ctx, client.ObjectKeyFromObject(r.cluster), func(m *clusterv1.Machine) {
		kubelet := kubeletOf(m)
		if capi.IsControlPlane(m) || kubelet.IsZero() {
			return
		}
		if oldest.IsZero() || version.Compare(kubelet, oldest) == version.Less {
			oldest = kubelet
		}
	})
	return oldest, err
}

// readPolicy finds out how to upgrade. Where that cannot be told nothing begins, and what runs goes on as it began.
func (r *machineRun) readPolicy(ctx context.Context) error {
	group, object, err := r.groupOf(ctx, r.cluster, r.Object)
	if err != nil {
		return err
	}
	running := ""
	if u := r.facts.Upgrade; u.IsRunning() {
		running = u.Progress.Policy
	}
	selected, conflict, err := r.upgradePolicy(ctx, group, running)
	if err != nil {
		return err
	}
	if conflict != "" && r.facts.Busy == "" {
		r.facts.Busy = conflict
	}
	r.facts.Policy, r.facts.PolicyName = selected, selected.Name
	annotations := []string{r.Object.Annotations[v1alpha1.InPlaceUpgradeDrainAnnotation]}
	if object != nil {
		annotations = append(annotations, object.Annotations[v1alpha1.InPlaceUpgradeDrainAnnotation])
		// A controller of control planes need not hand its labels on.
		if r.facts.Topology.Cluster == "" {
			r.facts.Topology = topologyOf(r.cluster, object)
		}
	}
	for _, value := range annotations {
		if value == "true" || value == "false" {
			r.facts.Policy.Drain = value == "true"
			break
		}
	}
	return nil
}

// groupOf returns the group that a Machine belongs to, and its object; nil where it has none.
func (e *Engine) groupOf(ctx context.Context, cluster *clusterv1.Cluster, m metav1.Object) (*policy.Group, *metav1.PartialObjectMetadata, error) {
	object, isControlPlane, err := e.readGroupObject(ctx, m)
	if err != nil || object == nil {
		return nil, nil, client.IgnoreNotFound(err) //nolint:wrapcheck // It says what was read.
	}
	group := snapshot.GroupOf(cluster, object, isControlPlane)
	return &group, object, nil
}

// upgradePolicy returns the UpdatePolicy that counts for a group; see SelectPolicy. Without one, nodes are
// drained and must soak.
func (e *Engine) upgradePolicy(ctx context.Context, group *policy.Group, named string) (selected policy.Policy, conflict string, err error) {
	if group != nil {
		var problem error
		selected, problem, err = e.SelectPolicy(ctx, *group, named)
		if problem != nil {
			conflict = problem.Error()
		}
	}
	if selected.Name == "" {
		selected = policy.Default()
		selected.Drain, selected.Soak = true, defaultSoak
	}
	return selected, conflict, err
}

// controlPlaneFirst says what is asked of the control plane, for which workers wait; empty for nothing.
func (e *Engine) controlPlaneFirst(ctx context.Context, cluster *clusterv1.Cluster, machines []clusterv1.Machine) (string, error) {
	object, err := e.controlPlaneObject(ctx, cluster)
	if err != nil {
		return "", err
	}
	if object != nil {
		marks := e.keys.marks(object.Annotations)
		name := "control plane " + object.Kind + " " + object.Name
		record, _ := readRecord[request.Record](object.Annotations)
		switch {
		case record != nil && record.Refused && record.Option == marks.To:
			// Nothing of it has run, and nothing will.
		case marks.To != "" && marks.Status == request.Failed:
			return fmt.Sprintf("the upgrade of %s to %s has failed. Fix: correct the cause and retry, or remove its annotation", name, marks.To), nil
		case marks.To != "":
			return fmt.Sprintf("%s is upgraded to %s first", name, marks.To), nil
		}
	}
	for i := range machines {
		if upgrade := e.upgradeOf(&machines[i]); upgrade != "" {
			return upgrade, nil
		}
	}
	return "", nil
}

// upgradeOf says which upgrade of a control plane Machine is asked for, or under way; empty for none.
func (e *Engine) upgradeOf(m *clusterv1.Machine) string {
	marks := e.keys.marks(m.Annotations)
	u, unreadable := readRecord[request.Upgrade](m.Annotations)
	switch {
	case marks.To != "" && u.IsFinal() && u.Option == marks.To && u.Progress == nil:
		return ""
	case marks.To != "" && u.IsFinal() && u.Option == marks.To:
		return fmt.Sprintf("the upgrade of control plane Machine %s to %s has failed. Fix: correct the cause and retry, or remove its annotation", m.Name, marks.To)
	case marks.To != "":
		return fmt.Sprintf("control plane Machine %s is upgraded to %s first", m.Name, marks.To)
	case unreadable != "" || u.IsRunning():
		return fmt.Sprintf("the upgrade of control plane Machine %s has not ended", m.Name)
	}
	return ""
}

// controlPlaneObject reads the metadata of a Cluster's control plane; nil where it has none.
func (e *Engine) controlPlaneObject(ctx context.Context, cluster *clusterv1.Cluster) (*metav1.PartialObjectMetadata, error) {
	object := &metav1.PartialObjectMetadata{}
	found, err := e.readControlPlaneObject(ctx, cluster, object)
	if err != nil || !found {
		return nil, err
	}
	return object, nil
}

// readControlPlaneObject reads a Cluster's control plane into object; found is false where it has none.
func (e *Engine) readControlPlaneObject(ctx context.Context, cluster *clusterv1.Cluster, object client.Object) (found bool, err error) {
	ref := cluster.Spec.ControlPlaneRef
	if ref.Name == "" {
		return false, nil
	}
	err = e.ReadProvided(ctx, ref.GroupKind(), types.NamespacedName{Namespace: cluster.Namespace, Name: ref.Name}, object)
	return err == nil, client.IgnoreNotFound(err) //nolint:wrapcheck // The engine says what it has read.
}
