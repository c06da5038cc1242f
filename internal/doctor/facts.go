package doctor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/policy"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Facts are what is examined.
type Facts struct {
	// Live says that the facts come from a management cluster: what is not among them does not exist. Otherwise they come from
	// manifests, and say nothing about what a management cluster has besides.
	Live bool
	// NotInstalled says that the management cluster does not serve UpdatePolicies.
	NotInstalled bool
	// Now is the time.
	Now     time.Time
	Objects snapshot.Objects
	// Engine is v1alpha1.EngineManager; empty with stock Cluster API, or if unknown.
	Engine string
	// EngineKnown says that an empty Engine means stock Cluster API.
	EngineKnown bool
	// Class is the Cluster's ClusterClass; nil where it has none, or none is known.
	Class *clusterv1.ClusterClass
	// ControlPlaneTemplate is what the class makes control planes of; it counts only while there is no control plane object.
	ControlPlaneTemplate *unstructured.Unstructured
	// MachineSets are those of the Cluster. They name the groups of Machines whose labels are gone.
	MachineSets []*clusterv1.MachineSet
	// HealthChecks are those of the Cluster.
	HealthChecks []*clusterv1.MachineHealthCheck
	// Policies are those of the Cluster's namespace, Updaters all.
	Policies []v1alpha1.UpdatePolicy
	Updaters []v1alpha1.Updater
	// NamespaceLabels are those of the Cluster's namespace.
	NamespaceLabels map[string]string

	// Webhooks are those of Cluster API and its providers in the management cluster.
	Webhooks snapshot.Webhooks
	// AutoscalersOff says that the cluster autoscalers in the management cluster remove no machines.
	AutoscalersOff bool
	// Provider is the oldest version of the control plane's provider; zero if it is not known.
	Provider version.Version
	// Managers are the Deployments with the label cluster.x-k8s.io/provider.
	Managers []appsv1.Deployment
	// Extensions are all ExtensionConfigs, and Handlers the names of Windlass' own handlers, by hook.
	Extensions []runtimev1.ExtensionConfig
	Handlers   map[string]string
	// Guard is the guard's configuration; nil where it is not installed.
	Guard *admissionregistrationv1.ValidatingWebhookConfiguration
	// Beyond are objects that an API server with the CRDs of this release would not create.
	Beyond []Beyond
	// Settings are those that the Cluster's objects give to the components of its machines.
	Settings []settings.Use
	// Accepted are names of findings about them that do not count; see [settings.Finding.ID].
	Accepted []string
	// Missing are objects that others refer to and that do not exist.
	Missing []Reference
	// Unowned are the control plane Machines with a KubeadmConfig whose spec no field manager has applied, sorted.
	Unowned []string
	// Unread says what could not be read; it is not known, so it is not taken to be absent.
	Unread []Unread
}

// Reference is a reference from one object to another.
type Reference struct {
	// Group is the name of the MachineDeployment of the object that refers; empty for a control plane's Machine.
	Group string
	// From and To name both objects, such as MachineSet prod-md-0-x and DockerMachineTemplate prod-md-0.
	From, To string
}

// Beyond is an object that exceeds the CRD of this release.
type Beyond struct {
	// Subject is its kind and name, and Problem what the API server says.
	Subject, Problem string
	// Unusable says that Windlass takes the object for invalid.
	Unusable bool
}

// Source is a kind of facts that may not be readable.
type Source string

// The sources.
const (
	SourceManagers     Source = "Deployments of the managers"
	SourceExtensions   Source = "ExtensionConfigs"
	SourceGuard        Source = "the guard's ValidatingWebhookConfiguration"
	SourceHealthChecks Source = "MachineHealthChecks"
	SourceNamespace    Source = "the namespace's labels"
	SourceTemplates    Source = "templates"
	SourcePolicies     Source = "UpdatePolicies"
	SourceUpdaters     Source = "Updaters"
	SourceGates        Source = "UpgradeGates"
	SourceGraphs       Source = "UpgradeGraphs"
	SourceClass        Source = "the ClusterClass"
	SourceEngine       Source = "the engine of the Cluster"
	SourceSettings     Source = "bootstrap configs"
	SourceWebhooks     Source = "webhooks of Cluster API and their certificates"
)

// Unread is something that could not be read, why, and what a person can do about it.
type Unread struct {
	Source       Source
	Problem, Fix string
}

// Around returns what tells why an upgrade does not continue.
func (f Facts) Around() snapshot.Around {
	a := snapshot.Around{
		Extensions: f.Extensions, NamespaceLabels: f.namespace(), Provider: f.Provider,
		OwnEngine: f.Engine == v1alpha1.EngineManager, HealthChecks: f.HealthChecks, Policies: f.Policies,
	}
	for i := range f.Managers {
		if f.Managers[i].Labels[clusterv1.ProviderNameLabel] == coreProvider {
			a.Core = append(a.Core, f.Managers[i])
		}
	}
	return a
}

// namespace returns the labels of the Cluster's namespace; nil if they are not known.
func (f Facts) namespace() labels.Set {
	switch {
	case f.unread(SourceNamespace):
		return nil
	case f.NamespaceLabels == nil:
		return labels.Set{}
	}
	return f.NamespaceLabels
}

func (f Facts) unread(s Source) bool {
	return slices.ContainsFunc(f.Unread, func(u Unread) bool { return u.Source == s })
}

// group is a group of machines with the policy that counts for it.
type group struct {
	snapshot.UpdateGroup
	selected policy.Policy
	// err says why no policy can be told.
	err      error
	machines []*clusterv1.Machine
}

// atRisk is how bad it is that machines of the group would be replaced: nothing where that is what the policy asks for, and
// an error where it forbids that.
func (g group) atRisk() Severity {
	switch {
	case !g.selected.InPlace:
		return OK
	case g.selected.Guarded:
		return Error
	default:
		return Warning
	}
}

func listGroups(f Facts) []group {
	var groups []group
	policies := policy.CompileAll(f.Policies)
	owners := make([]capi.Owner, len(f.Objects.Machines))
	for i, m := range f.Objects.Machines {
		owners[i], _ = capi.OwnerAmong(m, f.MachineSets)
	}
	for _, u := range snapshot.UpdateGroups(f.Objects, f.Class) {
		g := group{UpdateGroup: u}
		g.selected, g.err = policies.Select(u.Group)
		for i, m := range f.Objects.Machines {
			if capi.Belongs(m, owners[i], u.Owner()) {
				g.machines = append(g.machines, m)
			}
		}
		slices.SortFunc(g.machines, func(a, b *clusterv1.Machine) int { return cmp.Compare(a.Name, b.Name) })
		groups = append(groups, g)
	}
	return groups
}

// inPlace returns the groups that are to be updated in place.
func inPlace(groups []group) []group {
	return slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return !g.selected.InPlace })
}

func join(list []string) string { return strings.Join(list, ", ") }
