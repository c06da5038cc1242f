package controllers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard"
	"github.com/windlass-dev/windlass/internal/keyed"
)

// A process whose scope another one took over writes neither scope nor a status that promises
// anything.
func TestScopeOfAnotherProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newGuard(), newPolicy("a", v1alpha1.UpdateTarget{}), newCluster("prod", "KubeadmControlPlane"))
	w.reconcileAll(t, "ns")
	successor := &UpdatePolicyReconciler{Client: w.client, Live: w.client, Mapper: w.Mapper, Now: w.Now, Process: "two"}
	if _, err := successor.Reconcile(t.Context(), inNamespace("ns")); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(t.Context(), newPolicy("a")); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Create(t.Context(), newPolicy("b", v1alpha1.UpdateTarget{})); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Reconcile(t.Context(), inNamespace("ns")); !errors.Is(err, errNotOurs) {
		t.Errorf("the predecessor went on: %v", err)
	}
	if got := w.status(t, "b"); len(got.Conditions) != 0 {
		t.Errorf("the predecessor wrote %+v", got)
	}
}

// setScope changes the scope as somebody else does. With recreate, the configuration is a new
// object.
func (w *world) setScope(ctx context.Context, t require, expression string, recreate bool) {
	t.Helper()
	var config admissionregistrationv1.ValidatingWebhookConfiguration
	if err := w.client.Get(ctx, types.NamespacedName{Name: v1alpha1.GuardConfigurationName}, &config); err != nil {
		t.Fatalf("%v", err)
	}
	config.Webhooks[0].MatchConditions[0].Expression = expression
	config.Generation++
	var err error
	if recreate {
		err = w.client.Delete(ctx, &config)
		config.ResourceVersion, config.UID, config.Generation = "", "another", 1
		err = errors.Join(err, w.client.Create(ctx, &config))
	} else {
		err = w.client.Update(ctx, &config)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// A configuration that is restored from a backup has the scope of an earlier process, or an earlier
// one of this process. It is written anew, and a policy reports that it guards only where that is
// so.
func TestRestoredScope(t *testing.T) {
	t.Parallel()
	for _, writer := range []string{"900-zero", "zero", "1000-one"} {
		for _, recreate := range []bool{false, true} {
			t.Run(fmt.Sprintf("by %s, new object %t", writer, recreate), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, newGuard(), newPolicy("a", v1alpha1.UpdateTarget{}), newCluster("prod", "KubeadmControlPlane"),
					elsewhere(newPolicy("b", v1alpha1.UpdateTarget{})), elsewhere(newCluster("prod", "KubeadmControlPlane")))
				w.reconcileAll(t, "ns", "elsewhere")
				w.setScope(t.Context(), t, guard.NewScope("old").Expression(writer), recreate)
				w.reconcileAll(t, "ns")
				checkPromise(t.Context(), t, w, "ns")
				w.reconcileAll(t, "elsewhere", "old", "")
				got, writer, _ := w.registered(t.Context(), t)
				if !cmp.Equal(guard.Scope{"elsewhere", "ns"}, got) || writer != "1000-one" {
					t.Errorf("the scope is %v, by %s", got, writer)
				}
				checkPromise(t.Context(), t, w, "ns", "elsewhere")
				if !guards(w.status(t, "a")) {
					t.Error("the policy does not guard")
				}
			})
		}
	}
}

// A process that may not write the scope any more takes back what its policies reported, where the
// scope says otherwise.
func TestScopeOfAnotherProcessThatCoversLess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newGuard(), newPolicy("a", v1alpha1.UpdateTarget{}), newCluster("prod", "KubeadmControlPlane"))
	w.reconcileAll(t, "ns")
	w.setScope(t.Context(), t, guard.NewScope("else").Expression("1001-two"), false)
	if _, err := w.Reconcile(t.Context(), inNamespace("ns")); !errors.Is(err, errNotOurs) {
		t.Errorf("Reconcile = %v", err)
	}
	got := meta.FindStatusCondition(w.status(t, "a").Conditions, v1alpha1.GuardingCondition)
	if got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.GuardNotCoveringReason {
		t.Errorf("Guarding is %+v", got)
	}
}

// A process has a higher term than its predecessors, whatever its clock, and than those of a
// configuration that was replaced.
func TestTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newGuard())
	for i, want := range []string{"1000-p0", "1001-p1", "2000-p2", "2001-p3"} {
		process := &UpdatePolicyReconciler{
			Client: w.client, Live: w.client, Mapper: w.Mapper, Process: fmt.Sprint("p", i),
			Now: func() time.Time { return time.Unix([]int64{1000, 1000, 2000, 1500}[i], 0) },
		}
		for range 2 {
			if _, err := process.Reconcile(t.Context(), inNamespace("")); err != nil {
				t.Fatal(err)
			}
		}
		if _, writer, _ := w.registered(t.Context(), t); writer != want {
			t.Errorf("process %d is %s, want %s", i, writer, want)
		}
	}
}

