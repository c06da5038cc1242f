package patches_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/patches"
	"github.com/windlass-dev/windlass/test/fakeapi"
)

// reconcileKey has the identity of a reconcile in a context.
type reconcileKey struct{}

func inReconcile(tb testing.TB, id string) (context.Context, context.CancelFunc) {
	tb.Helper()
	return context.WithCancel(context.WithValue(tb.Context(), reconcileKey{}, types.UID(id)))
}

func reconcileOf(ctx context.Context) types.UID {
	id, _ := ctx.Value(reconcileKey{}).(types.UID)
	return id
}

func machine() *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "m", Annotations: map[string]string{"mark": "", "other": "x"},
	}}
	m.Spec.ClusterName = "c"
	m.Status.Phase = "Running"
	conditions.Set(m, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready",
		LastTransitionTime: metav1.NewTime(time.Unix(1, 0)),
	})
	return m
}

type world struct {
	api    *fakeapi.API
	client *patches.Client
}

func newWorld(tb testing.TB) world {
	tb.Helper()
	api := fakeapi.New(tb, "", &clusterv1.Machine{})
	api.Put(machine())
	return world{api, patches.New(api.Client, api.Client, &clusterv1.Machine{}, reconcileOf, time.Now)}
}

func (w world) read(tb testing.TB) *clusterv1.Machine {
	tb.Helper()
	m := &clusterv1.Machine{}
	if err := w.api.Inner.Get(tb.Context(), client.ObjectKeyFromObject(machine()), m); err != nil {
		tb.Fatal(err)
	}
	return m
}

// reconcile reads the Machine, changes it, and writes it with the patch helper.
func reconcile(
	ctx context.Context, c client.Client, change func(*clusterv1.Machine) error,
) error {
	m := &clusterv1.Machine{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(machine()), m); err != nil {
		return err
	}
	helper, err := patch.NewHelper(m, c)
	if err != nil {
		return err
	}
	if err := change(m); err != nil {
		return err
	}
	return helper.Patch(ctx, m,
		patch.WithOwnedConditions{Conditions: []string{"Ready"}}, patch.WithStatusObservedGeneration{})
}

func updating(m *clusterv1.Machine) {
	conditions.Set(m, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "Updating",
		LastTransitionTime: metav1.NewTime(time.Unix(2, 0)),
	})
}

func TestRequests(t *testing.T) {
	tests := []struct {
		name   string
		change func(context.Context, world, *clusterv1.Machine) error
		// plain are the writes without this package, and want those with it.
		plain, want []string
	}{
		{
			name:   "nothing but the generation that was observed",
			change: func(context.Context, world, *clusterv1.Machine) error { return nil },
			plain:  nil, want: nil,
		},
		{
			name: "conditions and phase: one request",
			change: func(_ context.Context, _ world, m *clusterv1.Machine) error {
				updating(m)
				m.Status.Phase = "Updating"
				return nil
			},
			plain: []string{"patch-status Machine", "patch-status Machine"},
			want:  []string{"patch-status Machine"},
		},
		{
			name: "conditions, label and phase: status first, then the label",
			change: func(_ context.Context, _ world, m *clusterv1.Machine) error {
				updating(m)
				m.Status.Phase, m.Labels = "Updating", map[string]string{"a": "b"}
				return nil
			},
			plain: []string{"patch-status Machine", "patch Machine", "patch-status Machine"},
			want:  []string{"patch-status Machine", "patch Machine"},
		},
		{
			name: "an annotation that the reconcile has removed before is not removed again",
			change: func(ctx context.Context, w world, m *clusterv1.Machine) error {
				if err := removeMark(ctx, w.client, m); err != nil {
					return err
				}
				updating(m)
				m.Status.Phase = "Running again"
				return nil
			},
			want: []string{"patch Machine", "patch-status Machine"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			ctx, end := inReconcile(t, "1")
			defer end()
			err := reconcile(ctx, w.client, func(m *clusterv1.Machine) error { return test.change(ctx, w, m) })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, w.api.Take()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if test.plain == nil {
				return
			}
			w = newWorld(t)
			err = reconcile(t.Context(), w.client, func(m *clusterv1.Machine) error { return test.change(ctx, w, m) })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.plain, w.api.Take()); diff != "" {
				t.Errorf("writes outside a reconcile (-want +got):\n%s", diff)
			}
		})
	}
}

