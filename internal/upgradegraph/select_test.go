package upgradegraph_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/upgradegraph"
)

func graph(name string, classes ...v1alpha1.ClassReference) v1alpha1.UpgradeGraph {
	return v1alpha1.UpgradeGraph{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.UpgradeGraphSpec{Versions: versions("v1.30.3", "v1.29.0", "v1.31.2"), Classes: classes},
	}
}

func class(name, namespace string) v1alpha1.ClassReference {
	return v1alpha1.ClassReference{Name: name, Namespace: namespace}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	graphs := []v1alpha1.UpgradeGraph{
		graph("everywhere", class("a", ""), class("b", "")),
		graph("in-x", class("c", "x"), class("b", "x")),
		graph("in-y", class("c", "y")),
		graph("by-name"),
	}
	key := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	tests := map[string]struct {
		selector upgradegraph.Selector
		want     string
		// wantError is the whole message.
		wantError string
	}{
		"class in any namespace":     {selector: upgradegraph.Selector{Class: key("z", "a")}, want: "everywhere"},
		"class in this namespace":    {selector: upgradegraph.Selector{Class: key("x", "c")}, want: "in-x"},
		"class in another namespace": {selector: upgradegraph.Selector{Class: key("y", "c")}, want: "in-y"},
		"by name":                    {selector: upgradegraph.Selector{Name: "by-name", Class: key("x", "unknown")}, want: "by-name"},
		"by name without a class":    {selector: upgradegraph.Selector{Name: "in-x"}, want: "in-x"},
		"by name and class alike":    {selector: upgradegraph.Selector{Name: "in-x", Class: key("x", "c")}, want: "in-x"},
		"class nobody serves": {
			selector:  upgradegraph.Selector{Class: key("z", "c")},
			wantError: `no UpgradeGraph serves ClusterClass z/c; add the class to the spec.classes of one, or name one in the ExtensionConfig's settings`,
		},
		"class without a namespace nobody serves": {
			selector:  upgradegraph.Selector{Class: key("", "c-less")},
			wantError: `no UpgradeGraph serves ClusterClass c-less; add the class to the spec.classes of one, or name one in the ExtensionConfig's settings`,
		},
		"class without a namespace, two serve it": {
			selector:  upgradegraph.Selector{Class: key("", "c")},
			wantError: `UpgradeGraphs "in-x", "in-y" all serve ClusterClass c; let only one of them serve it`,
		},
		"neither name nor class": {
			wantError: `the Cluster names no ClusterClass in spec.topology.classRef, and the ExtensionConfig's settings name no graph; set either`,
		},
		"name that does not exist, though another graph serves the class": {
			selector:  upgradegraph.Selector{Name: "gone", Class: key("z", "a")},
			wantError: `there is no UpgradeGraph "gone", which the ExtensionConfig's settings name; create it, or correct the setting`,
		},
		"two serve the class": {
			selector:  upgradegraph.Selector{Class: key("x", "b")},
			wantError: `UpgradeGraphs "everywhere", "in-x" all serve ClusterClass x/b; let only one of them serve it`,
		},
		"one is named, another serves the class": {
			selector:  upgradegraph.Selector{Name: "by-name", Class: key("z", "a")},
			wantError: `UpgradeGraphs "by-name", "everywhere" all serve ClusterClass z/a ("by-name" because the ExtensionConfig's settings name it); let only one of them serve it`,
		},
	}
	reversed := slices.Clone(graphs)
	slices.Reverse(reversed)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The order in which a cache lists graphs must not matter.
			for _, list := range [][]v1alpha1.UpgradeGraph{graphs, reversed} {
				got, err := upgradegraph.Select(list, tt.selector)
				if tt.wantError == "" {
					if err != nil || got.Name != tt.want {
						t.Fatalf("Select = %v, %v, want graph %q", got, err, tt.want)
					}
					continue
				}
				if err == nil || err.Error() != tt.wantError {
					t.Fatalf("error is %v, want %s", err, tt.wantError)
				}
				var none *upgradegraph.NoGraphError
				var several *upgradegraph.AmbiguousError
				if errors.As(err, &none) == errors.As(err, &several) {
					t.Errorf("error is a %T, want exactly one of the types documented", err)
				}
			}
		})
	}
}

