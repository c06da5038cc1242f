package planinput

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// TestOpenHostsForPreview asks what is covered, and holds that a preview reaches no host.
func TestOpenHostsForPreview(t *testing.T) {
	t.Parallel()
	machine := types.NamespacedName{Namespace: "default", Name: "m"}
	for _, kind := range []v1alpha1.InProcessKind{v1alpha1.KubeadmUpdater, v1alpha1.RKE2Updater, v1alpha1.K3sUpdater} {
		u := v1alpha1.Updater{Spec: v1alpha1.UpdaterSpec{InProcess: &v1alpha1.InProcessUpdater{Kind: kind, Host: &v1alpha1.HostConfig{
			SSH: &v1alpha1.HostSSH{SecretName: "s"}, Binaries: v1alpha1.HostBinaries{Bundle: "/bundle.tar"},
		}}}}
		opened, err := open(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		patches, err := opened.CanUpdateMachine(t.Context(), porttest.CanUpdateMachine(machine, porttest.UpdaterFrom, porttest.UpdaterTo))
		if err != nil || !strings.Contains(string(patches.Machine.Data), porttest.UpdaterTo) {
			t.Errorf("%s covers %s, %v", kind, patches.Machine.Data, err)
		}
		if got := opened.UpdateMachine(t.Context(), porttest.UpdateMachine(machine, porttest.UpdaterTo, "a")); got.Outcome != inplace.Unknown || !strings.Contains(got.Message, errPreview.Error()) {
			t.Errorf("%s answers %+v", kind, got)
		}
		u.Spec.InProcess.Host = nil
		if _, err := open(t.Context(), u); err == nil {
			t.Errorf("%s without host is no error", kind)
		}
	}
}

// The k8sd updater says in a preview what it covers, and changes nothing.
func TestK8sdInPreview(t *testing.T) {
	t.Parallel()
	for channel, covers := range map[string]bool{"{minor}-classic/stable": true, "": false} {
		u := v1alpha1.Updater{Spec: v1alpha1.UpdaterSpec{InProcess: &v1alpha1.InProcessUpdater{
			Kind: v1alpha1.K8sdUpdater, K8sd: &v1alpha1.K8sdConfig{Channel: channel, TLS: v1alpha1.K8sdTLS{SecretName: "{cluster}-k8sd"}},
		}}}
		opened, err := open(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		machine := types.NamespacedName{Namespace: "default", Name: "m"}
		patches, err := opened.CanUpdateMachine(t.Context(), porttest.CanUpdateMachine(machine, porttest.UpdaterFrom, porttest.UpdaterTo))
		if err != nil || (patches.Machine.Data != nil) != covers {
			t.Errorf("with channel %q it covers %s, %v", channel, patches.Machine.Data, err)
		}
	}
	for name, bad := range map[string]v1alpha1.InProcessUpdater{
		"no configuration": {Kind: v1alpha1.K8sdUpdater}, "nobody trusted": {Kind: v1alpha1.K8sdUpdater, K8sd: &v1alpha1.K8sdConfig{}}, "unknown": {Kind: "Magic"},
	} {
		if opened, err := open(t.Context(), v1alpha1.Updater{Spec: v1alpha1.UpdaterSpec{InProcess: &bad}}); err == nil {
			t.Errorf("%s: opened as %T", name, opened)
		}
	}
}
