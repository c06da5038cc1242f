package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

const chain29to33 = "v1.29.0 v1.30.3 v1.31.2 v1.32.1 v1.33.0"

func TestCompute(t *testing.T) {
	tests := []struct {
		name             string
		controlPlane     string
		groups           string
		target           string
		source           plan.Source
		begun            bool
		wantControlPlane string
		wantWorkers      string
		wantShared       string
		wantGroups       []string
		wantOwn          string
	}{
		{
			name:         "the proposal's table: workers skip until skew forces them",
			controlPlane: "v1.29.0", groups: "a=v1.29.0", target: "v1.33.0", source: plan.VersionList(vs(chain29to33)),
			wantControlPlane: "v1.30.3 v1.31.2 v1.32.1 v1.33.0", wantWorkers: "v1.32.1 v1.33.0",
			wantShared: "CP v1.30.3; CP v1.31.2; CP v1.32.1; a v1.29.0 -> v1.32.1; CP v1.33.0; a v1.32.1 -> v1.33.0",
			wantGroups: []string{"v1.32.1 v1.33.0"},
		},
		{
			name:         "six minors need two stops",
			controlPlane: "v1.30.0", groups: "a=v1.30.0", target: "v1.36.0",
			source:           plan.VersionList(vs("v1.31.0 v1.32.0 v1.33.0 v1.34.0 v1.35.0 v1.36.0")),
			wantControlPlane: "v1.31.0 v1.32.0 v1.33.0 v1.34.0 v1.35.0 v1.36.0", wantWorkers: "v1.33.0 v1.36.0",
			wantShared: "CP v1.31.0; CP v1.32.0; CP v1.33.0; a v1.30.0 -> v1.33.0; CP v1.34.0; CP v1.35.0; CP v1.36.0; a v1.33.0 -> v1.36.0",
			wantGroups: []string{"v1.33.0 v1.36.0"},
		},
		{
			name:         "the shared list is not the union of the groups' own",
			controlPlane: "v1.29.0", groups: "a=v1.28.0 b=v1.29.0", target: "v1.33.0", source: plan.VersionList(vs(chain29to33)),
			wantControlPlane: "v1.30.3 v1.31.2 v1.32.1 v1.33.0", wantWorkers: "v1.31.2 v1.33.0",
			wantShared: "CP v1.30.3; CP v1.31.2; a v1.28.0 -> v1.31.2; b v1.29.0 -> v1.31.2; CP v1.32.1; CP v1.33.0; a,b v1.31.2 -> v1.33.0",
			wantGroups: []string{"v1.31.2 v1.33.0", "v1.32.1 v1.33.0"},
			wantOwn:    "CP v1.30.3; CP v1.31.2; a v1.28.0 -> v1.31.2; CP v1.32.1; b v1.29.0 -> v1.32.1; CP v1.33.0; a v1.31.2 -> v1.33.0; b v1.32.1 -> v1.33.0",
		},
		{
			name:         "an in-place limit of one minor stops everywhere, but only for its group",
			controlPlane: "v1.29.0", groups: "a=v1.29.0 b=v1.29.0/1", target: "v1.31.2", source: plan.VersionList(vs(chain29to33)),
			wantControlPlane: "v1.30.3 v1.31.2", wantWorkers: "v1.30.3 v1.31.2",
			wantShared: "CP v1.30.3; a v1.29.0 -> v1.30.3; b v1.29.0 -> v1.30.3; CP v1.31.2; a,b v1.30.3 -> v1.31.2",
			wantGroups: []string{"v1.31.2", "v1.30.3 v1.31.2"},
			wantOwn:    "CP v1.30.3; b v1.29.0 -> v1.30.3; CP v1.31.2; a v1.29.0 -> v1.31.2; b v1.30.3 -> v1.31.2",
		},
		{
			name:         "kubelets older than v1.25 may lag two minors only",
			controlPlane: "v1.24.0", groups: "a=v1.24.0", target: "v1.28.0",
			source:           plan.VersionList(vs("v1.25.0 v1.26.0 v1.27.0 v1.28.0")),
			wantControlPlane: "v1.25.0 v1.26.0 v1.27.0 v1.28.0", wantWorkers: "v1.26.0 v1.28.0",
			wantShared: "CP v1.25.0; CP v1.26.0; a v1.24.0 -> v1.26.0; CP v1.27.0; CP v1.28.0; a v1.26.0 -> v1.28.0",
			wantGroups: []string{"v1.26.0 v1.28.0"},
		},
		{
			name:         "the newest patch of each minor, whatever the list's order",
			controlPlane: "v1.29.0", target: "v1.31.1", source: plan.VersionList(vs("v1.31.2 v1.30.1 v1.30.9 v1.31.1 v1.30.3")),
			wantControlPlane: "v1.30.9 v1.31.1", wantShared: "CP v1.30.9; CP v1.31.1",
		},
		{
			name:         "among builds without an order the last of the list",
			controlPlane: "v1.29.0", target: "v1.31.1", source: plan.VersionList(vs("v1.30.1+rke2r1 v1.30.1+rke2r2 v1.31.1")),
			wantControlPlane: "v1.30.1+rke2r2 v1.31.1", wantShared: "CP v1.30.1+rke2r2; CP v1.31.1",
		},
		{
			name:         "a patch upgrade goes straight to the target",
			controlPlane: "v1.30.1", groups: "a=v1.30.1", target: "v1.30.9", source: plan.VersionList(vs("v1.30.1 v1.30.3 v1.30.9")),
			wantControlPlane: "v1.30.9", wantWorkers: "v1.30.9", wantShared: "CP v1.30.9; a v1.30.1 -> v1.30.9", wantGroups: []string{"v1.30.9"},
		},
		{
			name:         "a build-only upgrade through the list",
			controlPlane: "v1.30.1+rke2r1", groups: "a=v1.30.1+rke2r1", target: "v1.30.1+rke2r2",
			source:           plan.VersionList(vs("v1.30.1+rke2r1 v1.30.1+rke2r2")),
			wantControlPlane: "v1.30.1+rke2r2", wantWorkers: "v1.30.1+rke2r2",
			wantShared: "CP v1.30.1+rke2r2; a v1.30.1+rke2r1 -> v1.30.1+rke2r2", wantGroups: []string{"v1.30.1+rke2r2"},
		},
		{
			name:         "workers at another build follow a control plane that is done",
			controlPlane: "v1.30.1+rke2r2", groups: "a=v1.30.1+rke2r1 b=v1.30.1+rke2r2", target: "v1.30.1+rke2r2",
			wantWorkers: "v1.30.1+rke2r2", wantShared: "a v1.30.1+rke2r1 -> v1.30.1+rke2r2",
			wantGroups: []string{"v1.30.1+rke2r2", ""},
		},
		{
			name:         "everything at the target",
			controlPlane: "v1.30.1", groups: "a=v1.30.1", target: "v1.30.1", wantGroups: []string{""},
		},
		{
			name:         "the next minor needs no list",
			controlPlane: "v1.30.1", groups: "a=v1.30.1", target: "v1.31.0", source: plan.NextMinor{},
			wantControlPlane: "v1.31.0", wantWorkers: "v1.31.0", wantShared: "CP v1.31.0; a v1.30.1 -> v1.31.0", wantGroups: []string{"v1.31.0"},
		},
		{
			name:         "MachineDeployments move before MachinePools, each in the order of the topology",
			controlPlane: "v1.30.1", groups: "mp-b=v1.30.1 z=v1.30.1 mp-a=v1.30.1 y=v1.30.1", target: "v1.31.0",
			wantControlPlane: "v1.31.0", wantWorkers: "v1.31.0",
			wantShared: "CP v1.31.0; z,y v1.30.1 -> v1.31.0; mp-b,mp-a v1.30.1 -> v1.31.0",
			wantGroups: []string{"v1.31.0", "v1.31.0", "v1.31.0", "v1.31.0"},
		},
		{
			name:         "a group that is a patch ahead of the control plane waits until it is behind",
			controlPlane: "v1.30.1", groups: "a=v1.30.5", target: "v1.31.0", source: plan.Response{ControlPlane: vs("v1.30.3 v1.31.0")},
			wantControlPlane: "v1.30.3 v1.31.0", wantWorkers: "v1.31.0", wantShared: "CP v1.30.3; CP v1.31.0; a v1.30.5 -> v1.31.0", wantGroups: []string{"v1.31.0"},
		},
		{
			name:         "a response may go through several patches, workers stop at the last that skew allows",
			controlPlane: "v1.29.0", groups: "a=v1.27.0", target: "v1.31.0", source: plan.Response{ControlPlane: vs("v1.30.0 v1.30.7 v1.31.0")},
			wantControlPlane: "v1.30.0 v1.30.7 v1.31.0", wantWorkers: "v1.30.7 v1.31.0",
			wantShared: "CP v1.30.0; CP v1.30.7; a v1.27.0 -> v1.30.7; CP v1.31.0; a v1.30.7 -> v1.31.0", wantGroups: []string{"v1.30.7 v1.31.0"},
		},
		{
			name:         "an explicit workers list forces each item on every group below it",
			controlPlane: "v1.29.0", groups: "a=v1.28.0 b=v1.29.0", target: "v1.32.3",
			source:           plan.Response{ControlPlane: vs("v1.30.0 v1.31.0 v1.32.3"), Workers: vs("v1.29.0 v1.30.0 v1.32.3")},
			wantControlPlane: "v1.30.0 v1.31.0 v1.32.3", wantWorkers: "v1.29.0 v1.30.0 v1.32.3",
			wantShared: "a v1.28.0 -> v1.29.0; CP v1.30.0; a,b v1.29.0 -> v1.30.0; CP v1.31.0; CP v1.32.3; a,b v1.30.0 -> v1.32.3",
			wantGroups: []string{"v1.29.0 v1.30.0 v1.32.3", "v1.30.0 v1.32.3"},
		},
		{
			name:         "a stop that has begun is finished by all that share it",
			controlPlane: "v1.31.2", groups: "a=v1.31.2 b=v1.29.0", target: "v1.33.0", source: plan.VersionList(vs(chain29to33)), begun: true,
			wantControlPlane: "v1.32.1 v1.33.0", wantWorkers: "v1.31.2 v1.33.0",
			wantShared: "b v1.29.0 -> v1.31.2; CP v1.32.1; CP v1.33.0; a,b v1.31.2 -> v1.33.0",
			wantGroups: []string{"v1.33.0", "v1.32.1 v1.33.0"},
			wantOwn:    "CP v1.32.1; b v1.29.0 -> v1.32.1; CP v1.33.0; a v1.31.2 -> v1.33.0; b v1.32.1 -> v1.33.0",
		},
		{
			name:         "a stop that has begun is finished by a single group, too",
			controlPlane: "v1.31.2", groups: "a=v1.29.0", target: "v1.33.0", source: plan.VersionList(vs(chain29to33)), begun: true,
			wantControlPlane: "v1.32.1 v1.33.0", wantWorkers: "v1.31.2 v1.33.0",
			wantShared: "a v1.29.0 -> v1.31.2; CP v1.32.1; CP v1.33.0; a v1.31.2 -> v1.33.0",
			wantGroups: []string{"v1.32.1 v1.33.0"},
			wantOwn:    "CP v1.32.1; a v1.29.0 -> v1.32.1; CP v1.33.0; a v1.32.1 -> v1.33.0",
		},
		{
			name:         "a stop that has begun is left out where that takes fewer stops",
			controlPlane: "v1.29.0", groups: "a=v1.29.0 b=v1.28.0", target: "v1.33.0", source: plan.VersionList(vs(chain29to33)), begun: true,
			wantControlPlane: "v1.30.3 v1.31.2 v1.32.1 v1.33.0", wantWorkers: "v1.31.2 v1.33.0",
			wantShared: "CP v1.30.3; CP v1.31.2; a v1.29.0 -> v1.31.2; b v1.28.0 -> v1.31.2; CP v1.32.1; CP v1.33.0; a,b v1.31.2 -> v1.33.0",
			wantGroups: []string{"v1.32.1 v1.33.0", "v1.31.2 v1.33.0"},
			wantOwn:    "CP v1.30.3; CP v1.31.2; b v1.28.0 -> v1.31.2; CP v1.32.1; a v1.29.0 -> v1.32.1; CP v1.33.0; a v1.32.1 -> v1.33.0; b v1.31.2 -> v1.33.0",
		},
		{
			name:         "a group that comes after those that forced a stop is spared it, one before is not",
			controlPlane: "v1.29.0", groups: "before=v1.29.0 forces=v1.28.0 after=v1.29.0", target: "v1.32.1", source: plan.VersionList(vs(chain29to33)),
			wantControlPlane: "v1.30.3 v1.31.2 v1.32.1", wantWorkers: "v1.31.2 v1.32.1",
			wantShared: "CP v1.30.3; CP v1.31.2; before v1.29.0 -> v1.31.2; forces v1.28.0 -> v1.31.2; CP v1.32.1; before,forces v1.31.2 -> v1.32.1; after v1.29.0 -> v1.32.1",
			wantGroups: []string{"v1.32.1", "v1.31.2 v1.32.1", "v1.32.1"},
			wantOwn:    "CP v1.30.3; CP v1.31.2; forces v1.28.0 -> v1.31.2; CP v1.32.1; before v1.29.0 -> v1.32.1; forces v1.31.2 -> v1.32.1; after v1.29.0 -> v1.32.1",
		},
		{
			name:         "a stop at the present version has not begun before it is recorded",
			controlPlane: "v1.30.3", groups: "a=v1.27.2 b=v1.28.3", target: "v1.32.3", source: plan.VersionList(vs("v1.30.3 v1.31.3 v1.32.3")),
			wantControlPlane: "v1.31.3 v1.32.3", wantWorkers: "v1.30.3 v1.32.3",
			wantShared: "a v1.27.2 -> v1.30.3; CP v1.31.3; a v1.30.3 -> v1.31.3; b v1.28.3 -> v1.31.3; CP v1.32.3; a,b v1.31.3 -> v1.32.3",
			wantGroups: []string{"v1.30.3 v1.32.3", "v1.31.3 v1.32.3"},
			wantOwn:    "a v1.27.2 -> v1.30.3; CP v1.31.3; b v1.28.3 -> v1.31.3; CP v1.32.3; a v1.30.3 -> v1.32.3; b v1.31.3 -> v1.32.3",
		},
		{
			name:         "a list is legal whichever of two builds without an order comes first",
			controlPlane: "v1.31.0", groups: "a=v1.31.0+vmware.10 b=v1.31.0+k3s1.2", target: "v1.32.0",
			source:           plan.Response{ControlPlane: vs("v1.31.0+vmware.2 v1.32.0"), Workers: vs("v1.31.0+vmware.2 v1.32.0")},
			wantControlPlane: "v1.31.0+vmware.2 v1.32.0", wantWorkers: "v1.31.0+vmware.2 v1.32.0",
			wantShared: "CP v1.31.0+vmware.2; b v1.31.0+k3s1.2 -> v1.31.0+vmware.2; CP v1.32.0; a v1.31.0+vmware.10 -> v1.32.0; b v1.31.0+vmware.2 -> v1.32.0",
			wantGroups: []string{"v1.32.0", "v1.31.0+vmware.2 v1.32.0"},
		},
		{
			name:         "pre-releases follow semver",
			controlPlane: "v1.31.0-rc.1", groups: "a=v1.31.0-rc.1", target: "v1.31.0", source: plan.NextMinor{},
			wantControlPlane: "v1.31.0", wantWorkers: "v1.31.0", wantShared: "CP v1.31.0; a v1.31.0-rc.1 -> v1.31.0", wantGroups: []string{"v1.31.0"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			request := plan.Request{
				Inventory: plan.Inventory{ControlPlane: v(tt.controlPlane), Groups: groups(tt.groups), WorkersUpgrading: tt.begun},
				Target:    v(tt.target), Source: tt.source,
			}
			got, err := plan.Compute(request)
			if err != nil {
				t.Fatal(err)
			}
			request.Policy.Workers = plan.WorkersPerGroup
			own, err := plan.Compute(request)
			if err != nil {
				t.Fatal(err)
			}
			if tt.wantOwn == "" {
				tt.wantOwn = tt.wantShared
			}
			var gotGroups []string
			for _, g := range got.Groups {
				gotGroups = append(gotGroups, list(g.Upgrades))
			}
			want := []any{tt.wantControlPlane, tt.wantWorkers, tt.wantShared, tt.wantGroups, tt.wantOwn}
			if diff := cmp.Diff(want, []any{list(got.ControlPlane), list(got.Workers), sequence(got.Operations), gotGroups, sequence(own.Operations)}); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestComputeRefuses(t *testing.T) {
	tests := []struct {
		name         string
		controlPlane string
		groups       string
		target       string
		source       plan.Source
		rule         plan.Rule
		item         plan.Item
		version      string
		says         string
	}{
		{name: "no control plane version", target: "v1.30.0", rule: plan.RuleInventory, item: plan.ItemControlPlane, says: "missing"},
		{name: "no target", controlPlane: "v1.30.0", rule: plan.RuleInventory, item: plan.ItemTarget, says: "missing"},
		{name: "two groups of one name", controlPlane: "v1.30.0", target: "v1.31.0", groups: "a=v1.30.0 a=v1.29.0", rule: plan.RuleInventory, item: "groups[1]", says: `"a"`},
		{name: "a kubelet newer than its control plane", controlPlane: "v1.30.0", target: "v1.32.0", groups: "a=v1.31.0", rule: plan.RuleKubeletNewer, item: `group "a"`, version: "v1.31.0", says: "v1.30.0"},
		{name: "a group that lags too far already", controlPlane: "v1.34.0", target: "v1.35.0", groups: "a=v1.30.0", rule: plan.RuleSkew, item: `group "a"`, version: "v1.30.0", says: "move this group to v1.31 or newer first"},
		{name: "a group newer than the target", controlPlane: "v1.30.1", target: "v1.30.2", groups: "a=v1.30.5", rule: plan.RuleDowngrade, item: `group "a"`, version: "v1.30.5", says: "v1.30.2"},
		{name: "a downgrade", controlPlane: "v1.31.0", target: "v1.30.9", rule: plan.RuleDowngrade, item: plan.ItemTarget, version: "v1.30.9", says: "v1.31.0"},
		{
			name: "a downgrade between builds, as the list orders them", controlPlane: "v1.30.1+b", target: "v1.30.1+a",
			source: plan.VersionList(vs("v1.30.1+a v1.30.1+b")), rule: plan.RuleDowngrade, item: plan.ItemTarget, version: "v1.30.1+a", says: "list of versions",
		},
		{
			name: "a downgrade between numbered builds, whatever the list says", controlPlane: "v1.33.1+rke2r10", target: "v1.33.1+rke2r2",
			source: plan.VersionList(vs("v1.33.1+rke2r10 v1.33.1+rke2r2")), rule: plan.RuleDowngrade, item: plan.ItemTarget, version: "v1.33.1+rke2r2", says: "v1.33.1+rke2r10",
		},
		{
			name: "a downgrade of EKS Distro", controlPlane: "v1.33.5-eks-1-33-17", target: "v1.33.5-eks-1-33-9",
			source: plan.VersionList(vs("v1.33.5-eks-1-33-17 v1.33.5-eks-1-33-9")), rule: plan.RuleDowngrade, item: plan.ItemTarget, version: "v1.33.5-eks-1-33-9", says: "v1.33.5-eks-1-33-17",
		},
		{name: "another major", controlPlane: "v1.35.0", target: "v2.36.0", rule: plan.RuleMajor, item: plan.ItemTarget, version: "v2.36.0", says: "choose a v1 version"},
		{name: "two minors without a list", controlPlane: "v1.30.0", target: "v1.32.0", source: plan.NextMinor{}, rule: plan.RuleNextMinorOnly, item: plan.ItemTarget, version: "v1.32.0", says: "kubernetesVersions"},
		{name: "a target that is not in the list", controlPlane: "v1.30.0", target: "v1.31.9", source: plan.VersionList(vs("v1.31.0")), rule: plan.RuleTargetNotOffered, item: plan.ItemTarget, version: "v1.31.9", says: "add v1.31.9"},
		{name: "a minor missing from the list", controlPlane: "v1.29.0", target: "v1.32.0", source: plan.VersionList(vs("v1.30.0 v1.32.0")), rule: plan.RuleMinorMissing, item: "v1.31", says: "add a v1.31 version"},
		{
			name: "an update method that cannot catch up", controlPlane: "v1.32.0", target: "v1.33.0", groups: "a=v1.30.0/1", rule: plan.RuleTransition,
			item: `group "a"`, version: "v1.30.0", says: "replaced",
		},
		{
			name: "response: control plane list although it is at the target", controlPlane: "v1.33.0", target: "v1.33.0",
			source: plan.Response{ControlPlane: vs("v1.33.0")}, rule: plan.RuleAtTarget, item: "controlPlaneUpgrades", version: "v1.33.0", says: "leave the list empty",
		},
		{
			name: "response: empty control plane list", controlPlane: "v1.32.0", target: "v1.33.0", source: plan.Response{},
			rule: plan.RuleEndsAtTarget, item: "controlPlaneUpgrades", version: "v1.33.0", says: "the list is empty",
		},
		{
			name: "response: not newer than the current version", controlPlane: "v1.32.0", target: "v1.33.0", source: plan.Response{ControlPlane: vs("v1.32.0 v1.33.0")},
			rule: plan.RuleOrder, item: "controlPlaneUpgrades[0]", version: "v1.32.0", says: "newer than v1.32.0",
		},
		{
			name: "response: not newer than its predecessor", controlPlane: "v1.31.0", target: "v1.33.0", source: plan.Response{ControlPlane: vs("v1.32.5 v1.32.1 v1.33.0")},
			rule: plan.RuleOrder, item: "controlPlaneUpgrades[1]", version: "v1.32.1", says: "newer than v1.32.5",
		},
		{
			name: "response: a minor is skipped", controlPlane: "v1.31.0", target: "v1.33.0", source: plan.Response{ControlPlane: vs("v1.33.0")},
			rule: plan.RuleMinorSkipped, item: "controlPlaneUpgrades[0]", version: "v1.33.0", says: "put a v1.32 version before it",
		},
		{
			name: "response: beyond the target", controlPlane: "v1.32.0", target: "v1.33.0", source: plan.Response{ControlPlane: vs("v1.33.0 v1.33.1")},
			rule: plan.RuleBeyondTarget, item: "controlPlaneUpgrades[1]", version: "v1.33.1", says: "end the list at v1.33.0",
		},
		{
			name: "response: does not reach the target", controlPlane: "v1.31.0", target: "v1.33.0", source: plan.Response{ControlPlane: vs("v1.32.0")},
			rule: plan.RuleEndsAtTarget, item: "controlPlaneUpgrades", version: "v1.33.0", says: "ends at v1.32.0",
		},
		{
			name: "response: goes back to a build", controlPlane: "v1.31.0", target: "v1.31.1+a",
			source: plan.Response{ControlPlane: vs("v1.31.1+a v1.31.1+b v1.31.1+a")}, rule: plan.RuleOrder, item: "controlPlaneUpgrades[2]", version: "v1.31.1+a", says: "each once",
		},
		{
			name: "response: goes back to the current build", controlPlane: "v1.32.1+vmware.10", target: "v1.33.0",
			source: plan.Response{ControlPlane: vs("v1.32.1+c0ffee v1.32.1+vmware.10 v1.33.0")}, rule: plan.RuleOrder, item: "controlPlaneUpgrades[1]", version: "v1.32.1+vmware.10", says: "newer than v1.32.1+vmware.10",
		},
		{
			name: "response: goes back over a build without an order", controlPlane: "v1.32.1+a.2", target: "v1.33.0",
			source: plan.Response{ControlPlane: vs("v1.32.1+b v1.32.1+a.1 v1.33.0")}, rule: plan.RuleOrder, item: "controlPlaneUpgrades[1]", version: "v1.32.1+a.1", says: "newer than v1.32.1+a.2",
		},
		{
			name: "a group at a build that the list puts after the target", controlPlane: "v1.30.1+rke2r1", groups: "a=v1.30.1+rke2r3", target: "v1.30.1+rke2r2",
			source: plan.VersionList(vs("v1.30.1+rke2r1 v1.30.1+rke2r2 v1.30.1+rke2r3")), rule: plan.RuleDowngrade, item: `group "a"`, version: "v1.30.1+rke2r3", says: "never downgraded",
		},
		{
			name: "response: workers list without workers", controlPlane: "v1.32.0", target: "v1.33.0",
			source: plan.Response{ControlPlane: vs("v1.33.0"), Workers: vs("v1.33.0")}, rule: plan.RuleAtTarget, item: "workersUpgrades", version: "v1.33.0", says: "no workers",
		},
		{
			name: "response: workers go where the control plane does not", controlPlane: "v1.31.0", groups: "a=v1.31.0", target: "v1.33.0",
			source: plan.Response{ControlPlane: vs("v1.32.1 v1.33.0"), Workers: vs("v1.32.0 v1.33.0")}, rule: plan.RuleNotOnRoute, item: "workersUpgrades[0]", version: "v1.32.0", says: "controlPlaneUpgrades",
		},
		{
			name: "response: workers list names versions that a finished control plane never had", controlPlane: "v1.33.0", groups: "a=v1.31.0", target: "v1.33.0",
			source: plan.Response{Workers: vs("v1.32.0 v1.33.0")}, rule: plan.RuleNotOnRoute, item: "workersUpgrades[0]", version: "v1.32.0", says: "use v1.33.0",
		},
		{
			name: "response: workers list is not newer than the workers", controlPlane: "v1.31.0", groups: "a=v1.31.0", target: "v1.33.0",
			source: plan.Response{ControlPlane: vs("v1.32.0 v1.33.0"), Workers: vs("v1.31.0 v1.33.0")}, rule: plan.RuleOrder, item: "workersUpgrades[0]", version: "v1.31.0", says: "no workers are behind it",
		},
		{
			name: "response: workers list out of order", controlPlane: "v1.31.0", groups: "a=v1.31.0", target: "v1.33.0",
			source: plan.Response{ControlPlane: vs("v1.32.0 v1.33.0"), Workers: vs("v1.33.0 v1.32.0")}, rule: plan.RuleOrder, item: "workersUpgrades[1]", version: "v1.32.0", says: "from old to new",
		},
		{
			name: "response: workers list goes back", controlPlane: "v1.30.0", groups: "a=v1.30.0", target: "v1.33.0",
			source: plan.Response{ControlPlane: vs("v1.31.0 v1.32.0 v1.33.0"), Workers: vs("v1.32.0 v1.31.0 v1.33.0")},
			rule:   plan.RuleOrder, item: "workersUpgrades[1]", version: "v1.31.0", says: "from old to new",
		},
		{
			name: "response: builds in another order than the control plane's", controlPlane: "v1.31.0", groups: "a=v1.31.0", target: "v1.31.1+c",
			source: plan.Response{ControlPlane: vs("v1.31.1+a v1.31.1+b v1.31.1+c"), Workers: vs("v1.31.1+b v1.31.1+a v1.31.1+c")},
			rule:   plan.RuleOrder, item: "workersUpgrades[1]", version: "v1.31.1+a", says: "order of controlPlaneUpgrades",
		},
		{
			name: "response: workers list beyond the target", controlPlane: "v1.31.0", groups: "a=v1.31.0", target: "v1.32.0",
			source: plan.Response{ControlPlane: vs("v1.32.0"), Workers: vs("v1.32.0 v1.33.0")}, rule: plan.RuleBeyondTarget, item: "workersUpgrades[1]", version: "v1.33.0", says: "end the list at v1.32.0",
		},
		{
			name: "response: workers list does not reach the target", controlPlane: "v1.31.0", groups: "a=v1.31.0", target: "v1.33.0",
			source: plan.Response{ControlPlane: vs("v1.32.0 v1.33.0"), Workers: vs("v1.32.0")}, rule: plan.RuleEndsAtTarget, item: "workersUpgrades", version: "v1.33.0", says: "ends at v1.32.0",
		},
		{
			name: "response: workers list leaves out a stop that skew needs", controlPlane: "v1.29.0", groups: "a=v1.29.0", target: "v1.33.0",
			source: plan.Response{ControlPlane: vs("v1.30.0 v1.31.0 v1.32.0 v1.33.0"), Workers: vs("v1.33.0")},
			rule:   plan.RuleSkew, item: "workersUpgrades[0]", version: "v1.33.0", says: "put a version newer than v1.29 and older than v1.33 before it",
		},
		{
			name: "response: kubelet v1.24 may lag two only", controlPlane: "v1.24.0", groups: "a=v1.24.0", target: "v1.27.0",
			source: plan.Response{ControlPlane: vs("v1.25.0 v1.26.0 v1.27.0"), Workers: vs("v1.27.0")},
			rule:   plan.RuleSkew, item: "workersUpgrades[0]", version: "v1.27.0", says: "kubelet may lag 2 minors",
		},
		{
			name: "response: workers list jumps further than a group can", controlPlane: "v1.29.0", groups: "a=v1.29.0 b=v1.29.0/1", target: "v1.31.0",
			source: plan.Response{ControlPlane: vs("v1.30.0 v1.31.0"), Workers: vs("v1.31.0")},
			rule:   plan.RuleTransition, item: "workersUpgrades[0]", version: "v1.31.0", says: `"b"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			request := plan.Request{
				Inventory: plan.Inventory{ControlPlane: v(tt.controlPlane), Groups: groups(tt.groups)}, Target: v(tt.target), Source: tt.source,
			}
			got, err := plan.Compute(request)
			known := wantRule(t, err, tt.rule)
			if known.Item != tt.item || known.Version != v(tt.version) || !strings.Contains(known.Error(), tt.says) {
				t.Fatalf("got %q about item %q, version %q; want item %q, version %q, and a message with %q", known, known.Item, known.Version, tt.item, tt.version, tt.says)
			}
			if diff := cmp.Diff(plan.Plan{}, got); diff != "" {
				t.Fatalf("an error came with half a plan:\n%s", diff)
			}
			explanation := plan.Explain(request)
			want := []plan.Topic{plan.TopicObstacle, plan.TopicFix}
			var topics []plan.Topic
			for _, l := range explanation.Lines {
				topics = append(topics, l.Topic)
			}
			if diff := cmp.Diff(want, topics); diff != "" {
				t.Fatalf("Explain (-want +got):\n%s", diff)
			}
		})
	}
}

func TestComputeRefusesBrokenRequests(t *testing.T) {
	sound := func() plan.Request {
		return plan.Request{Inventory: plan.Inventory{ControlPlane: v("v1.30.0"), Groups: groups("a=v1.30.0")}, Target: v("v1.31.0")}
	}
	tests := map[string]struct {
		breakIt func(*plan.Request)
		rule    plan.Rule
		says    string
	}{
		"an unknown kind":                            {func(r *plan.Request) { r.Inventory.Groups[0].Kind = "ReplicaSet" }, plan.RuleInventory, `kind "ReplicaSet"`},
		"a group without a version":                  {func(r *plan.Request) { r.Inventory.Groups[0].Version = version.Version{} }, plan.RuleInventory, "its version is missing"},
		"a group without a name":                     {func(r *plan.Request) { r.Inventory.Groups[0].Name = "" }, plan.RuleInventory, "empty or stands twice"},
		"an unknown workers policy":                  {func(r *plan.Request) { r.Policy.Workers = "perGroup" }, plan.RuleInventory, "use Shared or PerGroup"},
		"another major":                              {func(r *plan.Request) { r.Inventory.Groups[0].Version = v("v2.30.0") }, plan.RuleMajor, "major versions"},
		"a named policy without rules allows no lag": {func(r *plan.Request) { r.Policy.Skew.Name = "no-lag" }, plan.RuleSkew, "lag only 0 minors"},
		"an endless list":                            {func(r *plan.Request) { r.Source = plan.Response{ControlPlane: make([]version.Version, 5000)} }, plan.RuleInventory, "5000 items"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := sound()
			tt.breakIt(&r)
			_, err := plan.Compute(r)
			if known := wantRule(t, err, tt.rule); !strings.Contains(known.Error(), tt.says) {
				t.Errorf("%q does not say %q", known, tt.says)
			}
		})
	}
	r := sound()
	r.Source = &plan.Response{ControlPlane: vs("v1.31.0"), Workers: vs("v1.99.0")}
	if _, err := plan.Compute(r); err == nil {
		t.Error("a pointer to a response loses its workers list")
	}
}

func TestRulesOfBadInput(t *testing.T) {
	for _, r := range []plan.Rule{plan.RuleInventory, plan.RuleKubeletNewer} {
		if !r.BadInput() {
			t.Errorf("%s is about the request", r)
		}
	}
	if plan.RuleSkew.BadInput() {
		t.Error("VersionSkew is about the way, not the request")
	}
}

func TestComputeUnderAnotherSkewPolicy(t *testing.T) {
	k0s, err := version.FindSkewPolicy("k0s")
	if err != nil {
		t.Fatal(err)
	}
	got, err := plan.Compute(plan.Request{
		Inventory: plan.Inventory{ControlPlane: v("v1.34.0"), Groups: groups("a=v1.34.0")}, Target: v("v1.37.0"),
		Source: plan.VersionList(vs("v1.35.0 v1.36.0 v1.37.0")), Policy: plan.Policy{Skew: k0s},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "CP v1.35.0; a v1.34.0 -> v1.35.0; CP v1.36.0; a v1.35.0 -> v1.36.0; CP v1.37.0; a v1.36.0 -> v1.37.0"
	if diff := cmp.Diff(want, sequence(got.Operations)); diff != "" {
		t.Fatal(diff)
	}
}

func TestComputeWithAPolicyThatAllowsNoLag(t *testing.T) {
	_, err := plan.Compute(plan.Request{
		Inventory: plan.Inventory{ControlPlane: v("v1.34.0"), Groups: groups("a=v1.34.0")}, Target: v("v1.35.0"),
		Policy: plan.Policy{Skew: version.SkewPolicy{Name: "none", Rules: []version.SkewRule{{MaxLag: 0}}}},
	})
	if known := wantRule(t, err, plan.RuleSkew); known.Item != plan.GroupItem("a") {
		t.Errorf("the error is about %s", known.Item)
	}
}

func TestComputeLeavesItsInputAlone(t *testing.T) {
	versions := plan.VersionList(vs(chain29to33))
	fleet := groups("mp=v1.29.0 a=v1.28.0 b=v1.29.0/1")
	request := plan.Request{Inventory: plan.Inventory{ControlPlane: v("v1.29.0"), Groups: fleet}, Target: v("v1.33.0"), Source: versions}
	if _, err := plan.Compute(request); err != nil {
		t.Fatal(err)
	}
	plan.Explain(request)
	if diff := cmp.Diff(vs(chain29to33), []version.Version(versions)); diff != "" {
		t.Errorf("the list changed:\n%s", diff)
	}
	if diff := cmp.Diff(groups("mp=v1.29.0 a=v1.28.0 b=v1.29.0/1"), fleet); diff != "" {
		t.Errorf("the groups changed:\n%s", diff)
	}
}
