package objects_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capicontroller "sigs.k8s.io/cluster-api/util/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/pool/objects"
)

// store is Cluster API's memory of what must be seen before a reconcile, and an API server at a version.
type store struct {
	*capicontroller.FakeController
	client.Reader

	mu      sync.Mutex
	version int
	fault   error
	reads   int
	// waits are the versions that an object waits for.
	waits map[types.UID]string
}

func (s *store) DeferNextReconcileUntilCacheUpToDate(
	object metav1.Object, _ capicontroller.GroupVersionKindType, version string,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits[object.GetUID()] = version
}

func (s *store) ClearConsistencyStore(_ client.ObjectKey, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waits, uid)
}

func (s *store) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	list.SetResourceVersion(strconv.Itoa(s.version))
	return s.fault
}

func (s *store) counts() (waits, reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waits), s.reads
}

// TestWaitsEnd has a cache that does not show a write, for different reasons.
func TestWaitsEnd(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		// version is what the API server has reached, and written is what the object waits for.
		version, written int
		fault            error
		// reconciled has the cache show the write.
		reconciled bool
		waits      int
		reads      int
	}{
		"the API server was restored":    {version: 90, written: 100, waits: 0, reads: 1},
		"the cache is behind":            {version: 100, written: 100, waits: 1, reads: 3},
		"the API server does not answer": {version: 90, written: 100, fault: errors.New("away"), waits: 1, reads: 3},
		"the cache showed it":            {version: 100, written: 100, reconciled: true, waits: 1, reads: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &store{
					FakeController: capicontroller.NewFakeController(), version: tt.version, fault: tt.fault,
					waits: map[types.UID]string{},
				}
				w := objects.NewWaits(s)
				w.Controller = s
				md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "md", UID: "uid"}}
				kind := capicontroller.StructuredObject(clusterv1.GroupVersion, "MachineSet")
				w.DeferNextReconcileUntilCacheUpToDate(md, kind, strconv.Itoa(tt.written))
				request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(md)}
				nothing := reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
					return ctrl.Result{}, nil
				})
				if tt.reconciled {
					if _, err := w.Reconciler(nothing).Reconcile(t.Context(), request); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(3*keyed.CacheLag + time.Second) //nolint:forbidigo // synctest's clock.
				synctest.Wait()
				if waits, reads := s.counts(); waits != tt.waits || reads != tt.reads {
					t.Errorf("%d waits are left after %d reads, want %d and %d", waits, reads, tt.waits, tt.reads)
				}
				if _, err := w.Reconciler(nothing).Reconcile(t.Context(), request); err != nil {
					t.Fatal(err) // It ends the timer.
				}
			})
		})
	}
}
