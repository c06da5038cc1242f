package update

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// neverSynced is a cache that has no objects of kinds that a tenant chose.
type neverSynced struct {
	client.Client
	t *testing.T
}

func (c neverSynced) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if kind := object.GetObjectKind().GroupVersionKind(); kind.Group == "controlplane.cluster.x-k8s.io" {
		c.t.Errorf("%s is read from the cache, which may never sync", kind)
	}
	return c.Client.Get(ctx, key, object, options...)
}

// TestControlPlaneIsReadLive reads no object from the cache whose kind a Machine names.
func TestControlPlaneIsReadLive(t *testing.T) {
	t.Parallel()
	w, _ := newControlPlane(t)
	o := w.engine.Options
	o.Client = neverSynced{w.client, t}
	w.engine = New(o)
	if _, err := w.engine.CanUpdateMachine(t.Context(), canUpdateMachine(controlPlaneMachine("cp", from), controlPlaneMachine("cp", to))); err != nil {
		t.Error(err)
	}
}
