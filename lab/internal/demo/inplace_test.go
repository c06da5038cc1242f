package demo

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/lab/internal/history"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// updated is a machine with a last update of that id, which took 6 seconds.
func updated(t *testing.T, uid, id string, v version.Version) history.Fact {
	t.Helper()
	text, err := json.Marshal(inplace.Summary{
		ID: id, To: v, Began: began, Ended: began.Add(6 * time.Second),
		Done: []inplace.Finished{{Updater: "files", Seconds: 2}, {Updater: "kubelet", Seconds: 4}},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := machine(uid, v, true)
	m.Object.SetAnnotations(map[string]string{v1alpha1.LastUpdateAnnotation: string(text)})
	return m
}

func TestUpdateLog(t *testing.T) {
	log := newUpdateLog()
	var seen [][]string
	for _, machines := range [][]history.Fact{
		{machine("a", v130, true), machine("b", v130, true)},
		{updated(t, "a", "1", v131), machine("b", v130, true)},
		{updated(t, "a", "1", v131), machine("b", v130, true)},
		{updated(t, "a", "3", v132), updated(t, "b", "2", v131)},
	} {
		var texts []string
		for _, u := range log.observe(objectsOf(part("", v131, 0), part("g", v131, 2, machines...))) {
			texts = append(texts, u.Group+" "+u.String())
		}
		seen = append(seen, texts)
	}
	want := [][]string{
		nil, {"g a is at v1.31.0 after 6s (files 2s, kubelet 4s)"}, nil,
		{"g a is at v1.32.0 after 6s (files 2s, kubelet 4s)", "g b is at v1.31.0 after 6s (files 2s, kubelet 4s)"},
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// inPlaceResult is of an upgrade of one control plane machine and two workers over two minors.
func inPlaceResult(t *testing.T) Result {
	t.Helper()
	request := plan.Request{
		Inventory: plan.Inventory{ControlPlane: v130, Groups: []plan.Group{{Name: "a", Version: v130}}}, Target: v132,
		Source: plan.Response{ControlPlane: []version.Version{v131, v132}},
	}
	planned, err := plan.Compute(request)
	if err != nil {
		t.Fatal(err)
	}
	machines := []Identity{{Name: "c", UID: "c-1"}, {Group: "a", Name: "w", UID: "w-1"}, {Group: "a", Name: "x", UID: "x-1"}}
	update := func(uid string, to version.Version, took time.Duration) MachineUpdate {
		return MachineUpdate{Machine: uid[:1], UID: types.UID(uid), Summary: inplace.Summary{To: to, Began: began, Ended: began.Add(took)}}
	}
	return Result{
		Request: request, Planned: planned, Observed: planned.Operations, Duration: time.Minute, WorkerReplicas: map[string]int{"a": 2}, Finished: true,
		InPlace: &InPlaceResult{
			Before: machines, After: machines, Blocked: "no updater covers it", Refused: "would replace Machine w",
			Updates: []MachineUpdate{
				update("c-1", v131, 5*time.Second), update("c-1", v132, 6*time.Second), update("w-1", v132, 9*time.Second), update("x-1", v132, 7*time.Second),
			},
		},
	}
}

func TestReportInPlace(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Result)
		want   error
		texts  []string
	}{
		{"all is well", func(*Result) {}, nil, []string{
			"The observed operations are the planned ones.",
			"control plane  c        c           c          2        5s 6s",
			"4 updates in place of 3 machines. No machine was created or deleted.",
			"Replacing would have created 4 machines and deleted as many.",
			"The longest update of a machine was 9s of w to v1.32.0.",
			"no updater covers it", "would replace Machine w",
		}},
		{"another operation", func(r *Result) { r.Observed = r.Observed[:2] }, ErrDiffers, []string{"NOT the planned ones"}},
		{"a machine of the same name", func(r *Result) {
			r.InPlace.After = []Identity{r.InPlace.Before[0], r.InPlace.Before[1], {Group: "a", Name: "x", UID: "y-2"}}
			r.InPlace.Created, r.InPlace.Deleted = []string{"x"}, []string{"x"}
		}, ErrReplaced, []string{"Machine x was CREATED.", "Machine x was DELETED.", "1 machines were CREATED and 1 DELETED"}},
		{"a machine that is gone", func(r *Result) { r.InPlace.After = r.InPlace.After[:2] }, ErrReplaced, []string{"GONE"}},
		{"a machine that came and went", func(r *Result) { r.InPlace.Created = []string{"z"} }, ErrReplaced, []string{"Machine z was CREATED."}},
		{"an update that is missing", func(r *Result) { r.InPlace.Updates = r.InPlace.Updates[:3] }, ErrUncounted, []string{"There should have been 4 updates"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := inPlaceResult(t)
			tt.change(&r)
			var text strings.Builder
			if err := ReportInPlace(&text, r); !errors.Is(err, tt.want) {
				t.Errorf("the report gave %v, want %v", err, tt.want)
			}
			for _, want := range tt.texts {
				if !strings.Contains(text.String(), want) {
					t.Errorf("the report does not say %q:\n%s", want, text.String())
				}
			}
		})
	}
}

func TestDefaultInPlace(t *testing.T) {
	s, err := DefaultInPlace()
	if err != nil {
		t.Fatal(err)
	}
	request, err := s.Request()
	if err != nil {
		t.Fatal(err)
	}
	replaced, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	other, err := replaced.Request()
	if err != nil {
		t.Fatal(err)
	}
	// The graph of Updates stays out: both read the same one.
	if diff := cmp.Diff(other.Inventory, request.Inventory); diff != "" {
		t.Errorf("the upgrade is not that of the default scenario (-default +in place):\n%s", diff)
	}
	stages, err := s.computeStages()
	if err != nil {
		t.Fatal(err)
	}
	for _, stage := range stages {
		if n := *stage.cluster.Spec.Topology.ControlPlane.Replicas; n != 3 {
			t.Errorf("%s: %d control plane machines; Cluster API refuses fewer than 3 without surge", stage.what, n)
		}
	}
	find := func(c *clusterv1.Cluster) *clusterv1.MachineDeploymentTopology {
		for i := range c.Spec.Topology.Workers.MachineDeployments {
			if md := &c.Spec.Topology.Workers.MachineDeployments[i]; md.Name == s.InPlace.Group {
				return md
			}
		}
		t.Fatalf("there is no %s", s.InPlace.Group)
		return nil
	}
	if got := find(s.withUncovered()).Variables.Overrides; len(got) != 1 || got[0].Name != s.InPlace.Variable.Name {
		t.Errorf("the change that no updater covers is %+v", got)
	}
	if got := find(s.upgraded()).Variables.Overrides; len(got) != 0 {
		t.Errorf("the scenario itself was changed: %+v", got)
	}
}
