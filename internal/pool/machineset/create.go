package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/condition"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// source says which object of a Machine is made, and from what.
type source struct {
	objects.Copy
	// cloningFailed is the reason of the condition MachinesCreated if the object cannot be made.
	cloningFailed string
	// what names the object in errors.
	what string
}

// bootstrapCopy and infrastructureCopy say how the objects of a Machine are made.
func (r *Run) bootstrapCopy(m *clusterv1.Machine) source {
	return r.templateOf(m, r.Set.Spec.Template.Spec.Bootstrap.ConfigRef,
		clusterv1.BootstrapTemplateCloningFailedV1Beta1Reason, "bootstrap configuration")
}

func (r *Run) infrastructureCopy(m *clusterv1.Machine) source {
	return r.templateOf(m, r.Set.Spec.Template.Spec.InfrastructureRef,
		clusterv1.InfrastructureTemplateCloningFailedV1Beta1Reason, "infrastructure machine")
}

func (r *Run) templateOf(
	m *clusterv1.Machine, ref clusterv1.ContractVersionedObjectReference, reason, what string,
) source {
	return source{cloningFailed: reason, what: what, Copy: objects.Copy{
		Ref: ref, Namespace: m.Namespace, Name: m.Name, Cluster: m.Spec.ClusterName,
		Labels: m.Labels, Annotations: m.Annotations,
	}}
}

// clone makes an object from a template. current is the object that exists, or nil. The MachineSet
// is the owner until the Machine is.
func (r *Run) clone(
	ctx context.Context, from source, current *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	isMachine := func(o *unstructured.Unstructured) bool {
		return util.HasOwner(o.GetOwnerReferences(), clusterv1.GroupVersion.String(), []string{"Machine"})
	}
	if current == nil || !isMachine(current) {
		owner := r.ownerReference()
		from.Owner = &owner
	}
	object, err := objects.Clone(ctx, r.Client, from.Copy)
	if err != nil {
		return nil, err
	}
	if current != nil {
		object.SetName(current.GetName())
		object.SetUID(current.GetUID())
	}
	return object, nil
}

func (r *Run) ownerReference() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: capi.MachineSetKind.Kind,
		Name: r.Set.Name, UID: r.Set.UID,
	}
}

// CreateMachines creates count Machines with their objects, one after the other, if the preflight
// checks pass. What it created of a Machine is deleted again if the rest fails.
func (r *Run) CreateMachines(ctx context.Context, count int) (Next, error) {
	blocked, err := r.Preflight(ctx, "Scale up", r.Set)
	if err != nil {
		blocked = append(blocked, err.Error())
	}
	if len(blocked) > 0 {
		r.Blocked = blocked
		r.creationFailed(clusterv1.PreflightCheckFailedV1Beta1Reason, strings.Join(blocked, "; "))
		if err != nil {
			return Next{}, err
		}
		return Next{After: preflightRetry}, nil
	}
	taken := sets.New[string]()
	for _, m := range r.Machines {
		taken.Insert(m.Name)
	}
	for i := range count {
		m, err := r.newMachine(taken)
		if err != nil {
			r.creationFailed(clusterv1.MachineCreationFailedV1Beta1Reason, err.Error())
			return Next{}, err
		}
		taken.Insert(m.Name)
		if err := r.createMachine(ctx, m); err != nil {
			return Next{}, err
		}
		ctrl.LoggerFrom(ctx).Info("Machine created (scale up)",
			"Machine", client.ObjectKeyFromObject(m), "number", i+1,
			"of", count, "replicas", *r.Set.Spec.Replicas)
		r.recorder.Eventf(r.Set, corev1.EventTypeNormal, "SuccessfulCreate",
			"Created Machine %q", m.Name)
	}
	return Next{}, nil
}

// nameTries is how many names are tried for a new Machine. One of 27^5 random texts is taken.
const nameTries = 10

// newMachine is NewMachine with a name that is not taken. Creation is an apply, which would change
// the Machine that has the name.
func (r *Run) newMachine(taken sets.Set[string]) (*clusterv1.Machine, error) {
	for range nameTries {
		m, err := r.NewMachine(r.Set)
		if err != nil || !taken.Has(m.Name) {
			return m, err
		}
	}
	return nil, fmt.Errorf("naming a Machine of MachineSet %s: %d names were taken. "+
		"Fix: let spec.machineNaming.template end with {{ .random }}", r.Set.Name, nameTries)
}

