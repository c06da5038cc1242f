package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// TestRegistrationPatch changes namespaces and nothing else, and only where they differ.
func TestRegistrationPatch(t *testing.T) {
	t.Parallel()
	service := func(namespace string) runtimev1.ClientConfig {
		return runtimev1.ClientConfig{Service: runtimev1.ServiceReference{Namespace: namespace, Name: "windlass-extension"}}
	}
	for name, tt := range map[string]struct {
		annotation string
		client     runtimev1.ClientConfig
		want       string
	}{
		"as installed":   {annotation: "windlass-system/tls", client: service("windlass-system")},
		"elsewhere":      {annotation: "old/tls", client: service("old"), want: `{"metadata":{"annotations":{"runtime.cluster.x-k8s.io/inject-ca-from-secret":"windlass-system/tls"}},"spec":{"clientConfig":{"service":{"namespace":"windlass-system"}}}}`},
		"the CA only":    {annotation: "old/tls", client: service("windlass-system"), want: `{"metadata":{"annotations":{"runtime.cluster.x-k8s.io/inject-ca-from-secret":"windlass-system/tls"}}}`},
		"no annotation":  {client: service("old"), want: `{"spec":{"clientConfig":{"service":{"namespace":"windlass-system"}}}}`},
		"a URL":          {client: runtimev1.ClientConfig{URL: "https://127.0.0.1:9443"}},
		"a broken value": {annotation: "tls", client: service("windlass-system")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := &runtimev1.ExtensionConfig{
				ObjectMeta: metav1.ObjectMeta{Name: "windlass", Annotations: map[string]string{}},
				Spec:       runtimev1.ExtensionConfigSpec{ClientConfig: tt.client},
			}
			if tt.annotation != "" {
				config.Annotations[runtimev1.InjectCAFromSecretAnnotation] = tt.annotation
			}
			got, err := registrationPatch(config, "windlass-system")
			if err != nil || string(got) != tt.want {
				t.Errorf("%s, %v; want %s", got, err, tt.want)
			}
		})
	}
}
