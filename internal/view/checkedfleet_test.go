package view

import (
	"errors"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestCheckedFleetGolden compares rows of doctors and preflights with files in testdata.
func TestCheckedFleetGolden(t *testing.T) {
	t.Parallel()
	examined := func(name string, findings ...doctor.Finding) CheckedCluster {
		return ExaminedCluster(Examination{
			Namespace: "team-a", Cluster: name, Verdict: "The verdict.", Worst: doctor.Worst(findings),
			Findings: findings,
		})
	}
	checked := func(name string, findings ...clustercheck.Finding) CheckedCluster {
		return PreflightCluster(Preflight{
			Namespace: "team-b", Cluster: name, Verdict: "The verdict.", Worst: clustercheck.Worst(findings),
			Findings: findings, From: version.MustParse("v1.32.1"), To: version.MustParse("v1.33.1"),
		})
	}
	surge := doctor.Finding{ID: doctor.CheckSurge, Severity: doctor.Error, Subject: "MachineDeployment a", Message: "it surges", Fix: "set it to 0"}
	again := surge
	again.Subject = "MachineDeployment b"
	guard := doctor.Finding{ID: doctor.CheckGuard, Severity: doctor.Warning, Subject: "guard", Message: "it is away"}
	summary := doctor.Finding{ID: doctor.CheckMachinesKept, Severity: doctor.Error, Message: "see Surge"}
	failed := clustercheck.Finding{ID: "Nodes", Outcome: clustercheck.Failed, Subject: "Node a", Message: strings.Repeat("long ", 80)}
	unread := clustercheck.Finding{ID: "EtcdHealthy", Outcome: clustercheck.NotChecked, Message: "it cannot be read\x1b[31m"}
	fleets := map[string]CheckedFleet{
		"nothing": {AsOf: statusNow},
		"doctor": {AsOf: statusNow, Clusters: []CheckedCluster{
			examined("fine"), examined("warned", guard), examined("sick", guard, summary, surge, again),
			UnreadCluster("team-z", "gone", errors.New("it does not exist")),
		}},
		"preflight": {AsOf: statusNow, Clusters: []CheckedCluster{
			checked("fine"), checked("unread", unread), checked("failed", unread, failed),
			{Namespace: "team-a", Cluster: "rests", Rank: RankSkipped, Verdict: "no upgrade is under way"},
		}},
	}
	bad := map[string]bool{"doctor": true, "preflight": true}
	for name, fleet := range fleets {
		fleet.Sort()
		if fleet.IsBad() != bad[name] {
			t.Errorf("%s is bad: %t", name, fleet.IsBad())
		}
		for _, f := range ReportFormats() {
			t.Run(name+"/"+string(f), func(t *testing.T) {
				t.Parallel()
				var got strings.Builder
				if err := WriteCheckedFleet(&got, f, narrow, fleet); err != nil {
					t.Fatal(err)
				}
				golden(t, "checked-"+name+"."+string(f), got.String())
				checkText(t, f, got.String())
			})
		}
	}
}
