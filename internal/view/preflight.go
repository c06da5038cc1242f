package view

import (
	_ "embed" // The template of the page.
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/htmlpage"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/pkg/version"
)

// HTML is a page for a change ticket.
const HTML Format = "html"

// PreflightFormats are those of WritePreflight, the default first.
func PreflightFormats() []Format { return append(ReportFormats(), HTML) }

//go:embed preflight.html.tmpl
var preflightTemplate string

// Preflight is what would stop or harm an upgrade, and the stable interface of `windlass preflight -o json` and
// `-o yaml`.
type Preflight struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// Time is when the checks began, in UTC, to the second.
	Time time.Time `json:"time"`
	// From is the version of the control plane, To the target.
	From version.Version `json:"from"`
	To   version.Version `json:"to"`
	// Verdict answers in one sentence whether the upgrade can begin.
	Verdict string `json:"verdict"`
	// Worst is Failed if a check failed, else NotChecked if one was not made, else Warned if one warned, else Passed.
	Worst    clustercheck.Outcome            `json:"worst"`
	Findings text.List[clustercheck.Finding] `json:"findings"`
}

// WritePreflight shows what was found.
func WritePreflight(w io.Writer, f Format, s Screen, p Preflight) error {
	if f == HTML {
		return htmlpage.Write(w, preflightTemplate, newPreflightPage(p))
	}
	return show(w, f, p, texts{table: func() string { return checkTable(s, p.Verdict, p.Worst, p.Findings) }})
}

// preflightPage is what the template of the page is filled with.
type preflightPage struct {
	Style                    template.CSS
	Title, Subtitle, Verdict string
	Bad                      bool
	Counts                   []preflightCount
	Sections                 []preflightSection
}

type preflightCount struct {
	Label string
	N     int
}

// preflightSection are the findings of one outcome.
type preflightSection struct {
	Title    string
	Findings []preflightRow
}

type preflightRow struct{ ID, Subject, Message, Fix string }

func newPreflightPage(p Preflight) preflightPage {
	page := preflightPage{
		Style: htmlpage.Style(), Title: fmt.Sprintf("Preflight of %s: %s to %s", text.Printable(p.Cluster), p.From, p.To),
		Subtitle: fmt.Sprintf("Cluster %s, as of %s UTC", text.Printable(p.Namespace+"/"+p.Cluster),
			formatTime(p.Time, unrecorded)),
		Verdict: text.Printable(p.Verdict),
		Bad:     p.Worst == clustercheck.Failed || p.Worst == clustercheck.NotChecked,
	}
	for _, o := range []clustercheck.Outcome{
		clustercheck.Failed, clustercheck.NotChecked, clustercheck.Warned, clustercheck.Passed,
	} {
		section := preflightSection{Title: titleOf(o)}
		for _, f := range p.Findings {
			if f.Outcome == o {
				section.Findings = append(section.Findings, preflightRow{
					string(f.ID), text.Printable(f.Subject), text.Printable(f.Message), text.Printable(f.Fix),
				})
			}
		}
		page.Counts = append(page.Counts, preflightCount{section.Title, len(section.Findings)})
		if len(section.Findings) > 0 {
			page.Sections = append(page.Sections, section)
		}
	}
	return page
}

// titleOf is an outcome with a capital.
func titleOf(o clustercheck.Outcome) string {
	words := describeOutcome(o)
	return strings.ToUpper(words[:1]) + words[1:]
}

// checkTable shows findings, the verdict first.
func checkTable(s Screen, verdict string, worst clustercheck.Outcome, findings []clustercheck.Finding) string {
	rows := make([][]string, 0, len(findings))
	for _, f := range findings {
		said := text.Printable(f.Message)
		if f.Subject != "" {
			said = text.Printable(f.Subject) + ": " + said
		}
		if f.Fix != "" {
			said += ". Fix: " + text.Printable(f.Fix)
		}
		rows = append(rows, []string{string(f.ID), describeOutcome(f.Outcome), said})
	}
	var buffer strings.Builder
	tones := map[clustercheck.Outcome]tone{
		clustercheck.Passed: good, clustercheck.Warned: fair, clustercheck.NotChecked: fair, clustercheck.Failed: bad,
	}
	s.verdict(&buffer, tones[worst], verdict)
	buffer.WriteString("\n")
	s.table(&buffer, []string{"Check", "Result", "Finding"}, rows)
	return buffer.String()
}
