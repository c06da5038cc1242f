package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// TestWebhooksRefuseLoops checks that windlass manager serves our webhooks of MachineDeployments
// and MachineSets: Cluster API's own ones execute any template of names.
func TestWebhooksRefuseLoops(t *testing.T) {
	t.Parallel()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://localhost:1"}, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (apimeta.RESTMapper, error) {
			return apimeta.NewDefaultRESTMapper(nil), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&builder{mgr: mgr}).addWebhooks(t.Context()); err != nil {
		t.Fatal(err)
	}
	const object = `{"spec": {"machineNaming": {"template": "{{ .random }}{{ range 3 }}{{ end }}"}}}`
	for _, kind := range []string{"MachineDeployment", "MachineSet"} {
		body, err := json.Marshal(admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{
				APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview",
			},
			Request: &admissionv1.AdmissionRequest{
				UID: "1", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)},
				Kind: metav1.GroupVersionKind(clusterv1.GroupVersion.WithKind(kind)),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		path := "/validate-cluster-x-k8s-io-v1beta2-" + strings.ToLower(kind)
		request := httptest.NewRequestWithContext(
			t.Context(), http.MethodPost, path, strings.NewReader(string(body)))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		mgr.GetWebhookServer().WebhookMux().ServeHTTP(answer, request)
		if !strings.Contains(answer.Body.String(), "machineNaming.template has {{range 3}}") {
			t.Errorf("%s: %s", kind, answer.Body)
		}
	}
}
