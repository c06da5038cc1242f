package guardwebhook

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/chain"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

// classReader shows Cluster API's webhook ClusterClasses without their list of versions, so that the rules about it are ours, and keeps
// the one that a Cluster names: the webhook waits for it, and it should be waited for once, and be the same for all rules.
// It serves one request.
type classReader struct {
	client.Reader

	key client.ObjectKey
	// found is nil until the class has been read.
	found *clusterv1.ClusterClass
}

// Get is what Cluster API's webhook reads with.
func (r *classReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, object, options...)
	class, ok := object.(*clusterv1.ClusterClass)
	if !ok {
		return err
	}
	if key == r.key {
		r.found = nil
	}
	if err != nil {
		return err
	}
	if key == r.key {
		found := *class
		r.found = &found
	}
	class.Spec.KubernetesVersions = nil
	return nil
}

// readOffer reads what a class offers. With an error, about the first version that cannot be read, it returns those that can.
func readOffer(class *clusterv1.ClusterClass) (chain.Offer, error) {
	offer := chain.Offer{Extension: class.Spec.Upgrade.External.GenerateUpgradePlanExtension != ""}
	var first error
	for i, value := range class.Spec.KubernetesVersions {
		v, err := version.Parse(value)
		switch {
		case err == nil:
			offer.Versions = append(offer.Versions, v)
		case first == nil:
			ref := snapshot.Ref{Object: class, Kind: "ClusterClass", Field: fmt.Sprintf("spec.kubernetesVersions[%d]", i)}
			first = &snapshot.FieldError{Ref: ref, Problem: err.Error(), Err: err}
		}
	}
	return offer, first
}

// readChange takes from the objects what a Cluster runs, for a change of its target.
func (w *Cluster) readChange(ctx context.Context, objects snapshot.Objects, before *clusterv1.Cluster, to version.Version) (chain.VersionChange, error) {
	state, err := snapshot.Take(objects, snapshot.Overrides{})
	if err != nil {
		return chain.VersionChange{}, fmt.Errorf("reading what the Cluster runs: %w", err)
	}
	change := chain.VersionChange{
		To:                to,
		Inventory:         state.Inventory,
		Provisioning:      isProvisioning(objects.ControlPlane),
		Upgrading:         !state.Moving.IsZero(),
		CompletionPending: snapshot.Pending(objects.Cluster).Has(chain.AfterClusterUpgrade),
	}
	if change.Upgrading {
		machines, err := w.readMachines(ctx, objects.Cluster)
		if err != nil {
			return chain.VersionChange{}, err
		}
		if snapshot.Unjoined(machines, state.Moving) {
			change.Running = state.Moving
		}
	}
	if from, err := version.Parse(before.Spec.Topology.Version); err == nil {
		change.From = from
	}
	return change, nil
}

// isStuck says why the control plane would be stuck on its way to a version, and what to do; empty if it would
// not, or if it has the version already. objects need not have its Machines.
func (w *Cluster) isStuck(ctx context.Context, objects snapshot.Objects, to version.Version) (string, error) {
	if w.Policies == nil || capi.VersionAt(objects.ControlPlane, "spec", "version") == to {
		return "", nil
	}
	cluster := objects.Cluster
	policies, err := w.Policies(ctx, cluster.Namespace)
	if err != nil || !policies.MayGuard() {
		return "", err
	}
	selected, err := policies.Select(snapshot.ControlPlaneGroup(cluster, objects.ControlPlane))
	if err != nil || !selected.Guarded {
		return "", nil //nolint:nilerr // Nobody knows which policy counts, and no policy refuses a version.
	}
	if objects.Machines, err = w.readMachines(ctx, cluster); err != nil {
		return "", err
	}
	stuck, ok := snapshot.Stuck(objects, selected, to)
	if !ok {
		return "", nil
	}
	return fmt.Sprintf("%s %s would be stuck: %s. Fix: %s", stuck.Kind, stuck.Name, stuck.Why(), stuck.Fix()), nil
}

// readObjects reads a Cluster's objects, all but the Cluster. A control plane that is not there is an error, as in Cluster API: nothing
// says then which version it has.
func (w *Cluster) readObjects(ctx context.Context, cluster *clusterv1.Cluster) (snapshot.Objects, error) {
	var objects snapshot.Objects
	var err error
	if objects.ControlPlane, err = readControlPlane(ctx, w.Client, cluster); err != nil {
		return snapshot.Objects{}, err
	}
	inTopology := []client.ListOption{
		client.InNamespace(cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name, clusterv1.ClusterTopologyOwnedLabel: ""},
	}
	var deployments clusterv1.MachineDeploymentList
	if err := w.Client.List(ctx, &deployments, inTopology...); err != nil {
		return snapshot.Objects{}, fmt.Errorf("listing the Cluster's MachineDeployments: %w", err)
	}
	for i := range deployments.Items {
		objects.MachineDeployments = append(objects.MachineDeployments, &deployments.Items[i])
	}
	var pools clusterv1.MachinePoolList
	if err := w.Client.List(ctx, &pools, inTopology...); err != nil {
		return snapshot.Objects{}, fmt.Errorf("listing the Cluster's MachinePools: %w", err)
	}
	for i := range pools.Items {
		objects.MachinePools = append(objects.MachinePools, &pools.Items[i])
	}
	if !snapshot.NeedsMachines(objects) {
		return objects, nil
	}
	objects.Machines, err = w.readMachines(ctx, cluster)
	return objects, err
}

func (w *Cluster) readMachines(ctx context.Context, cluster *clusterv1.Cluster) ([]*clusterv1.Machine, error) {
	var list clusterv1.MachineList
	ofCluster := client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}
	if err := w.Client.List(ctx, &list, client.InNamespace(cluster.Namespace), ofCluster); err != nil {
		return nil, fmt.Errorf("listing the Cluster's Machines: %w", err)
	}
	machines := make([]*clusterv1.Machine, 0, len(list.Items))
	for i := range list.Items {
		machines = append(machines, &list.Items[i])
	}
	return machines, nil
}

func readControlPlane(ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster) (*unstructured.Unstructured, error) {
	object, err := external.GetObjectFromContractVersionedRef(ctx, reader, cluster.Spec.ControlPlaneRef, cluster.Namespace)
	if err != nil {
		return nil, fmt.Errorf("reading the control plane of Cluster %s: %w", client.ObjectKeyFromObject(cluster), err)
	}
	return object, nil
}

// isProvisioning reports whether a control plane has reported no version yet. The contract has status.versions, and before that
// status.version.
func isProvisioning(controlPlane *unstructured.Unstructured) bool {
	entries, _, err := unstructured.NestedSlice(controlPlane.Object, "status", "versions")
	if err == nil && len(entries) > 0 {
		if entry, ok := entries[0].(map[string]any); ok {
			return entry["version"] == nil || entry["version"] == ""
		}
	}
	reported, _, err := unstructured.NestedString(controlPlane.Object, "status", "version")
	return err != nil || reported == ""
}
