package view

import (
	_ "embed" // The template of the page.
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/changereport"
	"github.com/windlass-dev/windlass/internal/htmlpage"
	"github.com/windlass-dev/windlass/internal/status"
)

//go:embed status.html.tmpl
var statusTemplate string

// statusPage is what the template of the page is filled with.
type statusPage struct {
	Style, Colours  template.CSS
	Title, Subtitle string
	Warnings        []string
	Headlines       []changeHeadline
	Now             []string
	Timeline        htmlpage.Timeline
	Legend          []htmlpage.LegendEntry
	Sheets          []*sheet
}

// WriteStatusPage writes how the upgrade of a cluster and the updates of its machines stand as one page
// that needs no network. It is as large as a table with bounds on its rows; documents have all.
func WriteStatusPage(w io.Writer, r status.Report, now time.Time) error {
	return htmlpage.Write(w, sheetTemplate+statusTemplate, newStatusPage(r, now))
}

// WriteFleetPage writes how the upgrades of several Clusters stand as one page.
func WriteFleetPage(w io.Writer, fleet status.Fleet) error {
	words, _ := fleetVerdict(fleet)
	rows := make([][]string, 0, len(fleet.Clusters))
	for _, o := range fleet.Clusters {
		rows = append(rows, overviewRow(o, fleet.AsOf))
	}
	page := statusPage{
		Style: htmlpage.Style(), Title: "Upgrades of Clusters", Subtitle: "As of " + formatTime(fleet.AsOf, unrecorded),
		Now: []string{words},
	}
	page.add(newSheet("Clusters", "Cluster|State*|Upgrade|As asked for|Waits for*", rows, maxGroupRows, "Clusters"))
	page.addList("Not shown", "Objects*", fleet.Hidden)
	return htmlpage.Write(w, sheetTemplate+statusTemplate, page)
}

func newStatusPage(r status.Report, now time.Time) statusPage {
	name := htmlpage.Name(r.Namespace) + "/" + htmlpage.Name(r.Cluster)
	page := statusPage{
		Style: htmlpage.Style(), Title: "Cluster " + htmlpage.Name(r.Cluster),
		Subtitle: fmt.Sprintf("Cluster %s, as of %s", name, formatTime(now, unrecorded)),
		Now:      []string{htmlpage.Words(statusVerdict(r, now))},
	}
	if c := r.Chain; c != nil {
		page.addChain(c, now)
	}
	page.addMachines(r, now)
	page.addInPlace(r.InPlace)
	page.addRest(r)
	return page
}

// add adds a table; nil is none.
func (p *statusPage) add(s *sheet) {
	if s != nil {
		p.Sheets = append(p.Sheets, s)
	}
}

// addList adds a table of one column.
func (p *statusPage) addList(label, head string, lines []string) {
	rows := make([][]string, 0, len(lines))
	for _, line := range lines {
		rows = append(rows, []string{line})
	}
	p.add(newSheet(label, head, rows, maxFailureRows, "lines"))
}

// addChain shows an upgrade.
func (p *statusPage) addChain(c *status.Chain, now time.Time) {
	if c.IsUnderWay() {
		if !c.From.IsZero() {
			p.Title += " " + c.From.String()
		}
		p.Title += " to " + orDash(c.Target.String())
		if c.Now != "" {
			p.Now = append(p.Now, htmlpage.Sentence(c.Now))
		}
	}
	for _, h := range c.Holds {
		p.Warnings = append(p.Warnings, htmlpage.Words(
			fmt.Sprintf("Held by %s %s: %s%s", h.Kind, h.By, describeSince(h, now), h.Message)))
	}
	p.Headlines = chainHeadlines(c, now)
	timeline := stepTimeline(c, now)
	p.Timeline, p.Legend = timeline.drawn, timeline.legend()
	p.Colours = htmlpage.ColourStyle(len(timeline.versions))
	rows := make([][]string, 0, len(c.Steps))
	for _, s := range c.Steps {
		rows = append(rows, []string{
			describeStep(s, false), string(s.State), describeStepMachines(s), formatTime(s.Began, ""), formatTime(s.Ended, ""),
		})
	}
	p.add(newSheet("Steps", "Step|State*|Machines|Began|Ended", rows, maxStepRows, "steps"))
	p.addList("Changes of the plan", "Change*", c.PlanChanges)
}

