package main

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
		opened, err := openForPreview(t.Context(), u)
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
		if _, err := openForPreview(t.Context(), u); err == nil {
			t.Errorf("%s without host is no error", kind)
		}
	}
}
