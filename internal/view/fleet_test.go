package view

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestFleetGolden compares the overview of Clusters with files in testdata.
func TestFleetGolden(t *testing.T) {
	v := version.MustParse
	fleet := status.Fleet{AsOf: statusNow, Hidden: []string{"Machines of all namespaces"}}
	fleet.Clusters = []status.Overview{
		{
			Namespace: "team-a", Cluster: "broken", State: status.ChainHeld, NeedsPerson: true, From: v("v1.31.2"),
			Target: v("v1.33.1"), UpToDate: 7, Machines: 8, Failed: 1, Holds: []status.Hold{
				{Kind: status.HeldByMachines, Message: "1 failed update", Since: ago(3 * time.Hour)},
				{Kind: status.HeldByGate, By: "approval", Since: ago(time.Hour)},
			},
		},
		{
			Namespace: "team-b", Cluster: "prod", State: status.ChainPaused, NeedsPerson: true, From: v("v1.31.2"),
			Target: v("v1.33.1"), Step: 1, StepsLeft: 1, UpToDate: 8, Machines: 8,
			Holds: []status.Hold{{Kind: status.HeldByPause}},
		},
		{
			Namespace: "team-c", Cluster: "prod", State: status.ChainHeld, From: v("v1.31.2"), Target: v("v1.32.1"),
			UpToDate: 8, Machines: 8, Holds: []status.Hold{{Kind: status.HeldByHook, By: "BeforeClusterUpgrade"}},
		},
		{
			Namespace: "team-d", Cluster: "prod", State: status.ChainUpgrading, From: v("v1.31.2"), Target: v("v1.32.1"),
			UpToDate: 5, Machines: 8,
		},
		{Namespace: "team-e", Cluster: "prod", State: status.ChainUpToDate, Target: v("v1.33.1"), UpToDate: 8, Machines: 8},
		{Namespace: "team-f", Cluster: "old", State: status.ChainUnknown},
	}
	for _, f := range StatusFormats() {
		t.Run(string(f), func(t *testing.T) {
			var got strings.Builder
			if err := WriteFleet(&got, f, narrow, fleet); err != nil {
				t.Fatalf("WriteFleet: %v", err)
			}
			golden(t, "fleet."+string(f), got.String())
			checkText(t, f, got.String())
		})
	}
}
