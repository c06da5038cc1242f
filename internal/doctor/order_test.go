package doctor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

func TestOrderLabels(t *testing.T) {
	t.Parallel()
	const none = `no Machine has the label "rack", which order.labels of UpdatePolicy "all" names: ` +
		"it does not order them"
	some := func(n, key, names string) string {
		return n + ` of 5 Machines have no label "` + key + `", which order.labels of UpdatePolicy "all" ` +
			"names: rollouts take them first (" + names + ")"
	}
	for name, test := range map[string]struct {
		keys []string
		// racks are the values of the label rack of the machines w-1 to w-5.
		racks  [5]string
		change func(*Facts)
		want   []string
	}{
		"all":  {keys: []string{"rack"}, racks: [5]string{"a", "a", "b", "b", "c"}},
		"none": {keys: []string{"rack"}, want: []string{none}},
		"some": {keys: []string{"rack"}, racks: [5]string{"a", "", "b", "b", ""},
			want: []string{some("2", "rack", "w-2, w-5")}},
		"many without": {keys: []string{"rack"}, racks: [5]string{"a"},
			want: []string{some("4", "rack", "w-2, w-3, w-4 and 1 more")}},
		"one of two labels": {keys: []string{"pool", "rack"}, want: []string{none}},
		"zones by failure domain": {
			keys: []string{corev1.LabelTopologyZone}, change: func(f *Facts) {
				for _, m := range f.Objects.Machines[1:5] {
					m.Spec.FailureDomain = "z"
				}
			},
			want: []string{some("1", corev1.LabelTopologyZone, "w-5")},
		},
		"stock does not read it": {keys: []string{"rack"}, change: func(f *Facts) { f.Engine = "" },
			want: []string{"stock Cluster API drives the Cluster, and only windlass manager reads these " +
				`fields of UpdatePolicy "all": order`}},
		"no machines": {keys: []string{"rack"}, change: func(f *Facts) { f.Objects.Machines = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			f.Engine, f.EngineKnown = v1alpha1.EngineManager, true
			f.Policies[0].Spec.Order.Labels = test.keys
			f.Objects.Machines = f.Objects.Machines[:1]
			for i, rack := range test.racks {
				set := map[string]string{clusterv1.MachineDeploymentNameLabel: "prod-md-0", "pool": "md-0"}
				if rack != "" {
					set["rack"] = rack
				}
				f.Objects.Machines = append(f.Objects.Machines, machine("w-"+string(rune('1'+i)), set))
			}
			if test.change != nil {
				test.change(&f)
			}
			var got []string
			for _, line := range bad(examine(f, listGroups(f))) {
				if rest, ok := strings.CutPrefix(line, "Warning Limits "+workers+": "); ok {
					got = append(got, rest)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
