package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// scaleDownDisabled is the cluster autoscaler's annotation on a Node that it must not remove.
const scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"

// scaleDownOf reports who decided whether the cluster autoscaler may remove a node.
func scaleDownOf(node *corev1.Node) inplace.ScaleDown {
	_, ours := node.Annotations[v1alpha1.ScaleDownDisabledAnnotation]
	_, decided := node.Annotations[scaleDownDisabled]
	switch {
	case ours:
		return inplace.ScaleDownByUs
	case decided:
		return inplace.ScaleDownByOthers
	}
	return inplace.ScaleDownAllowed
}

// DisableScaleDown implements port.Nodes.
func (n *Nodes) DisableScaleDown(
	ctx context.Context, cluster types.NamespacedName, name string,
) error {
	disable := func(annotations map[string]string) {
		annotations[scaleDownDisabled] = "true"
		annotations[v1alpha1.ScaleDownDisabledAnnotation] = ""
	}
	return n.changeScaleDown(ctx, cluster, name, inplace.ScaleDownAllowed, disable)
}

// EnableScaleDown implements port.Nodes. A value that a person set meanwhile stays.
func (n *Nodes) EnableScaleDown(
	ctx context.Context, cluster types.NamespacedName, name string,
) error {
	enable := func(annotations map[string]string) {
		delete(annotations, v1alpha1.ScaleDownDisabledAnnotation)
		if annotations[scaleDownDisabled] == "true" {
			delete(annotations, scaleDownDisabled)
		}
	}
	return n.changeScaleDown(ctx, cluster, name, inplace.ScaleDownByUs, enable)
}

// changeScaleDown changes the annotations of a node that are as expected. One write changes
// annotation and marker, and the API server refuses it if the node has changed since it was read: a
// person may have annotated it.
func (n *Nodes) changeScaleDown(
	ctx context.Context, cluster types.NamespacedName, name string,
	expected inplace.ScaleDown, change func(map[string]string),
) error {
	remote, node, err := n.read(ctx, cluster, name)
	if isMissingNode(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("changing whether the autoscaler may remove the node: %w", err)
	}
	if scaleDownOf(node) != expected {
		return nil
	}
	changed := node.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	change(changed.Annotations)
	patch := client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})
	if err := remote.Patch(ctx, changed, patch); err != nil {
		n.clients.Failed(ctx, cluster, remote, err)
		return fmt.Errorf("changing Node %s of Cluster %s: %s", node.Name, cluster, describe(err))
	}
	return nil
}
