package machinedeployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/pool"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// errNoSelector refuses a MachineDeployment that would select every MachineSet of the namespace.
var errNoSelector = errors.New("spec.selector is empty. Fix: set matchLabels")

// selectorOf returns what a MachineDeployment selects MachineSets by.
func selectorOf(md *clusterv1.MachineDeployment) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(&md.Spec.Selector)
	if err == nil && selector.Empty() {
		err = errNoSelector
	}
	if err != nil {
		return nil, fmt.Errorf("reading the selector of MachineDeployment %s: %w",
			client.ObjectKeyFromObject(md), err)
	}
	return selector, nil
}

// readMachines reads the Machines that the MachineDeployment selects. Nothing may change them: they
// are the cache's own.
func (r *run) readMachines(ctx context.Context) error {
	matching, err := metav1.LabelSelectorAsMap(&r.md.Spec.Selector)
	if err != nil {
		return fmt.Errorf("reading the selector of MachineDeployment %s: %w", r.name(), err)
	}
	list := &clusterv1.MachineList{}
	err = r.Client.List(ctx, list, client.InNamespace(r.md.Namespace), client.MatchingLabels(matching),
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing the Machines of MachineDeployment %s: %w", r.name(), err)
	}
	r.machines = pointersTo(list.Items)
	slices.SortFunc(r.machines, func(a, b *clusterv1.Machine) int {
		return strings.Compare(a.Name, b.Name)
	})
	return nil
}

// readSets reads the MachineSets of the MachineDeployment, and adopts those that it selects and
// that have no controller. One that selects a MachineSet of another MachineDeployment leaves it
// alone. A MachineSet that cannot be adopted is left out, and is in unadopted.
func (r *run) readSets(ctx context.Context) error {
	selector, err := selectorOf(r.md)
	if err != nil {
		return err
	}
	list := &clusterv1.MachineSetList{}
	err = r.Client.List(ctx, list, client.InNamespace(r.md.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing the MachineSets of MachineDeployment %s: %w", r.name(), err)
	}
	var owned []*clusterv1.MachineSet
	for _, set := range pointersTo(list.Items) {
		orphan := metav1.GetControllerOfNoCopy(set) == nil && selector.Matches(labels.Set(set.Labels))
		if !orphan && !metav1.IsControlledBy(set, r.md) {
			continue
		}
		set = set.DeepCopy() // The list has the cache's own.
		if orphan {
			if err := r.adopt(ctx, set); err != nil {
				r.unadopted = append(r.unadopted, set)
				r.unadoptedErr = errors.Join(r.unadoptedErr, err)
				continue
			}
		}
		owned = append(owned, set)
	}
	slices.SortFunc(owned, func(a, b *clusterv1.MachineSet) int {
		return strings.Compare(a.Name, b.Name)
	})
	r.sets, r.setsRead = owned, true
	return nil
}

// adopt makes the MachineDeployment the controller of a MachineSet.
func (r *run) adopt(ctx context.Context, set *clusterv1.MachineSet) error {
	log := ctrl.LoggerFrom(ctx).WithValues("MachineSet", client.ObjectKeyFromObject(set))
	owner := *metav1.NewControllerRef(r.md, capi.MachineDeploymentKind)
	if err := objects.Adopt(ctx, r.Client, owner, set); err != nil {
		log.Error(err, "Cannot adopt the MachineSet")
		r.event(corev1.EventTypeWarning, failedAdopt, "Failed to adopt MachineSet %q: %v", set.Name, err)
		return fmt.Errorf("adopting MachineSet %s: %w", set.Name, err)
	}
	log.Info("Adopted the MachineSet")
	r.event(corev1.EventTypeNormal, successfulAdopt, "Adopted MachineSet %q", set.Name)
	return nil
}

// requireSets returns an error if a MachineSet that has Machines could not be adopted and the
// Machines of the group are kept or handed over: the group would seem to lack some. Others
// continue, as with Cluster API's controller. The policy is the API server's: this is rare.
func (r *run) requireSets(ctx context.Context) error {
	policyOf := r.Keeps
	if r.KeepsNow != nil {
		policyOf = r.KeepsNow
	}
	if !slices.ContainsFunc(r.unadopted, r.hasMachines) || policyOf == nil {
		return nil
	}
	if err := r.readPolicy(ctx, policyOf); err != nil {
		return errors.Join(r.unadoptedErr, err)
	}
	if !r.keep && !r.policy.HandOver {
		return nil
	}
	r.held = &pool.Decision{
		Action: pool.Wait, Reason: pool.ReasonNotAdopted,
		Message: fmt.Sprintf("%v. Fix: remove what refuses the change of its owner, or change its "+
			"labels so that the MachineDeployment does not select it", r.unadoptedErr),
	}
	return r.unadoptedErr
}

// hasMachines reports whether a MachineSet controls a Machine of the group, or would adopt one.
func (r *run) hasMachines(set *clusterv1.MachineSet) bool {
	return slices.ContainsFunc(r.machines, func(m *clusterv1.Machine) bool {
		return metav1.IsControlledBy(m, set) ||
			metav1.GetControllerOfNoCopy(m) == nil && objects.Selects(set, m.Labels)
	})
}

// nameSets sets the label that names the MachineDeployment on MachineSets that lack it: those that
// were adopted, and those from which somebody removed it.
func (r *run) nameSets(ctx context.Context) error {
	for _, set := range r.sets {
		if set.Labels[clusterv1.MachineDeploymentNameLabel] == r.md.Name {
			continue
		}
		before := set.DeepCopy()
		if set.Labels == nil {
			set.Labels = map[string]string{}
		}
		set.Labels[clusterv1.MachineDeploymentNameLabel] = r.md.Name
		if err := r.Client.Patch(ctx, set, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("setting the label %s of MachineSet %s: %w",
				clusterv1.MachineDeploymentNameLabel, set.Name, err)
		}
	}
	return nil
}

func pointersTo[T any](items []T) []*T {
	pointers := make([]*T, len(items))
	for i := range items {
		pointers[i] = &items[i]
	}
	return pointers
}