func chainHeadlines(c *status.Chain, now time.Time) []changeHeadline {
	headlines := []changeHeadline{
		{"State", string(c.State), "by " + engineWords[c.Engine]},
		{"Target", orDash(c.Target.String()), fmt.Sprintf("%s of %s machines are there",
			htmlpage.Integer(c.AtTarget), htmlpage.Integer(c.Machines))},
	}
	if !c.IsUnderWay() {
		return headlines
	}
	soFar := ""
	if !c.Began.IsZero() {
		soFar = "so far " + formatSpan(c.Began, now)
	}
	began := timeHeadlineOr("Began", c.Began, unrecorded, soFar)
	eta := changeHeadline{"Expected end", "not known", ""}
	note := htmlpage.Words(describeEstimate(c.ETA, now))
	if _, latest := c.ETA.Window(); !latest.IsZero() {
		eta = timeHeadline(eta.Label, latest, note)
	} else {
		eta.Note = strings.TrimPrefix(note, "not known: ")
	}
	return append(headlines, began,
		changeHeadline{"Steps", fmt.Sprintf("%d of %d", countDone(c.Steps), len(c.Steps)), "done"}, eta)
}

// stepTimeline draws the steps that have begun.
func stepTimeline(c *status.Chain, now time.Time) changeTimeline {
	if !c.IsUnderWay() {
		return changeTimeline{}
	}
	steps := make([]changereport.Step, 0, len(c.Steps))
	for _, s := range c.Steps {
		steps = append(steps, changereport.Step{
			Operation: s.Kind, State: s.State, Groups: s.Groups, From: s.From, To: s.To, Began: s.Began, Ended: s.Ended,
		})
	}
	return newChangeTimeline(changereport.Report{
		Time: now, Upgrade: &changereport.Upgrade{From: c.From, Began: c.Began}, Steps: steps,
	})
}

// addMachines shows groups, and the machines under update: first those that have begun.
func (p *statusPage) addMachines(r status.Report, now time.Time) {
	p.add(newSheet("Groups", "Group|Policy*|Machines*", groupRows(r.Groups, true), maxGroupRows, "groups"))
	updates := slices.Clone(r.Updates)
	slices.SortStableFunc(updates, func(a, b status.Update) int {
		return rankOf(a) - rankOf(b)
	})
	rows := make([][]string, 0, len(updates))
	for _, u := range updates {
		rows = append(rows, []string{
			u.Machine, u.Group, describePhase(u), describeVersions(u), describeUpdater(u), describeAttempt(u),
			formatTime(u.Since, ""), describeETA(u, now), orDash(u.Text()),
		})
	}
	p.add(newSheet("Machines under update", "Machine|Group|Phase*|Versions|Updater*|Attempt|Since|Ends|Message*", rows,
		maxMachineRows, "machines"))
}

// rankOf puts those first that a person must act on, and those last that have not begun.
func rankOf(u status.Update) int {
	switch {
	case u.State == status.Failed || u.State == status.Unreadable:
		return 0
	case isWorkedOn(u):
		return 1
	}
	return 2
}

func (p *statusPage) addInPlace(r *status.InPlaceUpgrades) {
	if r == nil {
		return
	}
	rows := make([][]string, 0, len(r.Groups)+len(r.Machines))
	for _, g := range r.Groups {
		rows = append(rows, []string{
			g.Kind + " " + g.Object, string(g.State), describeOption(g.Asking), g.Count(), orDash(g.Text()),
		})
	}
	for _, m := range r.Machines {
		rows = append(rows, []string{
			"Machine " + m.Machine, describeUpgradePhase(m), describeOption(m.Asking), describeUpdater(m.Work), orDash(m.Text()),
		})
	}
	p.add(newSheet("Upgrades that annotations ask for", "Object|State*|Option*|Progress*|Message*", rows, maxMachineRows, "objects"))
}

// addRest shows what is blocked, waits, or cannot be read.
func (p *statusPage) addRest(r status.Report) {
	var rows [][]string
	add := func(object, what string, since time.Time, message string) {
		rows = append(rows, []string{object, what, formatTime(since, ""), message})
	}
	for _, b := range r.Blocked {
		add(b.Kind+" "+b.Name, b.Reason, b.Since, b.Message)
	}
	for _, g := range r.Groups {
		if g.Waits != "" {
			add(g.Kind+" "+g.Object, "waits", time.Time{}, g.Waits)
		}
	}
	for _, d := range r.Deletions {
		add("Machine "+d.Machine, "being deleted: "+d.Reason, d.Since, d.Text())
	}
	for _, o := range r.OffSpec {
		add("Machine "+o.Machine, "at another version than specified", time.Time{}, o.Message)
	}
	for _, d := range r.Dirty {
		add("Machine "+d.Machine, "a field was not applied", d.Since, fmt.Sprintf("%s of the %s", d.Path, d.Part))
	}
	for _, problem := range r.Problems {
		add(problem.Kind+" "+problem.Name, "cannot be read", time.Time{}, problem.Annotation+": "+problem.Message)
	}
	p.add(newSheet("What needs a look", "Object|What*|Since|Message*", rows, maxGroupRows, "objects"))
	if r.Chain == nil {
		return
	}
	if r.Chain.Disagreement != "" {
		p.addList("Condition and objects differ", "How*", []string{r.Chain.Disagreement})
	}
	p.addList("Not known", "What*", r.Chain.NotKnown)
}
