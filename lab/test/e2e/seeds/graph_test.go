package seeds_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// testNoPath removes the path from a chain while its control plane takes the first step. The step
// ends, and nothing else begins before the path is back.
func (c topology) testNoPath(ctx context.Context, t *testing.T) {
	t.Helper()
	v := listedVersions()
	c.checkListed(ctx, t)
	c.createLateClass(ctx, t)
	c.SetTarget(ctx, t, c.key, v[3])
	c.History.Await(ctx, t, "waiting for the first step", func() string {
		if at := c.History.Now(c.key).ControlPlane.Version; at != v[1] {
			return "the control plane is sent to " + at
		}
		return ""
	})
	// The class in use must keep what the chain needs, so the Cluster gets another class.
	checkRefused(t, c.setVersions(ctx, rig.ClassName, v[3:], client.DryRunAll),
		"it leaves no way from v1.3", "to v1.33.0, which is ahead of Cluster listed/no-path")
	checkRefused(t, c.setVersions(ctx, rig.ClassName, v[:3], client.DryRunAll),
		"v1.33.0 is the version of Cluster listed/no-path")
	c.Change(ctx, t, c.key, func(o *clusterv1.Cluster) { o.Spec.Topology.ClassRef.Name = lateClass })
	const problem = "there is no upgrade path to v1.33.0 in ClusterClass spec.kubernetesVersions: " +
		"v1.32: the list of versions offers no v1.32 version, and the control plane cannot skip a " +
		"minor on its way from v1.31.0 to v1.33.0. Fix: add a v1.32 version"
	c.awaitCondition(ctx, t, clusterv1.ClusterTopologyReconciledFailedReason, problem)
	c.AwaitGroup(ctx, t, c.key, "", v[1])
	const verdict = "is held by the plan; 1 step is done."
	printed := c.windlass(ctx, t, "status")
	if !strings.Contains(printed, verdict) || !strings.Contains(printed, problem) {
		t.Errorf("windlass status does not show %q and %q:\n%s", verdict, problem, printed)
	}

	stopped := c.revision(ctx, t)
	if err := c.setVersions(ctx, lateClass, v[2:]); err != nil {
		t.Fatal(err)
	}
	c.AwaitArrived(ctx, t, c.key, v[3])
	c.History.CheckOrder(t, c.key, rig.Ways{"": v[1:], workers: v[3:]}, 1)
	c.checkMoves(t, stopped, "control plane v1.31.0")
	c.checkOneMessage(t, "there is no upgrade path")
}

// checkListed checks that the webhook compares versions of Clusters with the list of their class.
func (c topology) checkListed(ctx context.Context, t *testing.T) {
	t.Helper()
	const problem = "the ClusterClass does not list it in spec.kubernetesVersions"
	accepted := "accepted: " + strings.Join(listedVersions(), ", ")
	other := rig.NewCluster(types.NamespacedName{Namespace: listed, Name: "other"}, "v1.32.7", 1)
	checkRefused(t, c.Client.Create(ctx, other, client.DryRunAll), problem, accepted)
	checkRefused(t, c.tryTarget(ctx, "v1.32.7"), problem, accepted)
	checkRefused(t, c.tryTarget(ctx, "v1.29.0"), problem, accepted)
	for _, to := range listedVersions() {
		if err := c.tryTarget(ctx, to); err != nil {
			t.Errorf("the target %s: %v", to, err)
		}
	}
}

// createLateClass creates lateClass, and waits until Clusters can have it. The webhook of Clusters
// accepts it for a Cluster with that target, wherever its control plane is.
func (p *plane) createLateClass(ctx context.Context, t *testing.T) {
	t.Helper()
	class := &clusterv1.ClusterClass{}
	key := client.ObjectKey{Namespace: listed, Name: rig.ClassName}
	if err := p.Client.Get(ctx, key, class); err != nil {
		t.Fatal(err)
	}
	late := &clusterv1.ClusterClass{Spec: class.Spec}
	late.Namespace, late.Name = listed, lateClass
	late.Spec.KubernetesVersions = listedVersions()[3:]
	if err := p.Client.Create(ctx, late); err != nil {
		t.Fatal(err)
	}
	notReady := func(class *clusterv1.ClusterClass) string {
		return setup.NotTrue(class.Status.Conditions, clusterv1.ClusterClassVariablesReadyCondition)
	}
	_, err := setup.Await(ctx, p.Client, &clusterv1.ClusterClassList{}, notReady,
		setup.Named(lateClass), client.InNamespace(listed))
	if err != nil {
		t.Fatal(err)
	}
}

// setVersions changes the list of a class in listed.
func (p *plane) setVersions(
	ctx context.Context, class string, versions []string, options ...client.PatchOption,
) error {
	spec := map[string]any{"kubernetesVersions": versions}
	data, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return fmt.Errorf("encoding versions: %w", err)
	}
	object := &clusterv1.ClusterClass{}
	object.Namespace, object.Name = listed, class
	return p.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, data), options...)
}

// tryTarget returns why the Cluster may not be sent to a version. It changes nothing.
func (c topology) tryTarget(ctx context.Context, to string) error {
	change := func(o *clusterv1.Cluster) { o.Spec.Topology.Version = to }
	return c.TryChange(ctx, c.key, change, client.DryRunAll)
}
