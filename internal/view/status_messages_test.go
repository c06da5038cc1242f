package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/status"
)

// TestListMessages checks that machines which wait for the same share a message, and that those which
// are blocked, or wait for a second only, have none.
func TestListMessages(t *testing.T) {
	const first = "not started: Machine a of the group is updated first"
	update := func(machine string, state status.State, words string) status.Update {
		return status.Update{Machine: machine, State: state, Message: words}
	}
	updates := []status.Update{
		update("b", status.Queued, first), update("c", status.Queued, "not started: other"),
		update("d", status.Queued, first), update("e", status.Queued, first), update("f", status.Queued, first),
		update("g", status.Queued, ""), update("h", status.Marked, "m"), update("i", status.Finished, "f"),
		{Machine: "a", State: status.Updating, Phase: inplace.Updating, Message: "half way"},
	}
	blocked := []status.Blocked{{Kind: "Machine", Name: "f"}, {Kind: "MachineDeployment", Name: "d"}}
	got, more := listMessages(updates, blocked)
	want := []message{{"a", "half way", 0}, {"b", first, 2}, {"c", "not started: other", 0}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(message{})); diff != "" || more != 0 {
		t.Errorf("%d more, (-want +got):\n%s", more, diff)
	}
}

// TestMessagesAreBounded checks that a fleet, in which each group waits for its own first machine,
// fills no screen.
func TestMessagesAreBounded(t *testing.T) {
	var r status.Report
	for i := range shownGroupRows + 7 {
		for j := range 2 {
			r.Updates = append(r.Updates, status.Update{
				Machine: fmt.Sprintf("m-%d-%d", i, j), State: status.Queued, Message: fmt.Sprintf("not started: Machine of group %d", i),
			})
		}
	}
	var got strings.Builder
	if err := WriteStatus(&got, Table, narrow, r, statusNow); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(got.String(), "not started"); n != shownGroupRows {
		t.Errorf("%d messages, want %d:\n%s", n, shownGroupRows, got.String())
	}
	for _, want := range []string{"\n  m-0-0 and 1 more machine\n    not started: ", "\n  and 7 more messages; -o wide shows them\n"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("%q is missing:\n%s", want, got.String())
		}
	}
}

// TestVerdictNames checks that the verdict begins with what has failed, and with what is at another
// version, and does not report that all is well.
func TestVerdictNames(t *testing.T) {
	var failed status.InPlaceUpgrades
	for _, name := range []string{"a", "b", "c", "d"} {
		failed.Groups = append(failed.Groups, status.GroupUpgrade{Name: name, Asking: status.Asking{State: status.UpgradeFailed}})
	}
	one := status.InPlaceUpgrades{
		Groups:   failed.Groups[:1],
		Machines: []status.MachineUpgrade{{Machine: "m-9", ByHand: true, Asking: status.Asking{State: status.UpgradeFailed}}},
	}
	asked := status.InPlaceUpgrades{Groups: []status.GroupUpgrade{{Name: "a", Asking: status.Asking{State: status.UpgradeRunning}}}}
	offSpec := []status.OffSpec{{Machine: "m-1"}, {Machine: "m-2"}}
	for name, test := range map[string]struct {
		inPlace *status.InPlaceUpgrades
		offSpec []status.OffSpec
		silent  time.Time
		want    string
		tone    tone
	}{
		"well": {want: "All machines are up to date (6).", tone: good},
		"manager stopped": {
			silent: ago(5 * time.Minute), tone: bad,
			want: "windlass manager does not run, so nothing changes: it last renewed its lease 5m0s ago. " +
				"Fix: see that the Deployment capi-controller-manager runs. All machines are up to date (6).",
		},
		"asked": {
			inPlace: &asked, tone: fair,
			want: "All machines have what their groups specify (6). Annotations ask for 1 upgrade in place.",
		},
		"failed": {
			inPlace: &one, tone: bad,
			want: "2 of 2 upgrades in place by annotation failed: a, Machine m-9. All machines have what their groups specify (6).",
		},
		"many failed": {
			inPlace: &failed, tone: bad,
			want: "4 of 4 upgrades in place by annotation failed: a, b, c and 1 more. All machines have what their groups specify (6).",
		},
		"other versions": {
			offSpec: offSpec, tone: fair,
			want: "2 machines are at another version than specified: m-1, m-2. The specs of all machines are up to date (6).",
		},
		"both": {
			inPlace: &one, offSpec: offSpec, tone: bad,
			want: "2 of 2 upgrades in place by annotation failed: a, Machine m-9. " +
				"2 machines are at another version than specified: m-1, m-2. The specs of all machines are up to date (6).",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := status.Report{Groups: []status.Group{{Machines: 6, Count: upToDate(6)}}, InPlace: test.inPlace, OffSpec: test.offSpec}
			r.ManagerSilentSince = test.silent
			if got := statusVerdict(r, statusNow); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			if got := statusTone(r); got != test.tone {
				t.Errorf("tone %v, want %v", got, test.tone)
			}
		})
	}
}

// TestDeletions checks that the deletions of Machines are shown with what they wait for, and that
// many fill no screen.
func TestDeletions(t *testing.T) {
	r := status.Report{Deletions: []status.Deletion{{
		Machine: "m-1", Group: "md-0", Reason: "DrainingNode", Since: ago(time.Minute),
		Message: "Drain not completed yet:\n* Pod default/web: The disruption budget web\x1b[31m",
	}}}
	for i := range shownGroupRows + 2 {
		r.Deletions = append(r.Deletions, status.Deletion{Machine: fmt.Sprintf("n-%d", i)})
	}
	for _, test := range []struct {
		format Format
		want   []string
	}{
		{Table, []string{
			"\nBeing deleted:\n  Machine m-1\n    DrainingNode for 1m0s: Drain not completed yet: " +
				"* Pod default/web: The disruption budget\n    web", "\n  Machine n-18\n",
			"\n  and 3 more machines; -o wide shows them\n",
		}},
		{Wide, []string{"The disruption budget web", "\n  Machine n-21\n"}},
		{JSON, []string{`"deletions": [`, `"reason": "DrainingNode"`, `"since": "2026-03-04T11:59:00Z"`}},
	} {
		var got strings.Builder
		if err := WriteStatus(&got, test.format, narrow, r, statusNow); err != nil {
			t.Fatal(err)
		}
		checkText(t, test.format, got.String())
		for _, want := range test.want {
			if !strings.Contains(got.String(), want) {
				t.Errorf("%s: %q is missing:\n%s", test.format, want, got.String())
			}
		}
	}
}
