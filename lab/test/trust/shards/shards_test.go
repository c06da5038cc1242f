// Package shards holds what several processes with different watch filters do beside each other.
package shards

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
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
		pause(t, plane, namespace)
	}
	for shard := range managers {
		awaitObserved(t, plane, namespaces[shard], true)
	}
	check(t, managers, namespaces)
}

// TestManagersAfterAnEditOfAPolicy runs a manager for each of two shards. Each sees the policies of
// all namespaces. After an edit of a policy, each applies it to the groups of its shard, and writes
// to no object of the other one.
func TestManagersAfterAnEditOfAPolicy(t *testing.T) {
	plane := wire.Start(t)
	namespaces, managers := map[string]string{}, map[string]*recorder{}
	for _, shard := range []string{"a", "b"} {
		pool := plane.NewPool(t, "m")
		namespaces[shard] = pool.Namespace
		replaceAll(t, plane, pool.Namespace, "100%")
		labelAll(t, plane, pool, shard)
		patch(t, plane, &clusterv1.MachineDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: wire.PoolName},
		}, `{"spec":{"rollout":{"strategy":{"type":"RollingUpdate",
			"rollingUpdate":{"maxSurge":1,"maxUnavailable":0}}}}}`)
	}
	for _, shard := range []string{"a", "b"} {
		managers[shard] = newRecorder(t, plane)
		managers[shard].plane.RunManager(t, "--watch-filter", shard,
			"--feature-gates=ClusterTopology=true")
	}
	for _, partition := range []string{"100%", "50%", "99%"} {
		for shard := range managers {
			replaceAll(t, plane, namespaces[shard], partition)
		}
		for shard := range managers {
			awaitHeld(t, plane, namespaces[shard], "partition "+partition)
		}
	}
	// The Machine controller, which is Cluster API's, also looks at Machines of the other shard.
	for _, manager := range managers {
		manager.keep("machinedeployments", "machinesets")
	}
	check(t, managers, namespaces)
}

// replaceAll has the policy of a namespace replace machines, and keep a share of them.
func replaceAll(t *testing.T, plane *wire.Plane, namespace, partition string) {
	t.Helper()
	policy := &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: "in-place"}}
	patch(t, plane, policy, fmt.Sprintf(
		`{"spec":{"strategy":%q,"fallback":null,"partition":%q}}`, v1alpha1.RollingUpdate, partition))
}

// labelAll brings all objects of a pool with a machine m into a shard.
func labelAll(t *testing.T, plane *wire.Plane, pool *wire.Pool, shard string) {
	t.Helper()
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: pool.Namespace, Name: name}
	}
	for _, object := range []client.Object{
		&clusterv1.Cluster{ObjectMeta: named(wire.ClusterName)},
		&clusterv1.MachineDeployment{ObjectMeta: named(wire.PoolName)},
		pool.Set(t, wire.OldSet), pool.Set(t, wire.NewSet), pool.Machine(t, "m"),
	} {
		patch(t, plane, object, shardLabel(shard))
	}
}

// awaitHeld waits until a MachineDeployment says that its rollout is held by a limit.
func awaitHeld(t *testing.T, plane *wire.Plane, namespace, limit string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	isHeld := func(md *clusterv1.MachineDeployment) bool {
		return slices.ContainsFunc(md.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == v1alpha1.UpdateBlockedCondition && strings.Contains(c.Message, limit)
		})
	}
	list := &clusterv1.MachineDeploymentList{}
	if err := wire.Await(ctx, plane.Client, list, isHeld, client.InNamespace(namespace)); err != nil {
		t.Fatalf("waiting until %q holds the MachineDeployment in %s: %v", limit, namespace, err)
	}
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
			label(t, plane, pools[shard], shard)
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

