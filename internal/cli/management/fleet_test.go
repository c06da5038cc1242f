package management

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestFleetFacts: labels select Clusters, not their Machines. What may not be read is named, and hides
// no Cluster.
func TestFleetFacts(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	in := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "prod", Labels: map[string]string{"team": namespace}}
	}
	var objects []client.Object
	for _, namespace := range []string{"a", "b"} {
		machine := &clusterv1.Machine{ObjectMeta: in(namespace)}
		machine.Labels = nil
		objects = append(objects, machine, &clusterv1.Cluster{ObjectMeta: in(namespace)})
	}
	for name, tt := range map[string]struct {
		namespace, selector string
		refused             bool
		clusters, machines  int
		hidden              []string
	}{
		"all":           {clusters: 2, machines: 2},
		"one namespace": {namespace: "a", clusters: 1, machines: 1},
		"selected":      {selector: "team=b", clusters: 1, machines: 2},
		"hidden":        {refused: true, clusters: 2, hidden: []string{"UpgradeGates of all namespaces", "Machines of all namespaces"}},
	} {
		m := Cluster{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if _, clusters := list.(*clusterv1.ClusterList); !clusters && tt.refused {
					return errors.New("forbidden")
				}
				return c.List(ctx, list, options...)
			},
		}).Build()}
		selector, err := labels.Parse(tt.selector)
		if err != nil {
			t.Fatal(err)
		}
		f, err := m.FleetFacts(t.Context(), tt.namespace, selector)
		if err != nil || len(f.Clusters) != tt.clusters || len(f.Machines) != tt.machines {
			t.Errorf("%s: %d Clusters, %d Machines, %v", name, len(f.Clusters), len(f.Machines), err)
		}
		if diff := cmp.Diff(tt.hidden, f.Hidden, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRemembered: what is the same for all Clusters is asked once, errors and what belongs to a namespace
// each time.
func TestRemembered(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	asked, refused := 0, false
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "u", Labels: map[string]string{"a": "b"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}},
		&v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}},
	).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if asked++; refused {
				return errors.New("refused")
			}
			return c.List(ctx, list, options...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			asked++
			return c.Get(ctx, key, into, options...)
		},
	}).Build()
	m := Cluster{Reader: &rememberingReader{Reader: c, known: map[string]any{}}}
	refused = true
	if _, err := m.Updaters(t.Context()); err == nil {
		t.Error("a refused list is no error")
	}
	refused = false
	for name, read := range map[string]struct {
		times int
		read  func() (int, error)
	}{
		"Updaters": {1, func() (int, error) {
			found, err := m.Updaters(t.Context())
			return len(found), err
		}},
		"selected Updaters": {1, func() (int, error) {
			found, err := ListKnown[v1alpha1.Updater, v1alpha1.UpdaterList](t.Context(), m, "Updaters",
				Scope{Options: []client.ListOption{client.MatchingLabels{"a": "c"}}})
			return len(found) + 1, err
		}},
		"a namespace": {1, func() (int, error) {
			_, err := m.NamespaceLabels(t.Context(), "ns")
			return 1, err
		}},
		"UpdatePolicies": {2, func() (int, error) {
			found, err := m.UpdatePolicies(t.Context(), "ns")
			return len(found), err
		}},
	} {
		asked = 0
		for range 2 {
			if n, err := read.read(); n != 1 || err != nil {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
		if asked != read.times {
			t.Errorf("%s: asked %d times, not %d", name, asked, read.times)
		}
	}
}
