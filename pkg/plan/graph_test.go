package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

func minor(s string) version.Minor { return v(s + ".0").Minor() }

func TestComputeFromGraph(t *testing.T) {
	tests := []struct {
		name         string
		controlPlane string
		target       string
		graph        plan.Graph
		want         string
		reasons      []plan.ReasonCode
	}{
		{
			name: "without blocks and floors it is the newest patch of each minor", controlPlane: "v1.29.0", target: "v1.31.1",
			graph: plan.Graph{Versions: vs("v1.29.0 v1.30.1 v1.30.4 v1.31.0 v1.31.1 v1.31.2")},
			want:  "v1.30.4 v1.31.1", reasons: []plan.ReasonCode{plan.ReasonLatestOfMinor, plan.ReasonTarget},
		},
		{
			name: "a floor adds a patch hop in the current minor", controlPlane: "v1.33.2", target: "v1.34.1",
			graph: plan.Graph{Versions: vs("v1.33.2 v1.33.5 v1.33.9 v1.34.1"), Floors: []plan.Floor{{Before: minor("v1.34"), AtLeast: v("v1.33.5"), Reason: "etcd 3.6 needs 3.5.26"}}},
			want:  "v1.33.9 v1.34.1", reasons: []plan.ReasonCode{plan.ReasonFloor, plan.ReasonTarget},
		},
		{
			name: "a floor that is met costs nothing", controlPlane: "v1.32.0", target: "v1.34.1",
			graph: plan.Graph{Versions: vs("v1.33.2 v1.33.5 v1.34.1"), Floors: []plan.Floor{{Before: minor("v1.34"), AtLeast: v("v1.33.5")}}},
			want:  "v1.33.5 v1.34.1", reasons: []plan.ReasonCode{plan.ReasonLatestOfMinor, plan.ReasonTarget},
		},
		{
			name: "a blocked edge leads over another patch", controlPlane: "v1.29.0", target: "v1.31.0",
			graph: plan.Graph{Versions: vs("v1.30.1 v1.30.4 v1.31.0"), Blocked: []plan.BlockedEdge{{From: plan.MatchVersion(v("v1.30.4")), To: plan.MatchMinor(minor("v1.31")), Reason: "bug"}}},
			want:  "v1.30.1 v1.31.0", reasons: []plan.ReasonCode{plan.ReasonDetour, plan.ReasonTarget},
		},
		{
			name: "a blocked edge from the current version adds a hop", controlPlane: "v1.30.1", target: "v1.31.0",
			graph: plan.Graph{Versions: vs("v1.30.4 v1.31.0"), Blocked: []plan.BlockedEdge{{From: plan.MatchVersion(v("v1.30.1")), To: plan.MatchMinor(minor("v1.31"))}}},
			want:  "v1.30.4 v1.31.0", reasons: []plan.ReasonCode{plan.ReasonDetour, plan.ReasonTarget},
		},
		{
			name: "a withdrawn version is avoided", controlPlane: "v1.29.0", target: "v1.31.0",
			graph: plan.Graph{Versions: vs("v1.30.1 v1.30.4 v1.31.0"), Blocked: []plan.BlockedEdge{{To: plan.MatchVersion(v("v1.30.4"))}}},
			want:  "v1.30.1 v1.31.0", reasons: []plan.ReasonCode{plan.ReasonDetour, plan.ReasonTarget},
		},
		{
			name: "builds are ordered by the graph", controlPlane: "v1.30.1+r1", target: "v1.30.1+r2",
			graph: plan.Graph{Versions: vs("v1.30.1+r1 v1.30.1+r2 v1.30.1+r3")},
			want:  "v1.30.1+r2", reasons: []plan.ReasonCode{plan.ReasonTarget},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := plan.Compute(plan.Request{Inventory: plan.Inventory{ControlPlane: v(tt.controlPlane)}, Target: v(tt.target), Source: tt.graph})
			if err != nil {
				t.Fatal(err)
			}
			var reasons []plan.ReasonCode
			for _, o := range got.Operations {
				reasons = append(reasons, o.Reason.Code)
			}
			if diff := cmp.Diff([]any{tt.want, tt.reasons}, []any{list(got.ControlPlane), reasons}); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestGraphObstacles(t *testing.T) {
	versions := vs("v1.30.1 v1.31.0 v1.31.2 v1.32.0")
	tests := []struct {
		name   string
		graph  plan.Graph
		target string
		rule   plan.Rule
		item   plan.Item
		says   []string
	}{
		{name: "the target is not offered", graph: plan.Graph{Versions: versions}, target: "v1.32.9", rule: plan.RuleTargetNotOffered, item: plan.ItemTarget, says: []string{"add v1.32.9 to the upgrade graph"}},
		{name: "a minor is missing", graph: plan.Graph{Versions: vs("v1.30.1 v1.32.0")}, target: "v1.32.0", rule: plan.RuleMinorMissing, item: "v1.31", says: []string{"add a v1.31 version"}},
		{
			name: "every way is blocked", target: "v1.32.0", rule: plan.RuleBlocked, item: "v1.31.2 -> v1.32.0", says: []string{"CNI breaks", "Fix: lift the block"},
			graph: plan.Graph{Versions: versions, Blocked: []plan.BlockedEdge{{From: plan.MatchMinor(minor("v1.31")), To: plan.MatchMinor(minor("v1.32")), Reason: "CNI breaks"}}},
		},
		{
			name: "every way to one version is blocked", target: "v1.32.0", rule: plan.RuleBlocked, item: "v1.31.2 -> v1.32.0", says: []string{"withdrawn", "choose another target"},
			graph: plan.Graph{Versions: versions, Blocked: []plan.BlockedEdge{{To: plan.MatchVersion(v("v1.32.0")), Reason: "withdrawn"}}},
		},
		{
			name: "a floor out of reach", target: "v1.32.0", rule: plan.RuleFloor, item: "v1.32", says: []string{"at least v1.31.5", "etcd", "v1.31.2 is the newest", "add v1.31.5 or a newer v1.31 version"},
			graph: plan.Graph{Versions: versions, Floors: []plan.Floor{{Before: minor("v1.32"), AtLeast: v("v1.31.5"), Reason: "etcd"}}},
		},
		{
			name: "builds in the wrong order are a way back", target: "v1.30.1+r1", rule: plan.RuleDowngrade, item: plan.ItemTarget, says: []string{"upgrade graph puts it before"},
			graph: plan.Graph{Versions: vs("v1.30.1+r1 v1.30.1+r2")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			current := v("v1.30.0")
			if tt.rule == plan.RuleDowngrade {
				current = v("v1.30.1+r2")
			}
			_, err := plan.Compute(plan.Request{Inventory: plan.Inventory{ControlPlane: current}, Target: v(tt.target), Source: tt.graph})
			known := wantRule(t, err, tt.rule)
			if known.Item != tt.item {
				t.Errorf("got item %q, want %q", known.Item, tt.item)
			}
			for _, part := range tt.says {
				if !strings.Contains(known.Error(), part) {
					t.Errorf("%q does not say %q", known, part)
				}
			}
		})
	}
}
