package machineset

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// readDeployment reads the MachineDeployment that the MachineSet belongs to: the one that its label
// names, or else its controller. If somebody removes the label, the UpdatePolicy of the
// MachineDeployment must count all the same.
func (r *Run) readDeployment(ctx context.Context) error {
	name, ok := r.Set.Labels[clusterv1.MachineDeploymentNameLabel]
	owner := metav1.GetControllerOfNoCopy(r.Set)
	switch {
	case ok:
	case owner != nil && owner.Kind == capi.MachineDeploymentKind.Kind:
		name = owner.Name
	default:
		return nil
	}
	key := client.ObjectKey{Namespace: r.Set.Namespace, Name: name}
	deployment := &clusterv1.MachineDeployment{}
	err := r.Client.Get(ctx, key, deployment)
	if apierrors.IsNotFound(err) && !ok {
		return nil // As without an owner: the garbage collector has not removed it so far.
	}
	if err != nil {
		return fmt.Errorf("getting MachineDeployment %s of MachineSet %s: %w", key, r.Set.Name, err)
	}
	r.Deployment = deployment
	return nil
}

// isChild reports whether the MachineSet belongs to a MachineDeployment.
func (r *Run) isChild() bool {
	_, ok := r.Set.Labels[clusterv1.MachineDeploymentNameLabel]
	return ok
}

// hasRevision reports whether the MachineSet has the revision of its MachineDeployment. It has none
// without a MachineDeployment.
func (r *Run) hasRevision() bool {
	return r.Deployment != nil && r.Deployment.Annotations[clusterv1.RevisionAnnotation] ==
		r.Set.Annotations[clusterv1.RevisionAnnotation]
}

// CompleteMetadata adds the label of the Cluster to the MachineSet, its selector and its template,
// and makes the Cluster the owner of a MachineSet that belongs to no MachineDeployment. A
// MachineSet whose label names a MachineDeployment waits for that one, which adopts it after a
// restore from a backup.
func (r *Run) CompleteMetadata() {
	set := r.Set
	owned := util.HasOwner(set.OwnerReferences, clusterv1.GroupVersion.String(),
		[]string{capi.MachineDeploymentKind.Kind, "Cluster"})
	if !owned && !r.isChild() {
		set.OwnerReferences = util.EnsureOwnerRef(set.OwnerReferences, objects.ClusterOwner(r.Cluster))
	}
	for _, labels := range []*map[string]string{
		&set.Labels, &set.Spec.Selector.MatchLabels, &set.Spec.Template.Labels,
	} {
		completed := maps.Clone(*labels)
		if completed == nil {
			completed = map[string]string{}
		}
		completed[clusterv1.ClusterNameLabel] = set.Spec.ClusterName
		*labels = completed
	}
}

func (r *Run) readInfrastructureTemplate(ctx context.Context) (next Next, err error) {
	r.InfrastructureMissing, err = r.readTemplate(ctx, r.Set.Spec.Template.Spec.InfrastructureRef)
	return Next{}, err
}

func (r *Run) readBootstrapTemplate(ctx context.Context) (next Next, err error) {
	if ref := r.Set.Spec.Template.Spec.Bootstrap.ConfigRef; ref.IsDefined() {
		r.BootstrapMissing, err = r.readTemplate(ctx, ref)
	}
	return Next{}, err
}

// readTemplate makes the Cluster an owner of a template. missing is set if there is no such
// template. That is an error for a MachineSet that may have to create Machines: not for one that is
// deleted, nor for an old one of a MachineDeployment.
func (r *Run) readTemplate(
	ctx context.Context, ref clusterv1.ContractVersionedObjectReference,
) (missing bool, err error) {
	if !strings.HasSuffix(ref.Kind, clusterv1.TemplateSuffix) {
		return false, nil
	}
	template, err := external.GetObjectFromContractVersionedRef(ctx, r.Client, ref, r.Set.Namespace)
	switch {
	case apierrors.IsNotFound(err):
		old := r.Deployment != nil && !r.hasRevision()
		if !r.Set.DeletionTimestamp.IsZero() || old {
			return true, nil
		}
		return true, err
	case err != nil:
		return false, err
	}
	return false, objects.EnsureClusterOwner(ctx, r.Client, r.Cluster, template)
}

// ReadMachines reads the Machines that the MachineSet controls, and adopts those that its selector
// matches and that have no controller. Machines that are being deleted count.
func (r *Run) ReadMachines(ctx context.Context) (Next, error) {
	labels, err := metav1.LabelSelectorAsMap(&r.Set.Spec.Selector)
	if err != nil {
		return Next{Stop: true}, fmt.Errorf("reading the selector of MachineSet %s: %w", r.Set.Name, err)
	}
	var all clusterv1.MachineList
	err = r.Client.List(ctx, &all, client.InNamespace(r.Set.Namespace), client.MatchingLabels(labels))
	if err != nil {
		return Next{Stop: true}, fmt.Errorf("listing the Machines of MachineSet %s: %w", r.Set.Name, err)
	}
	r.Machines = make([]*clusterv1.Machine, 0, len(all.Items))
	for i := range all.Items {
		m := &all.Items[i]
		if IsForeign(r.Set, m) || metav1.GetControllerOf(m) == nil && !r.tryAdopt(ctx, m) {
			continue
		}
		r.Machines = append(r.Machines, m)
	}
	r.Listed = true
	return Next{}, nil
}

