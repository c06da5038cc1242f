package preflightcmd

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/internal/cli/management"
	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/preflight"
)

// serving is an ExtensionConfig that serves a hook in namespaces with these labels; nil means in all.
func serving(name, hook string, namespaces map[string]string) *runtimev1.ExtensionConfig {
	e := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if namespaces != nil {
		e.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: namespaces}
	}
	e.Status.Handlers = []runtimev1.ExtensionHandler{{
		Name: "handler." + name, RequestHook: runtimev1.GroupVersionHook{Hook: hook},
	}}
	return e
}

// TestExtensions: a preflight fails if Cluster API would refuse to choose between two extensions, and
// names the rights that it lacks to know.
func TestExtensions(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, runtimev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": "a"}}}
	one := serving("one", "CanUpdateMachine", nil)
	found := func(o clustercheck.Outcome, subject string) [][2]string {
		return [][2]string{{string(o), subject}}
	}
	for name, tt := range map[string]struct {
		extensions []client.Object
		// forbidden is a kind that may not be read.
		forbidden string
		want      [][2]string
	}{
		"none": {nil, "", found(clustercheck.Passed, "")},
		"one":  {[]client.Object{one}, "Namespace", found(clustercheck.Passed, "")},
		"of a hook each": {
			[]client.Object{one, serving("two", "UpdateMachine", nil)}, "", found(clustercheck.Passed, ""),
		},
		"of one hook": {
			[]client.Object{one, serving("two", "CanUpdateMachine", map[string]string{"team": "a"})}, "",
			found(clustercheck.Failed, "hook CanUpdateMachine"),
		},
		"for other namespaces": {
			[]client.Object{one, serving("two", "CanUpdateMachine", map[string]string{"team": "b"})}, "",
			found(clustercheck.Passed, ""),
		},
		"not listed": {[]client.Object{one}, "ExtensionConfigList", found(clustercheck.NotChecked, "")},
		"in an unknown namespace": {
			[]client.Object{one, serving("two", "CanUpdateMachine", map[string]string{"team": "a"})},
			"Namespace", found(clustercheck.NotChecked, ""),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse := func(o any) error {
				if kind := kindOf(scheme, o); kind == tt.forbidden {
					return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", nil)
				}
				return nil
			}
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(namespace).WithObjects(tt.extensions...).
				WithInterceptorFuncs(interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
						if err := refuse(o); err != nil {
							return err
						}
						return c.Get(ctx, key, o, opts...) //nolint:wrapcheck // It is this method.
					},
					List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
						if err := refuse(l); err != nil {
							return err
						}
						return c.List(ctx, l, opts...) //nolint:wrapcheck // It is this method.
					},
				}).Build()
			m := management.Cluster{Reader: reader, Scheme: scheme}
			var got [][2]string
			for _, f := range preflight.CheckExtensions(extensionsOf(t.Context(), m, "ns")) {
				if f.ID != preflight.UpdateExtensions {
					t.Errorf("a finding of %s", f.ID)
				}
				got = append(got, [2]string{string(f.Outcome), f.Subject})
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func kindOf(scheme *runtime.Scheme, o any) string {
	object, _ := o.(runtime.Object)
	kinds, _, err := scheme.ObjectKinds(object)
	if err != nil {
		return err.Error()
	}
	return kinds[0].Kind
}
