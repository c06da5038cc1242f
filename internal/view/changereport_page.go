package view

import (
	_ "embed" // The template of the page.
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/changereport"
	"github.com/windlass-dev/windlass/internal/htmlpage"
	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

//go:embed changereport.html.tmpl
var changeReportTemplate string

// sheetTemplate has the tables and lists of pages.
//
//go:embed sheet.html.tmpl
var sheetTemplate string

// changePage is what the template of the page is filled with.
type changePage struct {
	Style, Colours  template.CSS
	Title, Subtitle string
	Warnings        []string
	Headlines       []changeHeadline
	Now             string
	Timeline        htmlpage.Timeline
	Legend          []htmlpage.LegendEntry
	ApprovalTrust   string

	Steps, Gates, Groups, Machines, ByAnnotation, Failures, Evidence *sheet
	NotRecorded                                                      []string
}

type changeHeadline struct{ Label, Value, Note string }

// timeHeadline shows a time of day, and the date in the note: together they do not fit on one line.
func timeHeadline(label string, t time.Time, note string) changeHeadline {
	return changeHeadline{label, t.UTC().Format(time.TimeOnly), t.UTC().Format(time.DateOnly) + ", " + note}
}

// timeHeadlineOr is timeHeadline, with words for a time that is not known.
func timeHeadlineOr(label string, t time.Time, none, note string) changeHeadline {
	if t.IsZero() {
		return changeHeadline{label, none, note}
	}
	return timeHeadline(label, t, note)
}

func newChangePage(r changereport.Report) changePage {
	timeline := newChangeTimeline(r)
	page := changePage{
		Style: htmlpage.Style(), Colours: htmlpage.ColourStyle(len(timeline.versions)),
		Title: "Upgrade of " + htmlpage.Name(r.Cluster), Subtitle: fmt.Sprintf("Cluster %s/%s, as of %s",
			htmlpage.Name(r.Namespace), htmlpage.Name(r.Cluster), formatTime(r.Time, unrecorded)),
		Headlines: changeHeadlines(r), Timeline: timeline.drawn, Legend: timeline.legend(),
		Steps: stepSheet(r), Gates: gateSheet(r), Groups: groupSheet(r), Machines: machineSheet(r), ByAnnotation: annotationSheet(r),
		Failures: failureSheet(r),
	}
	for _, missing := range r.NotRecorded {
		page.NotRecorded = append(page.NotRecorded, htmlpage.Sentence(missing))
	}
	rows := make([][]string, 0, len(r.Evidence))
	for _, e := range r.Evidence {
		rows = append(rows, []string{e.Part, htmlpage.Sentence(e.Source), htmlpage.Sentence(e.Trust)})
		if e.Part == changereport.ApprovalPart {
			page.ApprovalTrust = "A name is " + e.Source + ". It could have been written by " + e.Trust + "."
		}
	}
	page.Evidence = newSheet("How this is known", "Part|Source*|Who could have changed it*", rows, len(rows), "parts")
	u := r.Upgrade
	if u == nil {
		page.Warnings = []string{changeVerdict(r)}
		return page
	}
	page.Title += " " + describeWay(u)
	page.Now = htmlpage.Words(u.Now)
	for _, h := range u.Holds {
		page.Warnings = append(page.Warnings, htmlpage.Words(fmt.Sprintf("Held by %s %s: %s", h.Kind, h.By, h.Message)))
	}
	return page
}

func changeHeadlines(r changereport.Report) []changeHeadline {
	u := r.Upgrade
	if u == nil {
		return nil
	}
	done := 0
	for _, s := range r.Steps {
		if s.State == status.StepDone {
			done++
		}
	}
	var inPlace, created, untouched int
	for _, g := range r.Groups {
		inPlace, created, untouched = inPlace+g.InPlace, created+g.Created, untouched+g.Untouched
	}
	end := timeHeadlineOr("Ended", u.Ended, notYet, "took "+formatSpan(u.Began, u.Ended))
	if u.State != changereport.Ended {
		end = changeHeadline{"Expected end", unrecorded, "so far " + formatSpan(u.Began, r.Time)}
		if earliest, latest := u.ETA.Window(); !latest.IsZero() {
			note := "at the latest, at the speed so far; at the earliest " + formatTime(earliest, "")
			if latest.Before(r.Time) {
				note = "has passed: the upgrade is slower than its steps so far"
			}
			end = timeHeadline(end.Label, latest, note)
		} else if eta := describeEstimate(u.ETA, r.Time); eta != "" {
			end.Value, end.Note = "not known", strings.TrimPrefix(eta, "not known: ")
		}
	}
	return []changeHeadline{
		{"State", string(u.State), "by " + engineWords[u.Engine]},
		timeHeadlineOr("Began", u.Began, unrecorded, "plan of "+formatTime(u.Planned, "a time that is not recorded")),
		end,
		{"Steps", fmt.Sprintf("%d of %d", done, len(r.Steps)), "done"},
		{"Machines", htmlpage.Integer(inPlace + created), fmt.Sprintf("%s in place, %s created; %s untouched",
			htmlpage.Integer(inPlace), htmlpage.Integer(created), htmlpage.Integer(untouched))},
		{"Failures", htmlpage.Integer(len(r.Failures)), "different ones that are still recorded; see what is not"},
	}
}

// The timeline has at most so many groups, and rows of this height.
const (
	maxTimelineGroups = 40
	timelineRowHeight = 18
	timelineMargin    = 2
)

// changeTimeline draws what is recorded of an upgrade over time.
type changeTimeline struct {
	drawn htmlpage.Timeline
	// versions are in the order of their colours.
	versions, drawnVersions []version.Version

	began, end time.Time
	held       bool
}

func newChangeTimeline(r changereport.Report) changeTimeline {
	u := r.Upgrade
	if u == nil || u.Began.IsZero() {
		return changeTimeline{}
	}
	t := changeTimeline{began: u.Began, end: u.Ended, versions: []version.Version{u.From}}
	if t.end.IsZero() {
		t.end = r.Time
	}
	for _, s := range r.Steps {
		if !slices.Contains(t.versions, s.To) {
			t.versions = append(t.versions, s.To)
		}
	}
	for _, m := range r.Machines {
		// A group may have other versions than the steps.
		if m.Way != changereport.Untouched && !slices.Contains(t.versions, m.To) && len(t.versions) < maxStepRows {
			t.versions = append(t.versions, m.To)
		}
	}
	t.versions = version.Sorted(t.versions)
	t.drawn = htmlpage.Timeline{ID: "upgrade", Label: "When the steps were, and when gates held them", Time: htmlpage.TimeTicks(t.length())}
	t.addSteps("control plane", plan.ControlPlaneUpgrade, r.Steps)
	t.addSteps("workers", plan.WorkersUpgrade, r.Steps)
	t.addGates(r.Gates)
	t.addGroups(r)
	return t
}

func (t *changeTimeline) length() float64 { return t.end.Sub(t.began).Seconds() }

// bar is the part of a time span that is on the timeline. A zero to is the timeline's end.
func (t *changeTimeline) bar(from, to time.Time, class, title string) htmlpage.TimelineBar {
	if to.IsZero() {
		to = t.end
	}
	// A gate may hold a Cluster before the first record of the upgrade.
	if from.Before(t.began) {
		from = t.began
	}
	at, length := from.Sub(t.began).Seconds(), to.Sub(from).Seconds()
	return htmlpage.TimelineBar{
		X:     htmlpage.Share(at, t.length()),
		Width: htmlpage.Share(min(length, t.length()-at), t.length()),
		Class: class, Title: title, Y: timelineMargin, Height: timelineRowHeight - 2*timelineMargin,
	}
}

func (t *changeTimeline) add(name, note string, bars []htmlpage.TimelineBar) {
	if len(bars) == 0 {
		return
	}
	row := htmlpage.TimelineRow{Name: name, Note: note, Label: name, Height: timelineRowHeight, Bars: bars}
	for _, b := range bars[:min(len(bars), shownGroups)] {
		row.Label += "; " + b.Title
	}
	t.drawn.Rows = append(t.drawn.Rows, row)
}

// class is the class of a version's colour, which is in the legend from then on.
func (t *changeTimeline) class(v version.Version) string {
	t.drawnVersions = append(t.drawnVersions, v)
	return htmlpage.ColourClass(slices.Index(t.versions, v))
}

func (t *changeTimeline) addSteps(name string, kind plan.OperationKind, steps []changereport.Step) {
	var bars []htmlpage.TimelineBar
	for _, s := range steps {
		if s.Operation == kind && !s.Began.IsZero() && (s.State == status.StepRunning || !s.Ended.IsZero()) {
			title := fmt.Sprintf("%s, from %s to %s", describeChangeStep(s), formatTime(s.Began, unrecorded), formatTime(s.Ended, "now"))
			bars = append(bars, t.bar(s.Began, s.Ended, t.class(s.To), title))
		}
	}
	t.add(name, "", bars)
}

func (t *changeTimeline) addGates(gates []changereport.Gate) {
	var bars []htmlpage.TimelineBar
	for _, g := range gates[:min(len(gates), maxGateRows)] {
		if !g.Since.IsZero() {
			title := fmt.Sprintf("%s, from %s to %s", htmlpage.Name(g.Gate), formatTime(g.Since, unrecorded), formatTime(g.Passed, "now"))
			bars = append(bars, t.bar(g.Since, g.Passed, "hold", title))
		}
	}
	t.held = len(bars) > 0
	t.add("held by gates", "", bars)
}

// addGroups draws each group from its first machine to its last, in the colour of the newest version.
func (t *changeTimeline) addGroups(r changereport.Report) {
	newest := map[string]version.Version{}
	for _, m := range r.Machines {
		if m.Way != changereport.Untouched && version.Compare(m.To, newest[m.Group]) == version.Greater {
			newest[m.Group] = m.To
		}
	}
	shown := 0
	for _, g := range r.Groups {
		if g.Began.IsZero() || shown == maxTimelineGroups {
			continue
		}
		shown++
		title := fmt.Sprintf("machines from %s to %s", formatTime(g.Began, unrecorded), formatTime(g.Ended, "now"))
		bar := t.bar(g.Began, g.Ended, t.class(newest[g.Group]), title)
		t.add("machines of "+htmlpage.Name(g.Group), text.Count(g.InPlace+g.Created, "machine"), []htmlpage.TimelineBar{bar})
	}
}

func (t *changeTimeline) legend() []htmlpage.LegendEntry {
	var legend []htmlpage.LegendEntry
	for i, v := range t.versions {
		if slices.Contains(t.drawnVersions, v) {
			legend = append(legend, htmlpage.LegendEntry{Class: htmlpage.ColourClass(i), Name: "to " + v.String()})
		}
	}
	if t.held {
		legend = append(legend, htmlpage.LegendEntry{Class: "hold", Name: "held by gates"})
	}
	return legend
}
