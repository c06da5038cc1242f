package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
)

// TestLockWithoutQuota has a namespace without room for the lock of its control plane. The Machine shows
// that, and is upgraded when there is room.
func TestLockWithoutQuota(t *testing.T) {
	t.Parallel()
	w := newUpgradeWorld(t)
	w.register()
	api := w.api
	w.api = interceptor.NewClient(api, interceptor.Funcs{
		Create: func(
			_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption,
		) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, object.GetName(),
				errors.New("exceeded quota: small"))
		},
	})
	w.restart()
	w.add(newMachine("cp", "kcp"))
	w.ask("cp", toVersion)
	if _, err := w.reconcile("cp"); err == nil {
		t.Fatal("the lock is taken, so this test shows nothing")
	}
	conditions := w.machine("cp").Status.Conditions
	c := meta.FindStatusCondition(conditions, v1alpha1.InPlaceUpgradeCondition)
	if c == nil || c.Reason != string(request.ReasonWriteRefused) ||
		!strings.Contains(c.Message, "exceeded quota") || !strings.Contains(c.Message, "Fix:") {
		t.Errorf("the Machine shows %+v", c)
	}
	w.api = api
	w.restart()
	w.untilDone("cp", toVersion)
}
