package rig

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/lab/internal/history"
)

// KindCheck is a kind that a History of a Plane has in its Objects.Others, beside templates.
const KindCheck = "MachineHealthCheck"

// History is a history.History whose waits end the test when they fail.
type History struct{ *history.History }

// Follow begins a History of everything that the topology controller makes.
func Follow(ctx context.Context, t *testing.T, config *rest.Config, scheme *runtime.Scheme) History {
	t.Helper()
	template := func(group, kind string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: clusterv1.GroupVersion.Version, Kind: kind})
		return object
	}
	h, err := history.Follow(ctx, config, scheme, &clusterv1.MachineHealthCheck{},
		template("infrastructure.cluster.x-k8s.io", "DevMachineTemplate"), template("bootstrap.cluster.x-k8s.io", "KubeadmConfigTemplate"))
	if err != nil {
		t.Fatal(err)
	}
	return History{h}
}

// Await waits until check returns "", and otherwise says what is still missing when ctx ends. It checks after every change on the plane.
func (h History) Await(ctx context.Context, t *testing.T, what string, check func() (missing string)) {
	t.Helper()
	if err := h.Until(ctx, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// AwaitArrived waits until everything of a Cluster is at a version, and the engine has nothing left to do.
func (h History) AwaitArrived(ctx context.Context, t *testing.T, key types.NamespacedName, to string) {
	t.Helper()
	h.Await(ctx, t, fmt.Sprintf("waiting for %s at %s", key, to), func() string { return notArrived(h.Now(key), to) })
}

func notArrived(o history.Objects, to string) string {
	if o.Cluster.Version != to {
		return "the spec of the Cluster has " + o.Cluster.Version
	}
	if pending := o.Pending(); pending != "" {
		return pending
	}
	for name := range withControlPlane(o) {
		if missing := o.NotReady(name, to); missing != "" {
			return missing
		}
	}
	return ""
}
