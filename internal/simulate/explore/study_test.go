package explore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/simulate/explore"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

func TestRepresent(t *testing.T) {
	t.Parallel()
	var alike, mixed []explore.Group
	for i := range 9 {
		alike = append(alike, md(fmt.Sprintf("m%d", i), 30))
	}
	for i := range 6 {
		mixed = append(mixed, md(fmt.Sprintf("m%d", i), 30-i%5))
	}
	for name, tt := range map[string]struct {
		groups []explore.Group
		want   []string
		note   string
		at     int
		whole  bool
	}{
		"few":                 {alike[:4], []string{"m0", "m1", "m2", "m3"}, "", 9, true},
		"alike":               {append(alike[:9:9], mp("p", 30)), []string{"m0", "m1", "p"}, "10 groups are represented by m0, m1, p: ", 1, true},
		"three at once":       {alike, []string{"m0", "m1", "m2", "m3"}, "9 groups are represented by m0, m1, m2, m3: ", 3, true},
		"four at once":        {alike, []string{"m0", "m1", "m2", "m3"}, "; that no more than 4 move at once is not shown of MachineDeployments", 4, false},
		"pools alone":         {[]explore.Group{mp("p", 30), mp("q", 30), mp("r", 30), mp("s", 30), mp("t", 30)}, []string{"p", "q"}, "5 groups are represented by p, q: ", 0, true},
		"more than there can": {append(mixed[:6:6], mp("p", 30)), []string{"m2", "m3", "m4", "p"}, "; 2 versions or kinds between those are not represented", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := explore.Represent(tt.groups, tt.at)
			var names []string
			for _, g := range r.Groups {
				names = append(names, g.Name)
			}
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !strings.Contains(r.Note, tt.note) || (r.Note == "") != (tt.note == "") || r.Complete != tt.whole {
				t.Errorf("note %q, want %q in it; complete: %v", r.Note, tt.note, r.Complete)
			}
		})
	}
}

// TestStudies explores what windlass verify does, from a version list, and where an extension is asked.
func TestStudies(t *testing.T) {
	t.Parallel()
	listed := chainOf(2, explore.Faults{}, md("a", 30), mp("p", 29))
	graph := listed
	graph.Sources = []plan.Source{plan.Graph{Versions: []version.Version{v(30), v(31), v(32)}}}
	for name, c := range map[string]explore.Config{"list": listed, "graph": graph} {
		for _, study := range explore.Studies(c, []version.Version{v(31), v(32)}) {
			if name == "graph" && !study.Config.Asked {
				continue // The engine gets a list in others, too.
			}
			report, err := explore.Explore(t.Context(), study.Config, 50_000)
			if err != nil || report.Violation != nil || !report.Complete || report.States < 30 || study.Varies == "" {
				t.Errorf("%s, %s: %+v, %v", name, study.Name, report, err)
			}
		}
	}
}

// TestBadConfig refuses what cannot be simulated.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]explore.Config{
		"no target":       {ControlPlane: v(30)},
		"too many groups": {ControlPlane: v(30), Target: v(31), Groups: make([]explore.Group, 5), Sources: []plan.Source{plan.NextMinor{}}},
	} {
		if _, err := explore.Explore(t.Context(), c, 10); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
