package app

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/port"
	"github.com/windlass-dev/windlass/internal/refusal"
)

// The pool holds as many updaters as there are objects.
func TestPoolForgetsDeletedUpdaters(t *testing.T) {
	t.Parallel()
	pool := newUpdaterPool(newLive(t), "")
	newObject := func(uid types.UID) *v1alpha1.Updater {
		return &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "u", UID: uid, Generation: 1}, Spec: v1alpha1.UpdaterSpec{
			Remote: &v1alpha1.RemoteUpdater{URL: "https://updater.example"},
		}}
	}
	for _, uid := range []types.UID{"a", "b", "c"} {
		if _, err := pool.Open(t.Context(), newObject(uid)); err != nil {
			t.Fatal(err)
		}
	}
	pool.forget(newObject("a"))
	pool.forget(toolscache.DeletedFinalStateUnknown{Obj: newObject("b")})
	pool.forget("something else")
	if _, kept := pool.open["c"]; !kept || len(pool.open) != 1 {
		t.Errorf("the pool holds %v, want c alone", pool.open)
	}
}

// TestRecordSerial checks that the highest serial stays recorded, in one write for each.
func TestRecordSerial(t *testing.T) {
	t.Parallel()
	writes := 0
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	u := &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "u"}}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(u).WithStatusSubresource(u).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}).Build()
	pool := newUpdaterPool(live, "")
	for _, step := range []struct{ serial, want int64 }{{7, 7}, {7, 7}, {5, 7}, {8, 8}, {7, 8}} {
		if got, err := pool.recordSerial(t.Context(), "u", step.serial); err != nil || got != step.want {
			t.Errorf("%d: got %d, %v, want %d", step.serial, got, err, step.want)
		}
	}
	if writes != 2 {
		t.Errorf("%d writes, want 2", writes)
	}
	if _, err := pool.recordSerial(t.Context(), "other", 9); err == nil {
		t.Error("an Updater that does not exist records a serial")
	}
}

// TestRecordSerialThatIsDropped holds that a serial which an older CRD drops does not count as recorded.
func TestRecordSerialThatIsDropped(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	u := &v1alpha1.Updater{ObjectMeta: metav1.ObjectMeta{Name: "u"}}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(u).WithStatusSubresource(u).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			written, ok := o.(*v1alpha1.Updater)
			if !ok {
				return fmt.Errorf("a %T is written", o)
			}
			u.DeepCopyInto(written)
			return nil
		},
	}).Build()
	_, err := newUpdaterPool(live, "").recordSerial(t.Context(), "u", 7)
	if dropped, is := errors.AsType[*refusal.DroppedError](err); !is || dropped.Fields[0] != "status.digestsSerial" {
		t.Errorf("the error is %v", err)
	}
}

// TestUpdaterOfARestoredSpec: an etcd that is restored repeats a generation with another spec,
// which counts. A write of the status changes nothing.
func TestUpdaterOfARestoredSpec(t *testing.T) {
	t.Parallel()
	pool := newUpdaterPool(newLive(t), "")
	open := func(version, url string) port.Updater {
		t.Helper()
		opened, err := pool.Open(t.Context(), &v1alpha1.Updater{
			ObjectMeta: metav1.ObjectMeta{Name: "u", UID: "1", Generation: 2, ResourceVersion: version},
			Spec:       v1alpha1.UpdaterSpec{Remote: &v1alpha1.RemoteUpdater{URL: url}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return opened
	}
	lost := open("900", "https://lost.example")
	if open("901", "https://lost.example") != lost {
		t.Error("a write of the status opens the updater again")
	}
	restored := open("500", "https://restored.example")
	if restored == lost || open("501", "https://restored.example") != restored {
		t.Error("the updater of a spec that was lost is used")
	}
}
