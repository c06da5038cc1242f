// Package shards holds what several processes with different watch filters do beside each other.
package shards

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

func TestMain(m *testing.M) { wire.Main(m) }

// patience is far beyond what a busy machine needs.
const patience = time.Minute

const (
	toAnnotation     = v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeTo
	statusAnnotation = v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeStatus
)

// TestManagers runs a manager for each of two shards. Each works on the Clusters of its shard, also after a change, and
// writes to no object of the other one. A Cluster of no shard is left alone.
func TestManagers(t *testing.T) {
	plane := wire.Start(t)
	namespaces := map[string]string{"a": plane.Namespace(t), "b": plane.Namespace(t), "": plane.Namespace(t)}
	managers := map[string]*recorder{}
	for _, shard := range []string{"a", "b"} {
		managers[shard] = newRecorder(t, plane)
		managers[shard].plane.RunManager(t, "--watch-filter", shard, "--feature-gates=ClusterTopology=true")
	}
	for shard, namespace := range namespaces {
		cluster := &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"},
			Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}},
		}
		if shard != "" {
			cluster.Labels = map[string]string{clusterv1.WatchLabel: shard}
		}
		plane.Create(t, cluster)
	}
	for shard := range managers {
		awaitObserved(t, plane, namespaces[shard], false)
	}
	for _, namespace := range namespaces {
		patch(t, plane, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}}, `{"spec":{"paused":true}}`)
	}
	for shard := range managers {
		awaitObserved(t, plane, namespaces[shard], true)
	}
	check(t, managers, namespaces)
}

// awaitObserved waits until a manager has seen whether a Cluster is paused.
func awaitObserved(t *testing.T, plane *wire.Plane, namespace string, paused bool) {
	t.Helper()
	want := metav1.ConditionFalse
	if paused {
		want = metav1.ConditionTrue
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := wire.Await(ctx, plane.Client, &clusterv1.ClusterList{}, func(c *clusterv1.Cluster) bool {
		return slices.ContainsFunc(c.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == clusterv1.PausedCondition && c.Status == want
		})
	}, client.InNamespace(namespace)); err != nil {
		t.Fatalf("waiting until the Cluster in %s is known to be paused=%t: %v", namespace, paused, err)
	}
}

// TestExtensions runs an extension for each of two shards. Each upgrades the Machine of its shard that an annotation
// names. Only the one with the shared objects writes the status of a policy. A Machine of no shard is left alone.
func TestExtensions(t *testing.T) {
	plane := wire.Start(t)
	pools, namespaces := map[string]*wire.Pool{}, map[string]string{}
	for _, shard := range []string{"a", "b", ""} {
		pools[shard] = plane.NewPool(t, "m")
		namespaces[shard] = pools[shard].Namespace
		if shard != "" {
			patch(t, plane, pools[shard].Machine(t, "m"), fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, clusterv1.WatchLabel, shard))
		}
	}
	extensions := map[string]*recorder{}
	for _, shard := range []string{"a", "b"} {
		extensions[shard] = newRecorder(t, plane)
		extensions[shard].plane.Run(t, "--watch-filter", shard, "--shared-objects="+map[string]string{"a": "true", "b": "false"}[shard])
	}
	for _, pool := range pools {
		pool.Annotate(t, "m", map[string]any{toAnnotation: "version=" + wire.To})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for shard := range extensions {
		if err := wire.Await(ctx, plane.Client, &clusterv1.MachineList{}, func(m *clusterv1.Machine) bool {
			return m.Annotations[statusAnnotation] != ""
		}, client.InNamespace(namespaces[shard])); err != nil {
			t.Fatalf("waiting for the shard %s: %v", shard, err)
		}
		if err := wire.Await(ctx, plane.Client, &v1alpha1.UpdatePolicyList{}, func(p *v1alpha1.UpdatePolicy) bool {
			return p.Status.ObservedGeneration == p.Generation
		}, client.InNamespace(namespaces[shard])); err != nil {
			t.Fatalf("waiting for the status of the policy of shard %s: %v", shard, err)
		}
	}
	// The statuses of policies belong to no shard: check would find those that the second extension wrote.
	extensions["a"].forget("updatepolicies")
	if written := extensions["b"].written(namespaces["b"]); slices.ContainsFunc(written, func(path string) bool { return resource(path) == "updatepolicies" }) {
		t.Errorf("the extension without the shared objects wrote %q", written)
	}
	check(t, extensions, namespaces)
}

// check holds that each process wrote to its shard, and to nothing else.
func check(t *testing.T, processes map[string]*recorder, namespaces map[string]string) {
	t.Helper()
	for shard, process := range processes {
		for other, namespace := range namespaces {
			written := process.written(namespace)
			if shard == other && len(written) == 0 {
				t.Errorf("the process of shard %q wrote nothing in its shard", shard)
			}
			if shard != other && len(written) > 0 {
				t.Errorf("the process of shard %q wrote in shard %q: %q", shard, other, written)
			}
			t.Logf("the process of shard %q made %d writes in shard %q", shard, len(written), other)
		}
	}
}

func patch(t *testing.T, plane *wire.Plane, object client.Object, merge string) {
	t.Helper()
	if err := plane.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(merge))); err != nil {
		t.Fatal(err)
	}
}
