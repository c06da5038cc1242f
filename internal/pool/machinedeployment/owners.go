package machinedeployment

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// claimMachineDeployment sets the metadata that tools such as clusterctl move follow: the label and
// the owner that name the Cluster. writeMetadata writes it.
func (r *run) claimMachineDeployment() {
	if r.md.Labels == nil {
		r.md.Labels = map[string]string{}
	}
	r.md.Labels[clusterv1.ClusterNameLabel] = r.md.Spec.ClusterName
	r.md.OwnerReferences = util.EnsureOwnerRef(r.md.OwnerReferences, objects.ClusterOwner(r.cluster))
}

// templates says which templates of a MachineDeployment do not exist.
type templates struct {
	infrastructureMissing, bootstrapMissing bool
}

// complete reports whether a MachineSet that refers to the templates can create Machines.
func (t templates) complete() bool { return !t.infrastructureMissing && !t.bootstrapMissing }

// claimTemplates makes the Cluster an owner of the templates, and notes which are missing.
func (r *run) claimTemplates(ctx context.Context) error {
	spec := &r.md.Spec.Template.Spec
	exists, err := r.claimTemplate(ctx, spec.InfrastructureRef)
	if err != nil {
		return err
	}
	r.templates.infrastructureMissing = !exists
	if spec.Bootstrap.ConfigRef.IsDefined() {
		exists, err = r.claimTemplate(ctx, spec.Bootstrap.ConfigRef)
		r.templates.bootstrapMissing = !exists && err == nil
	}
	return err
}

// claimTemplate makes the Cluster an owner of one template. An object of a kind that does not end
// in Template is used by one machine, so it is not read here and counts as existing.
func (r *run) claimTemplate(
	ctx context.Context, ref clusterv1.ContractVersionedObjectReference,
) (exists bool, err error) {
	if !strings.HasSuffix(ref.Kind, clusterv1.TemplateSuffix) {
		return true, nil
	}
	_, template, err := objects.FetchTemplate(ctx, r.Client, ref, r.md.Namespace)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("getting %s %q of MachineDeployment %s: %w",
			ref.Kind, ref.Name, r.name(), err)
	}
	return true, objects.EnsureClusterOwner(ctx, r.Client, r.cluster, template)
}
