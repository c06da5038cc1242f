package doctorcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/bounds"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/internal/updatepolicy"
	"github.com/windlass-dev/windlass/internal/upgradegraph"
)

// collector reads facts about a cluster, one kind after the other. What does not exist is no error.
type collector struct {
	management.Cluster
	facts *doctor.Facts
}

func (c *collector) key() types.NamespacedName {
	return client.ObjectKeyFromObject(c.facts.Objects.Cluster)
}

func (c *collector) readEngine(ctx context.Context) (err error) {
	c.facts.Engine, c.facts.EngineKnown, err = c.FindEngine(ctx, c.facts.Objects.Cluster)
	return err
}

func (c *collector) readClass(ctx context.Context) (err error) {
	c.facts.Class, err = c.Class(ctx, c.facts.Objects.Cluster)
	return err
}

func (c *collector) readUpdaters(ctx context.Context) (err error) {
	c.facts.Updaters, err = c.Updaters(ctx)
	return err
}

func (c *collector) readNamespace(ctx context.Context) (err error) {
	c.facts.NamespaceLabels, err = c.NamespaceLabels(ctx, c.key().Namespace)
	return err
}

func (c *collector) readHealthChecks(ctx context.Context) (err error) {
	c.facts.HealthChecks, err = c.HealthChecks(ctx, c.key())
	return err
}

func (c *collector) readManagers(ctx context.Context) (err error) {
	of := management.Scope{Options: []client.ListOption{client.HasLabels{clusterv1.ProviderNameLabel}}}
	c.facts.Managers, err = management.ListKnown[appsv1.Deployment, appsv1.DeploymentList](
		ctx, c.Cluster, "Deployments", of)
	return err
}

func (c *collector) readWebhooks(ctx context.Context) (err error) {
	c.facts.Webhooks, err = c.Webhooks(ctx, c.facts.Now)
	return err
}

func (c *collector) readExtensions(ctx context.Context) (err error) {
	c.facts.Extensions, err = c.ExtensionConfigs(ctx)
	return err
}

// readProvider reads the version of the control plane's provider if it tells why a rollout does not continue.
func (c *collector) readProvider(ctx context.Context) error {
	if snapshot.NeedsProvider(c.facts.Objects) {
		c.facts.Provider = c.ProviderVersion(ctx, management.RKE2Provider)
	}
	return nil
}

func (c *collector) readGuard(ctx context.Context) error {
	guard := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := c.Object(ctx, "ValidatingWebhookConfiguration", types.NamespacedName{Name: v1alpha1.GuardConfigurationName}, guard)
	if err == nil {
		c.facts.Guard = guard
	}
	return management.IgnoreMissing(err)
}

// readTemplates looks for the objects that Cluster API must have to ask the extension: the templates of MachineSets with
// machines, and what control plane Machines are made of.
func (c *collector) readTemplates(ctx context.Context) error {
	sets, err := management.List[*clusterv1.MachineSet, clusterv1.MachineSetList](
		ctx, c.Cluster, "MachineSets", management.InCluster(c.key()))
	if management.IgnoreMissing(err) != nil {
		return err
	}
	c.facts.MachineSets = sets
	known := map[clusterv1.ContractVersionedObjectReference]*metav1.PartialObjectMetadata{}
	for _, r := range c.references(sets) {
		object, looked := known[r.ref]
		if !looked {
			if object, err = c.find(ctx, r.ref); err != nil {
				return err
			}
			known[r.ref] = object
		}
		if machine, is := strings.CutPrefix(r.from, "Machine "); is && isUnowned(object) {
			c.facts.Unowned = append(c.facts.Unowned, machine)
		}
		if object == nil {
			c.facts.Missing = append(c.facts.Missing, doctor.Reference{Group: r.group, From: r.from, To: r.ref.Kind + " " + r.ref.Name})
		}
	}
	slices.Sort(c.facts.Unowned)
	slices.SortFunc(c.facts.Missing, func(a, b doctor.Reference) int { return strings.Compare(a.From+a.To, b.From+b.To) })
	return nil
}

// reference is a reference that an object of a group holds.
type reference struct {
	// group is the name of a MachineDeployment; empty for the control plane.
	group, from string
	ref         clusterv1.ContractVersionedObjectReference
}

