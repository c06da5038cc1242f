package doctor

import (
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/pkg/version"
)

// checkSettings finds settings that the components of the version which the Cluster is to have lack,
// and those that the next minor lacks.
func checkSettings(f Facts, _ []group, into *findings) {
	upgrade := settingsUpgrade(f)
	cluster := "Cluster " + f.Objects.Cluster.Name
	if upgrade.To.IsZero() || len(f.Settings) == 0 {
		into.ok(cluster, "its objects give the components no flags and no feature gates")
		return
	}
	if minor, unknown := upgrade.Unknown(); unknown {
		into.unknown(cluster, "compare the settings with the release notes, or "+
			"use a release of Windlass that knows this version", "%s", settings.NotKnown(minor))
		return
	}
	found := settings.Check(upgrade, f.Settings)
	for _, finding := range found {
		severity := Error
		if finding.Warning {
			severity = Warning
		}
		into.add(severity, finding.Object, finding.Fix(), "%s: %s", finding.Path, finding.Message())
	}
	next := upgrade.To.Minor().Next()
	if len(found) > 0 {
		return
	}
	if settings.Newest().Before(next) {
		into.ok(cluster, "%s has all settings of the components", upgrade.To.Minor())
		return
	}
	later := settings.Upgrade{To: version.MustParse(next.String() + ".0")}
	for _, finding := range settings.Check(later, f.Settings) {
		into.add(Warning, finding.Object, finding.Fix(), "%s: the next upgrade would meet this: %s",
			finding.Path, finding.Message())
	}
	if len(into.list) == 0 {
		into.ok(cluster, "%s and %s have all settings of the components",
			upgrade.To.Minor(), next)
	}
}

// settingsUpgrade is from what the control plane runs to what the Cluster is to have.
func settingsUpgrade(f Facts) settings.Upgrade {
	var u settings.Upgrade
	if f.Objects.ControlPlane != nil {
		u.From = capi.VersionAt(f.Objects.ControlPlane, "status", "version")
		u.To = capi.VersionAt(f.Objects.ControlPlane, "spec", "version")
	}
	if v, err := version.Parse(f.Objects.Cluster.Spec.Topology.Version); err == nil {
		u.To = v
	}
	if version.Compare(u.To, u.From) == version.Less {
		u.From = version.Version{}
	}
	return u
}
