package view

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// narrow is a terminal of 100 columns.
var narrow = Screen{Width: 100}

func versions(texts ...string) []version.Version {
	var list []version.Version
	for _, t := range texts {
		list = append(list, version.MustParse(t))
	}
	return list
}

func compute(t *testing.T, r plan.Request) Chain {
	t.Helper()
	p, err := plan.Compute(r)
	if err != nil {
		t.Fatalf("Compute: %v", err)
	}
	return Chain{Plan: p, ControlPlane: r.Inventory.ControlPlane, Target: r.Target}
}

// fourMinors is the upgrade of the proposal, for the groups that are given.
func fourMinors(groups ...plan.Group) plan.Request {
	return plan.Request{
		Inventory: plan.Inventory{ControlPlane: version.MustParse("v1.29.0"), Groups: groups},
		Target:    version.MustParse("v1.33.0"),
		Source:    plan.VersionList(versions("v1.30.3", "v1.31.2", "v1.32.1", "v1.33.0")),
	}
}

func manyGroups(n int) []plan.Group {
	var groups []plan.Group
	for i := range n {
		groups = append(groups, plan.Group{Name: fmt.Sprintf("pool-%03d", i), Version: version.MustParse("v1.29.0")})
	}
	return groups
}

// TestGolden compares every format with files in testdata. WINDLASS_UPDATE=1 writes them anew.
func TestGolden(t *testing.T) {
	groups := []plan.Group{
		{Name: "pool-a", Version: version.MustParse("v1.29.0")},
		{Name: "pool-b", Version: version.MustParse("v1.28.4"), MaxMinorStep: 1},
		{Name: "pool-c", Version: version.MustParse("v1.29.0"), Kind: plan.MachinePool},
	}
	mixed := compute(t, fourMinors(groups...))
	explained := mixed
	explained.Explained, explained.Explanation = true, plan.Explain(fourMinors(groups...)).Lines
	many := compute(t, fourMinors(manyGroups(300)...))
	hidden := compute(t, fourMinors(plan.Group{Name: "workers", Version: version.MustParse("v1.29.0")}))
	hidden.HideGroups = true
	forced := fourMinors(groups[0])
	forced.Source = plan.Response{
		ControlPlane: versions("v1.30.0", "v1.30.3", "v1.31.2", "v1.32.1", "v1.33.0"),
		Workers:      versions("v1.30.0", "v1.30.3", "v1.31.2", "v1.32.1", "v1.33.0"),
	}
	odd := compute(t, fourMinors(plan.Group{Name: "a\"]; click x <b>\x1b[31m`#`\n--> end", Version: version.MustParse("v1.29.0")}))
	done := fourMinors(plan.Group{Name: "pool-a", Version: version.MustParse("v1.33.0")})
	done.Inventory.ControlPlane = done.Target

	updates := mixed
	updates.ShowUpdates = true
	updates.ControlPlaneUpdate = &cover.Update{Outcome: "InPlace", Policy: "all", Updaters: []string{"os", "kubeadm"}, Message: "in place by os, then kubeadm"}
	updates.Updates = map[string]cover.Update{
		"pool-a": *updates.ControlPlaneUpdate,
		"pool-b": {
			Outcome: "Blocked", Policy: "strict", Uncovered: []cover.Pointer{{Part: cover.PartMachine, Path: "/spec/template/spec/version"}},
			Message: "blocked: not covered: MachineSet /spec/template/spec/version (v1.28.4 -> v1.30.3); updater \"kubeadm\": it moves a kubelet at most 1 minor at once\x1b[31m",
		},
	}

	risky := compute(t, fourMinors())
	risky.Risks = risks.BuiltIn().OfAll(risks.Facts{}, risks.Steps(risky.Plan.Operations))
	risky.Accepted = func(id string) bool { return id == "scheduler-133-panic" }
	for name, c := range map[string]Chain{
		"risky": risky, "updates": updates, "mixed": mixed, "explained": explained, "many": many, "hidden": hidden,
		"forced": compute(t, forced), "odd": odd, "done": compute(t, done), "controlplane": compute(t, fourMinors()),
	} {
		for _, f := range Formats() {
			t.Run(name+"/"+string(f), func(t *testing.T) {
				var got strings.Builder
				if err := Write(&got, f, narrow, c); err != nil {
					t.Fatalf("Write: %v", err)
				}
				golden(t, name+"."+string(f), got.String())
				checkText(t, f, got.String())
			})
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("WINDLASS_UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// checkText checks what holds for every table: it fits a terminal, and nothing in it acts on one.
func checkText(t *testing.T, f Format, text string) {
	t.Helper()
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' }) {
		t.Errorf("the %s has control characters", f)
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); f == Table && n > narrow.Width {
			t.Errorf("a line has %d characters: %s", n, line)
		}
	}
}

func TestDescribeSummary(t *testing.T) {
	for _, test := range []struct {
		name string
		in   summary
		want string
	}{
		{"saved", summary{4, 2, 6, 12}, "4 control plane upgrades and 2 worker stops: 6 worker rollouts instead of 12, 6 saved against upgrading every worker at every minor."},
		{"one", summary{1, 1, 1, 1}, "1 control plane upgrade and 1 worker stop: 1 worker rollout, as many as upgrading every worker at every minor."},
		{"more", summary{5, 5, 5, 4}, "5 control plane upgrades and 5 worker stops: 5 worker rollouts, 1 more than upgrading every worker at every minor."},
		{"no workers", summary{4, 0, 0, 0}, "4 control plane upgrades and 0 worker stops."},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.in.describe()); diff != "" {
				t.Errorf("describe (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWriteFailure(t *testing.T) {
	failure := Failure{Rule: "MinorMissing", Item: "v1.31", Message: `say "why" -> here`}
	for _, f := range []Format{JSON, YAML} {
		var plain, explained strings.Builder
		if err := WriteFailure(&plain, f, failure, nil); err != nil {
			t.Fatal(err)
		}
		golden(t, "failure."+string(f), plain.String())
		if err := WriteFailure(&explained, f, failure, []plan.ExplanationLine{{Topic: plan.TopicFix, Text: "add it"}}); err != nil {
			t.Fatal(err)
		}
		golden(t, "failure-explained."+string(f), explained.String())
	}
	for _, f := range []Format{Table, Mermaid, "xml"} {
		if err := WriteFailure(&strings.Builder{}, f, failure, nil); err == nil {
			t.Errorf("format %s: no error", f)
		}
	}
}

func TestWriteComparison(t *testing.T) {
	planned := compute(t, fourMinors(plan.Group{Name: "pool-a", Version: version.MustParse("v1.29.0")}, plan.Group{Name: "pool-b", Version: version.MustParse("v1.29.0")})).Plan.Operations
	swapped := append([]plan.Operation(nil), planned...)
	for i, o := range swapped {
		if len(o.Groups) == 2 {
			swapped[i].Groups = []string{o.Groups[1], o.Groups[0]}
		}
		swapped[i].Reason = plan.Reason{}
	}
	differs := append([]plan.Operation(nil), planned...)
	differs[1].To = version.MustParse("v1.31.9")
	for _, test := range []struct {
		name     string
		observed []plan.Operation
		same     bool
	}{
		{"equal", swapped, true},
		{"differs", differs, false},
		{"missing", planned[:4], false},
		{"not-planned", append(append([]plan.Operation(nil), planned...), planned[5]), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got strings.Builder
			same, err := WriteComparison(&got, narrow, planned, test.observed)
			if err != nil || same != test.same {
				t.Errorf("WriteComparison returns %v, %v; want %v", same, err, test.same)
			}
			golden(t, "comparison-"+test.name+".table", got.String())
			checkText(t, Table, got.String())
		})
	}
}

func TestUnknownFormat(t *testing.T) {
	if _, err := ParseFormat("xml", Formats()); err == nil || !strings.Contains(err.Error(), `"mermaid"`) {
		t.Errorf("ParseFormat: %v, want an error that lists the formats", err)
	}
	if err := Write(&strings.Builder{}, "xml", narrow, Chain{}); err == nil {
		t.Error("Write: no error")
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken pipe")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteErrorsAreReported(t *testing.T) {
	c := compute(t, fourMinors())
	for _, f := range Formats() {
		if err := Write(brokenWriter{}, f, narrow, c); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v, want the writer's error", f, err)
		}
	}
}
