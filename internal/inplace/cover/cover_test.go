package cover_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

func TestTwoUpdatersCoverADifference(t *testing.T) {
	t.Parallel()
	current := cover.Objects{
		Machine:        json.RawMessage(`{"kind":"Machine","metadata":{"name":"m"},"spec":{"clusterName":"c","version":"v1.30.1"}}`),
		Infrastructure: json.RawMessage(`{"kind":"DevMachine","spec":{"image":"a","cpus":2}}`),
	}
	desired := cover.Objects{
		Machine:        json.RawMessage(`{"kind":"Machine","metadata":{"name":"m"},"spec":{"clusterName":"c","version":"v1.31.0"}}`),
		Infrastructure: json.RawMessage(`{"kind":"DevMachine","spec":{"image":"b","cpus":2}}`),
	}
	c, err := cover.New(cover.Machine, current, desired, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.Apply(cover.Updater{Name: "a"}, cover.Patches{Machine: merge(`{"spec":{"version":"v1.31.0"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := []cover.Pointer{{Part: cover.PartInfrastructure, Path: "/spec/image"}}
	if diff := cmp.Diff(want, first.Result().Uncovered); diff != "" {
		t.Errorf("uncovered (-want +got):\n%s", diff)
	}
	second, err := first.Apply(cover.Updater{Name: "b"}, cover.Patches{Infrastructure: merge(`{"spec":{"image":"b"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	result := second.Result()
	wantPlan := []cover.Covered{
		{Updater: "a", Pointers: []cover.Pointer{{Part: cover.PartMachine, Path: "/spec/version"}}, SetsVersion: true},
		{Updater: "b", Pointers: want},
	}
	if diff := cmp.Diff(wantPlan, result.Plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if len(result.Uncovered) != 0 {
		t.Errorf("uncovered: %v", result.Uncovered)
	}
	wantPatches := cover.Patches{
		Machine:        cover.Patch{Type: cover.JSONPatch, Data: []byte(`[{"op":"replace","path":"/spec/version","value":"v1.31.0"}]`)},
		Infrastructure: cover.Patch{Type: cover.JSONPatch, Data: []byte(`[{"op":"replace","path":"/spec/image","value":"b"}]`)},
	}
	if diff := cmp.Diff(wantPatches, second.Patches()); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
	if drifted := cover.Drifted(result.Changes, desired); len(drifted) != 0 {
		t.Errorf("drifted from desired itself: %v", drifted)
	}
	if drifted := cover.Drifted(result.Changes, current); len(drifted) != 2 {
		t.Errorf("current carries the changes: %v", drifted)
	}
}

func TestDescribeUncovered(t *testing.T) {
	t.Parallel()
	result := cover.Result{
		Uncovered: []cover.Pointer{
			{Part: cover.PartMachine, Path: "/spec/version"},
			{Part: cover.PartInfrastructure, Path: "/spec/image"},
		},
		Errors: []*cover.UpdaterError{{Updater: "a", Problem: "no answer"}},
		Notes:  []string{"b needs a reboot"},
	}
	want := "MachineSet /spec/version, InfrastructureMachine /spec/image; " +
		`updater "a": no answer; b needs a reboot`
	if diff := cmp.Diff(want, result.DescribeUncovered("MachineSet")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func merge(patch string) cover.Patch {
	return cover.Patch{Type: cover.JSONMergePatch, Data: []byte(patch)}
}
