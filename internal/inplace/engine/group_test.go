package engine

import (
	"context"
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
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

// TestVersionsOfTheContract reads every object of a provider in the version that keeps the contract,
// whatever version an owner reference names, and asks nothing about kinds without such a version.
func TestVersionsOfTheContract(t *testing.T) {
	t.Parallel()
	question := func() *runtimehooksv1.CanUpdateMachineRequest {
		return canUpdateMachine(controlPlaneMachine("cp", from), controlPlaneMachine("cp", to))
	}
	w, _ := newControlPlane(t)
	m := w.machine("cp")
	m.OwnerReferences[0].APIVersion = "controlplane.cluster.x-k8s.io/v1beta1"
	w.must(w.client.Update(t.Context(), m))
	if _, err := w.engine.CanUpdateMachine(t.Context(), question()); err != nil {
		t.Error(err)
	}
	for _, kind := range []string{"devmachines.infrastructure", "devmachinetemplates.infrastructure", "kubeadmcontrolplanes.controlplane"} {
		for what, change := range map[string]func(client.Object) error{
			"deleted":    func(o client.Object) error { return w.client.Delete(t.Context(), o) },
			"unlabelled": func(o client.Object) error { o.SetLabels(nil); return w.client.Update(t.Context(), o) },
		} {
			w, _ = newControlPlane(t)
			definition := &apiextensionsv1.CustomResourceDefinition{}
			w.must(w.client.Get(t.Context(), client.ObjectKey{Name: kind + ".cluster.x-k8s.io"}, definition))
			w.must(change(definition))
			_, err := w.engine.CanUpdateMachine(t.Context(), question())
			if u, ok := errors.AsType[*UnaskedError](err); !ok || u.Reason != KindUnknown {
				t.Errorf("%s is %s: error %v", kind, what, err)
			}
		}
	}
}

// TestControlPlaneWithoutTemplate lets nobody choose the infrastructure machine of a
// KubeadmControlPlane that refers to no template.
func TestControlPlaneWithoutTemplate(t *testing.T) {
	t.Parallel()
	w, _ := newControlPlane(t)
	kcp := controlPlane()
	w.must(w.client.Get(t.Context(), client.ObjectKeyFromObject(kcp), kcp))
	unstructured.RemoveNestedField(kcp.Object, "spec", "machineTemplate")
	w.must(w.client.Update(t.Context(), kcp))
	_, err := w.engine.CanUpdateMachine(t.Context(), canUpdateMachine(controlPlaneMachine("cp", from), controlPlaneMachine("cp", to)))
	if u, ok := errors.AsType[*UnaskedError](err); !ok || u.Reason != DesiredDiffers {
		t.Errorf("error %v", err)
	}
}
