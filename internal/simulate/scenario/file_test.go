package scenario_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/simulate/fleet"
	"github.com/windlass-dev/windlass/internal/simulate/scenario"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/errors/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			f, err := scenario.Parse("s.yaml", data)
			if err == nil {
				_, err = scenario.Translate(f, scenario.Options{File: "s.yaml"})
			}
			if err == nil {
				t.Fatal("there is no error")
			}
			got := err.Error() + "\n"
			if all, ok := errors.AsType[*scenario.Error](err); ok && len(all.Problems) > 1 {
				got = ""
				for _, problem := range all.Problems {
					got += problem.Error() + "\n"
				}
			}
			golden := strings.TrimSuffix(name, ".yaml") + ".txt"
			if os.Getenv("WINDLASS_UPDATE") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(golden)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("another error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestManyProblemsAreCutOff: an error is for people, who fix a few things and look again.
func TestManyProblemsAreCutOff(t *testing.T) {
	t.Parallel()
	f := scenario.File{Clusters: make([]scenario.Cluster, 30)}
	_, err := scenario.Translate(f, scenario.Options{File: "s.yaml"})
	text := fmt.Sprint(err)
	if lines := strings.Count(text, "\n"); lines != 21 || !strings.Contains(text, "more") {
		t.Errorf("the error has %d lines: %s", lines, text)
	}
}

// TestPrintedFilesAreTheSame: what is printed is read as what it was, with its notes as comments.
func TestPrintedFilesAreTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := anyFile(t)
		var b bytes.Buffer
		if err := scenario.Print(&b, f, []string{"one\nnote", "another"}); err != nil {
			t.Fatal(err)
		}
		if want := "# one\n# note\n# another\n"; !strings.HasPrefix(b.String(), want) {
			t.Fatalf("the notes are missing: %s", b.String())
		}
		read, err := scenario.Parse("", b.Bytes())
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if diff := cmp.Diff(f, read, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("printed and read, it is another (-want +got):\n%s", diff)
		}
		if _, err := scenario.Translate(read, scenario.Options{}); err != nil {
			t.Fatal(err)
		}
	})
}

// anyFile makes files that are valid.
func anyFile(t *rapid.T) scenario.File {
	words := rapid.SampledFrom([]string{"", "3m", "1m..2m", "p50=1m,p90=2m", "[1s,2s]"})
	durations := func() scenario.Durations {
		return scenario.Durations{
			Create: words.Draw(t, "create"), Delete: words.Draw(t, "delete"), Updater: words.Draw(t, "updater"), Attend: words.Draw(t, "attend"),
			Updaters: map[string]string{"u": "4m", "on": "5m"},
		}
	}
	f := scenario.File{
		Runs: rapid.IntRange(0, 9).Draw(t, "runs"), Seed: rapid.Uint64().Draw(t, "seed"), Durations: durations(),
		Policies: []scenario.Policy{{
			Name: "p", Strategy: scenario.StrategyInPlace, MaxInFlight: rapid.IntRange(0, 9).Draw(t, "maxInFlight"), Soak: rapid.SampledFrom([]string{"", "5m"}).Draw(t, "soak"),
			Updaters: []scenario.Updater{{Name: "u", SetsVersion: rapid.Bool().Draw(t, "setsVersion"), MaxMinors: rapid.IntRange(0, 3).Draw(t, "maxMinors")}, {Name: "on"}},
		}},
		Gates: []scenario.Gate{{
			Name: "yes", Clusters: []string{"c0"}, Steps: []v1alpha1.GateStep{{At: "BeforeWorkersUpgrade", Versions: []v1alpha1.GateVersion{"1.30"}}},
			Windows: []v1alpha1.GateWindow{{TimeZone: "UTC", From: "22:00", To: "04:00"}},
		}},
		Failures: scenario.Failures{CreateFails: rapid.Float64Range(0, 1).Draw(t, "createFails"), UpdateHangs: 0.25},
	}
	if rapid.Bool().Draw(t, "budget") {
		f.Budget = &fleet.Budget{QPS: rapid.Float64Range(0.5, 1000).Draw(t, "qps"), Burst: 5}
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "clusters") {
		c := scenario.Cluster{
			Name: fmt.Sprintf("c%d", i), Count: rapid.IntRange(0, 3).Draw(t, "count"), From: "v1.29.0", To: "v1.31.0",
			ControlPlane: scenario.ControlPlane{Machines: scenario.Machines{Policy: rapid.SampledFrom([]string{"", "p"}).Draw(t, "policy"), Durations: durations()}},
		}
		if rapid.Bool().Draw(t, "one machine") {
			c.ControlPlane.Replicas, c.ControlPlane.MaxSurge, c.ControlPlane.Policy = new(1), new(1), ""
		}
		for j := range rapid.IntRange(0, 3).Draw(t, "pools") {
			c.Pools = append(c.Pools, scenario.Pool{
				Name: fmt.Sprintf("p%d", j), Count: rapid.IntRange(0, 3).Draw(t, "pool count"), Replicas: rapid.IntRange(0, 20).Draw(t, "replicas"),
				Machines: scenario.Machines{Policy: "p"},
			})
		}
		f.Clusters = append(f.Clusters, c)
	}
	return f
}

// FuzzScenario: whatever a file holds, it is translated or refused; what is translated is within the bounds.
func FuzzScenario(f *testing.F) {
	for _, pattern := range []string{"testdata/errors/*.yaml", "../../../config/samples/simulate/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := scenario.Parse("s.yaml", data)
		if err != nil {
			return
		}
		s, err := scenario.Translate(file, scenario.Options{File: "s.yaml"})
		if err != nil {
			return
		}
		machines := 0
		for _, c := range s.Config.Clusters {
			machines += c.ControlPlane.Replicas
			for _, p := range c.Pools {
				machines += p.Replicas
				if p.Lagging > p.Replicas || p.MaxSurge < 0 || p.MaxUnavailable < 0 {
					t.Errorf("pool %+v", p)
				}
			}
			if c.Gates != nil {
				c.Gates(gate.Step{Hook: gate.BeforeWorkersUpgrade, Version: c.Target})
			}
		}
		if machines > scenario.MaxMachines || s.Runs < 1 || s.Runs > scenario.MaxRuns {
			t.Errorf("%d machines, %d runs", machines, s.Runs)
		}
	})
}

// TestEveryFieldIsDocumented: docs/reference/scenario-file.md names each field, and its example is one.
func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../docs/reference/scenario-file.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	var walk func(reflect.Type)
	walk = func(s reflect.Type) {
		for s.Kind() == reflect.Pointer || s.Kind() == reflect.Slice {
			s = s.Elem()
		}
		foreign := s == reflect.TypeFor[intstr.IntOrString]() ||
			s == reflect.TypeFor[metav1.LabelSelector]()
		if s.Kind() != reflect.Struct || foreign {
			return
		}
		for field := range s.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.Anonymous && !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "."+name+"`") {
				t.Errorf("%s.%s is not documented", s.Name(), name)
			}
			walk(field.Type)
		}
	}
	walk(reflect.TypeFor[scenario.File]())
	_, example, _ := strings.Cut(text, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	f, err := scenario.Parse("docs/reference/scenario-file.md", []byte(example))
	if err == nil {
		_, err = scenario.Translate(f, scenario.Options{})
	}
	if err != nil || len(f.Compare) == 0 {
		t.Errorf("the example: %v", err)
	}
}