// removeMark removes an annotation as the Machine controller does: at once, with a copy of the
// Machine, and from the Machine, which the patch helper writes later.
func removeMark(ctx context.Context, c client.Client, m *clusterv1.Machine) error {
	before := m.DeepCopy()
	delete(m.Annotations, "mark")
	return c.Patch(ctx, m.DeepCopy(), client.MergeFrom(before))
}

// TestConflict has another writer change the Machine between the read and the write: both changes
// are kept.
func TestConflict(t *testing.T) {
	w := newWorld(t)
	ctx, end := inReconcile(t, "1")
	defer end()
	err := reconcile(ctx, w.client, func(m *clusterv1.Machine) error {
		updating(m)
		m.Status.Phase = "Updating"
		other := w.read(t)
		conditions.Set(other, metav1.Condition{Type: "Healthy", Status: metav1.ConditionTrue, Reason: "Healthy"})
		return w.api.Inner.Status().Update(t.Context(), other)
	})
	if err != nil {
		t.Fatal(err)
	}
	m := w.read(t)
	if m.Status.Phase != "Updating" || !conditions.IsFalse(m, "Ready") || !conditions.IsTrue(m, "Healthy") {
		t.Errorf("the status is %+v, want both changes", m.Status)
	}
}

// TestReadsOwnWrites has a cache that does not show the reconcile's own write yet: the next patch of
// the helper causes no conflict.
func TestReadsOwnWrites(t *testing.T) {
	w := newWorld(t)
	stale := w.read(t)
	cache := staleCache{w.api.Client, stale}
	ctx, end := inReconcile(t, "1")
	defer end()
	c := patches.New(cache, w.api.Client, &clusterv1.Machine{}, reconcileOf, time.Now)
	err := reconcile(ctx, c, func(m *clusterv1.Machine) error {
		updating(m)
		return removeMark(ctx, c, m)
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch Machine", "patch-status Machine"}, w.api.Take()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	got := &clusterv1.Machine{}
	next, endNext := inReconcile(t, "2")
	defer endNext()
	if err := c.Get(next, client.ObjectKeyFromObject(stale), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.read(t), got, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields")); diff != "" {
		t.Errorf("another reconcile reads what was written before (-want +got):\n%s", diff)
	}
	w.read(t).DeepCopyInto(stale) // The cache catches up.
	stale.Labels, stale.ResourceVersion = map[string]string{"of": "somebody"}, stale.ResourceVersion+"0"
	if err := c.Get(next, client.ObjectKeyFromObject(stale), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stale, got); diff != "" {
		t.Errorf("a newer version is in the cache (-want +got):\n%s", diff)
	}
}

// TestRestoredObjectIsRead has a cache that shows an older version for good, as after a restore of etcd:
// what was written counts while the cache may lag, and not after.
func TestRestoredObjectIsRead(t *testing.T) {
	w := newWorld(t)
	restored := w.read(t)
	now := time.Now()
	cache := staleCache{w.api.Client, restored}
	c := patches.New(cache, w.api.Client, &clusterv1.Machine{}, reconcileOf, func() time.Time { return now })
	ctx, end := inReconcile(t, "1")
	defer end()
	if err := reconcile(ctx, c, func(m *clusterv1.Machine) error { return removeMark(ctx, c, m) }); err != nil {
		t.Fatal(err)
	}
	written := w.read(t).ResourceVersion
	for i, want := range []string{written, written, restored.ResourceVersion, restored.ResourceVersion} {
		got := &clusterv1.Machine{}
		next, endNext := inReconcile(t, fmt.Sprint("read ", i))
		if err := c.Get(next, client.ObjectKeyFromObject(restored), got); err != nil {
			t.Fatal(err)
		}
		endNext()
		if got.ResourceVersion != want {
			t.Errorf("read %d has version %s, want %s", i+1, got.ResourceVersion, want)
		}
		now = now.Add(keyed.CacheLag / 2)
	}
}

// TestStaleCache has a cache that does not show what another writer has written: the helper's second
// attempt is the last one.
func TestStaleCache(t *testing.T) {
	w := newWorld(t)
	cache := staleCache{w.api.Client, w.read(t)}
	other := w.read(t)
	other.Labels = map[string]string{"of": "somebody"}
	if err := w.api.Inner.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	ctx, end := inReconcile(t, "1")
	defer end()
	c := patches.New(cache, w.api.Client, &clusterv1.Machine{}, reconcileOf, time.Now)
	if err := reconcile(ctx, c, func(m *clusterv1.Machine) error { updating(m); return nil }); err != nil {
		t.Fatal(err)
	}
	want := []string{"patch-status Machine", "patch-status Machine"}
	if diff := cmp.Diff(want, w.api.Take()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

type staleCache struct {
	client.Client
	machine *clusterv1.Machine
}

func (c staleCache) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	m, ok := o.(*clusterv1.Machine)
	if !ok {
		return fmt.Errorf("the cache has Machines, and no %T", o)
	}
	c.machine.DeepCopyInto(m)
	return nil
}

// TestFailedWrite fails the patch of conditions. What follows is sent, unless an answer shows that
// the API server has carried it out.
func TestFailedWrite(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(t)
		ctx, end := inReconcile(t, "1")
		failure := errors.New("no answer")
		err := reconcile(ctx, w.client, func(m *clusterv1.Machine) error {
			if err := removeMark(ctx, w.client, m); err != nil {
				return err
			}
			w.api.Fail = func(verb, _ string) (error, bool) {
				if verb == "patch-status" {
					w.api.Fail = nil
					return failure, lost
				}
				return nil, false
			}
			updating(m)
			m.Status.Phase = "Updating"
			return nil
		})
		if !errors.Is(err, failure) {
			t.Errorf("the error is %v, want that of the write", err)
		}
		want := []string{"patch Machine", "patch-status Machine", "patch Machine"}
		if !lost {
			want = append(want, "patch-status Machine")
		}
		if diff := cmp.Diff(want, w.api.Take()); diff != "" {
			t.Errorf("writes, lost=%t (-want +got):\n%s", lost, diff)
		}
		end()
	}
}

// TestSameResult compares with the patch helper on its own: what is stored is the same, and there
// are never more writes.
func TestSameResult(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		phase := rapid.SampledFrom([]string{"Running", "Updating", ""}).Draw(t, "phase")
		ready := rapid.SampledFrom([]metav1.ConditionStatus{"True", "False"}).Draw(t, "ready")
		legacy, label := rapid.Bool().Draw(t, "legacy"), rapid.Bool().Draw(t, "label")
		unmark, provider := rapid.Bool().Draw(t, "unmark"), rapid.Bool().Draw(t, "provider")
		change := func(m *clusterv1.Machine) error {
			m.Status.Phase = phase
			conditions.Set(m, metav1.Condition{
				Type: "Ready", Status: ready, Reason: string(ready), LastTransitionTime: metav1.NewTime(time.Unix(2, 0)),
			})
			if legacy {
				//nolint:staticcheck // Cluster API writes this form as long as it serves API v1beta1.
				v1beta1conditions.Set(m, &clusterv1.Condition{
					Type: "Ready", Status: "True", LastTransitionTime: metav1.NewTime(time.Unix(3, 0)),
				})
			}
			if label {
				m.Labels = map[string]string{"a": "b"}
			}
			if provider {
				m.Spec.ProviderID = "x://y"
			}
			if unmark {
				delete(m.Annotations, "mark")
			}
			return nil
		}
		do := func(id string) (*clusterv1.Machine, int) {
			w := newWorld(tb)
			ctx, end := context.WithCancel(context.WithValue(tb.Context(), reconcileKey{}, types.UID(id)))
			defer end()
			if err := reconcile(ctx, w.client, change); err != nil {
				t.Fatal(err)
			}
			m := &clusterv1.Machine{}
			if err := w.api.Inner.Get(ctx, client.ObjectKeyFromObject(machine()), m); err != nil {
				t.Fatal(err)
			}
			return m, len(w.api.Take())
		}
		plain, writes := do("")
		got, fewer := do("1")
		ignored := cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "ManagedFields", "UID")
		if diff := cmp.Diff(plain, got, ignored); diff != "" {
			t.Errorf("what is stored (-helper alone +here):\n%s", diff)
		}
		if fewer > writes {
			t.Errorf("%d writes, and %d by the helper alone", fewer, writes)
		}
	})
}
