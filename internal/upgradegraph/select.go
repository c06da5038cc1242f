package upgradegraph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// Selector says for whom a graph is wanted.
type Selector struct {
	// Name is the graph that the ExtensionConfig's settings name; empty when they name none.
	Name string
	// Class is the cluster's ClusterClass; its name is empty when the cluster has none.
	Class types.NamespacedName
}

// NoGraphError says that no graph matches a Selector.
type NoGraphError struct {
	Selector Selector
}

func (e *NoGraphError) Error() string {
	switch {
	case e.Selector.Name != "":
		return fmt.Sprintf("there is no UpgradeGraph %q, which the ExtensionConfig's settings name; create it, or correct the setting", e.Selector.Name)
	case e.Selector.Class.Name == "":
		return "the Cluster names no ClusterClass in spec.topology.classRef, and the ExtensionConfig's settings name no graph; set either"
	default:
		return fmt.Sprintf("no UpgradeGraph serves ClusterClass %s; add the class to the spec.classes of one, or name one in the ExtensionConfig's settings",
			className(e.Selector.Class))
	}
}

// AmbiguousError says that several graphs match a Selector.
type AmbiguousError struct {
	Selector Selector
	// Graphs are the names of those that match, sorted.
	Graphs []string
}

func (e *AmbiguousError) Error() string {
	text := fmt.Sprintf("UpgradeGraphs %s all serve ClusterClass %s", quoteAll(e.Graphs), className(e.Selector.Class))
	if e.Selector.Name != "" {
		text += fmt.Sprintf(" (%q because the ExtensionConfig's settings name it)", e.Selector.Name)
	}
	return text + "; let only one of them serve it"
}

// Select returns the graph that serves a cluster. A graph matches when the Selector names it, or when its spec.classes
// hold the cluster's class. Exactly one must match: where two do, nobody can know which was meant, and following the
// wrong one may cross a block.
//
// The error is a *NoGraphError or an *AmbiguousError. The graph returned is shared with the list, and not checked.
func Select(graphs []v1alpha1.UpgradeGraph, s Selector) (*v1alpha1.UpgradeGraph, error) {
	var matches []*v1alpha1.UpgradeGraph
	named := false
	for i := range graphs {
		g := &graphs[i]
		isNamed := s.Name != "" && g.Name == s.Name
		named = named || isNamed
		if isNamed || serves(g.Spec, s.Class) {
			matches = append(matches, g)
		}
	}
	switch {
	case len(matches) == 0 || s.Name != "" && !named:
		return nil, &NoGraphError{Selector: s}
	case len(matches) > 1:
		names := make([]string, 0, len(matches))
		for _, g := range matches {
			names = append(names, g.Name)
		}
		slices.Sort(names)
		return nil, &AmbiguousError{Selector: s, Graphs: names}
	}
	return matches[0], nil
}

func serves(spec v1alpha1.UpgradeGraphSpec, class types.NamespacedName) bool {
	return class.Name != "" && slices.ContainsFunc(spec.Classes, func(r v1alpha1.ClassReference) bool {
		return overlap(r, v1alpha1.ClassReference{Name: class.Name, Namespace: class.Namespace})
	})
}

// overlap reports whether a ClusterClass can be meant by both references.
func overlap(a, b v1alpha1.ClassReference) bool {
	return a.Name == b.Name && (a.Namespace == "" || b.Namespace == "" || a.Namespace == b.Namespace)
}

// conflict is a class that another graph serves too.
type conflict struct {
	class v1alpha1.ClassReference
	graph string
}

func (c conflict) String() string {
	class := types.NamespacedName{Namespace: c.class.Namespace, Name: c.class.Name}
	return fmt.Sprintf("ClusterClass %q is also served by UpgradeGraph %q", className(class), c.graph)
}

// conflicts returns the classes of a graph that others serve too, sorted.
func conflicts(graph *v1alpha1.UpgradeGraph, all []v1alpha1.UpgradeGraph) []conflict {
	found := map[conflict]struct{}{}
	for _, other := range all {
		if other.Name == graph.Name {
			continue
		}
		for _, class := range graph.Spec.Classes {
			if slices.ContainsFunc(other.Spec.Classes, func(r v1alpha1.ClassReference) bool { return overlap(class, r) }) {
				found[conflict{class: class, graph: other.Name}] = struct{}{}
			}
		}
	}
	sorted := make([]conflict, 0, len(found))
	for c := range found {
		sorted = append(sorted, c)
	}
	slices.SortFunc(sorted, func(a, b conflict) int {
		return cmp.Or(strings.Compare(a.class.Namespace, b.class.Namespace), strings.Compare(a.class.Name, b.class.Name), strings.Compare(a.graph, b.graph))
	})
	return sorted
}

// className returns how messages name a ClusterClass; one that is read from a file may have no namespace.
func className(class types.NamespacedName) string {
	if class.Namespace == "" {
		return class.Name
	}
	return class.String()
}

func quoteAll(names []string) string {
	quoted := make([]string, 0, len(names))
	for _, n := range names {
		quoted = append(quoted, fmt.Sprintf("%q", n))
	}
	return strings.Join(quoted, ", ")
}
