package app

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	coreadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/core/webhooks/conversion"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windlass-dev/windlass/internal/contract"
	"github.com/windlass-dev/windlass/internal/guard/guardwebhook"
)

// addWebhooks adds admission and conversion of all kinds, at the paths that Cluster API's own registrations name. Kinds whose
// feature gate is off are refused by their webhooks, so those are there in any case.
func (b *builder) addWebhooks(context.Context) error {
	conversion.SetAPIVersionGetter(func(ctx context.Context, kind schema.GroupKind) (string, error) {
		return contract.FetchAPIVersion(ctx, b.mgr.GetClient(), kind)
	})
	if err := b.addClusterWebhooks(); err != nil {
		return err
	}
	for _, w := range []struct {
		kind    string
		webhook interface{ SetupWebhookWithManager(mgr ctrl.Manager) error }
	}{
		{"Machine", &coreadmission.Machine{}},
		{"MachineSet", guardwebhook.MachineSets()},
		{"MachineDeployment", guardwebhook.MachineDeployments()},
		{"MachineDrainRule", &coreadmission.MachineDrainRule{}},
		{"MachinePool", &coreadmission.MachinePool{}},
		{"ClusterResourceSet", &coreadmission.ClusterResourceSet{}},
		{"ClusterResourceSetBinding", &coreadmission.ClusterResourceSetBinding{}},
		{"MachineHealthCheck", &coreadmission.MachineHealthCheck{}},
		{"ExtensionConfig", &coreadmission.ExtensionConfig{}},
		// Not from the cache, which would then hold all IPAddressClaims.
		{"IPAddress", &coreadmission.IPAddress{Client: b.mgr.GetAPIReader()}},
		{"IPAddressClaim", &coreadmission.IPAddressClaim{}},
	} {
		if err := w.webhook.SetupWebhookWithManager(b.mgr); err != nil {
			return fmt.Errorf("adding the webhooks of %s: %w", w.kind, err)
		}
	}
	return nil
}
