package gate_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/pkg/version"
)

var hooks = []gate.Hook{
	gate.BeforeClusterUpgrade, gate.BeforeControlPlaneUpgrade, gate.AfterControlPlaneUpgrade,
	gate.BeforeWorkersUpgrade, gate.AfterWorkersUpgrade, gate.AfterClusterUpgrade,
}

// upgrade is an Upgrade to v1.33.1 with the control plane at a version.
func upgrade(controlPlane string, pending ...gate.Hook) gate.Upgrade {
	return gate.Upgrade{Target: version.MustParse("v1.33.1"), ControlPlane: version.MustParse(controlPlane), Pending: pending}
}

// TestDue goes through an upgrade from v1.31.4 to v1.33.1, as Cluster API's topology controller records it. In each state exactly
// the listed steps are due.
func TestDue(t *testing.T) {
	t.Parallel()
	const from, mid, to = "v1.31.4", "v1.32.2", "v1.33.1"
	whole := []gate.Hook{gate.AfterClusterUpgrade, gate.AfterControlPlaneUpgrade, gate.BeforeWorkersUpgrade, gate.AfterWorkersUpgrade}
	for name, test := range map[string]struct {
		upgrade gate.Upgrade
		want    map[string]gate.Dueness
	}{
		"at rest":                 {upgrade(to), nil},
		"a new target":            {upgrade(from), map[string]gate.Dueness{"before cluster v1.33.1": gate.Due}},
		"a new target, in motion": {moving(upgrade(from)), nil},
		"begun": {upgrade(from, gate.AfterClusterUpgrade), map[string]gate.Dueness{
			"before cluster v1.33.1": gate.MaybeDue, "before control plane v1.32.2": gate.Due, "before control plane v1.33.1": gate.Due,
			// Everything has this version, and no object shows whether that was the target.
			"after cluster v1.31.4": gate.MaybeDue,
		}},
		"begun by Windlass": {begun(upgrade(from, gate.AfterClusterUpgrade), mid), map[string]gate.Dueness{
			"before cluster v1.33.1": gate.Due, "before control plane v1.32.2": gate.Due, "before control plane v1.33.1": gate.Due,
			"after cluster v1.31.4": gate.MaybeDue,
		}},
		"ended by Windlass, and a new target": {begun(upgrade(mid, gate.AfterClusterUpgrade), mid), map[string]gate.Dueness{
			"before cluster v1.33.1": gate.Due, "before control plane v1.33.1": gate.Due, "after cluster v1.32.2": gate.Due,
		}},
		"a step has been taken":              {upgrade(mid, whole...), map[string]gate.Dueness{"after control plane v1.32.2": gate.Due}},
		"a step is being taken":              {moving(upgrade(mid, whole...)), nil},
		"after the control plane":            {upgrade(mid, gate.AfterClusterUpgrade, gate.BeforeWorkersUpgrade, gate.AfterWorkersUpgrade), map[string]gate.Dueness{"before workers v1.32.2": gate.Due}},
		"workers follow":                     {upgrade(mid, gate.AfterClusterUpgrade, gate.AfterWorkersUpgrade), map[string]gate.Dueness{"after workers v1.32.2": gate.Due}},
		"workers follow to the end":          {upgrade(to, gate.AfterClusterUpgrade, gate.AfterWorkersUpgrade), map[string]gate.Dueness{"after workers v1.33.1": gate.Due}},
		"the last hook":                      {upgrade(to, gate.AfterClusterUpgrade), map[string]gate.Dueness{"after cluster v1.33.1": gate.Due}},
		"the last hook, and again in motion": {moving(upgrade(to, gate.AfterClusterUpgrade)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, hook := range hooks {
				for _, v := range []string{from, mid, to, "v1.34.0"} {
					step := gate.Step{Hook: hook, Version: version.MustParse(v)}
					due, why := test.upgrade.Due(step)
					if due != test.want[step.String()] {
						t.Errorf("%s: %d (%s), want %d", step, due, why, test.want[step.String()])
					}
					if (due == gate.NotDue) != (why != "") {
						t.Errorf("%s: %d because of %q", step, due, why)
					}
				}
			}
		})
	}
}

func moving(u gate.Upgrade) gate.Upgrade {
	u.Upgrading = true
	return u
}

func begun(u gate.Upgrade, target string) gate.Upgrade {
	u.Begun = version.MustParse(target)
	return u
}

// TestNothingIsDueWithoutARecord checks that a Cluster without pending hooks, at its target, makes no hook due.
func TestNothingIsDueWithoutARecord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		versions := []version.Version{version.MustParse("v1.31.4"), version.MustParse("v1.32.2"), version.MustParse("v1.32.2+rke2r1"), {}}
		u := gate.Upgrade{Target: rapid.SampledFrom(versions).Draw(t, "target"), Begun: rapid.SampledFrom(versions).Draw(t, "begun")}
		u.ControlPlane, u.Upgrading = u.Target, rapid.Bool().Draw(t, "upgrading")
		step := gate.Step{Hook: rapid.SampledFrom(hooks).Draw(t, "hook"), Version: rapid.SampledFrom(versions).Draw(t, "version")}
		if due, _ := u.Due(step); due != gate.NotDue {
			t.Errorf("%s is due", step)
		}
		// A hook that is due and that has to be recorded is no longer due once the record is removed.
		u.Pending = slices.DeleteFunc(slices.Clone(hooks), func(gate.Hook) bool { return rapid.Bool().Draw(t, "removed") })
		if due, _ := u.Due(step); due == gate.Due && !slices.Contains(u.Pending, step.Hook) {
			t.Errorf("%s is due without a record", step)
		}
	})
}
