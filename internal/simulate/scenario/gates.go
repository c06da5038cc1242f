package scenario

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/windlass-dev/windlass/internal/gate"
)

// parsedGate is a Gate as it is asked for at each step.
type parsedGate struct {
	clusters []string
	steps    []parsedStep
	gate     gate.Gate
}

// parsedStep is a hook, at some releases; none of them means at all.
type parsedStep struct {
	hook     gate.Hook
	releases []gate.Release
}

func (g parsedGate) isAt(step gate.Step) bool {
	return slices.ContainsFunc(g.steps, func(s parsedStep) bool {
		return s.hook == step.Hook &&
			(len(s.releases) == 0 || slices.ContainsFunc(s.releases, func(r gate.Release) bool { return r.Matches(step.Version) }))
	})
}

// hooks are the names of those that a gate can be at.
var hooks = []string{
	string(gate.BeforeClusterUpgrade), string(gate.BeforeControlPlaneUpgrade), string(gate.AfterControlPlaneUpgrade),
	string(gate.BeforeWorkersUpgrade), string(gate.AfterWorkersUpgrade), string(gate.AfterClusterUpgrade),
}

func (t *translation) gates() []parsedGate {
	path := field.NewPath("gates")
	t.duplicates(path, names(t.file.Gates, func(g Gate) string { return g.Name }))
	clusters := names(t.file.Clusters, func(c Cluster) string { return c.Name })
	parsed := make([]parsedGate, 0, len(t.file.Gates))
	for i, g := range t.file.Gates {
		t.checkName(path.Index(i).Child("name"), g.Name)
		for j, name := range g.Clusters {
			if !slices.Contains(clusters, name) {
				t.problem(field.NotSupported(path.Index(i).Child("clusters").Index(j), name, clusters))
			}
		}
		parsed = append(parsed, t.gate(path.Index(i), g))
	}
	return parsed
}

func (t *translation) gate(path *field.Path, g Gate) parsedGate {
	into := parsedGate{clusters: g.Clusters, gate: gate.Gate{Name: g.Name}}
	if len(g.Steps) == 0 {
		t.problem(field.Required(path.Child("steps"), "say where in an upgrade the gate is, such as {at: BeforeControlPlaneUpgrade}"))
	}
	for i, s := range g.Steps {
		at := path.Child("steps").Index(i)
		step := parsedStep{hook: gate.Hook(s.At)}
		if !slices.Contains(hooks, string(s.At)) {
			t.problem(field.NotSupported(at.Child("at"), string(s.At), hooks))
		}
		for j, v := range s.Versions {
			release, err := gate.ParseRelease(string(v))
			if err != nil {
				t.problem(field.Invalid(at.Child("versions").Index(j), string(v), err.Error()))
			}
			step.releases = append(step.releases, release)
		}
		into.steps = append(into.steps, step)
	}
	if len(g.Windows) == 0 {
		t.problem(field.Required(path.Child("windows"), "say when it is open, such as {timeZone: Europe/Berlin, days: [Saturday], from: \"22:00\", to: \"04:00\"}"))
	}
	for i, w := range g.Windows {
		window, err := gate.ParseWindow(w)
		if err != nil {
			t.problem(field.Invalid(path.Child("windows").Index(i), field.OmitValueType{}, err.Error()))
			continue
		}
		into.gate.Windows = append(into.gate.Windows, window)
	}
	return into
}
