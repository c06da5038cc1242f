package explore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/windlass-dev/windlass/internal/simulate/explore"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestScenarios runs the scripts in testdata/scenarios. `go test -run TestScenarios -rewrite` writes their outputs anew.
//
//	begin [from=v…] to=v… [retarget=v…] [list=(v…,…)] [relist=(v…,…)] [concurrency=n] [groups=(NAME=v…[/OLDEST],…)]
//	            starts a scenario. A group whose name begins with p is a MachinePool; one without a version does not exist yet; one with
//	            the version absent is not in the topology. Without from the topology is yet to be created
//	do          one line for each thing that happens: the first whose words contain the line
//	finish      lets the rest happen without disturbances
//
// The output is what happened, and where everything is after it. After every step invariants are checked; a violation ends the test.
func TestScenarios(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		t.Helper()
		var w *explore.World
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			switch d.Cmd {
			case "begin":
				w = begin(t, d)
				return w.String() + "\n"
			case "do":
				var out strings.Builder
				for line := range strings.Lines(d.Input) {
					happened, err := w.Do(strings.TrimSpace(line))
					if err != nil {
						d.Fatalf(t, "%v", err)
					}
					fmt.Fprintf(&out, "%s\n  %s\n", happened, w)
				}
				return out.String()
			case "finish":
				course, err := w.Finish()
				if err != nil {
					d.Fatalf(t, "%v\n%s", err, strings.Join(course.Lines, "\n"))
				}
				return strings.Join(course.Lines, "\n") + "\n  " + w.String() + "\n"
			default:
				d.Fatalf(t, "there is no command %s", d.Cmd)
				return ""
			}
		})
	})
}

func begin(t *testing.T, d *datadriven.TestData) *explore.World {
	t.Helper()
	const many = 9
	c := explore.Config{Faults: explore.Faults{
		Cuts: many, Restarts: many, Answers: many, Annotations: many, Blockers: many, Retargets: many, Relists: many, Outages: many, Pauses: many,
		Groups: many, Races: many, Swaps: many, Deletions: 1,
	}, MayEndWithoutPath: true}
	var list, relist plan.VersionList
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "from":
			c.ControlPlane = version.MustParse(arg.Vals[0])
		case "to":
			c.Target = version.MustParse(arg.Vals[0])
		case "retarget":
			c.Retargets = append(c.Retargets, version.MustParse(arg.Vals[0]))
		case "list":
			list = parseList(t, arg.Vals)
		case "relist":
			relist = parseList(t, arg.Vals)
		case "concurrency":
			d.ScanArgs(t, "concurrency", &c.Concurrency)
		case "groups":
			for _, text := range arg.Vals {
				c.Groups = append(c.Groups, parseGroup(text))
			}
		default:
			d.Fatalf(t, "there is no argument %s", arg.Key)
		}
	}
	if list != nil {
		c.Sources = []plan.Source{list}
	}
	if relist != nil {
		c.Sources = append(c.Sources, relist)
	}
	w, err := explore.New(c)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return w
}

func parseList(t *testing.T, texts []string) plan.VersionList {
	t.Helper()
	list, err := version.ParseList(texts)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func parseGroup(text string) explore.Group {
	name, at, _ := strings.Cut(text, "=")
	g := explore.Group{Name: name, Kind: plan.MachineDeployment, Absent: at == "absent"}
	if strings.HasPrefix(name, "p") {
		g.Kind = plan.MachinePool
	}
	if g.Absent || at == "" {
		return g
	}
	to, oldest, mixed := strings.Cut(at, "/")
	g.Version = version.MustParse(to)
	if mixed {
		g.Oldest = version.MustParse(oldest)
	}
	return g
}
