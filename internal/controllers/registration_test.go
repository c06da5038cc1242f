package controllers

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
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

// TestSharedRegistration has two extensions keep one ExtensionConfig, by mistake: they do not write all the
// time.
func TestSharedRegistration(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := runtimev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "windlass"}}
	config.Spec.ClientConfig.Service = runtimev1.ServiceReference{Namespace: "none", Name: "windlass-extension"}
	writes := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(config).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption,
		) error {
			writes++
			return c.Patch(ctx, o, p, options...)
		},
	}).Build()
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	extensions := []*RegistrationReconciler{
		{Client: c, Name: "windlass", Namespace: "a", Now: clock}, {Client: c, Name: "windlass", Namespace: "b", Now: clock},
	}
	for range 600 {
		for _, e := range extensions {
			result, err := e.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(config)})
			if err != nil || result.RequeueAfter > registrationPause {
				t.Fatalf("%+v, %v", result, err)
			}
		}
		now = now.Add(100 * time.Millisecond)
	}
	if writes < 10 || writes > 12 {
		t.Errorf("%d writes in a minute", writes)
	}
}
