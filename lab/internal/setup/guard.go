package setup

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// guardConfiguration is that of config/webhook, for a guard at a URL: the API server asks it before Machines are created or deleted.
// caBundle must have signed its certificate.
func guardConfiguration(url string, caBundle []byte) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.GuardConfigurationName},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "guard.windlass.dev",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: caBundle},
			FailurePolicy:           new(admissionregistrationv1.Fail),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: v1alpha1.GuardLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{v1alpha1.GuardDisabled}},
			}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Delete},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{clusterv1.GroupVersion.Group}, APIVersions: []string{"v1beta2", "v1beta1"}, Resources: []string{"machines"},
				},
			}},
		}},
	}
}
