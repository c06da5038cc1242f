package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/text"
)

// Examination is what was found out about a cluster, and the stable interface of `windlass doctor
// -o json` and `-o yaml`.
type Examination struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// Worst is the worst severity of all findings.
	Worst    doctor.Severity           `json:"worst"`
	Findings text.List[doctor.Finding] `json:"findings"`
}

// Widths of columns of findings. With their bars they fill tableWidth.
const (
	checkWidth   = 12
	subjectWidth = 24
	resultWidth  = 7
	findingWidth = 44
)

// WriteExamination shows an examination.
func WriteExamination(w io.Writer, f Format, e Examination) error {
	return show(w, f, e, texts{table: func() string { return examinationTable(e) }})
}

func examinationTable(e Examination) string {
	found := make(map[doctor.Severity]int)
	// Clusters can have very many groups, of which mostly the same is found.
	subjects := map[doctor.Finding][]string{}
	var distinct []doctor.Finding
	for _, f := range e.Findings {
		found[f.Severity]++
		same := f
		same.Subject = ""
		if subjects[same] == nil {
			distinct = append(distinct, same)
		}
		subjects[same] = append(subjects[same], f.Subject)
	}
	rows := make([][]string, 0, len(distinct))
	for _, f := range distinct {
		buffer := text.Printable(f.Message)
		if f.Fix != "" {
			buffer += " -> " + text.Printable(f.Fix)
		}
		rows = append(rows, []string{string(f.Severity), string(f.ID), describeGroups(subjects[f]), buffer})
	}
	var buffer strings.Builder
	text.WriteTable(&buffer, []string{"Result", "Check", "Subject", "Finding -> what to change"}, rows, []int{resultWidth, checkWidth, subjectWidth, findingWidth})
	fmt.Fprintf(&buffer, "\n%s, %s, %d OK.\n", count(found[doctor.Error], "error"), count(found[doctor.Warning], "warning"), found[doctor.OK])
	return buffer.String()
}
