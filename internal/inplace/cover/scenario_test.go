package cover_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
)

// TestScenarios runs the scripts in testdata/scenarios. `go test -run TestScenarios -rewrite` writes their outputs anew.
//
//	begin [machineset]              starts a scenario: items current.machine, desired.infrastructure, ignore and so on
//	apply updater=a [max-minors=1]  adds an updater's answer: items such as "machine merge {…}" or "bootstrap json […]"
//	fail updater=a                  adds an updater that could not be asked; the input says why
//	patches, current, changes       print Patches, Current, Changes
//	drifted                         prints which Changes the objects in the input do not carry
//
// An item is a line and the indented lines after it. Commands print the coverage so far, unless it says otherwise.
func TestScenarios(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		t.Helper()
		s := &scenario{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			return s.run(t, d)
		})
	})
}

type scenario struct{ coverage *cover.Coverage }

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	switch d.Cmd {
	case "begin":
		return s.begin(d)
	case "apply":
		return s.apply(t, d)
	case "fail":
		var name string
		d.ScanArgs(t, "updater", &name)
		s.coverage = s.coverage.Fail(cover.Updater{Name: name}, d.Input, nil)
		return s.print()
	case "patches":
		p := s.coverage.Patches()
		return lines("machine", string(p.Machine.Data), "infrastructure", string(p.Infrastructure.Data), "bootstrap", string(p.Bootstrap.Data))
	case "current":
		o := s.coverage.Current()
		return lines("machine", string(o.Machine), "infrastructure", string(o.Infrastructure), "bootstrap", string(o.Bootstrap))
	case "changes":
		var b strings.Builder
		for _, change := range s.coverage.Result().Changes {
			fmt.Fprintf(&b, "%s %s %s\n", change.Part, change.Path, change.Digest)
		}
		return b.String()
	case "drifted":
		var o cover.Objects
		for _, item := range items(d.Input) {
			name, text, _ := strings.Cut(item, " ")
			setObject(&o, name, text)
		}
		return pointers("", cover.Drifted(s.coverage.Result().Changes, o))
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
		return ""
	}
}

func (s *scenario) begin(d *datadriven.TestData) string {
	scope := cover.Machine
	if d.HasArg("machineset") {
		scope = cover.MachineSet
	}
	var current, desired cover.Objects
	var ignored []cover.Ignore
	for _, item := range items(d.Input) {
		name, text, _ := strings.Cut(item, " ")
		side, object, _ := strings.Cut(name, ".")
		switch side {
		case "current":
			setObject(&current, object, text)
		case "desired":
			setObject(&desired, object, text)
		case "both":
			setObject(&current, object, text)
			setObject(&desired, object, text)
		case "ignore":
			part, path, _ := strings.Cut(text, " ")
			ignored = append(ignored, cover.Ignore{Part: cover.Part(part), Path: path})
		default:
			return "unknown item " + name
		}
	}
	c, err := cover.New(scope, current, desired, ignored)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	s.coverage = c
	return s.print()
}

func (s *scenario) apply(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var u cover.Updater
	d.ScanArgs(t, "updater", &u.Name)
	d.MaybeScanArgs(t, "max-minors", &u.MaxMinors)
	var p cover.Patches
	for _, item := range items(d.Input) {
		fields := strings.SplitN(item, " ", 3)
		patch := cover.Patch{Type: cover.PatchType(fields[1])}
		if len(fields) == 3 {
			patch.Data = []byte(fields[2])
		}
		switch fields[1] {
		case "merge":
			patch.Type = cover.JSONMergePatch
		case "json":
			patch.Type = cover.JSONPatch
		}
		switch fields[0] {
		case "machine":
			p.Machine = patch
		case "infrastructure":
			p.Infrastructure = patch
		case "bootstrap":
			p.Bootstrap = patch
		default:
			return "unknown item " + fields[0]
		}
	}
	next, err := s.coverage.Apply(u, p)
	s.coverage = next
	if err != nil {
		return "error: " + err.Error() + "\n" + s.print()
	}
	return s.print()
}

func (s *scenario) print() string {
	r := s.coverage.Result()
	var b strings.Builder
	for i, covered := range r.Plan {
		sets := ""
		if covered.SetsVersion {
			sets = fmt.Sprintf(" (version %s to %s)", r.From, r.To)
		}
		fmt.Fprintf(&b, "%d. %s covers%s\n%s", i+1, covered.Updater, sets, pointers("     ", covered.Pointers))
	}
	for _, part := range []struct {
		name     string
		pointers []cover.Pointer
	}{{"uncovered", r.Uncovered}, {"dirty", r.Dirty}, {"ignored, because Cluster API does not compare them", r.Uncompared}} {
		if len(part.pointers) > 0 {
			fmt.Fprintf(&b, "%s\n%s", part.name, pointers("     ", part.pointers))
		}
	}
	if len(r.Errors) > 0 {
		fmt.Fprintf(&b, "errors: %d, the last one of %s\n", len(r.Errors), r.Errors[len(r.Errors)-1].Updater)
	}
	if len(r.Uncovered) == 0 {
		b.WriteString("all covered\n")
	}
	return b.String()
}

func pointers(indent string, list []cover.Pointer) string {
	var b strings.Builder
	for _, p := range list {
		fmt.Fprintf(&b, "%s%s %s\n", indent, p.Part, p.Path)
	}
	return b.String()
}

func lines(namesAndTexts ...string) string {
	var b strings.Builder
	for i := 0; i < len(namesAndTexts); i += 2 {
		if namesAndTexts[i+1] != "" {
			fmt.Fprintf(&b, "%s %s\n", namesAndTexts[i], namesAndTexts[i+1])
		}
	}
	return b.String()
}

func setObject(o *cover.Objects, name, text string) {
	switch name {
	case "machine":
		o.Machine = []byte(text)
	case "infrastructure":
		o.Infrastructure = []byte(text)
	case "bootstrap":
		o.Bootstrap = []byte(text)
	}
}

// items joins indented lines to the line before them.
func items(input string) []string {
	var found []string
	for line := range strings.Lines(input) {
		switch {
		case strings.TrimSpace(line) == "":
		case line[0] == ' ' && len(found) > 0:
			found[len(found)-1] += line
		default:
			found = append(found, line)
		}
	}
	for i := range found {
		found[i] = strings.TrimSpace(found[i])
	}
	return found
}