func TestComputeStatus(t *testing.T) {
	t.Parallel()
	earlier, now := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	ready := func(status metav1.ConditionStatus, reason, message string, at metav1.Time) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: status, Reason: reason, Message: message, ObservedGeneration: 7, LastTransitionTime: at}}
	}
	stalled := func(reason, message string, at metav1.Time) metav1.Condition {
		c := ready("True", reason, message, at)[0]
		c.Type = "Stalled"
		return c
	}
	broken := graph("broken")
	broken.Spec.Floors = []v1alpha1.Floor{{Before: "v1.30", AtLeast: "v1.31.2", Reason: "r"}}
	invalid := `spec.floors[0].atLeast: Invalid value: "v1.31.2": it must be of a minor older than v1.30: no control plane can reach it before it enters v1.30`
	tests := map[string]struct {
		graph  v1alpha1.UpgradeGraph
		before []metav1.Condition
		others []v1alpha1.UpgradeGraph
		want   v1alpha1.UpgradeGraphStatus
	}{
		"new and valid": {
			graph: graph("new", class("a", "")),
			want:  v1alpha1.UpgradeGraphStatus{ObservedGeneration: 7, OldestVersion: "v1.29.0", NewestVersion: "v1.31.2", Conditions: ready("True", "Valid", "", now)},
		},
		"still valid keeps its time": {
			graph:  graph("old"),
			before: ready("True", "Valid", "", earlier),
			want:   v1alpha1.UpgradeGraphStatus{ObservedGeneration: 7, OldestVersion: "v1.29.0", NewestVersion: "v1.31.2", Conditions: ready("True", "Valid", "", earlier)},
		},
		"no longer valid": {
			graph:  broken,
			before: ready("True", "Valid", "", earlier),
			want: v1alpha1.UpgradeGraphStatus{ObservedGeneration: 7, Conditions: append(
				ready("False", "InvalidSpec", invalid, now), stalled("InvalidSpec", invalid, now))},
		},
		"class served twice": {
			graph:  graph("one", class("b", "x"), class("a", "")),
			others: []v1alpha1.UpgradeGraph{graph("three", class("a", "y")), graph("two", class("b", ""), class("a", ""))},
			want: v1alpha1.UpgradeGraphStatus{ObservedGeneration: 7, OldestVersion: "v1.29.0", NewestVersion: "v1.31.2", Conditions: ready("False", "ClassConflict",
				`ClusterClass "a" is also served by UpgradeGraph "three"; ClusterClass "a" is also served by UpgradeGraph "two"; `+
					`ClusterClass "x/b" is also served by UpgradeGraph "two"; upgrades of these classes stop until only one graph serves each`, now)},
		},
		"same class in other namespaces is no conflict": {
			graph:  graph("one", class("a", "x")),
			others: []v1alpha1.UpgradeGraph{graph("two", class("a", "y"))},
			want:   v1alpha1.UpgradeGraphStatus{ObservedGeneration: 7, OldestVersion: "v1.29.0", NewestVersion: "v1.31.2", Conditions: ready("True", "Valid", "", now)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := tt.graph
			g.Generation, g.Status.Conditions = 7, tt.before
			before := g.DeepCopy()
			got := upgradegraph.ComputeStatus(&g, append([]v1alpha1.UpgradeGraph{g}, tt.others...), now)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ComputeStatus (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(*before, g); diff != "" {
				t.Errorf("ComputeStatus changed its input (-before +after):\n%s", diff)
			}
		})
	}
}
