package management

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestProviderVersion: the oldest of a provider counts, it costs one request, and what cannot be read
// is not known.
func TestProviderVersion(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3", Kind: "Provider"}
	provider := func(namespace, kindOf, name, version string) client.Object {
		o := &unstructured.Unstructured{Object: map[string]any{"type": kindOf, "providerName": name, "version": version}}
		o.SetGroupVersionKind(kind)
		o.SetNamespace(namespace)
		o.SetName(kindOf + "-" + name)
		return o
	}
	kubeadm := func(namespace, version string) client.Object {
		return provider(namespace, KubeadmProvider.Type, KubeadmProvider.Name, version)
	}
	for name, tt := range map[string]struct {
		objects []client.Object
		refused error
		want    string
	}{
		"none":       {},
		"others":     {objects: []client.Object{provider("a", "BootstrapProvider", "kubeadm", "v1.13.3")}},
		"one":        {objects: []client.Object{kubeadm("a", "v1.13.3"), provider("b", "ControlPlaneProvider", "k3s", "v0.3.0")}, want: "v1.13.3"},
		"two":        {objects: []client.Object{kubeadm("a", "v1.13.3"), kubeadm("b", "v1.12.4")}, want: "v1.12.4"},
		"no version": {objects: []client.Object{kubeadm("a", "latest"), kubeadm("b", "v1.12.4")}},
		"no right":   {objects: []client.Object{kubeadm("a", "v1.13.3")}, refused: errors.New("forbidden")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme, requests := runtime.NewScheme(), 0
			scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
			scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind("ProviderList"), &unstructured.UnstructuredList{})
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tt.objects...).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					requests++
					if tt.refused != nil {
						return tt.refused
					}
					return c.List(ctx, list, options...)
				},
			}).Build()
			m := Cluster{Reader: reader}
			got := m.ProviderVersion(t.Context(), KubeadmProvider)
			if text := got.String(); got.IsZero() != (tt.want == "") || tt.want != "" && text != tt.want {
				t.Errorf("%q, want %q", text, tt.want)
			}
			if requests != 1 {
				t.Errorf("%d requests", requests)
			}
		})
	}
}
