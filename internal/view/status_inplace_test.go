package view

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/pkg/version"
)

// markedReport has upgrades that annotations ask for in every state that is shown differently.
func markedReport() status.Report {
	const option = "channel=1.32-classic/stable"
	asking := func(state status.UpgradeState) status.Asking {
		return status.Asking{State: state, To: option, Option: option}
	}
	failed := asking(status.UpgradeFailed)
	failed.Reason, failed.Message = "UpgradeFailed", "Machine prod-md-0-e: the disk\x1b is full"
	held := asking(status.UpgradeHeld)
	held.Reason, held.Message, held.Told = "Locked", "not started: Machine cp-1 holds the lock of the control plane", ago(time.Minute)
	changed := asking(status.UpgradeRunning)
	changed.To = "revision=77"
	work := status.Update{Phase: inplace.Draining, Updater: "k8sd", Step: 1, Steps: 1, Attempt: 2, Operation: "u-2", Began: ago(time.Hour), Since: ago(time.Minute)}
	return status.Report{
		Namespace: "team-a", Cluster: "prod", Groups: busyReport().Groups[:1],
		InPlace: &status.InPlaceUpgrades{
			Groups: []status.GroupUpgrade{
				{Name: "control plane", Kind: "CK8sControlPlane", Object: "prod-cp", Asking: asking(status.UpgradeRunning), Machines: 3, Done: 1, InFlight: 2, Began: ago(time.Hour)},
				{Name: "md-0", Kind: "MachineDeployment", Object: "prod-md-0", Asking: failed, Machines: 9, Done: 1, InFlight: 1, Failed: 1, Began: ago(time.Hour)},
				{Name: "md-1", Kind: "MachineDeployment", Object: "prod-md-1", Asking: status.Asking{State: status.UpgradeDone, Option: option, Release: option}, Machines: 1, Done: 1,
					Began: ago(time.Hour), Ended: ago(time.Minute)},
			},
			Machines: []status.MachineUpgrade{
				{Machine: "cp-1", Group: "control plane", Asking: changed, Work: work, ChangeID: "12"},
				{Machine: "cp-2", Group: "control plane", Asking: held},
				{Machine: "prod-md-0-a", Group: "md-0", Asking: status.Asking{State: status.UpgradeDone, Option: option, Release: option}},
				{Machine: "prod-md-9", Asking: asking(status.UpgradeAsked), ByHand: true},
			},
			Lock: &status.Lock{Machine: "cp-1", Since: ago(2 * time.Minute)},
		},
	}
}

func TestInPlaceGolden(t *testing.T) {
	for _, f := range StatusFormats() {
		t.Run(string(f), func(t *testing.T) {
			var got strings.Builder
			if err := WriteStatus(&got, f, narrow, markedReport(), statusNow); err != nil {
				t.Fatalf("WriteStatus: %v", err)
			}
			golden(t, "status-marked."+string(f), got.String())
			checkText(t, f, got.String())
		})
	}
}

// TestInPlaceQuiet checks that upgrades that have ended are no section of the narrow table.
func TestInPlaceQuiet(t *testing.T) {
	r := markedReport()
	r.InPlace.Groups, r.InPlace.Machines, r.InPlace.Lock = r.InPlace.Groups[2:], r.InPlace.Machines[2:3], nil
	for _, format := range StatusFormats() {
		var got strings.Builder
		if err := WriteStatus(&got, format, narrow, r, statusNow); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(got.String(), "Done") != (format != Table) {
			t.Errorf("%s shows %s", format, got.String())
		}
	}
}

// TestOffSpec checks that a machine which an annotation brought to another version is shown, and in what words the upgrade of its Cluster is over.
func TestOffSpec(t *testing.T) {
	r := status.Report{
		Namespace: "team-a", Cluster: "prod", Groups: busyReport().Groups[:1],
		OffSpec: []status.OffSpec{{Machine: "m-1", Group: "md-0", Runs: version.MustParse("v1.30.77"), Spec: version.MustParse("v1.30.14"), Blocks: true,
			Message: "runs v1.30.77 by annotation, its spec says v1.30.14; Cluster API takes it for being upgraded",
		}},
		Chain: &status.Chain{State: status.ChainUpToDate, Target: version.MustParse("v1.30.14"), OffSpec: 1},
	}
	for _, test := range []struct {
		format Format
		wants  []string
	}{
		{Wide, []string{
			"1 machine is at another version than specified: m-1. No upgrade is under way: everything is at v1.30.14, except the nodes",
			"The specs of all machines are up to date (3).\n",
			"\nAt other versions than their specs say:\n  Machine m-1\n    runs v1.30.77 by annotation, its spec says v1.30.14; Cluster API takes it for being upgraded",
		}},
		{JSON, []string{`"offSpec": [`, `"runs": "v1.30.77"`, `"spec": "v1.30.14"`, `"blocksTopology": true`}},
	} {
		var got strings.Builder
		if err := WriteStatus(&got, test.format, narrow, r, statusNow); err != nil {
			t.Fatal(err)
		}
		for _, want := range test.wants {
			if !strings.Contains(got.String(), want) {
				t.Errorf("%s lacks %q:\n%s", test.format, want, got.String())
			}
		}
	}
}
