package annotated_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// lock is a lock of a pool's control plane, with a holder that a tenant wrote.
func lock(t *testing.T, p *wire.Plane, pool *wire.Pool, holder string, owned bool) *corev1.ConfigMap {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: wire.ClusterName}}
	p.Get(t, cluster)
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: wire.ClusterName + v1alpha1.InPlaceUpgradeLockSuffix},
		Data:       map[string]string{v1alpha1.InPlaceUpgradeLockKey: holder},
	}
	if owned {
		object.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}}
	}
	return object
}

// controlPlane makes a pool's machine one of the control plane.
func controlPlane(t *testing.T, p *wire.Plane, pool *wire.Pool, name string) {
	t.Helper()
	edit(t, p, pool.Machine(t, name), map[string]any{
		"labels": map[string]any{clusterv1.MachineControlPlaneLabel: "", clusterv1.MachineDeploymentNameLabel: nil}, "ownerReferences": nil,
	})
}

// TestLockTellsNothingOfOtherNamespaces: a tenant who writes the name of another namespace's
// Machine in the lock sees the same whether or not that Machine exists.
func TestLockTellsNothingOfOtherNamespaces(t *testing.T) {
	plane := wire.Start(t)
	victim := plane.NewPool(t, "exists").Namespace
	plane.Run(t)
	answers := map[string]string{}
	for _, guess := range []string{"exists", "absent"} {
		pool := plane.NewPool(t, "cp")
		controlPlane(t, plane, pool, "cp")
		plane.Create(t, lock(t, plane, pool, `{"machineName":"`+guess+`","machineNamespace":"`+victim+`"}`, true))
		pool.Annotate(t, "cp", map[string]any{toAnnotation: option})
		m := awaitMachine(t, plane, pool.Namespace, "cp", "waits for the lock", hasReason("Locked"))
		answers[guess] = strings.ReplaceAll(condition(m).Message, guess, "GUESS")
	}
	if diff := cmp.Diff(answers["exists"], answers["absent"]); diff != "" {
		t.Errorf("a tenant can tell whether the Machine exists (-exists +absent):\n%s", diff)
	}
}

// TestLockThatTheClusterDoesNotOwn: such a ConfigMap is neither trusted nor deleted, and the
// condition says why nothing begins.
func TestLockThatTheClusterDoesNotOwn(t *testing.T) {
	plane := wire.Start(t)
	pool := plane.NewPool(t, "cp")
	controlPlane(t, plane, pool, "cp")
	object := lock(t, plane, pool, `{"machineName":"gone","machineNamespace":"`+pool.Namespace+`"}`, false)
	plane.Create(t, object)
	plane.Run(t)
	pool.Annotate(t, "cp", map[string]any{toAnnotation: option})
	m := awaitMachine(t, plane, pool.Namespace, "cp", "waits for the lock", hasReason("Locked"))
	if message := condition(m).Message; !strings.Contains(message, "does not own") || !strings.Contains(message, object.Name) {
		t.Errorf("the condition says %q", message)
	}
	plane.Get(t, object)
}
