package upgradegraph_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/upgradegraph"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestStops(t *testing.T) {
	t.Parallel()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "c"}}
	cluster.Spec.Topology.ClassRef.Name = "standard"
	cluster.Spec.Topology.Workers = clusterv1.WorkersTopology{
		MachineDeployments: []clusterv1.MachineDeploymentTopology{{Name: "web", Class: "small"}, {Name: "ml", Class: "gpu"}, {Name: "ml-2", Class: "gpu"}},
		MachinePools:       []clusterv1.MachinePoolTopology{{Name: "web", Class: "pool"}},
	}
	every := func(groups ...string) plan.StopRule {
		return plan.StopRule{Groups: groups, EveryMinor: true, Reason: "r"}
	}
	rule := func(stops v1alpha1.WorkerStops) v1alpha1.WorkersRule {
		return v1alpha1.WorkersRule{Stops: stops, Reason: "r"}
	}
	everyMinor, fewest := rule(v1alpha1.WorkerStopsEveryMinor), rule(v1alpha1.WorkerStopsFewest)
	with := func(r v1alpha1.WorkersRule, change func(*v1alpha1.WorkersRule)) v1alpha1.WorkersRule {
		change(&r)
		return r
	}
	ofGroup := func(name string) func(*v1alpha1.WorkersRule) {
		return func(r *v1alpha1.WorkersRule) { r.Groups = []string{name} }
	}
	ofClass := func(name, namespace string) func(*v1alpha1.WorkersRule) {
		return func(r *v1alpha1.WorkersRule) { r.Classes = []v1alpha1.ClassReference{class(name, namespace)} }
	}
	ofWorkerClass := func(name string) func(*v1alpha1.WorkersRule) {
		return func(r *v1alpha1.WorkersRule) { r.WorkerClasses = []string{name} }
	}
	named := rule(v1alpha1.WorkerStopsVersions)
	named.Versions = []v1alpha1.VersionMatch{"v1.31", "v1.30.3"}
	tests := map[string]struct {
		rules []v1alpha1.WorkersRule
		want  []plan.StopRule
	}{
		"none":                       {},
		"all":                        {rules: []v1alpha1.WorkersRule{everyMinor}, want: []plan.StopRule{every("web", "ml", "ml-2", "MachinePool/web")}},
		"the first decides":          {rules: []v1alpha1.WorkersRule{with(fewest, ofGroup("web")), everyMinor}, want: []plan.StopRule{every("ml", "ml-2")}},
		"a worker class":             {rules: []v1alpha1.WorkersRule{with(everyMinor, ofWorkerClass("gpu"))}, want: []plan.StopRule{every("ml", "ml-2")}},
		"a worker class and a group": {rules: []v1alpha1.WorkersRule{with(with(everyMinor, ofWorkerClass("gpu")), ofGroup("ml"))}, want: []plan.StopRule{every("ml")}},
		"a group of another class":   {rules: []v1alpha1.WorkersRule{with(with(everyMinor, ofWorkerClass("gpu")), ofGroup("web"))}},
		"its ClusterClass": {
			rules: []v1alpha1.WorkersRule{with(everyMinor, ofClass("standard", "x"))}, want: []plan.StopRule{every("web", "ml", "ml-2", "MachinePool/web")},
		},
		"another ClusterClass": {rules: []v1alpha1.WorkersRule{with(everyMinor, ofClass("standard", "y"))}},
		"named versions": {
			rules: []v1alpha1.WorkersRule{with(named, ofGroup("ml"))},
			want: []plan.StopRule{{
				Groups: []string{"ml"}, Reason: "r",
				At: []plan.Match{plan.MatchMinor(version.Minor{Major: 1, Minor: 31}), plan.MatchVersion(version.MustParse("v1.30.3"))},
			}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := v1alpha1.UpgradeGraphSpec{Versions: versions("v1.30.3", "v1.31.2"), Workers: tt.rules}
			if _, err := upgradegraph.Parse(spec); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, upgradegraph.Stops(spec, upgradegraph.WorkersOf(cluster)), match); diff != "" {
				t.Errorf("Stops (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("no class is known", func(t *testing.T) {
		t.Parallel()
		spec := v1alpha1.UpgradeGraphSpec{Workers: []v1alpha1.WorkersRule{with(everyMinor, ofClass("standard", "")), with(everyMinor, ofWorkerClass("gpu"))}}
		workers := upgradegraph.Workers{Class: types.NamespacedName{}, Groups: []upgradegraph.Group{{Name: "a", Topology: "a"}}}
		if got := upgradegraph.Stops(spec, workers); got != nil {
			t.Errorf("Stops = %v, want none", got)
		}
	})
}

func TestParseWorkersProblems(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rule v1alpha1.WorkersRule
		want string
	}{
		"no reason":         {rule: v1alpha1.WorkersRule{Stops: "Fewest"}, want: "spec.workers[0].reason: Required value"},
		"no stops":          {rule: v1alpha1.WorkersRule{Reason: "r"}, want: `spec.workers[0].stops: Unsupported value: ""`},
		"no versions":       {rule: v1alpha1.WorkersRule{Stops: "Versions", Reason: "r"}, want: "spec.workers[0].versions: Required value"},
		"versions for none": {rule: v1alpha1.WorkersRule{Stops: "EveryMinor", Versions: []v1alpha1.VersionMatch{"v1.31"}, Reason: "r"}, want: "spec.workers[0].versions: Invalid value"},
		"an empty version":  {rule: v1alpha1.WorkersRule{Stops: "Versions", Versions: []v1alpha1.VersionMatch{""}, Reason: "r"}, want: "spec.workers[0].versions[0]: Required value"},
		"not listed":        {rule: v1alpha1.WorkersRule{Stops: "Versions", Versions: []v1alpha1.VersionMatch{"v1.32"}, Reason: "r"}, want: `spec.workers[0].versions[0]: Invalid value: "v1.32": it matches none of spec.versions`},
		"a class unnamed":   {rule: v1alpha1.WorkersRule{Stops: "Fewest", Classes: []v1alpha1.ClassReference{{}}, Reason: "r"}, want: "spec.workers[0].classes[0].name: Required value"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := upgradegraph.Parse(v1alpha1.UpgradeGraphSpec{Versions: versions("v1.31.2"), Workers: []v1alpha1.WorkersRule{tt.rule}})
			invalid, ok := errors.AsType[*upgradegraph.InvalidError](err)
			if !ok || len(invalid.Problems) != 1 {
				t.Fatalf("got %v, want one problem", err)
			}
			if got := invalid.Problems[0].Error(); len(got) < len(tt.want) || got[:len(tt.want)] != tt.want {
				t.Errorf("got %q, want %q...", got, tt.want)
			}
		})
	}
}
