package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

var cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c-uid"}}

// written is a lock as it is written.
func written(machine string) string {
	return `{"machineName":"` + machine + `","machineNamespace":"ns"}`
}

func lockMap(information string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "c" + v1alpha1.InPlaceUpgradeLockSuffix, UID: "lock",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: "c-uid"}},
		},
		Data: map[string]string{v1alpha1.InPlaceUpgradeLockKey: information},
	}
}

// newClient holds Machines a and b of the Cluster, stranger of another Cluster in its namespace, and x in another namespace. A lock is added as it is written; empty adds none.
func newClient(t *testing.T, before string) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, m := range []struct{ namespace, name, cluster string }{{"ns", "a", "c"}, {"ns", "b", "c"}, {"ns", "stranger", "d"}, {"other", "x", "c"}} {
		builder.WithObjects(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: m.name, Labels: map[string]string{clusterv1.ClusterNameLabel: m.cluster}}})
	}
	if before != "" {
		builder.WithObjects(lockMap(before))
	}
	return builder.Build()
}

// content returns what is written in the lock; empty if there is none.
func content(t *testing.T, c client.Client) string {
	t.Helper()
	found := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(lockMap("")), found); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return ""
		}
		t.Fatal(err)
	}
	return found.Data[v1alpha1.InPlaceUpgradeLockKey]
}

// TestLock reads a lock in any state, has Machine a take it, and give it back.
func TestLock(t *testing.T) {
	t.Parallel()
	foreign, unnamed := `{"machineName":"x","machineNamespace":"other"}`, `{"machineName":"b"}`
	for name, tt := range map[string]struct {
		before, holder  string
		taken, released string
	}{
		"nobody":                 {taken: written("a")},
		"a machine that is gone": {before: written("gone"), taken: written("a")},
		"of another Cluster":     {before: written("stranger"), taken: written("a")},
		"itself":                 {before: written("a"), holder: "a", taken: written("a")},
		"another machine":        {before: written("b"), holder: "b", taken: written("b"), released: written("b")},
		"unreadable":             {before: "{", holder: "unknown (look at ", taken: "{", released: "{"},
		"empty":                  {before: "{}", holder: "unknown (look at ", taken: "{}", released: "{}"},
		"of another namespace":   {before: foreign, holder: "other/x", taken: foreign, released: foreign},
		"without a namespace":    {before: unnamed, holder: "b", taken: unnamed, released: unnamed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, tt.before)
			locks := newControlPlaneLocks(c, c)
			found, err := locks.Read(t.Context(), cluster)
			if err != nil || (tt.holder == "") != (found.Holder == "") || !strings.HasPrefix(found.Holder, tt.holder) {
				t.Errorf("the holder is %q, want %q; error %v", found.Holder, tt.holder, err)
			}
			if err := locks.Take(t.Context(), cluster, "a"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.taken, content(t, c)); diff != "" {
				t.Errorf("taken (-want +got):\n%s", diff)
			}
			if err := locks.Release(t.Context(), cluster, "a"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.released, content(t, c)); diff != "" {
				t.Errorf("released (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRace has b take the lock between what a reads and what it writes: a does not take it away, and reads that b holds it.
func TestRace(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{"free": "", "of a machine that is gone": written("gone")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, before)
			raced := false
			race := func(ctx context.Context) {
				if !raced {
					raced = true
					if err := newControlPlaneLocks(c, c).Take(ctx, cluster, "b"); err != nil {
						t.Error(err)
					}
				}
			}
			slow := interceptor.NewClient(c, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					race(ctx)
					return c.Create(ctx, o, opts...)
				},
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					race(ctx)
					return c.Delete(ctx, o, opts...)
				},
			})
			locks := newControlPlaneLocks(slow, slow)
			if err := locks.Take(t.Context(), cluster, "a"); err != nil {
				t.Fatal(err)
			}
			if found, err := locks.Read(t.Context(), cluster); err != nil || found.Holder != "b" || !raced {
				t.Errorf("the holder is %q, error %v", found.Holder, err)
			}
		})
	}
}

// TestReleaseOfAnothers leaves a lock that has changed hands since it was read.
func TestReleaseOfAnothers(t *testing.T) {
	t.Parallel()
	c := newClient(t, written("a"))
	slow := interceptor.NewClient(c, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := c.Update(ctx, lockMap(written("b"))); err != nil {
				t.Error(err)
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	if err := newControlPlaneLocks(slow, slow).Release(t.Context(), cluster, "a"); err != nil {
		t.Fatal(err)
	}
	if got := content(t, c); got != written("b") {
		t.Errorf("the lock says %q", got)
	}
}

// TestTakenLockBelongsToItsCluster: a deleted Cluster leaves none.
func TestTakenLockBelongsToItsCluster(t *testing.T) {
	t.Parallel()
	c := newClient(t, "")
	if err := newControlPlaneLocks(c, c).Take(t.Context(), cluster, "a"); err != nil {
		t.Fatal(err)
	}
	found := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(lockMap("")), found); err != nil {
		t.Fatal(err)
	}
	if found.Labels[clusterv1.ClusterNameLabel] != "c" || len(found.OwnerReferences) != 1 || found.OwnerReferences[0].UID != cluster.UID {
		t.Errorf("labels %v, owners %v", found.Labels, found.OwnerReferences)
	}
}

// TestLockOfAnotherNamespace: what a tenant writes in a lock does not tell whether an object of another namespace exists, and reads none.
func TestLockOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"x", "absent"} {
		c := newClient(t, `{"machineName":"`+name+`","machineNamespace":"other"}`)
		var read []string
		counted := interceptor.NewClient(c, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				read = append(read, key.String())
				return c.Get(ctx, key, o, opts...)
			},
		})
		found, err := newControlPlaneLocks(c, counted).Read(t.Context(), cluster)
		if err != nil || found.Holder != "other/"+name {
			t.Errorf("%s: the holder is %q, error %v", name, found.Holder, err)
		}
		if diff := cmp.Diff([]string{"ns/c" + v1alpha1.InPlaceUpgradeLockSuffix}, read); diff != "" {
			t.Errorf("%s: read (-want +got):\n%s", name, diff)
		}
	}
}

// TestLockOfNobody: a ConfigMap that the Cluster does not own is not trusted, is not taken over, and is not deleted.
func TestLockOfNobody(t *testing.T) {
	t.Parallel()
	other := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: "an older one"}
	impostor := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Cluster", Name: "c", UID: "c-uid"}
	for name, owners := range map[string][]metav1.OwnerReference{"no owner": nil, "another owner": {other}, "an owner of another kind": {impostor}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, "")
			lock := lockMap(written("gone"))
			lock.OwnerReferences = owners
			if err := c.Create(t.Context(), lock); err != nil {
				t.Fatal(err)
			}
			locks := newControlPlaneLocks(c, c)
			if err := locks.Take(t.Context(), cluster, "a"); err != nil {
				t.Fatal(err)
			}
			found, err := locks.Read(t.Context(), cluster)
			if err != nil || !strings.Contains(found.Holder, "Cluster c does not own") {
				t.Errorf("the holder is %q, error %v", found.Holder, err)
			}
			if err := locks.Release(t.Context(), cluster, "a"); err != nil {
				t.Fatal(err)
			}
			if got := content(t, c); got != written("gone") {
				t.Errorf("the lock says %q", got)
			}
		})
	}
}
