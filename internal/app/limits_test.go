package app

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

func TestLookForPolicies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		installed []string
		want      bool
		err       string
	}{
		{},
		{installed: []string{"Updater"}},
		{installed: []string{"UpdatePolicy", "Updater"}, want: true},
		{installed: []string{"UpdatePolicy"}, err: "kubectl apply -k config/crd"},
	} {
		mapper := meta.NewDefaultRESTMapper(nil)
		for _, kind := range tt.installed {
			mapper.Add(v1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
		}
		got, err := lookForPolicies(mapper)
		if got != tt.want || (err != nil) != (tt.err != "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("with %q: %v, %v", tt.installed, got, err)
		}
	}
}

// unreadable is a cache that is never in step with the API server for one kind.
type unreadable struct {
	cache.Informers
	kind func(client.Object) bool
	read *[]string
}

func (u unreadable) GetInformer(ctx context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if u.kind(object) {
		<-ctx.Done()
		return nil, apierrors.NewTimeoutError("waiting for the informer", 0)
	}
	*u.read = append(*u.read, object.GetObjectKind().GroupVersionKind().Kind)
	return nil, nil
}

// TestFirstRead waits for the right to list and watch, but not for ever, and not for a manager that stops.
func TestFirstRead(t *testing.T) {
	t.Parallel()
	never := func(client.Object) bool { return false }
	updaters := func(o client.Object) bool { _, ok := o.(*v1alpha1.Updater); return ok }
	for name, tt := range map[string]struct {
		kind  func(client.Object) bool
		stops bool
		took  time.Duration
		err   string
	}{
		"all can be read":        {kind: never},
		"one cannot":             {kind: updaters, took: 5 * time.Minute, err: "reading updaters.windlass.dev for 5m0s: "},
		"the manager is stopped": {kind: updaters, stops: true, took: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.stops {
					time.AfterFunc(time.Minute, cancel)
				}
				var read []string
				start := time.Now()
				err := (&firstRead{cache: unreadable{kind: tt.kind, read: &read}, timeout: 5 * time.Minute}).Start(ctx)
				if (err != nil) != (tt.err != "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("%v", err)
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("it took %s, want %s", took, tt.took)
				}
				if want := []string{"", "", "Namespace"}; err == nil && !tt.stops && cmp.Diff(want, read) != "" {
					t.Errorf("it read %q", read)
				}
			})
		})
	}
}
