package view

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/status"
	"github.com/windlass-dev/windlass/pkg/version"
)

var ansi = regexp.MustCompile(`\x1b\[[0-9]+m`)

// TestColorsOnlyRepeat checks that colors are used, and that the words are the same without them.
func TestColorsOnlyRepeat(t *testing.T) {
	failed := busyReport()
	resting := status.Report{Cluster: "prod", Groups: busyReport().Groups[:1]}
	for _, test := range []struct {
		name  string
		write func(*strings.Builder, Screen) error
		want  string
	}{
		{"status", func(b *strings.Builder, s Screen) error { return WriteStatus(b, Table, s, failed, statusNow) }, "\x1b[31mUpdates are blocked in md-0"},
		{"tree", func(b *strings.Builder, s Screen) error { return WriteTree(b, s, failed, statusNow) }, "\x1b[31m████"},
		{"at rest", func(b *strings.Builder, s Screen) error { return WriteTree(b, s, resting, statusNow) }, "\x1b[32mAll machines"},
		{"safe", func(b *strings.Builder, s Screen) error {
			return WriteVerification(b, Table, s, Verification{Safe: true, Complete: true})
		}, "\x1b[32mThe upgrade"},
		{"cut off", func(b *strings.Builder, s Screen) error {
			return WriteVerification(b, Table, s, Verification{Safe: true})
		}, "\x1b[33mThe upgrade"},
		{"unsafe", func(b *strings.Builder, s Screen) error {
			return WriteVerification(b, Table, s, Verification{Counterexample: &Counterexample{Problem: "skew"}})
		}, "\x1b[31mThe upgrade"},
		{"examination", func(b *strings.Builder, s Screen) error {
			return WriteExamination(b, Table, s, Examination{Verdict: "None can.", Worst: "Error"})
		}, "\x1b[31mNone can.\x1b[0m"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var plain, colored strings.Builder
			if err := test.write(&plain, Screen{Width: 60}); err != nil {
				t.Fatal(err)
			}
			if err := test.write(&colored, Screen{Width: 60, Color: true}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(plain.String(), ansi.ReplaceAllString(colored.String(), "")); diff != "" {
				t.Errorf("without colors (-plain +colored):\n%s", diff)
			}
			if !strings.Contains(colored.String(), test.want) {
				t.Errorf("lacks %q:\n%q", test.want, colored.String())
			}
		})
	}
}

func TestVerificationText(t *testing.T) {
	v := Verification{
		Cluster: "prod", Complete: true, Safe: true, Notes: []string{"not shown: x"},
		Studies: []VerifiedStudy{{Name: "hooks", Varies: "hooks block, fail, or are not reached", States: 12, Transitions: 345, Complete: true}},
	}
	for _, test := range []struct {
		name    string
		change  func(*Verification)
		visited string
		want    string
	}{
		{"safe", func(*Verification) {}, "all", "The upgrade of prod from v1.0.0 to v1.1.0 is safe in every interleaving of the studies below.\n\n"},
		{"cut off", func(v *Verification) { v.Complete, v.Studies[0].Complete = false, false }, "cut off", "The upgrade of prod from v1.0.0 to v1.1.0 has no fault in what was explored, which is not all that can happen.\n\n"},
		{"a fault", func(v *Verification) {
			v.Counterexample = &Counterexample{Study: "hooks", Problem: "md-0 is 4 minors behind", Trace: []string{"a", "b"}}
			v.Studies[0].Complete = false
		}, "to the fault", "The upgrade of prod from v1.0.0 to v1.1.0 is NOT SAFE: md-0 is 4 minors behind\n\nThe shortest way there (hooks):\n   1. a\n   2. b\n\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := v
			v.Studies = slices.Clone(v.Studies)
			v.From, v.To = version.MustParse("v1.0.0"), version.MustParse("v1.1.0")
			v.States, v.Transitions, v.Seconds = 12, 345, 1.5
			test.change(&v)
			var got strings.Builder
			if err := WriteVerification(&got, Table, Screen{}, v); err != nil {
				t.Fatal(err)
			}
			width := max(len("Visited"), len(test.visited))
			want := test.want + fmt.Sprintf(`| Study | States | Transitions | %-*s | What happens at any point             |
|-------|--------|-------------|-%s-|---------------------------------------|
| hooks | 12     | 345         | %-*s | hooks block, fail, or are not reached |

12 states and 345 transitions in 1.5 s

Note: not shown: x
`, width, "Visited", strings.Repeat("-", width), width, test.visited)
			if diff := cmp.Diff(want, got.String()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTopicsFit checks that long names leave room for their texts on a narrow screen.
func TestTopicsFit(t *testing.T) {
	topics := []topic{{name: "control plane, general, batch", text: strings.Repeat("some words ", 10)}}
	for _, width := range []int{44, 50, 80} {
		var got strings.Builder
		formatTopics(&got, Screen{Width: width}, "Machines", topics)
		for line := range strings.Lines(got.String()) {
			if n := len(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("a line has %d columns on a screen of %d: %q", n, width, line)
			}
		}
	}
}

// TestCounterexampleStays checks that a study without a fault does not hide what an earlier one found.
func TestCounterexampleStays(t *testing.T) {
	v := Verification{Safe: true, Complete: true}
	found := &Counterexample{Study: "hooks", Problem: "skew"}
	v.Add(VerifiedStudy{Name: "hooks", Complete: true}, found)
	v.Add(VerifiedStudy{Name: "reads", Complete: true}, nil)
	if v.Safe || v.Counterexample != found {
		t.Errorf("safe is %t, the counterexample %v", v.Safe, v.Counterexample)
	}
}
