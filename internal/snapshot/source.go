package snapshot

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/upgradegraph"
	"github.com/windlass-dev/windlass/pkg/plan"
)

// ExtensionError says that a ClusterClass leaves the plan to a GenerateUpgradePlan extension, and that no UpgradeGraph says
// what that will answer.
type ExtensionError struct {
	Ref Ref
	// Extension is the name of the handler.
	Extension string
	// Err says why no graph could be used; nil when there is none.
	Err error
}

func (e *ExtensionError) Error() string {
	text := fmt.Sprintf("%s: upgrade plans of this class come from the extension %q", e.Ref, e.Extension)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *ExtensionError) Unwrap() error { return e.Err }

// Source returns where a ClusterClass takes the versions of a plan from, and the field that says so: an extension, else
// the version list, else only the next minor can be reached. That is Cluster API's order.
//
// For an extension the graphs are what the Windlass extension answers from. cluster has the groups that their rules select;
// without it no rule counts. Without one that serves the class the error
// is an *ExtensionError. A version that cannot be parsed, and a graph that is not valid, give a *FieldError.
func Source(cluster *clusterv1.Cluster, class *clusterv1.ClusterClass, graphs []*v1alpha1.UpgradeGraph) (plan.Source, Ref, error) {
	ref := Ref{Object: class, Kind: "ClusterClass", Field: "spec.kubernetesVersions"}
	if extension := class.Spec.Upgrade.External.GenerateUpgradePlanExtension; extension != "" {
		ref.Field = "spec.upgrade.external.generateUpgradePlanExtension"
		graph, err := selectGraph(class, graphs)
		if err != nil {
			return nil, ref, &ExtensionError{Ref: ref, Extension: extension, Err: err}
		}
		if graph == nil {
			return nil, ref, &ExtensionError{Ref: ref, Extension: extension}
		}
		workers := upgradegraph.Workers{}
		if cluster != nil {
			workers = upgradegraph.WorkersOf(cluster)
		}
		workers.Class = types.NamespacedName{Namespace: class.Namespace, Name: class.Name}
		return GraphSource(graph, workers)
	}
	if len(class.Spec.KubernetesVersions) == 0 {
		return plan.NextMinor{}, ref, nil
	}
	list := make(plan.VersionList, 0, len(class.Spec.KubernetesVersions))
	for i, value := range class.Spec.KubernetesVersions {
		item := ref
		item.Field = fmt.Sprintf("%s[%d]", ref.Field, i)
		v, err := parseField(item, value)
		if err != nil {
			return nil, ref, err
		}
		list = append(list, v)
	}
	return list, ref, nil
}

// GraphSource translates a graph and its rules for a cluster's groups, and returns the field that lists its versions. The error is a *FieldError.
func GraphSource(graph *v1alpha1.UpgradeGraph, workers upgradegraph.Workers) (plan.Source, Ref, error) {
	ref := Ref{Object: graph, Kind: "UpgradeGraph", Field: "spec.versions"}
	parsed, err := upgradegraph.Parse(graph.Spec)
	if err != nil {
		// The problems name their fields.
		return nil, ref, &FieldError{Ref: Ref{Object: graph, Kind: "UpgradeGraph"}, Problem: err.Error(), Err: err}
	}
	parsed.Stops = upgradegraph.Stops(graph.Spec, workers)
	return parsed, ref, nil
}

// selectGraph returns the graph that serves a class; nil when there are no graphs at all. A single graph without classes
// serves where the extension's settings name it, which the class does not show; it is taken to be named.
func selectGraph(class *clusterv1.ClusterClass, graphs []*v1alpha1.UpgradeGraph) (*v1alpha1.UpgradeGraph, error) {
	if len(graphs) == 0 {
		return nil, nil //nolint:nilnil // Documented: no graph is no error.
	}
	if len(graphs) == 1 && len(graphs[0].Spec.Classes) == 0 {
		return graphs[0], nil
	}
	values := make([]v1alpha1.UpgradeGraph, 0, len(graphs))
	for _, g := range graphs {
		values = append(values, *g)
	}
	selector := upgradegraph.Selector{Class: types.NamespacedName{Namespace: class.Namespace, Name: class.Name}}
	selected, err := upgradegraph.Select(values, selector)
	if err != nil {
		return nil, err
	}
	// The caller's own object, not the copy: it is known by its address.
	return graphs[slices.IndexFunc(graphs, func(g *v1alpha1.UpgradeGraph) bool { return g.Name == selected.Name })], nil
}

// NeedsMachines reports whether some group does not list the versions of its machines, so that Take needs the Machines to
// know the oldest.
func NeedsMachines(o Objects) bool {
	for _, md := range o.MachineDeployments {
		if len(md.Status.Versions) == 0 && hasReplicas(md.Status.Replicas) {
			return true
		}
	}
	for _, mp := range o.MachinePools {
		if len(mp.Status.Versions) == 0 && hasReplicas(mp.Status.Replicas) {
			return true
		}
	}
	return false
}

func hasReplicas(n *int32) bool { return n != nil && *n > 0 }
