package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/doctor"
)

func TestExaminationGolden(t *testing.T) {
	sick := Examination{Namespace: "team-a", Cluster: "prod", Findings: []doctor.Finding{
		{ID: doctor.CheckMachinesKept, Severity: doctor.Error, Subject: "KubeadmControlPlane prod-cp", Message: "machines cannot be updated in place: see Surge"},
		{ID: doctor.CheckFeatureGates, Severity: doctor.Warning, Subject: "capi-controller-manager",
			Message: "its feature gates are unknown", Fix: "look for --feature-gates in the arguments of the process\x1b[31m"},
		{ID: doctor.CheckGuard, Severity: doctor.OK, Subject: "guard", Message: "it is asked before Machines of namespace team-a are created or deleted"},
		{ID: doctor.CheckSurge, Severity: doctor.Error, Subject: "KubeadmControlPlane prod-cp",
			Message: "maxSurge is 1 (the default): Cluster API creates a machine before it asks", Fix: "set spec.rollout.strategy.rollingUpdate.maxSurge to 0"},
	}}
	for i := range 7 {
		sick.Findings = append(sick.Findings, doctor.Finding{
			ID: doctor.CheckTemplates, Severity: doctor.OK, Subject: fmt.Sprintf("MachineDeployment pool-%03d", i), Message: "all templates of its machines exist",
		})
	}
	for name, e := range map[string]Examination{"sick": sick, "nothing": {Cluster: "prod"}} {
		e.Worst, e.Verdict = doctor.Worst(e.Findings), "1 of 2 machines cannot be updated in place; 1 check could not run."
		for _, f := range ReportFormats() {
			t.Run(name+"/"+string(f), func(t *testing.T) {
				var got strings.Builder
				if err := WriteExamination(&got, f, narrow, e); err != nil {
					t.Fatalf("WriteExamination: %v", err)
				}
				golden(t, "examination-"+name+"."+string(f), got.String())
				checkText(t, f, got.String())
			})
		}
	}
	for _, f := range []Format{Mermaid, Wide, "xml"} {
		if err := WriteExamination(&strings.Builder{}, f, Screen{}, sick); err == nil {
			t.Errorf("format %s: no error", f)
		}
	}
}
