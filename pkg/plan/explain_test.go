package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/pkg/plan"
)

func TestExplain(t *testing.T) {
	tests := []struct {
		name    string
		request plan.Request
		want    string
	}{
		{
			name: "steps and skipped stops",
			request: plan.Request{
				Inventory: plan.Inventory{ControlPlane: v("v1.29.0"), Groups: groups("a=v1.29.0 b=v1.29.0")}, Target: v("v1.33.0"),
				Source: plan.VersionList(vs(chain29to33)),
			},
			want: `
Step: control plane v1.29.0 -> v1.30.3: the control plane moves one minor at a time: v1.30.3 is the newest v1.30 on offer
Skipped: workers a, b stay at v1.29.0 while the control plane is at v1.30.3: they lag 1 minor, and kubelet may lag 3 minors
Step: control plane v1.30.3 -> v1.31.2: the control plane moves one minor at a time: v1.31.2 is the newest v1.31 on offer
Skipped: workers a, b stay at v1.29.0 while the control plane is at v1.31.2: they lag 2 minors, and kubelet may lag 3 minors
Step: control plane v1.31.2 -> v1.32.1: the control plane moves one minor at a time: v1.32.1 is the newest v1.32 on offer
Step: workers a, b v1.29.0 -> v1.32.1: workers must leave v1.29 before the control plane reaches v1.33: kubelet may lag 3 minors
Step: control plane v1.32.1 -> v1.33.0: v1.33.0 is the target of the upgrade
Step: workers a, b v1.32.1 -> v1.33.0: v1.33.0 is the target of the upgrade
`,
		},
		{
			name: "a floor and an in-place limit",
			request: plan.Request{
				Inventory: plan.Inventory{ControlPlane: v("v1.33.2"), Groups: groups("edge=v1.32.0/2")}, Target: v("v1.34.1"),
				Source: plan.Graph{Versions: vs("v1.33.5 v1.34.1"), Floors: []plan.Floor{{Before: minor("v1.34"), AtLeast: v("v1.33.5"), Reason: "etcd"}}},
			},
			want: `
Skipped: workers edge stay at v1.32.0 while the control plane is at v1.33.2: they lag 1 minor, and kubelet may lag 3 minors; they can move 2 minors at a time in place
Step: control plane v1.33.2 -> v1.33.5: the upgrade graph has a floor: before v1.34 reach at least v1.33.5 (etcd)
Skipped: workers edge stay at v1.32.0 while the control plane is at v1.33.5: they lag 1 minor, and kubelet may lag 3 minors; they can move 2 minors at a time in place
Step: control plane v1.33.5 -> v1.34.1: v1.34.1 is the target of the upgrade
Step: workers edge v1.32.0 -> v1.34.1: v1.34.1 is the target of the upgrade
`,
		},
		{
			name: "a shared stop, and a version that is blocked",
			request: plan.Request{
				Inventory: plan.Inventory{ControlPlane: v("v1.29.0"), Groups: groups("old=v1.28.0 new=v1.29.0")}, Target: v("v1.32.0"),
				Source: plan.Graph{
					Versions: vs("v1.30.1 v1.31.2 v1.31.6 v1.32.0"),
					Blocked:  []plan.BlockedEdge{{To: plan.MatchVersion(v("v1.31.6")), Reason: "withdrawn"}},
				},
				Policy: plan.Policy{Workers: plan.WorkersShared},
			},
			want: `
Skipped: workers old stay at v1.28.0 while the control plane is at v1.29.0: they lag 1 minor, and kubelet may lag 3 minors
Step: control plane v1.29.0 -> v1.30.1: the control plane moves one minor at a time: v1.30.1 is the newest v1.30 on offer
Skipped: workers old stay at v1.28.0 while the control plane is at v1.30.1: they lag 2 minors, and kubelet may lag 3 minors
Skipped: workers new stay at v1.29.0 while the control plane is at v1.30.1: they lag 1 minor, and kubelet may lag 3 minors
Step: control plane v1.30.1 -> v1.31.2: the upgrade graph leaves no shorter or newer way than through v1.31.2 (v1.31.6 is blocked: withdrawn)
Step: workers old v1.28.0 -> v1.31.2: workers must leave v1.28 before the control plane reaches v1.32: kubelet may lag 3 minors
Skipped: workers new stay at v1.29.0 while the control plane is at v1.31.2: they lag 2 minors, and kubelet may lag 3 minors
Step: control plane v1.31.2 -> v1.32.0: v1.32.0 is the target of the upgrade
Step: workers old v1.31.2 -> v1.32.0: v1.32.0 is the target of the upgrade
Step: workers new v1.29.0 -> v1.32.0: v1.32.0 is the target of the upgrade
`,
		},
		{
			name: "a group that goes along",
			request: plan.Request{
				Inventory: plan.Inventory{ControlPlane: v("v1.30.1"), Groups: groups("new=v1.29.0 old=v1.28.0")}, Target: v("v1.32.0"),
				Source: plan.VersionList(vs("v1.31.2 v1.32.0")),
			},
			want: `
Skipped: workers new stay at v1.29.0 while the control plane is at v1.30.1: they lag 1 minor, and kubelet may lag 3 minors
Skipped: workers old stay at v1.28.0 while the control plane is at v1.30.1: they lag 2 minors, and kubelet may lag 3 minors
Step: control plane v1.30.1 -> v1.31.2: the control plane moves one minor at a time: v1.31.2 is the newest v1.31 on offer
Step: workers new v1.29.0 -> v1.31.2: all workers share one list of stops, and others must leave v1.28 before the control plane reaches v1.32
Step: workers old v1.28.0 -> v1.31.2: workers must leave v1.28 before the control plane reaches v1.32: kubelet may lag 3 minors
Step: control plane v1.31.2 -> v1.32.0: v1.32.0 is the target of the upgrade
Step: workers new, old v1.31.2 -> v1.32.0: v1.32.0 is the target of the upgrade
`,
		},
		{
			name: "lists of a response",
			request: plan.Request{
				Inventory: plan.Inventory{ControlPlane: v("v1.30.1"), Groups: groups("workers=v1.30.1")}, Target: v("v1.32.0"),
				Source: plan.Response{ControlPlane: vs("v1.31.2 v1.32.0"), Workers: vs("v1.31.2 v1.32.0")},
			},
			want: `
Step: control plane v1.30.1 -> v1.31.2: the GenerateUpgradePlan response lists v1.31.2
Step: workers v1.30.1 -> v1.31.2: the GenerateUpgradePlan response lists v1.31.2
Step: control plane v1.31.2 -> v1.32.0: v1.32.0 is the target of the upgrade
Step: workers v1.31.2 -> v1.32.0: v1.32.0 is the target of the upgrade
`,
		},
		{
			name:    "nothing to do",
			request: plan.Request{Inventory: plan.Inventory{ControlPlane: v("v1.33.2"), Groups: groups("a=v1.33.2")}, Target: v("v1.33.2")},
			want: `
Step: nothing to do: the control plane and all workers are at the target v1.33.2
`,
		},
		{
			name: "the first obstacle and its fix",
			request: plan.Request{
				Inventory: plan.Inventory{ControlPlane: v("v1.29.0")}, Target: v("v1.33.0"), Source: plan.VersionList(vs("v1.30.0 v1.33.0")),
			},
			want: `
Obstacle: v1.31: the list of versions offers no v1.31 version, and the control plane cannot skip a minor on its way from v1.29.0 to v1.33.0
Fix: add a v1.31 version
`,
		},
		{
			name: "long lists of groups are cut",
			request: plan.Request{
				Inventory: plan.Inventory{ControlPlane: v("v1.29.0"), Groups: groups("a=v1.29.0 b=v1.29.0 c=v1.29.0 d=v1.29.0 e=v1.29.0 f=v1.29.0 g=v1.29.0")}, Target: v("v1.30.0"),
			},
			want: `
Step: control plane v1.29.0 -> v1.30.0: v1.30.0 is the target of the upgrade
Step: workers a, b, c, d, e, and 2 more v1.29.0 -> v1.30.0: v1.30.0 is the target of the upgrade
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			for _, l := range plan.Explain(tt.request).Lines {
				fmt.Fprintf(&b, "%s: %s\n", l.Topic, l.Text)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), b.String()); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		})
	}
}
