package demo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestReport(t *testing.T) {
	request := plan.Request{
		Inventory: plan.Inventory{ControlPlane: v130, Groups: []plan.Group{{Name: "a", Version: v130}}}, Target: v132,
		Source: plan.Response{ControlPlane: []version.Version{v131, v132}},
	}
	planned, err := plan.Compute(request)
	if err != nil {
		t.Fatal(err)
	}
	result := Result{
		Request: request, Planned: planned, Observed: planned.Operations, Duration: 61 * time.Second,
		Replaced: map[string]int{controlPlaneName: 6, "a": 5}, WorkerReplicas: map[string]int{"a": 5},
	}
	if diff := cmp.Diff(Savings{ControlPlane: 6, Workers: 5, EveryMinor: 10}, computeSavings(result)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var text strings.Builder
	if err := Report(&text, result); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"The observed operations are the planned ones.",
		"took 1m1s and replaced 11 machines: 6 of the control plane, 5 workers",
		"every minor would have replaced 10 workers: the chain saved 5",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, text.String())
		}
	}
	result.Observed = planned.Operations[:2]
	text.Reset()
	if err := ReportUnfinished(&text, result); err != nil {
		t.Error(err)
	}
	wantUnfinished := `
The upgrade did not end; it had begun 2 of 3 operations.
  done       control plane v1.30.0 -> v1.31.0
  begun      control plane v1.31.0 -> v1.32.0
  not begun  a v1.30.0 -> v1.32.0
`
	if diff := cmp.Diff(wantUnfinished, text.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text.Reset()
	if err := Report(&text, result); !errors.Is(err, ErrDiffers) || !strings.Contains(text.String(), "NOT the planned ones") {
		t.Errorf("a missing operation gave %v:\n%s", err, text.String())
	}
}
