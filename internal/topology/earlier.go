package topology

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster/structuredmerge"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/pool"
)

// A topology that is set back in the middle of a rollout desires templates that exist: an earlier
// MachineSet refers to them, and Machines are in it or have left it for an update that has not
// begun. The MachineDeployment then refers to them again. Its template equals the MachineSet's, so
// the Machines that have not left it stay, and the others return. New templates with the same
// content would make a third MachineSet.
//
// A template is used again only if it is exactly what a rotation would write. The templates and
// their MachineSets are read from the API server. A MachineSet that is deleted after that takes its
// templates with it, also if the MachineDeployment refers to them already. [Objects.ReadCurrent]
// then finds that they are missing, and new ones take their place.

// A part is one of the two templates of a MachineDeployment.
type part struct {
	template
	// ref returns the reference of Machines to what is made from this template.
	ref    func(*clusterv1.MachineSpec) clusterv1.ContractVersionedObjectReference
	result *assessment
	// written is what a rotation would write, as the API server completes it; nil until it was asked.
	written *unstructured.Unstructured
	// earlier takes the place of a rotation; nil for none.
	earlier *unstructured.Unstructured
}

// rotates reports whether an existing template must be replaced by another one.
func (p *part) rotates() bool { return p.current != nil && p.result.changesSpec }

// groupTemplates returns the parts of a MachineDeployment: infrastructure, then bootstrap.
func (a *applier) groupTemplates(
	group string, current, desired *scope.MachineDeploymentState,
) []*part {
	ofRole := func(r role) template {
		prefix := workerTemplatePrefix(a.cluster.Name, group)
		return template{prefix: prefix, target: target{slot: slot{r, group}}}
	}
	infrastructure := &part{
		template: ofRole(roleMachineDeploymentInfrastructure),
		ref: func(m *clusterv1.MachineSpec) clusterv1.ContractVersionedObjectReference {
			return m.InfrastructureRef
		},
	}
	infrastructure.fill(current,
		current.InfrastructureMachineTemplate, desired.InfrastructureMachineTemplate)
	bootstrap := &part{
		template: ofRole(roleMachineDeploymentBootstrap),
		ref: func(m *clusterv1.MachineSpec) clusterv1.ContractVersionedObjectReference {
			return m.Bootstrap.ConfigRef
		},
	}
	bootstrap.fill(current, current.BootstrapTemplate, desired.BootstrapTemplate)
	return []*part{infrastructure, bootstrap}
}

// fill sets the objects of a part. A desired object has a random name where there is no current
// one. In the place of a missing template it gets the missing name, so that a repeated step is the
// same.
func (p *part) fill(
	group *scope.MachineDeploymentState, current, desired *unstructured.Unstructured,
) {
	p.desired = desired
	if group.Object == nil {
		return
	}
	p.revision = group.Object.Annotations[clusterv1.RevisionAnnotation]
	if current != nil {
		p.current = current
		return
	}
	p.missing = p.ref(&group.Object.Spec.Template.Spec).Name
	renamed := desired.DeepCopy()
	renamed.SetName(p.missing)
	p.desired = renamed
}

// writePart writes a part, unless an earlier template takes its place. It returns what
// writeTemplate does.
func (a *applier) writePart(
	ctx context.Context, p *part,
) (*unstructured.Unstructured, bool, error) {
	if p.earlier != nil {
		return p.earlier, false, nil
	}
	return a.writeTemplate(ctx, p.template, p.result)
}

// findEarlier looks for an existing MachineSet whose templates are the desired ones, and sets the
// parts that rotate to them. It returns nil, and sets nothing, if there is none.
func (a *applier) findEarlier(
	ctx context.Context, md client.Object, desired *clusterv1.MachineDeployment, parts []*part,
) (*clusterv1.MachineSet, error) {
	none := func(p *part) bool { return p.current == nil }
	if slices.ContainsFunc(parts, none) || !slices.ContainsFunc(parts, (*part).rotates) {
		return nil, nil
	}
	sets, err := a.earlierSets(ctx, md)
	if err != nil {
		return nil, err
	}
	for i := range sets {
		set := &sets[i]
		if !mayMatch(&set.Spec.Template.Spec, &desired.Spec.Template.Spec, parts) {
			continue
		}
		earlier, err := a.earlierTemplates(ctx, set, parts)
		if err != nil {
			return nil, fmt.Errorf("comparing the templates of MachineSet %s: %w", name(set), err)
		}
		if earlier == nil {
			continue
		}
		for i, p := range parts {
			p.earlier = earlier[i]
		}
		ctrl.LoggerFrom(ctx).Info("Use the templates of an earlier MachineSet again",
			"MachineSet", name(set))
		return set, nil
	}
	return nil, nil
}

