package view

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/changereport"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/htmlpage/htmlpagetest"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// hostile breaks out of a page that does not escape it, and acts on a terminal.
const hostile = `</title></style><script>alert(1)</script>" onload="x` + "\x1b[31m\u202e"

// changeReport is an upgrade that has ended, or that a gate holds.
func changeReport(state changereport.State) changereport.Report {
	start := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	v := version.MustParse
	r := changereport.Report{
		Namespace: "team-a", Cluster: "prod", Time: at(125),
		Upgrade: &changereport.Upgrade{
			State: changereport.Ended, Engine: status.Windlass, From: v("v1.30.2"), Target: v("v1.32.1"), Began: start, Ended: at(120), Planned: start,
		},
		Steps: []changereport.Step{
			{Operation: plan.ControlPlaneUpgrade, Plan: changereport.Planned, State: status.StepDone, From: v("v1.30.2"), To: v("v1.31.4"), Began: at(1), Ended: at(10)},
			{Operation: plan.ControlPlaneUpgrade, Plan: changereport.Planned, State: status.StepDone, From: v("v1.31.4"), To: v("v1.32.1"), Began: at(11), Ended: at(60)},
			{Operation: plan.WorkersUpgrade, Plan: changereport.Planned, State: status.StepDone, To: v("v1.32.1"), Began: at(60), Ended: at(119)},
		},
		Gates: []changereport.Gate{
			{Gate: "owner", At: gate.AfterControlPlaneUpgrade, Version: v("v1.31.4"), State: changereport.GateApproved, Approval: &changereport.Approval{Time: at(-60)}},
			{Gate: "owner", At: gate.BeforeWorkersUpgrade, Version: v("v1.32.1"), State: changereport.GatePassed, Since: at(50), Passed: at(60), Approval: &changereport.Approval{By: "jane@example.com", Time: at(59)}},
		},
		Groups: []changereport.Group{
			{Group: "control plane", Machines: 3, Created: 3, Began: at(12), Ended: at(58), Median: status.Seconds{Duration: 5 * time.Minute}, Longest: status.Seconds{Duration: 7 * time.Minute}},
			{Group: "md-0", Machines: 3, InPlace: 2, Untouched: 1, Failed: 1, Retried: 2, Began: at(61)},
		},
		Machines: []changereport.Machine{
			{Machine: "cp-1", Group: "control plane", Way: changereport.Created, State: status.UpToDate, To: v("v1.32.1"), Began: at(12), Ended: at(14)},
			{Machine: "w-1", Group: "md-0", Way: changereport.InPlace, State: status.UpToDate, From: v("v1.31.4"), To: v("v1.32.1"), Began: at(61), Ended: at(65), Attempts: 2, Updaters: []changereport.Updater{{Updater: "apt", Attempts: 2, Seconds: 240}}},
			{Machine: "w-2", Group: "md-0", Way: changereport.InPlace, State: status.Failed, From: v("v1.31.4"), To: v("v1.32.1"), Began: at(66), Attempts: 3, Error: "apt is locked"},
			{Machine: "w-3", Group: "md-0", Way: changereport.Untouched, State: status.UpToDate, To: v("v1.32.1")},
		},
		Failures:    []changereport.Failure{{Source: changereport.FromUpdate, Kind: "Machine", Objects: []string{"w-2"}, Count: 1, Reason: "Failed", Message: "apt is locked", First: at(70), Last: at(70)}},
		NotRecorded: []string{"Machines that were replaced"},
		Evidence:    []changereport.Evidence{{Part: changereport.ApprovalPart, Source: "the name", Trust: "users with a right"}},
	}
	if state == changereport.Ended {
		return r
	}
	r.Upgrade.State, r.Upgrade.Ended, r.Upgrade.Now, r.Time = state, time.Time{}, "hook BeforeWorkersUpgrade for v1.32.1 is called", at(55)
	r.Upgrade.ETA = status.Estimate{Least: time.Hour, Likely: time.Hour, Most: 2 * time.Hour}
	r.Upgrade.Holds = []status.Hold{{Kind: status.HeldByGate, By: "owner", Message: "needs approval", Since: at(50)}}
	r.Steps[2].State, r.Steps[2].Plan, r.Steps[2].Groups, r.Steps[2].Machines = status.StepNext, changereport.Computed, []string{"md-0"}, 3
	r.Steps[2].Began, r.Steps[2].Ended = time.Time{}, time.Time{}
	r.Steps[1].Ended, r.Groups[1].InPlace, r.Groups[1].Began = at(50), 0, time.Time{}
	r.Gates[1].State, r.Gates[1].Passed, r.Gates[1].Message, r.Gates[1].Approval = changereport.GateHolds, time.Time{}, "needs approval", nil
	return r
}

