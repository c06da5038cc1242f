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

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/guard"
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
