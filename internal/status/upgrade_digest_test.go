package status_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/status"
)

const digestOption = "channel=1.99/stable"

func digestGroup(s status.UpgradeState, done, inFlight, failed int) status.GroupUpgrade {
	return status.GroupUpgrade{
		Kind: "MachineDeployment", Object: "md-0",
		Machines: 5, Done: done, InFlight: inFlight, Failed: failed,
		Asking: status.Asking{State: s, Option: digestOption, To: digestOption},
	}
}

func digestMachine(name string, s status.UpgradeState) status.MachineUpgrade {
	asking := status.Asking{State: s, Option: digestOption, To: digestOption}
	return status.MachineUpgrade{Machine: name, Asking: asking}
}

func backingOff(name string, attempt int, why string) status.MachineUpgrade {
	m := digestMachine(name, status.UpgradeRunning)
	m.Work = status.Update{Phase: inplace.BackingOff, Attempt: attempt, LastError: why}
	m.Work.Updater, m.Work.Step, m.Work.Steps = "k8sd", 1, 1
	return m
}

func because(m status.MachineUpgrade, r request.Reason, message string) status.MachineUpgrade {
	m.Reason, m.Message = r, message
	return m
}

func digestReport(g status.GroupUpgrade, machines ...status.MachineUpgrade) *status.InPlaceUpgrades {
	return &status.InPlaceUpgrades{Groups: []status.GroupUpgrade{g}, Machines: machines}
}

// failing is the state of a Machine that has failed finally.
func failing(name, why string) status.MachineUpgrade {
	return because(digestMachine(name, status.UpgradeFailed), request.ReasonFailed, why)
}