func writeChangeReport(t *testing.T, f Format, r changereport.Report) string {
	t.Helper()
	var text bytes.Buffer
	if err := WriteChangeReport(&text, f, Screen{Width: 100}, r); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestChangeReport(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]changereport.Report{
		"ended": changeReport(changereport.Ended), "held": changeReport(changereport.Held), "none": {Namespace: "team-a", Cluster: "prod"},
	} {
		for _, f := range []Format{Table, HTML} {
			t.Run(fmt.Sprintf("%s %s", name, f), func(t *testing.T) {
				t.Parallel()
				got := writeChangeReport(t, f, r)
				golden(t, fmt.Sprintf("change-%s.%s", name, f), got)
				if f == Table {
					checkText(t, f, got)
				} else if err := htmlpagetest.Check(got); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestChangeReportIsSafe holds that names and messages which others wrote stay text.
func TestChangeReportIsSafe(t *testing.T) {
	t.Parallel()
	r := changeReport(changereport.Held)
	r.Cluster, r.Namespace, r.Upgrade.Now = hostile, hostile, hostile
	r.Upgrade.Holds[0].By, r.Upgrade.Holds[0].Message = hostile, hostile
	r.Steps[2].Groups, r.Gates[0].Gate, r.Gates[1].Message, r.Gates[0].Approval.By = []string{hostile}, hostile, hostile, hostile
	r.Gates[0].At, r.Groups[1].Group, r.NotRecorded = hostile, hostile, []string{hostile}
	for i := range r.Machines {
		m := &r.Machines[i]
		m.Machine, m.Group, m.Error, m.Updaters = hostile, hostile, hostile, []changereport.Updater{{Updater: hostile, Seconds: -1}}
	}
	f := &r.Failures[0]
	f.Kind, f.Objects, f.Reason, f.Message = hostile, []string{hostile}, hostile, hostile
	r.ByAnnotation = []status.GroupUpgrade{{Name: hostile, Asking: status.Asking{Option: hostile, Message: hostile}}}
	// A clock that was set back.
	r.Steps[0].Ended, r.Gates[1].Since = r.Steps[0].Began.Add(-time.Hour), r.Upgrade.Began.Add(-time.Hour)
	page := writeChangeReport(t, HTML, r)
	if err := htmlpagetest.Check(page); err != nil {
		t.Error(err)
	}
	if strings.ContainsAny(page, "\x1b\u202e") || strings.Contains(page, "<script") || strings.Contains(page, "http:") || strings.Contains(page, "https:") {
		t.Error("the page has what it must not have")
	}
	checkText(t, Table, writeChangeReport(t, Table, r))
}

// TestChangeReportIsBounded holds that the page of a large fleet stays small, and says what it leaves out.
func TestChangeReportIsBounded(t *testing.T) {
	t.Parallel()
	r := changeReport(changereport.Ended)
	group, machine, step := r.Groups[1], r.Machines[1], r.Gates[1]
	for i := range 30000 {
		machine.Machine = fmt.Sprintf("w-%d-%s", i, strings.Repeat("x", 50))
		machine.Ended = machine.Began.Add(time.Duration(i) * time.Second)
		r.Machines = append(r.Machines, machine)
	}
	for i := range 1000 {
		group.Group, step.Gate = fmt.Sprintf("md-%d", i), fmt.Sprintf("gate-%d", i)
		r.Groups, r.Gates = append(r.Groups, group), append(r.Gates, step)
		r.Failures = append(r.Failures, r.Failures[0])
	}
	page := writeChangeReport(t, HTML, r)
	if len(page) > 1<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
	for _, words := range []string{
		"29,804 more machines in the report as JSON", "502 more groups in the report as JSON", "802 more steps at gates in the report as JSON",
		"901 more failures in the report as JSON", "w-29999-", ">w-2<",
	} {
		if !strings.Contains(page, words) {
			t.Errorf("the page lacks %q", words)
		}
	}
}

// TestChangeTimelineBar: a bar shows the part of its span between the beginning and the end of the
// timeline.
func TestChangeTimelineBar(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	timeline := changeTimeline{began: start, end: at(100)}
	for _, test := range []struct {
		name     string
		from, to time.Time
		x, width string
	}{
		{"inside", at(10), at(30), "10%", "20%"},
		{"not ended", at(10), time.Time{}, "10%", "90%"},
		{"began before", at(-20), at(30), "0%", "30%"},
		{"ended before", at(-20), at(-10), "0%", "0%"},
		{"ended after", at(90), at(130), "90%", "10%"},
	} {
		bar := timeline.bar(test.from, test.to, "hold", "")
		if bar.X != test.x || bar.Width != test.width {
			t.Errorf("%s: the bar is at %s, %s wide, want %s, %s",
				test.name, bar.X, bar.Width, test.x, test.width)
		}
	}
}
