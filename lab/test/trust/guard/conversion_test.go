package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

// converter is a conversion webhook. It remembers the most objects of one request.
type converter struct {
	mu             sync.Mutex
	requests, most int
}

// ServeHTTP implements http.Handler.
func (c *converter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.requests, c.most = c.requests+1, max(c.most, len(review.Request.Objects))
	c.mu.Unlock()
	answer := &apiextensionsv1.ConversionResponse{
		UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess},
	}
	for _, o := range review.Request.Objects {
		var fields unstructured.Unstructured
		if err := fields.UnmarshalJSON(o.Raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fields.SetAPIVersion(review.Request.DesiredAPIVersion)
		answer.ConvertedObjects = append(answer.ConvertedObjects, runtime.RawExtension{Object: &fields})
	}
	review.Request, review.Response = nil, answer
	_ = json.NewEncoder(w).Encode(review)
}

// TestConversionsHaveOneObject holds that the API server asks a conversion webhook about one object in
// each request, also for a list: the manager bounds the body of such a request.
func TestConversionsHaveOneObject(t *testing.T) {
	p := wire.Start(t)
	c := &converter{}
	authority := loopback.NewAuthority(t, "converter")
	server := httptest.NewUnstartedServer(c)
	server.TLS = authority.Server(t)
	server.StartTLS()
	t.Cleanup(server.Close)
	old, stored := schema.GroupVersionKind{Group: "trust.test", Version: "v1", Kind: "Thing"},
		schema.GroupVersionKind{Group: "trust.test", Version: "v2", Kind: "Thing"}
	p.CreateForTest(t, convertedKind(server.URL, authority.PEM, old.Version, stored.Version))
	namespace := p.Namespace(t)
	const objects = 30
	for i := range objects {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(stored)
		o.SetNamespace(namespace)
		o.SetName(fmt.Sprint("thing-", i))
		loopback.Eventually(t, "the kind is served", func() bool {
			return p.Client.Create(t.Context(), o) == nil
		})
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(old)
	ctx, cancel := context.WithTimeout(t.Context(), awaitTimeout)
	defer cancel()
	if err := p.Client.List(ctx, list); err != nil || len(list.Items) != objects {
		t.Fatalf("%d objects: %v", len(list.Items), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests < objects || c.most != 1 {
		t.Errorf("%d requests for %d objects, of at most %d objects each", c.requests, objects, c.most)
	}
}

// convertedKind is a kind with two versions that a webhook converts.
func convertedKind(url string, ca []byte, old, stored string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.trust.test"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "trust.test", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList",
			},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: ca},
					ConversionReviewVersions: []string{"v1"},
				},
			},
		},
	}
	for _, version := range []string{old, stored} {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: version == stored,
			Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
			},
		})
	}
	return crd
}
