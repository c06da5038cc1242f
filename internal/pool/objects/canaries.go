package objects

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/record"
)

// WriteFailedCanaries writes the record of failed canaries to a MachineDeployment, or removes it if
// canaries is nil. A record that is written takes away the retry that somebody has asked for: it is
// either answered, or older than the failure. It returns the MachineDeployment as it is then. The
// error is a conflict if the MachineDeployment has changed since md was read.
func WriteFailedCanaries(
	ctx context.Context, c client.Client, md *clusterv1.MachineDeployment, canaries *record.FailedCanaries,
) (*clusterv1.MachineDeployment, error) {
	const key = v1alpha1.FailedCanariesAnnotation
	after := md.DeepCopy()
	if canaries == nil {
		delete(after.Annotations, key)
	} else {
		text, err := record.Encode(after.Annotations, key, *canaries)
		if err != nil {
			return nil, err //nolint:wrapcheck // It names the annotation.
		}
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, key, text)
		delete(after.Annotations, v1alpha1.UpdateRetryAnnotation)
	}
	patch := client.MergeFromWithOptions(md, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, after, patch); err != nil {
		return nil, fmt.Errorf("writing the record of failed canaries of MachineDeployment %s: %w",
			client.ObjectKeyFromObject(md), err)
	}
	return after, nil
}