func (c *collector) references(sets []*clusterv1.MachineSet) []reference {
	var all []reference
	add := func(group, from string, spec *clusterv1.MachineSpec) {
		all = append(all, reference{group: group, from: from, ref: spec.InfrastructureRef})
		if spec.Bootstrap.ConfigRef.IsDefined() {
			all = append(all, reference{group: group, from: from, ref: spec.Bootstrap.ConfigRef})
		}
	}
	for _, md := range c.facts.Objects.MachineDeployments {
		add(md.Name, "MachineDeployment "+md.Name, &md.Spec.Template.Spec)
	}
	for _, ms := range sets {
		if ms.Spec.Replicas != nil && *ms.Spec.Replicas > 0 {
			add(capi.OwnerThrough(ms).Name, "MachineSet "+ms.Name, &ms.Spec.Template.Spec)
		}
	}
	for _, machine := range c.facts.Objects.Machines {
		if capi.IsControlPlane(machine) {
			add("", "Machine "+machine.Name, &machine.Spec)
		}
	}
	return slices.DeleteFunc(all, func(r reference) bool { return !r.ref.IsDefined() })
}

// find looks an object up by its metadata; nil if it does not exist.
func (c *collector) find(
	ctx context.Context, ref clusterv1.ContractVersionedObjectReference,
) (object *metav1.PartialObjectMetadata, err error) {
	mapping, err := c.Mapper.RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if err == nil {
		object = capi.MetadataOf(mapping.GroupVersionKind)
		err = c.Get(ctx, types.NamespacedName{Namespace: c.key().Namespace, Name: ref.Name}, object)
	}
	if err == nil {
		return object, nil
	}
	if management.IgnoreMissing(err) == nil {
		return nil, nil
	}
	return nil, &management.ReadError{Item: fmt.Sprintf("%s %s/%s", ref.Kind, c.key().Namespace, ref.Name), Err: err}
}

// isUnowned reports whether an object is a KubeadmConfig whose spec nobody has applied. Cluster API applies it from
// v1.12 on; before, it created the object, and v1.12 takes that field manager away. An object without any field
// manager was read through something that hides them.
func isUnowned(object *metav1.PartialObjectMetadata) bool {
	if object == nil || object.Kind != "KubeadmConfig" || len(object.ManagedFields) == 0 {
		return false
	}
	return !slices.ContainsFunc(object.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Operation == metav1.ManagedFieldsOperationApply && e.FieldsV1 != nil &&
			bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:spec"`))
	})
}

// readSettings reads the settings of the control plane object and of bootstrap configs.
func (c *collector) readSettings(ctx context.Context) error {
	read := c.Settings(ctx, c.facts.Objects, c.facts.Class)
	c.facts.Settings = read.Uses
	return errors.Join(read.Unread...)
}

// readGates looks for UpgradeGates that exceed their CRD.
func (c *collector) readGates(ctx context.Context) error {
	gates, err := c.UpgradeGates(ctx, c.key().Namespace)
	if err != nil {
		return err
	}
	return addBeyond(ctx, c.facts, gates, func(g *v1alpha1.UpgradeGate) bool {
		return len(policy.CheckSelector(nil, g.Spec.ClusterSelector)) > 0
	})
}

// readGraphs looks for UpgradeGraphs that exceed their CRD.
func (c *collector) readGraphs(ctx context.Context) error {
	graphs, err := management.ListKnown[v1alpha1.UpgradeGraph, v1alpha1.UpgradeGraphList](
		ctx, c.Cluster, "UpgradeGraphs", management.Scope{})
	if err != nil {
		return err
	}
	return addBeyond(ctx, c.facts, graphs, func(g *v1alpha1.UpgradeGraph) bool {
		_, err := upgradegraph.Parse(g.Spec)
		return err != nil
	})
}

// addPolicies looks for the UpdatePolicies and Updaters of the facts that exceed their CRDs.
func addPolicies(ctx context.Context, facts *doctor.Facts) error {
	return errors.Join(
		addBeyond(ctx, facts, facts.Policies, func(p *v1alpha1.UpdatePolicy) bool { return policy.Check(p) != nil }),
		addBeyond(ctx, facts, facts.Updaters, func(u *v1alpha1.Updater) bool { return updatepolicy.CheckUpdater(u) != nil }),
	)
}

// addBeyond adds those of some objects that their CRD refuses. unusable reports whether Windlass takes
// one of them for invalid.
func addBeyond[V any, T interface {
	*V
	client.Object
}](ctx context.Context, facts *doctor.Facts, objects []V, unusable func(T) bool) error {
	for i := range objects {
		object := T(&objects[i])
		problems, err := bounds.Check(ctx, object)
		if err != nil {
			return err
		}
		if len(problems) > 0 {
			facts.Beyond = append(facts.Beyond, doctor.Beyond{
				Subject: strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1alpha1.") + " " + object.GetName(),
				Problem: problems.ToAggregate().Error(), Unusable: unusable(object),
			})
		}
	}
	return nil
}