// TestUpgradeDigest has a sequence of reports for each case, and all lines that they make.
func TestUpgradeDigest(t *testing.T) {
	running := digestGroup(status.UpgradeRunning, 0, 0, 0)
	held := digestGroup(status.UpgradeHeld, 1, 0, 0)
	held.Reason, held.Message = request.ReasonMachinesHeld, "waiting: Machine a: not Ready"
	waits := func(name string, r request.Reason, why string) status.MachineUpgrade {
		return because(digestMachine(name, status.UpgradeHeld), r, why)
	}
	runs := func(name string) status.MachineUpgrade { return digestMachine(name, status.UpgradeRunning) }
	const group = "MachineDeployment md-0: "
	const begins = group + "Upgrading, " + digestOption + ", machines 0 of 5"
	const waiting = group + "Held (MachinesHeld), " + digestOption +
		", machines 1 of 5: waiting: Machine a: not Ready"
	for _, test := range []struct {
		name    string
		reports []*status.InPlaceUpgrades
		want    []string
	}{
		{"what follows the command and what the verdict has", []*status.InPlaceUpgrades{
			nil,
			digestReport(digestGroup(status.UpgradeAsked, 0, 0, 0), digestMachine("a", status.UpgradeDone)),
			digestReport(digestGroup(status.UpgradeDone, 5, 0, 0)),
			digestReport(digestGroup(status.UpgradeFailed, 0, 0, 1)),
		}, nil},
		{"a group counts what is done and not what is in flight", []*status.InPlaceUpgrades{
			digestReport(running),
			digestReport(digestGroup(status.UpgradeRunning, 0, 1, 0)),
			digestReport(digestGroup(status.UpgradeRunning, 1, 1, 0)),
			digestReport(held),
			digestReport(held),
		}, []string{begins, group + "Upgrading, " + digestOption + ", machines 1 of 5", waiting}},
		{"machines begin once, together on one line", []*status.InPlaceUpgrades{
			digestReport(running, runs("a"), digestMachine("b", status.UpgradeAsked)),
			digestReport(running, runs("a"), runs("b")),
			digestReport(running, runs("a"), runs("b"), runs("c"), runs("d")),
		}, []string{begins, "Machine a: Upgrading", "Machine b: Upgrading", "Machines c, d: Upgrading"}},
		{"an error that machines share is told once", []*status.InPlaceUpgrades{
			digestReport(running, runs("a"), runs("b")),
			digestReport(running, backingOff("a", 1, "a: code 17"), runs("b")),
			digestReport(running, backingOff("a", 2, "a: code 18"), backingOff("b", 1, "b: code 19")),
			digestReport(running, failing("a", "attempt 3: a: code 20"), backingOff("b", 2, "no space")),
			digestReport(running, failing("a", "attempt 3: a: code 20"), backingOff("b", 3, "b: code 4")),
		}, []string{
			begins, "Machines a, b: Upgrading",
			"Machine a: an attempt failed and is tried again: a: code 17",
			"Machine a: Failed: no attempt is left; the same error as above",
			"Machine b: an attempt failed and is tried again: no space",
		}},
		{"reasons to wait", []*status.InPlaceUpgrades{
			digestReport(held, waits("a", request.ReasonBusy, "rolled out"), waits("b", request.ReasonBusy, "too")),
			digestReport(held, waits("a", request.ReasonPaused, "paused"), waits("b", request.ReasonPaused, "paused"),
				because(runs("c"), request.ReasonPaused, "later")),
			digestReport(held, digestMachine("a", status.UpgradeCancelling), digestMachine("b", status.UpgradeUnreadable)),
		}, []string{
			waiting, "Machine a: Held (Busy): rolled out", "Machines a, b: Held (Paused): paused",
			"Machine c: Upgrading (Paused): later", "Machine a: Cancelling", "Machine b: Unreadable",
		}},
		{"a retry begins and fails again", []*status.InPlaceUpgrades{
			digestReport(running, failing("a", "no space")),
			digestReport(running, runs("a")),
			digestReport(running, failing("a", "no space")),
		}, []string{
			begins, "Machine a: Failed: no space", "Machine a: Upgrading",
			"Machine a: Failed: no attempt is left; the same error as above",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, digestLines(status.UpgradeDigest{}, test.reports)); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

func digestLines(d status.UpgradeDigest, reports []*status.InPlaceUpgrades) []string {
	var all, lines []string
	for _, r := range reports {
		lines, d = d.Next(r)
		all = append(all, lines...)
	}
	return all
}

// TestUpgradeDigestOfOne checks that one Machine shows its phases, and no change ids.
func TestUpgradeDigestOfOne(t *testing.T) {
	updating := backingOff("a", 1, "")
	updating.Work.Phase = inplace.Updating
	changing := updating
	changing.ChangeID = "12"
	var reports []*status.InPlaceUpgrades
	for _, m := range []status.MachineUpgrade{
		digestMachine("a", status.UpgradeAsked), updating, changing, backingOff("a", 1, "no space"),
		digestMachine("a", status.UpgradeDone),
	} {
		reports = append(reports, &status.InPlaceUpgrades{Machines: []status.MachineUpgrade{m}})
	}
	want := []string{
		"Machine a: Upgrading, " + digestOption + ", by k8sd (1 of 1), attempt 1",
		"Machine a: Upgrading (BackingOff), " + digestOption + ", by k8sd (1 of 1), attempt 1: no space",
	}
	if diff := cmp.Diff(want, digestLines(status.UpgradeDigest{Phases: true}, reports)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// TestUpgradeDigestPast checks that failures from before the run are not told.
func TestUpgradeDigestPast(t *testing.T) {
	failed := failing("a", "no space")
	before := digestReport(digestGroup(status.UpgradeFailed, 0, 0, 1), failed)
	asked := digestReport(digestGroup(status.UpgradeAsked, 0, 0, 1), failed)
	if lines := digestLines(status.UpgradeDigest{}.Past(before), []*status.InPlaceUpgrades{asked}); lines != nil {
		t.Errorf("the lines are %q, want none", lines)
	}
}

// TestUpgradeDigestOfWrongOption counts the lines of five machines that all fail three times.
func TestUpgradeDigestOfWrongOption(t *testing.T) {
	const machines, attempts = 5, 3
	why := strings.Repeat("the snap has no such channel; ", 10)
	var reports []*status.InPlaceUpgrades
	var all []status.MachineUpgrade
	report := func(g status.GroupUpgrade) { reports = append(reports, digestReport(g, slices.Clone(all)...)) }
	for i := range machines {
		all = append(all, digestMachine(fmt.Sprintf("md-0-x7k2p-%d", i), status.UpgradeRunning))
		report(digestGroup(status.UpgradeRunning, 0, i+1, 0))
	}
	for attempt := range attempts {
		for i := range all {
			all[i] = backingOff(all[i].Machine, attempt+1, all[i].Machine+": "+why)
			report(digestGroup(status.UpgradeRunning, 0, machines, 0))
		}
	}
	all[0] = failing(all[0].Machine, all[0].Machine+": "+why)
	report(digestGroup(status.UpgradeRunning, 0, machines-1, 1))
	report(digestGroup(status.UpgradeFailed, 0, machines-1, 1))
	lines := digestLines(status.UpgradeDigest{}, reports)
	// The group and each machine begin, the error is told, and one machine has failed.
	if want := 1 + machines + 1 + 1; len(lines) != want {
		t.Errorf("there are %d lines, want %d:\n%s", len(lines), want, strings.Join(lines, "\n"))
	}
	for _, l := range lines {
		if len(l) > 160-len("00:00:00 ") {
			t.Errorf("a line has %d bytes: %q", len(l), l)
		}
	}
}
