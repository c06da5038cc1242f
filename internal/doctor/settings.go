package doctor

import (
	"fmt"
	"slices"

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
	found := settings.Accepted(settings.Check(upgrade, f.Settings), f.Accepted)
	for _, finding := range found {
		severity, accepted := Error, AcceptedBy(f, finding)
		if finding.Warning || accepted != "" {
			severity = Warning
		}
		into.add(severity, finding.Object, finding.Fix(), "%s: %s%s",
			finding.Path, finding.Message(), accepted)
	}
	gaps := upgrade.Gaps()
	for _, gap := range gaps {
		into.unknown(cluster, gap.Fix, "%s", gap.Message)
	}
	next := upgrade.To.Minor().Next()
	if len(found)+len(gaps) > 0 {
		return
	}
	if settings.Newest().Before(next) {
		into.ok(cluster, "%s has all settings of the components", upgrade.To.Minor())
		return
	}
	// Packages are changed with the version, not before.
	uses := slices.DeleteFunc(slices.Clone(f.Settings), func(u settings.Use) bool {
		return u.Kind == settings.Packages
	})
	later := settings.Upgrade{To: version.MustParse(next.String() + ".0")}
	for _, finding := range settings.Accepted(settings.Check(later, uses), f.Accepted) {
		into.add(Warning, finding.Object, finding.Fix(), "%s: the next upgrade would meet this: %s",
			finding.Path, finding.Message())
	}
	if len(into.list) == 0 {
		into.ok(cluster, "%s and %s have all settings of the components",
			upgrade.To.Minor(), next)
	}
}

// AcceptedBy returns, for the end of a message, which Updater accepts a finding by its name; empty for
// none. The Updater accepts it for the hosts that it updates, and nobody knows here whether the setting
// reaches others.
func AcceptedBy(f Facts, finding settings.Finding) string {
	for i := range f.Updaters {
		host := f.Updaters[i].Spec.InProcess
		if host != nil && host.Host != nil && slices.Contains(host.Host.AcceptedSettings, finding.ID()) {
			return fmt.Sprintf("; Updater %s accepts it for the hosts that it updates", f.Updaters[i].Name)
		}
	}
	return ""
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
