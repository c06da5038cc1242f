package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/text"
)

// Examination is what was found out about a cluster, and the stable interface of `windlass doctor
// -o json` and `-o yaml`.
type Examination struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// Verdict answers in one sentence whether machines can be updated in place.
	Verdict string `json:"verdict"`
	// Worst is the worst severity of all findings.
	Worst    doctor.Severity           `json:"worst"`
	Findings text.List[doctor.Finding] `json:"findings"`
}

// WriteExamination shows an examination.
func WriteExamination(w io.Writer, f Format, s Screen, e Examination) error {
	return show(w, f, e, texts{table: func() string { return examinationTable(s, e) }})
}

// Removal is what is left of Windlass, and the stable interface of `windlass uninstall --check
// -o json` and `-o yaml`.
type Removal struct {
	Verdict  string                    `json:"verdict"`
	Worst    doctor.Severity           `json:"worst"`
	Findings text.List[doctor.Finding] `json:"findings"`
}

// WriteRemoval shows what is left.
func WriteRemoval(w io.Writer, f Format, s Screen, r Removal) error {
	return show(w, f, r, texts{table: func() string {
		e := Examination{Verdict: r.Verdict, Worst: r.Worst, Findings: r.Findings}
		return examinationTable(s, e)
	}})
}

func examinationTable(s Screen, e Examination) string {
	// The summary counts lines, hidden ones too.
	found := make(map[doctor.Severity]int)
	// Clusters can have very many groups, of which mostly the same is found.
	subjects := map[doctor.Finding][]string{}
	var distinct []doctor.Finding
	for _, f := range e.Findings {
		same := f
		same.Subject = ""
		if subjects[same] == nil {
			found[f.Severity]++
			if f.Severity != doctor.OK || s.All {
				distinct = append(distinct, same)
			}
		}
		subjects[same] = append(subjects[same], f.Subject)
	}
	order := []doctor.Severity{doctor.Error, doctor.Warning, doctor.OK}
	slices.SortStableFunc(distinct, func(a, b doctor.Finding) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
	rows := make([][]string, 0, len(distinct))
	for _, f := range distinct {
		buffer := text.Printable(f.Message)
		if f.Fix != "" {
			buffer += ". Fix: " + text.Printable(f.Fix)
		}
		rows = append(rows, []string{string(f.Severity), string(f.ID), describeGroups(subjects[f]), buffer})
	}
	var buffer strings.Builder
	tones := map[doctor.Severity]tone{doctor.OK: good, doctor.Warning: fair, doctor.Error: bad}
	s.verdict(&buffer, tones[e.Worst], e.Verdict)
	if len(rows) > 0 {
		buffer.WriteString("\n")
		s.table(&buffer, []string{"Result", "Check", "Subject", "Finding"}, rows)
	}
	hint := ""
	if found[doctor.OK] > 0 && !s.All {
		hint = " (--all shows them)"
	}
	buffer.WriteString("\n")
	s.paragraph(&buffer, fmt.Sprintf("%s, %s, %d OK%s.", text.Count(found[doctor.Error], "error"),
		text.Count(found[doctor.Warning], "warning"), found[doctor.OK], hint))
	return buffer.String()
}