// earlierSets returns the MachineSets of a MachineDeployment that are worth a return: those that
// are not being deleted and to which Machines belong or can go back. That with most replicas is
// first, then the oldest, as the controller of MachineDeployments chooses among equal ones.
func (a *applier) earlierSets(
	ctx context.Context, md client.Object,
) ([]clusterv1.MachineSet, error) {
	ofGroup := []client.ListOption{
		client.InNamespace(md.GetNamespace()),
		client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: md.GetName()},
	}
	list, machines := &clusterv1.MachineSetList{}, &clusterv1.MachineList{}
	if err := a.apiReader.List(ctx, list, ofGroup...); err != nil {
		return nil, fmt.Errorf("listing MachineSets of MachineDeployment %s: %w", name(md), err)
	}
	err := a.client.List(ctx, machines, append(ofGroup, client.UnsafeDisableDeepCopy)...)
	if err != nil {
		return nil, fmt.Errorf("listing Machines of MachineDeployment %s: %w", name(md), err)
	}
	left := map[string]bool{}
	for i := range machines.Items {
		left[pool.CameFrom(&machines.Items[i])] = true
	}
	sets := slices.DeleteFunc(list.Items, func(set clusterv1.MachineSet) bool {
		empty := replicas(set.Spec.Replicas) == 0 && replicas(set.Status.Replicas) == 0
		return !set.DeletionTimestamp.IsZero() || !metav1.IsControlledBy(&set, md) ||
			empty && !left[set.Name]
	})
	slices.SortFunc(sets, func(x, y clusterv1.MachineSet) int {
		return cmp.Or(cmp.Compare(replicas(y.Spec.Replicas), replicas(x.Spec.Replicas)),
			x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Name, y.Name))
	})
	return sets, nil
}

func replicas(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// mayMatch reports whether the Machines of a MachineSet need no update or replacement if its
// templates have the desired content: it has the current template of each part that stays, and
// another one of the same kind for each part that rotates.
func mayMatch(set, desired *clusterv1.MachineSpec, parts []*part) bool {
	if set.Version != desired.Version || set.FailureDomain != desired.FailureDomain {
		return false
	}
	for _, p := range parts {
		ref, wants := p.ref(set), p.ref(desired)
		wants.Name = p.current.GetName()
		same := ref == wants
		wants.Name = ref.Name
		if ref != wants || same == p.rotates() {
			return false
		}
	}
	return true
}

// earlierTemplates returns the templates of a MachineSet for the parts that rotate, and nil for the
// others. It returns no slice if one of them is not as desired.
func (a *applier) earlierTemplates(
	ctx context.Context, set *clusterv1.MachineSet, parts []*part,
) ([]*unstructured.Unstructured, error) {
	found := make([]*unstructured.Unstructured, len(parts))
	for i, p := range parts {
		if !p.rotates() {
			continue
		}
		earlier, err := a.earlierTemplate(ctx, p, p.ref(&set.Spec.Template.Spec).Name)
		if err != nil || earlier == nil {
			return nil, err
		}
		found[i] = earlier
	}
	return found, nil
}

// earlierTemplate returns the template with a name if it is as a rotation of the part would write
// it. It then has the same spec, and nothing else that an apply would change. A field of the spec
// that another manager has added makes it another template, although an apply would leave that
// alone.
func (a *applier) earlierTemplate(
	ctx context.Context, p *part, templateName string,
) (*unstructured.Unstructured, error) {
	earlier := &unstructured.Unstructured{}
	earlier.SetGroupVersionKind(p.result.intent.GroupVersionKind())
	key := client.ObjectKey{Namespace: p.result.intent.GetNamespace(), Name: templateName}
	if err := a.apiReader.Get(ctx, key, earlier); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("getting %s %s: %w", earlier.GetKind(), key, err)
	}
	if earlier.GetDeletionTimestamp() != nil || !labels.IsTopologyOwned(earlier) {
		return nil, nil
	}
	if err := a.tryRotation(ctx, p); err != nil {
		return nil, err
	}
	if !jsonEqual(earlier.Object["spec"], p.written.Object["spec"]) {
		return nil, nil
	}
	renamed := p.result.intent.DeepCopy()
	renamed.SetName(templateName)
	t := target{slot: p.slot, current: earlier, desired: renamed, ignore: p.ignore}
	result, err := a.assess(ctx, t, true)
	if err != nil || result.changes {
		return nil, err
	}
	return earlier, nil
}

// tryRotation asks the API server what a rotation of the part would write.
func (a *applier) tryRotation(ctx context.Context, p *part) error {
	if p.written != nil {
		return nil
	}
	rotated := p.rotated(p.result)
	kind := rotated.GroupVersionKind().GroupKind()
	written := rotated.DeepCopy()
	err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(written), client.DryRunAll,
		client.FieldOwner(structuredmerge.TopologyManagerName), client.ForceOwnership)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Trying to create an object of the topology")
		return newCreateError(rotated, kind, err)
	}
	p.written = written
	return nil
}
