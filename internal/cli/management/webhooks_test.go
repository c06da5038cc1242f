package management

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/test/loopback"
)

// webhookWorld are the objects of a provider whose Certificate expires at a time, and its Issuer.
func webhookWorld(t *testing.T, notAfter time.Time, issuer bool) []client.Object {
	t.Helper()
	of := func(kind, name string, spec, status map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec, "status": status}}
		o.SetGroupVersionKind(certManager.WithKind(kind))
		o.SetNamespace("capv-system")
		o.SetName(name)
		return o
	}
	certificate := of("Certificate", "capv-serving-cert", map[string]any{
		"secretName": "capv-cert", "issuerRef": map[string]any{"kind": "Issuer", "name": "capv"},
	}, map[string]any{
		"notAfter": notAfter.Format(time.RFC3339), "renewalTime": notAfter.Add(-30 * 24 * time.Hour).Format(time.RFC3339),
	})
	request := of("CertificateRequest", "capv-serving-cert-5", nil, map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "False", "message": `Referenced "Issuer" not found`, "lastTransitionTime": "2026-10-17T03:35:13Z",
	}}})
	request.SetAnnotations(map[string]string{"cert-manager.io/certificate-name": "capv-serving-cert"})
	injected := map[string]string{"cert-manager.io/inject-ca-from": "capv-system/capv-serving-cert"}
	bundle := loopback.NewAuthority(t, "capv").Issue(t, "capv", notAfter).Certificate
	webhook := admissionregistrationv1.ValidatingWebhook{
		ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: bundle},
		Rules: []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{
			APIGroups: []string{"infrastructure.cluster.x-k8s.io"}, Resources: []string{"vspherevms"},
		}}},
	}
	elsewhere := webhook
	elsewhere.Rules = []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{
		APIGroups: []string{"apps"}, Resources: []string{"deployments"},
	}}}
	meta := metav1.ObjectMeta{Name: "capv", Annotations: injected}
	objects := []client.Object{
		certificate,
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{elsewhere, webhook},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "other"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{elsewhere},
		},
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{{ClientConfig: webhook.ClientConfig, Rules: webhook.Rules}},
		},
		definition("vspherevms.infrastructure.cluster.x-k8s.io", injected),
		definition("machines.cluster.x-k8s.io", nil), definition("widgets.example.com", injected),
	}
	if issuer {
		objects = append(objects, of("Issuer", "capv", nil, nil))
	} else {
		objects = append(objects, request)
	}
	return objects
}

var crd = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

func definition(name string, annotations map[string]string) client.Object {
	o := capi.MetadataOf(crd)
	o.SetName(name)
	o.SetAnnotations(annotations)
	return o
}

// TestWebhooks: an expired certificate is found with what keeps it from being renewed, without a look
// at Secrets; what may not be read is an error.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		left    time.Duration
		issuer  bool
		hidden  string
		want    []string
		problem string
	}{
		"expired": {left: -13 * day, want: []string{
			"Certificate capv-system/capv-serving-cert", `CertificateRequest capv-serving-cert-5, since 2026-10-17T03:35:13Z: Referenced "Issuer" not found`,
			"Issuer capv-system/capv does not exist", "by CustomResourceDefinition vspherevms.infrastructure.cluster.x-k8s.io, " +
				"MutatingWebhookConfiguration capv, ValidatingWebhookConfiguration capv",
		}},
		"valid":            {left: 65 * day, issuer: true},
		"no right to look": {left: 65 * day, issuer: true, hidden: "Certificate", problem: "reading Certificate capv-system/capv-serving-cert"},
		"nor at webhooks":  {left: 65 * day, hidden: "MutatingWebhookConfigurationList", problem: "reading MutatingWebhookConfigurations"},
		"nor at CRDs":      {left: 65 * day, hidden: "CustomResourceDefinitionList", problem: "reading CustomResourceDefinitions"},
		// The fault is known without what explains it.
		"expired, unexplained": {left: -13 * day, hidden: "CertificateRequestList", want: []string{"Issuer capv-system/capv does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse := func(o runtime.Object) error {
				kind := o.GetObjectKind().GroupVersionKind().Kind
				if _, ok := o.(*admissionregistrationv1.MutatingWebhookConfigurationList); ok {
					kind = "MutatingWebhookConfigurationList"
				}
				if _, ok := o.(*corev1.Secret); ok || strings.HasPrefix(kind, "Secret") {
					t.Error("it reads a Secret")
				}
				if tt.hidden != "" && kind == tt.hidden {
					return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", nil)
				}
				return nil
			}
			scheme := runtime.NewScheme()
			if err := admissionregistrationv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			for _, kind := range []string{"Certificate", "CertificateRequest", "Issuer"} {
				scheme.AddKnownTypeWithName(certManager.WithKind(kind), &unstructured.Unstructured{})
				scheme.AddKnownTypeWithName(certManager.WithKind(kind+"List"), &unstructured.UnstructuredList{})
			}
			scheme.AddKnownTypeWithName(crd, &metav1.PartialObjectMetadata{})
			scheme.AddKnownTypeWithName(crd.GroupVersion().WithKind("CustomResourceDefinitionList"), &metav1.PartialObjectMetadataList{})
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(webhookWorld(t, now.Add(tt.left), tt.issuer)...).
				WithInterceptorFuncs(interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
						if err := refuse(into); err != nil {
							return err
						}
						return c.Get(ctx, key, into, options...)
					},
					List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
						if err := refuse(into); err != nil {
							return err
						}
						return c.List(ctx, into, options...)
					},
				}).Build()
			got, err := Cluster{Reader: reader}.Webhooks(t.Context(), now)
			if (err != nil) != (tt.problem != "") || err != nil && !strings.HasPrefix(err.Error(), tt.problem) {
				t.Errorf("error %v, want %q", err, tt.problem)
			}
			faults := got.Faults(now)
			if diff := cmp.Diff(min(len(tt.want), 1), len(faults)); diff != "" {
				t.Fatalf("faults: %+v", faults)
			}
			for _, words := range tt.want {
				if !strings.Contains(faults[0].Subject+": "+faults[0].Message, words) {
					t.Errorf("it lacks %q: %+v", words, faults[0])
				}
			}
			if tt.problem == "" {
				var objects []string
				for _, c := range got.Callers {
					objects = append(objects, c.Object)
				}
				slices.Sort(objects)
				want := []string{
					"CustomResourceDefinition vspherevms.infrastructure.cluster.x-k8s.io",
					"MutatingWebhookConfiguration capv", "ValidatingWebhookConfiguration capv",
				}
				if diff := cmp.Diff(want, objects); diff != "" {
					t.Errorf("objects (-want +got):\n%s", diff)
				}
			}
		})
	}
}