// IsForeign reports whether another controller than the MachineSet controls a Machine.
func IsForeign(set *clusterv1.MachineSet, m *clusterv1.Machine) bool {
	return metav1.GetControllerOf(m) != nil && !metav1.IsControlledBy(m, set)
}

// Adopt makes the MachineSet the controller of a Machine that has none.
func (r *Run) Adopt(ctx context.Context, m *clusterv1.Machine) error {
	return objects.Adopt(ctx, r.Client, *metav1.NewControllerRef(r.Set, capi.MachineSetKind), m)
}

// tryAdopt adopts a Machine. It reports whether it could; an Event says why not, and the next run
// tries again.
func (r *Run) tryAdopt(ctx context.Context, m *clusterv1.Machine) bool {
	log := ctrl.LoggerFrom(ctx).WithValues("Machine", client.ObjectKeyFromObject(m))
	if err := r.Adopt(ctx, m); err != nil {
		log.Error(err, "Failed to adopt Machine")
		r.recorder.Eventf(r.Set, corev1.EventTypeWarning, "FailedAdopt",
			"Failed to adopt Machine %q: %v", m.Name, err)
		return false
	}
	log.Info("Adopted Machine")
	r.recorder.Eventf(r.Set, corev1.EventTypeNormal, "SuccessfulAdopt", "Adopted Machine %q", m.Name)
	return true
}

// readPolicy asks what the UpdatePolicy of the MachineDeployment changes. Without an answer nothing
// may happen to Machines.
func (r *Run) readPolicy(ctx context.Context) (next Next, err error) {
	if r.Policies == nil || r.Deployment == nil {
		return Next{}, nil
	}
	r.Policy, err = r.Policies(ctx, r.Cluster, r.Deployment)
	if err == nil && pool.Keeps(r.Policy, r.Deployment) && r.Listed {
		err = r.addRelabeled(ctx)
	}
	return Next{Stop: err != nil}, err
}

// addRelabeled adds the Machines of a kept group that the MachineSet controls and that its selector
// does not match, because somebody has changed the selector or the labels of a Machine. Otherwise
// nothing would update or replace them. SyncMachines then writes the labels of the MachineSet.
func (r *Run) addRelabeled(ctx context.Context) error {
	all, err := r.listMachines(ctx)
	if err != nil {
		return err
	}
	known := make(map[types.UID]bool, len(r.Machines))
	for _, m := range r.Machines {
		known[m.UID] = true
	}
	for i := range all {
		if m := &all[i]; metav1.IsControlledBy(m, r.Set) && !known[m.UID] {
			r.Machines = append(r.Machines, m.DeepCopy())
		}
	}
	return nil
}

// readGroup reads the Machines of all MachineSets of the MachineDeployment, which must not be
// changed. It reads the MachineSets last: one that is created meanwhile may have got a Machine of
// another one. It returns an error as long as one of the MachineSets has to adopt a Machine: the
// group would seem to lack it.
func (r *Run) readGroup(ctx context.Context) ([]*clusterv1.Machine, error) {
	machines, err := r.listMachines(ctx)
	if err != nil {
		return nil, err
	}
	sets, err := r.readSets(ctx)
	if err != nil {
		return nil, err
	}
	ours := map[types.UID]bool{}
	for _, set := range sets {
		ours[set.UID] = true
	}
	var group []*clusterv1.Machine
	for i := range machines {
		m := &machines[i]
		owner := metav1.GetControllerOfNoCopy(m)
		if owner != nil {
			if ours[owner.UID] {
				group = append(group, m)
			}
			continue
		}
		for _, set := range sets {
			if objects.Selects(set, m.Labels) {
				return nil, fmt.Errorf("counting the Machines of MachineDeployment %s: MachineSet %s has "+
					"not adopted Machine %s so far. Fix: end the pause of the MachineSet, or remove what "+
					"refuses the change of the Machine's owner", r.Deployment.Name, set.Name, m.Name)
			}
		}
	}
	return group, nil
}

// readSets reads the MachineSets of the MachineDeployment. They are the cache's own, and must not
// be changed.
func (r *Run) readSets(ctx context.Context) ([]*clusterv1.MachineSet, error) {
	var all clusterv1.MachineSetList
	err := r.Client.List(ctx, &all, client.InNamespace(r.Set.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the MachineSets of MachineDeployment %s: %w",
			r.Deployment.Name, err)
	}
	var sets []*clusterv1.MachineSet
	for i := range all.Items {
		if set := &all.Items[i]; metav1.IsControlledBy(set, r.Deployment) {
			sets = append(sets, set)
		}
	}
	return sets, nil
}

// listMachines returns the Machines of the Cluster, among which owners tell those of a group:
// somebody may have changed all labels but that of the Cluster, which the Machine controller
// restores. They are the cache's own, and must not be changed.
func (r *Run) listMachines(ctx context.Context) ([]clusterv1.Machine, error) {
	var all clusterv1.MachineList
	err := r.Client.List(ctx, &all, client.InNamespace(r.Set.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: r.Set.Spec.ClusterName},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the Machines of Cluster %s: %w", r.Set.Spec.ClusterName, err)
	}
	return all.Items, nil
}