// TestPausedClusters pauses Clusters of two shards, as `clusterctl move` does, while updaters are at work
// on their Machines. The extension of each shard asks its updater until it has ended, and leaves the other
// shard alone. While a Cluster is paused, no annotation begins an upgrade of its Machines.
func TestPausedClusters(t *testing.T) {
	plane := wire.Start(t)
	const waiting = "waiting"
	pools, namespaces := map[string]*wire.Pool{}, map[string]string{}
	for name, shard := range map[string]string{"a": "a", "b": "b", waiting: "a"} {
		pools[name] = plane.NewPool(t, "m")
		label(t, plane, pools[name], shard)
		if name != waiting {
			namespaces[name] = pools[name].Namespace
		}
	}
	pause(t, plane, pools[waiting].Namespace)
	pools[waiting].Annotate(t, "m", map[string]any{toAnnotation: "version=" + wire.To})

	var ends atomic.Bool
	extensions := map[string]*recorder{}
	for _, shard := range []string{"a", "b"} {
		pool := pools[shard]
		serveUpdater(t, plane, pool, &ends)
		extensions[shard] = newRecorder(t, plane)
		extension := extensions[shard].plane.Run(t, "--watch-filter", shard, "--shared-objects=false")
		for _, call := range []struct {
			hook    wire.Hook
			request func() any
		}{
			{wire.CanUpdateMachineSet, func() any { return pool.Question(t) }},
			{wire.UpdateMachine, func() any { pool.Move(t, "m"); return pool.Update(t, "m") }},
		} {
			answer := extension.Call(t, call.hook, call.request())
			if answer.Status != runtimehooksv1.ResponseStatusSuccess {
				t.Fatalf("%s in shard %s: %+v", call.hook.Hook, shard, answer)
			}
		}
		pause(t, plane, namespaces[shard])
	}
	ends.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for shard := range extensions {
		if err := wire.Await(ctx, plane.Client, &clusterv1.MachineList{}, func(m *clusterv1.Machine) bool {
			return m.Annotations[v1alpha1.LastUpdateAnnotation] != ""
		}, client.InNamespace(namespaces[shard])); err != nil {
			t.Fatalf("waiting for the end of the update in shard %s: %v", shard, err)
		}
	}
	check(t, extensions, namespaces)
	if written := extensions["b"].written(pools[waiting].Namespace); len(written) > 0 {
		t.Errorf("the extension of shard b wrote for the waiting Machine of shard a: %q", written)
	}
	if machine := pools[waiting].Machine(t, "m"); machine.Spec.Version != wire.From || machine.Annotations[statusAnnotation] != "" {
		t.Errorf("the Machine of a paused Cluster is upgraded: %s, %v", machine.Spec.Version, machine.Annotations)
	}
}

// serveUpdater registers an updater for the machines of a pool that works until ends.
func serveUpdater(t *testing.T, plane *wire.Plane, pool *wire.Pool, ends *atomic.Bool) {
	t.Helper()
	updater := wire.NewUpdater(t)
	updater.Update = func(request *runtimehooksv1.UpdateMachineRequest) wire.Answer {
		machine := request.Desired.Machine
		if !ends.Load() {
			return wire.Answer{Status: runtimehooksv1.ResponseStatusSuccess, RetryAfterSeconds: 1}
		}
		pool.Workload.SetNode(machine.Name, machine.Spec.Version)
		return wire.Answer{Status: runtimehooksv1.ResponseStatusSuccess}
	}
	object := updater.Object(pool.Namespace)
	object.Spec.NamespaceSelector = &metav1.LabelSelector{
		MatchLabels: map[string]string{corev1.LabelMetadataName: pool.Namespace},
	}
	plane.CreateForTest(t, object)
}

func label(t *testing.T, plane *wire.Plane, pool *wire.Pool, shard string) {
	t.Helper()
	patch(t, plane, pool.Machine(t, "m"), shardLabel(shard))
}

// shardLabel is a patch that brings an object into a shard.
func shardLabel(shard string) string {
	return fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, clusterv1.WatchLabel, shard)
}

func pause(t *testing.T, plane *wire.Plane, namespace string) {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: wire.ClusterName}}
	patch(t, plane, cluster, `{"spec":{"paused":true}}`)
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