// An etcd that is restored has the configuration at a lower generation, with a scope of this
// process or of another one. It looks like a cache that lags, but for longer: then the scope is
// written again, with all namespaces whose policies report that they guard, and so are the
// statuses.
func TestScopeOfARestoredEtcd(t *testing.T) {
	t.Parallel()
	for name, restored := range map[string]string{
		"of a predecessor":                     guard.NewScope("old").Expression("900-zero"),
		"of this process":                      guard.NewScope("old").Expression("1000-one"),
		"of this process, as it must be again": guard.NewScope("elsewhere", "ns").Expression("1000-one"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := newGuard()
			config.Generation = 20
			w := newWorld(t, config, newPolicy("a", v1alpha1.UpdateTarget{}), newCluster("prod", "KubeadmControlPlane"),
				elsewhere(newPolicy("b", v1alpha1.UpdateTarget{})), elsewhere(newCluster("prod", "KubeadmControlPlane")))
			now := time.Unix(1000, 0)
			w.Now = func() time.Time { return now }
			w.reconcileAll(t, "ns", "elsewhere")
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
				t.Fatal(err)
			}
			config.Generation, config.Webhooks[0].MatchConditions[0].Expression = 3, restored
			if err := w.client.Update(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			if result, err := w.Reconcile(t.Context(), inNamespace("ns")); err != nil || result.RequeueAfter != retryDelay {
				t.Errorf("a configuration that may just be an old one: %+v, %v", result, err)
			}
			added := newPolicy("new", v1alpha1.UpdateTarget{ClusterName: "other"})
			if err := w.client.Create(t.Context(), added); err != nil {
				t.Fatal(err)
			}
			now = now.Add(keyed.CacheLag)
			w.reconcileAll(t, "ns")
			checkPromise(t.Context(), t, w, "ns", "elsewhere")
			if !guards(w.status(t, "a")) || len(w.status(t, "new").Conditions) == 0 {
				t.Error("the statuses are not written")
			}
			w.reconcileAll(t, "elsewhere", "old", "")
			got, writer, _ := w.registered(t.Context(), t)
			if !cmp.Equal(guard.Scope{"elsewhere", "ns"}, got) || writer != "1000-one" {
				t.Errorf("the scope is %v, by %s", got, writer)
			}
		})
	}
}

// A cache that lags for longer than caches do is no restored etcd: nothing relies on the scope that it
// shows.
func TestScopeOfACacheThatStays(t *testing.T) {
	t.Parallel()
	config := newGuard()
	config.Generation = 20
	w := newWorld(t, config, newPolicy("a", v1alpha1.UpdateTarget{}),
		newCluster("prod", "KubeadmControlPlane"))
	now := time.Unix(1000, 0)
	w.Now = func() time.Time { return now }
	w.reconcileAll(t, "ns")
	var stale admissionregistrationv1.ValidatingWebhookConfiguration
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(config), &stale); err != nil {
		t.Fatal(err)
	}
	w.setScope(t.Context(), t, guard.NewScope("old").Expression("1000-one"), false)
	w.scope.generation = stale.Generation + 1
	w.Client = interceptor.NewClient(fakeWatch(t, w.client), interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption,
		) error {
			if config, is := object.(*admissionregistrationv1.ValidatingWebhookConfiguration); is {
				stale.DeepCopyInto(config)
				return nil
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	added := newPolicy("new", v1alpha1.UpdateTarget{ClusterName: "other"})
	if err := w.client.Create(t.Context(), added); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * keyed.CacheLag)
	result, err := w.Reconcile(t.Context(), inNamespace("ns"))
	if err != nil || result.RequeueAfter != retryDelay || len(w.status(t, "new").Conditions) > 0 {
		t.Errorf("Reconcile = %+v, %v; a status relies on a scope that is gone", result, err)
	}
}

// After the clock was set back, a status waits for API servers no longer than they take.
func TestPropagationAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newGuard(), newPolicy("a", v1alpha1.UpdateTarget{}), newCluster("prod", "KubeadmControlPlane"))
	now := time.Unix(1_000_000, 0)
	w.Now, w.Propagation = func() time.Time { return now }, 10*time.Second
	for _, passes := range []time.Duration{0, -12 * time.Hour, 9 * time.Second} {
		now = now.Add(passes)
		result, err := w.Reconcile(t.Context(), inNamespace("ns"))
		if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > w.Propagation {
			t.Errorf("after %s: %+v, %v", passes, result, err)
		}
		if len(w.status(t, "a").Conditions) > 0 {
			t.Errorf("after %s the status relies on a scope that API servers may not know", passes)
		}
	}
	now = now.Add(time.Second)
	w.reconcileAll(t, "ns")
	if !guards(w.status(t, "a")) {
		t.Error("the policy does not guard")
	}
}
