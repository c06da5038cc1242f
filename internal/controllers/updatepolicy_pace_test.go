package controllers

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// flipped is a world with a policy by label, whose tenant flips the labels of MachineDeployments.
type flipped struct {
	*world
	now         time.Time
	deployments []*clusterv1.MachineDeployment
	// scopeWrites counts writes of the guard's scope.
	scopeWrites int
}

func newFlipped(t *testing.T, deployments int) *flipped {
	t.Helper()
	big := v1alpha1.UpdateTarget{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"hardware": "big"}}}
	f := &flipped{now: time.Unix(1000, 0)}
	objects := []client.Object{newGuard(), newPolicy("a", big), newCluster("prod", "KubeadmControlPlane"),
		elsewhere(newPolicy("b", v1alpha1.UpdateTarget{})), elsewhere(newCluster("prod", "KubeadmControlPlane"))}
	for i := range deployments {
		md := newDeployment("prod", fmt.Sprintf("md-%d", i))
		md.Labels = maps.Clone(md.Labels)
		f.deployments = append(f.deployments, md)
		objects = append(objects, md)
	}
	f.world = newWorld(t, objects...)
	f.start(t, "one")
	f.reconcileAll(t, "", "ns", "elsewhere")
	return f
}

// start starts a process that remembers nothing.
func (f *flipped) start(t *testing.T, process string) {
	t.Helper()
	f.UpdatePolicyReconciler = &UpdatePolicyReconciler{
		Live: f.client, Mapper: f.Mapper, Process: process,
		Now: func() time.Time { return f.now }, NarrowEvery: time.Minute,
	}
	f.Client = interceptor.NewClient(fakeWatch(t, f.client), interceptor.Funcs{
		Apply: func(
			ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, opts ...client.ApplyOption,
		) error {
			f.scopeWrites++
			return c.Apply(ctx, object, opts...)
		},
	})
}

// flip gives a MachineDeployment the label that the policy selects, or takes it away.
func (f *flipped) flip(t *testing.T, md *clusterv1.MachineDeployment) {
	t.Helper()
	if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(md), md); err != nil {
		t.Fatal(err)
	}
	if _, big := md.Labels["hardware"]; big {
		delete(md.Labels, "hardware")
	} else {
		md.Labels["hardware"] = "big"
	}
	if err := f.client.Update(t.Context(), md); err != nil {
		t.Fatal(err)
	}
}

// TestLabelFlipsCauseFewWrites: a tenant flips labels 1,000 times within an hour. The guard's scope is
// written a bounded number of times each minute. Whatever a status promises holds at each moment, and
// when the tenant stops, the scope becomes what policies keep.
func TestLabelFlipsCauseFewWrites(t *testing.T) {
	t.Parallel()
	const flips, minutes = 1000, 60
	for name, tt := range map[string]struct{ deployments, eachMinute int }{
		"of one group":         {1, 2},
		"of 40 groups in turn": {40, maxWidenings + 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlipped(t, tt.deployments)
			f.scopeWrites = 0
			for i := range flips {
				f.now = f.now.Add(minutes * time.Minute / flips)
				f.flip(t, f.deployments[i%len(f.deployments)])
				f.reconcileAll(t, "ns")
				checkPromise(t.Context(), t, f.world, "ns", "elsewhere")
			}
			t.Logf("%d flips within %d minutes: %d writes of the scope", flips, minutes, f.scopeWrites)
			if most := (minutes + narrowingsAtOnce) * tt.eachMinute; f.scopeWrites > most {
				t.Errorf("%d writes, want at most %d", f.scopeWrites, most)
			}
			result, err := f.Reconcile(t.Context(), inNamespace("ns"))
			if err != nil || result.RequeueAfter > time.Hour {
				t.Fatal(result, err)
			}
			f.now = f.now.Add(time.Minute)
			f.reconcileAll(t, "ns")
			f.checkExact(t, []string{"ns", "elsewhere"})
		})
	}
}

// TestNarrowingIsAskedFor: what waits becomes narrower after one period, in all namespaces by one
// write, without an event.
func TestNarrowingIsAskedFor(t *testing.T) {
	t.Parallel()
	f := newFlipped(t, 2)
	for f.scope.pace.untilNarrower(f.now, time.Minute) == 0 {
		f.scope.pace.narrowed(f.now, time.Minute)
	}
	for _, md := range f.deployments {
		f.flip(t, md)
	}
	f.reconcileAll(t, "ns")
	f.flip(t, f.deployments[0])
	f.reconcileAll(t, "ns")
	f.now = f.now.Add(20 * time.Second)
	f.flip(t, f.deployments[1])
	if err := f.client.Delete(t.Context(), elsewhere(newPolicy("b"))); err != nil {
		t.Fatal(err)
	}
	f.scopeWrites = 0
	for _, namespace := range []string{"ns", "elsewhere"} {
		result, err := f.Reconcile(t.Context(), inNamespace(namespace))
		if err != nil || result.RequeueAfter != 40*time.Second {
			t.Errorf("namespace %s: %+v, %v", namespace, result, err)
		}
	}
	if f.scopeWrites != 0 {
		t.Errorf("%d writes before the period is over", f.scopeWrites)
	}
	f.now = f.now.Add(40 * time.Second)
	f.reconcileAll(t, "elsewhere", "ns")
	if f.scopeWrites != 1 {
		t.Errorf("%d writes, want one for both namespaces", f.scopeWrites)
	}
	f.checkExact(t, []string{"ns", "elsewhere"})
}

// TestRestartBeforeNarrowing: what a process remembered to remove is lost. Promises hold, and the next
// process removes it.
func TestRestartBeforeNarrowing(t *testing.T) {
	t.Parallel()
	f := newFlipped(t, 1)
	for f.scope.pace.untilNarrower(f.now, time.Minute) == 0 {
		f.scope.pace.narrowed(f.now, time.Minute)
	}
	f.flip(t, f.deployments[0])
	f.reconcileAll(t, "ns")
	f.flip(t, f.deployments[0])
	f.reconcileAll(t, "ns")
	f.flip(t, f.deployments[0])
	f.reconcileAll(t, "ns")
	f.flip(t, f.deployments[0])
	f.start(t, "two")
	for range 2 {
		for _, namespace := range []string{"", "elsewhere", "ns"} {
			f.reconcileAll(t, namespace)
			checkPromise(t.Context(), t, f.world, "ns", "elsewhere")
		}
		f.now = f.now.Add(time.Minute)
	}
	f.checkExact(t, []string{"ns", "elsewhere"})
}
