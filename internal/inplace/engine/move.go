package engine

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

const (
	// BlockMoveAnnotation on an object keeps `clusterctl move` from moving its Cluster, whatever the
	// value. Source: cmd/clusterctl/api/v1alpha3 of Cluster API.
	BlockMoveAnnotation = "clusterctl.cluster.x-k8s.io/block-move"
	// blockMoveValue tells our annotation from one of others, which stays.
	blockMoveValue = "windlass.dev/update"
)

// changeMove returns the change of a Machine's annotations that belongs in the write that records
// an update as after; nil is no update. While an updater may be at work, the Machine must not be
// moved: the updater reports the end to this management cluster only. In the other phases nothing
// runs, and the record, which moves with the Machine, is enough to continue elsewhere.
func changeMove(annotations map[string]string, after *inplace.Progress) Patch {
	return blockMove(annotations, after != nil && after.Phase == inplace.Updating)
}

// blockMove returns the change that keeps an object from being moved while an updater is running, and not
// longer. The annotation of a person stays.
func blockMove(annotations map[string]string, running bool) Patch {
	p := Patch{}
	value, blocked := annotations[BlockMoveAnnotation]
	switch {
	case running && !blocked:
		p[BlockMoveAnnotation] = new(blockMoveValue)
	case !running && value == blockMoveValue:
		p[BlockMoveAnnotation] = nil
	}
	return p
}

// blocksMove reports whether Windlass keeps a Machine from being moved; a person's annotation does not count.
func blocksMove(annotations map[string]string) bool {
	return annotations[BlockMoveAnnotation] == blockMoveValue
}

// isFollowed reports whether an update that Cluster API asked for blocks a move.
func isFollowed(m client.Object) bool {
	return blocksMove(m.GetAnnotations()) && has(m, v1alpha1.UpdateProgressAnnotation) &&
		m.GetDeletionTimestamp().IsZero()
}

// followIfPaused asks the updaters of a Machine whose Cluster is paused until they have ended, and
// begins nothing. `clusterctl move` pauses a Cluster before it waits for the annotation to go, and
// Cluster API calls no hook about a paused Machine. An update that an annotation asks for is followed
// by its reconciler. Only the Cluster counts: an annotation that pauses the Machine is a person's, who
// wants nothing done to it.
func (e *Engine) followIfPaused(ctx context.Context, m *metav1.PartialObjectMetadata) error {
	key := client.ObjectKeyFromObject(m)
	cluster := &clusterv1.Cluster{}
	name := types.NamespacedName{Namespace: m.Namespace, Name: m.Labels[clusterv1.ClusterNameLabel]}
	if err := e.Client.Get(ctx, name, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // Nothing can be moved.
		}
		return fmt.Errorf("reading Cluster %s of Machine %s: %w", name, key, err)
	}
	if !isClusterPaused(cluster) {
		return nil
	}
	request, err := e.liveRequest(ctx, key)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	_, err = e.update(ctx, request, true)
	_, isRefused := errors.AsType[*RefusedError](err)
	_, isUnasked := errors.AsType[*UnaskedError](err)
	if isRefused || isUnasked {
		return nil // The Machine shows why its update stands still, or Cluster API has taken its marks away.
	}
	return err
}

// liveRequest returns the UpdateMachine request that Cluster API would send about a Machine.
func (e *Engine) liveRequest(
	ctx context.Context, key types.NamespacedName,
) (*runtimehooksv1.UpdateMachineRequest, error) {
	machine := &clusterv1.Machine{}
	if err := e.Live.Get(ctx, key, machine); err != nil {
		return nil, fmt.Errorf("reading Machine %s: %w", key, err)
	}
	infrastructure, err := e.ReadReferenced(ctx, key.Namespace, machine.Spec.InfrastructureRef)
	if err != nil {
		return nil, err
	}
	bootstrap, err := e.ReadReferenced(ctx, key.Namespace, machine.Spec.Bootstrap.ConfigRef)
	if apierrors.IsNotFound(err) {
		bootstrap, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	request := &runtimehooksv1.UpdateMachineRequest{}
	request.Desired.Machine = *machine
	request.Desired.Machine.Status = clusterv1.MachineStatus{}
	for _, part := range []struct {
		into *runtime.RawExtension
		live *unstructured.Unstructured
	}{
		{&request.Desired.InfrastructureMachine, infrastructure},
		{&request.Desired.BootstrapConfig, bootstrap},
	} {
		if part.into.Raw, err = SentObject(part.live); err != nil {
			return nil, err
		}
	}
	return request, nil
}
