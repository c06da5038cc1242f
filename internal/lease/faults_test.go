package lease

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// neverBoth holds that two replicas never act at once, for as long as a test passes time in small parts.
func neverBoth(t *testing.T, d time.Duration, a, b *replica) {
	t.Helper()
	for range d / (RetryPeriod / 2) {
		pass(RetryPeriod / 2)
		if a.lock.Held() == nil && b.lock.Held() == nil {
			t.Fatal("both replicas act")
		}
	}
}

// TestVacated has a person remove the holder, or the Lease. The leader takes it again with its next renewal; if it
// cannot, the other replica leads once the lease would have expired.
func TestVacated(t *testing.T) {
	t.Parallel()
	leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
	for name, vacate := range map[string]func(*testing.T, *world) error{
		"the Lease is deleted": func(_ *testing.T, w *world) error {
			return w.client.Tracker().Delete(leases, "windlass-system", "extension.windlass.dev")
		},
		"the holder is removed": func(t *testing.T, w *world) error {
			t.Helper()
			lease := w.lease(t)
			lease.Spec.HolderIdentity = new("")
			return w.client.Tracker().Update(leases, lease, lease.Namespace)
		},
	} {
		for _, alive := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, leader alive: %t", name, alive), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					a := w.replica(t, "a")
					a.awaitLead(t)
					b := w.replica(t, "b")
					pass(time.Second)
					if !alive {
						a.stop(t)
					}
					if err := vacate(t, w); err != nil {
						t.Fatal(err)
					}
					neverBoth(t, 2*times.Duration, a, b)
					if (a.lock.Held() == nil) != alive || (b.lock.Held() == nil) == alive {
						t.Errorf("a: %v, b: %v", a.lock.Held(), b.lock.Held())
					}
				})
			})
		}
	}
}

// silent does not answer the requests that open watches.
type silent struct {
	coordinationv1client.LeaseInterface
}

func (silent) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSilentWatch has the API server not answer the watch of a replica, whose leader vanishes.
func TestSilentWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a := w.replica(t, "a")
		a.awaitLead(t)
		b := w.replicaWith(t, "b", func(l *Lock) { l.leases = silent{l.leases} })
		pass(time.Minute)
		a.stop(t)
		if took := b.awaitLead(t); took > times.Duration+2*times.RenewEvery {
			t.Errorf("b leads after %s", took)
		}
	})
}

// TestEdited has a person change a Lease between two renewals, so that the other replica could take it at
// once.
func TestEdited(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(*coordinationv1.LeaseSpec)
		// next is the replica that leads in the end.
		next string
	}{
		"a duration of a second":       {func(l *coordinationv1.LeaseSpec) { l.LeaseDurationSeconds = new(int32(1)) }, "a"},
		"no duration":                  {func(l *coordinationv1.LeaseSpec) { l.LeaseDurationSeconds = nil }, "a"},
		"given to the other":           {func(l *coordinationv1.LeaseSpec) { l.HolderIdentity = new("b") }, "b"},
		"given to the other, no times": {func(l *coordinationv1.LeaseSpec) { *l = coordinationv1.LeaseSpec{HolderIdentity: new("b")} }, "b"},
		"given to nobody":              {func(l *coordinationv1.LeaseSpec) { l.HolderIdentity = new("nobody") }, "b"},
		"nothing is left":              {func(l *coordinationv1.LeaseSpec) { *l = coordinationv1.LeaseSpec{} }, "a"},
	} {
		for after := 200 * time.Millisecond; after < times.RenewEvery; after += 600 * time.Millisecond {
			t.Run(fmt.Sprintf("%s after %s", name, after), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					a := w.replica(t, "a")
					a.awaitLead(t)
					b := w.replica(t, "b")
					pass(after)
					lease := w.lease(t)
					tt.edit(&lease.Spec)
					_, err := w.client.CoordinationV1().Leases(lease.Namespace).Update(t.Context(), lease, metav1.UpdateOptions{})
					if err != nil {
						t.Fatal(err)
					}
					neverBoth(t, 2*times.Duration, a, b)
					next := map[string]*replica{"a": a, "b": b}[tt.next]
					if err := next.lock.Held(); err != nil {
						t.Errorf("%s does not lead: %v", tt.next, err)
					}
				})
			})
		}
	}
}
