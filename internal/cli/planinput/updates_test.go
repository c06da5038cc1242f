package planinput

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/settings"
	"github.com/windlass-dev/windlass/pkg/plan"
	"github.com/windlass-dev/windlass/pkg/version"
)

// TestSettingsNotes: a plan notes what would not start, and packages of another version, but nothing that
// is ignored.
func TestSettingsNotes(t *testing.T) {
	t.Parallel()
	from, to := version.MustParse("v1.35.4"), version.MustParse("v1.36.1")
	use := func(c settings.Component, kind settings.Kind, name string) settings.Use {
		return settings.Use{Object: "KubeadmControlPlane c", Component: c, Kind: kind, Name: name}
	}
	notes := settingsNotes(from, plan.Plan{ControlPlane: []version.Version{to}}, doctor.Facts{Settings: []settings.Use{
		use(settings.Kubelet, settings.Field, "noSuchField"), use(settings.Kubelet, settings.Flag, "no-such-flag"),
		use(settings.Kubeadm, settings.Packages, "v1.36"), use(settings.Kubeadm, settings.Packages, "v1.35"),
	}})
	if len(notes) != 2 || !strings.Contains(notes[0], "--no-such-flag") ||
		!strings.HasPrefix(notes[1], "RemovedSettings: KubeadmControlPlane c: new machines install kubeadm and the kubelet of v1.35, and an upgrade to v1.36") {
		t.Errorf("%q", notes)
	}
}