// createMachine creates the bootstrap config, the infrastructure, and then the Machine.
func (r *Run) createMachine(ctx context.Context, m *clusterv1.Machine) error {
	r.looked.Put(r.Set.UID, mayCreate, r.Now(), creationShows)
	var created []*unstructured.Unstructured
	if r.Set.Spec.Template.Spec.Bootstrap.ConfigRef.IsDefined() {
		bootstrap, err := r.createObject(ctx, r.bootstrapCopy(m))
		if err != nil {
			return err
		}
		m.Spec.Bootstrap.ConfigRef = referenceTo(bootstrap)
		created = append(created, bootstrap)
	}
	infrastructure, err := r.createObject(ctx, r.infrastructureCopy(m))
	if err != nil {
		return errors.Join(err, r.rollBack(ctx, created))
	}
	m.Spec.InfrastructureRef = referenceTo(infrastructure)
	created = append(created, infrastructure)
	if err := r.applier.Apply(ctx, manager, m); err != nil {
		r.creationFailed(clusterv1.MachineCreationFailedV1Beta1Reason, err.Error())
		return errors.Join(err, r.rollBackUnlessUsed(ctx, m, created))
	}
	r.awaitMachine(m)
	r.setNotPaused(ctx, m)
	return nil
}

// setNotPaused writes the condition Paused of a new Machine, which otherwise is all that the first
// reconcile of the Machine controller does: its next one begins a second later. If this write
// fails, the Machine controller makes it.
func (r *Run) setNotPaused(ctx context.Context, m *clusterv1.Machine) {
	if annotations.HasPaused(m) {
		return
	}
	after := m.DeepCopy()
	condition.SetOn(after, notPaused(m))
	if err := objects.SaveStatus(ctx, r.Client, m, after); err != nil {
		ctrl.LoggerFrom(ctx).V(4).Info("The condition Paused was not written",
			"Machine", client.ObjectKeyFromObject(m), "cause", err.Error())
	}
}

// createObject creates one object of a new Machine. First manager owns all of it, and then releases
// labels and annotations, which metadataManager owns from the next run on. This needs no managed
// fields from a cache.
func (r *Run) createObject(ctx context.Context, from source) (*unstructured.Unstructured, error) {
	object, err := r.clone(ctx, from, nil)
	if err == nil {
		err = r.applier.Apply(ctx, manager, object)
	}
	if err == nil {
		err = objects.ReleaseMetadata(ctx, r.Client, r.APIReader, object, manager)
	}
	if err != nil {
		r.creationFailed(from.cloningFailed, err.Error())
		return nil, fmt.Errorf("failed to clone %s from %s %s/%s while creating a Machine: %w",
			from.what, from.Ref.Kind, r.Set.Namespace, from.Ref.Name, err)
	}
	r.await(capicontroller.Unstructured(object), object.GetResourceVersion())
	return object, nil
}

// rollBackUnlessUsed is rollBack for objects of a Machine whose creation failed. A request that
// failed may have been carried out, so it asks the API server: the objects of a Machine that exists
// stay. If the answer is unknown they stay, too. The next run deletes what no Machine uses.
func (r *Run) rollBackUnlessUsed(
	ctx context.Context, m *clusterv1.Machine, created []*unstructured.Unstructured,
) error {
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(m), &clusterv1.Machine{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	return r.rollBack(ctx, created)
}

// rollBack deletes objects of a Machine that was not created, the last one first.
func (r *Run) rollBack(ctx context.Context, created []*unstructured.Unstructured) error {
	var errs []error
	for _, object := range slices.Backward(created) {
		if err := r.Client.Delete(ctx, object); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf(
				"failed to cleanup %s %s of a Machine that was not created: %w",
				object.GetKind(), client.ObjectKeyFromObject(object), err))
		}
	}
	return errors.Join(errs...)
}

// creationFailed sets the deprecated condition MachinesCreated.
func (r *Run) creationFailed(reason, message string) {
	v1beta1conditions.MarkFalse(condition.Legacy(r.Set), clusterv1.MachinesCreatedV1Beta1Condition, reason,
		clusterv1.ConditionSeverityError, "%s", message)
}

func referenceTo(object *unstructured.Unstructured) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{
		APIGroup: object.GroupVersionKind().Group, Kind: object.GetKind(), Name: object.GetName(),
	}
}
