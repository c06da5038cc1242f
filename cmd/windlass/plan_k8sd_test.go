package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/port/porttest"
)

// The k8sd updater says in a preview what it covers, and changes nothing.
func TestK8sdInPreview(t *testing.T) {
	t.Parallel()
	for channel, covers := range map[string]bool{"{minor}-classic/stable": true, "": false} {
		u := v1alpha1.Updater{Spec: v1alpha1.UpdaterSpec{InProcess: &v1alpha1.InProcessUpdater{
			Kind: v1alpha1.K8sdUpdater, K8sd: &v1alpha1.K8sdConfig{Channel: channel, TLS: v1alpha1.K8sdTLS{SecretName: "{cluster}-k8sd"}},
		}}}
		opened, err := openForPreview(t.Context(), u)
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
		if opened, err := openForPreview(t.Context(), v1alpha1.Updater{Spec: v1alpha1.UpdaterSpec{InProcess: &bad}}); err == nil {
			t.Errorf("%s: opened as %T", name, opened)
		}
	}
}
