package snapshot

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestComputeNextVersions: the control plane goes to the first version of the plan in the Cluster's
// status, and each group to the first of its stops that is ahead of it.
func TestComputeNextVersions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		target                string
		at                    string
		status                map[string]any
		controlPlane, workers string
		groups                map[string]string
		limits                []plan.Group
		manager               bool
		want                  NextVersions
		err                   string
	}{
		"all wait at the first step": {
			target: "v1.33.0", at: "v1.30.1", controlPlane: "v1.31.2 v1.32.4 v1.33.0", workers: "v1.32.4 v1.33.0",
			groups: map[string]string{"a": "v1.30.1"},
			want:   NextVersions{ControlPlane: v("v1.31.2"), Groups: map[string]version.Version{"a": v("v1.32.4")}},
		},
		"one group is at its stop, another waits": {
			target: "v1.33.0", at: "v1.31.2", controlPlane: "v1.32.4 v1.33.0", workers: "v1.31.2 v1.33.0",
			groups: map[string]string{"a": "v1.31.2", "b": "v1.30.1"},
			want:   NextVersions{ControlPlane: v("v1.32.4"), Groups: map[string]version.Version{"a": v("v1.33.0"), "b": v("v1.31.2")}},
		},
		"a group is deferred at the end": {
			target: "v1.31.2", at: "v1.31.2", workers: "v1.31.2", groups: map[string]string{"a": "v1.31.2", "b": "v1.30.1"},
			want: NextVersions{Groups: map[string]version.Version{"b": v("v1.31.2")}},
		},
		"the control plane is on its way": {
			target: "v1.32.4", at: "v1.31.2", status: map[string]any{"version": "v1.30.1"},
			controlPlane: "v1.32.4", workers: "v1.32.4", groups: map[string]string{"a": "v1.30.1"},
			want: NextVersions{ControlPlane: v("v1.31.2"), Groups: map[string]version.Version{"a": v("v1.32.4")}},
		},
		"the status is from before the last step": {
			target: "v1.32.4", at: "v1.31.2", controlPlane: "v1.31.2 v1.32.4", workers: "v1.32.4", groups: map[string]string{"a": "v1.30.1"},
			want: NextVersions{ControlPlane: v("v1.32.4"), Groups: map[string]version.Version{"a": v("v1.32.4")}},
		},
		"no stops of workers are planned": {
			target: "v1.31.2", at: "v1.30.1", controlPlane: "v1.31.2", groups: map[string]string{"a": "v1.30.1"},
			want: NextVersions{ControlPlane: v("v1.31.2"), Groups: map[string]version.Version{}},
		},
		"builds that only the list orders": {
			target: "v1.31.2+b", at: "v1.31.2+b", workers: "v1.31.2+a v1.31.2+b", groups: map[string]string{"a": "v1.31.2+a"},
			want: NextVersions{Groups: map[string]version.Version{}},
		},
		"windlass manager moves a group by its own plan": {
			target: "v1.34.0", at: "v1.31.0", controlPlane: "v1.32.0 v1.33.0 v1.34.0", workers: "v1.32.0 v1.33.0 v1.34.0",
			groups: map[string]string{"slow": "v1.31.0", "fast": "v1.31.0"}, limits: []plan.Group{{Name: "slow", MaxMinorStep: 1}},
			manager: true,
			want: NextVersions{
				ControlPlane: v("v1.32.0"), Groups: map[string]version.Version{"slow": v("v1.32.0"), "fast": v("v1.34.0")},
			},
		},
		"windlass manager follows the list of an extension": {
			target: "v1.33.0", at: "v1.31.0", controlPlane: "v1.32.0 v1.33.0", workers: "v1.32.0 v1.33.0",
			groups: map[string]string{"a": "v1.31.0"}, manager: true,
			want: NextVersions{ControlPlane: v("v1.32.0"), Groups: map[string]version.Version{"a": v("v1.32.0")}},
		},
		"a plan for another target": {
			target: "v1.33.0", at: "v1.30.1", controlPlane: "v1.31.2", err: "leads to v1.31.2, and not to the target v1.33.0",
		},
		"a plan that cannot be read": {target: "v1.31.2", at: "v1.30.1", controlPlane: "x", err: "the upgrade plan in the Cluster's status"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Objects{ControlPlane: controlPlane(test.at, test.status)}
			var names []string
			for group := range test.groups {
				names = append(names, group)
			}
			o.Cluster = cluster(test.target, names, nil)
			for group, at := range test.groups {
				o.MachineDeployments = append(o.MachineDeployments, deployment(group, at))
			}
			o.Cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{UpgradePlan: planned(test.controlPlane)}
			o.Cluster.Status.Workers = &clusterv1.WorkersStatus{UpgradePlan: planned(test.workers)}
			got, err := ComputeNextVersions(o, test.limits, test.manager)
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("error %v, want %q", err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("next versions (-want +got):\n%s", diff)
			}
		})
	}
}

func planned(versions string) []clusterv1.StatusUpgradePlanVersion {
	var list []clusterv1.StatusUpgradePlanVersion
	for version := range strings.FieldsSeq(versions) {
		list = append(list, clusterv1.StatusUpgradePlanVersion{Version: version})
	}
	return list
}
