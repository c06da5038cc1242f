package recordlimit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/record"
	"github.com/windlass-dev/windlass/internal/recordlimit"
)

// TestClientRefusesWhatIsTooLong: each way to write annotations is bounded, and nothing is stored
// beyond the bound.
func TestClientRefusesWhatIsTooLong(t *testing.T) {
	t.Parallel()
	const key = v1alpha1.LastUpdateAnnotation
	limit := record.LimitOf(key)
	for name, write := range map[string]func(client.Client, *clusterv1.Machine, string) error{
		"create": func(c client.Client, _ *clusterv1.Machine, value string) error {
			return c.Create(t.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
				Namespace: "a", Name: "new", Annotations: map[string]string{key: value},
			}})
		},
		"update": func(c client.Client, m *clusterv1.Machine, value string) error {
			m.Annotations = map[string]string{key: value}
			return c.Update(t.Context(), m)
		},
		"patch": func(c client.Client, m *clusterv1.Machine, value string) error {
			before := m.DeepCopy()
			m.Annotations = map[string]string{key: value}
			return c.Patch(t.Context(), m, client.MergeFrom(before))
		},
		"raw patch": func(c client.Client, m *clusterv1.Machine, value string) error {
			data := []byte(`{"metadata":{"annotations":{"gone":null,"` + key + `":"` + value + `"}}}`)
			return c.Patch(t.Context(), m, client.RawPatch(types.MergePatchType, data))
		},
		"apply": func(c client.Client, m *clusterv1.Machine, value string) error {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
			u.SetNamespace(m.Namespace)
			u.SetName(m.Name)
			u.SetAnnotations(map[string]string{key: value})
			return c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("a"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			err := clusterv1.AddToScheme(scheme)
			if err != nil {
				t.Fatal(err)
			}
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m"}}
			c := recordlimit.Bound(fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).Build())
			stored := func() (lengths []int) {
				var list clusterv1.MachineList
				if err := c.List(t.Context(), &list); err != nil {
					t.Fatal(err)
				}
				for i := range list.Items {
					if value := list.Items[i].Annotations[key]; value != "" {
						lengths = append(lengths, len(value))
					}
				}
				return lengths
			}
			read := func() *clusterv1.Machine {
				got := &clusterv1.Machine{}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), got); err != nil {
					t.Fatal(err)
				}
				return got
			}
			err = write(c, read(), strings.Repeat("x", limit+1))
			var long *record.TooLongError
			if !errors.As(err, &long) || long.Key != key || long.Bytes != limit+1 || long.Limit != limit ||
				!strings.Contains(err.Error(), "Machine a/") || !strings.Contains(err.Error(), " Fix: ") {
				t.Errorf("one byte too long: error %v", err)
			}
			if got := stored(); len(got) > 0 {
				t.Errorf("one byte too long: stored %d", got)
			}
			if err := write(c, read(), strings.Repeat("x", limit)); err != nil {
				t.Errorf("as long as allowed: %v", err)
			}
			if got := stored(); !slices.Equal(got, []int{limit}) {
				t.Errorf("as long as allowed: stored %d, want %d", got, limit)
			}
		})
	}
}

// TestClientKeepsWhatIsStored: an annotation beyond its limit that is stored refuses no write of
// something else, and no way to write may change it to another such value.
func TestClientKeepsWhatIsStored(t *testing.T) {
	t.Parallel()
	const key = v1alpha1.LastUpdateAnnotation
	long := strings.Repeat("x", record.LimitOf(key)+1)
	for name, write := range map[string]func(client.Client, *clusterv1.Machine) error{
		"update": func(c client.Client, m *clusterv1.Machine) error { return c.Update(t.Context(), m) },
		"patch": func(c client.Client, m *clusterv1.Machine) error {
			before := &clusterv1.Machine{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), before); err != nil {
				return err
			}
			return c.Patch(t.Context(), m, client.MergeFrom(before))
		},
		"apply": func(c client.Client, m *clusterv1.Machine) error {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
			u.SetNamespace(m.Namespace)
			u.SetName(m.Name)
			u.SetAnnotations(m.Annotations)
			u.SetLabels(m.Labels)
			return c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("a"), client.ForceOwnership)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := clusterv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
				Namespace: "a", Name: "m", Annotations: map[string]string{key: long},
			}}
			c := recordlimit.Bound(fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).Build())
			read := func() *clusterv1.Machine {
				got := &clusterv1.Machine{}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), got); err != nil {
					t.Fatal(err)
				}
				return got
			}
			next := read()
			next.Labels = map[string]string{"a": "b"}
			if err := write(c, next); err != nil {
				t.Errorf("another field: %v", err)
			}
			if got := read(); got.Labels["a"] != "b" || got.Annotations[key] != long {
				t.Errorf("stored labels %v and %d bytes", got.Labels, len(got.Annotations[key]))
			}
			next = read()
			next.Annotations[key] = long + "y"
			var refused *record.TooLongError
			if err := write(c, next); !errors.As(err, &refused) {
				t.Errorf("another value: error %v", err)
			}
			if got := read(); got.Annotations[key] != long {
				t.Errorf("stored %d bytes", len(got.Annotations[key]))
			}
		})
	}
}
