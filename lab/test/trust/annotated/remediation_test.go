package annotated_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

const (
	skip      = clusterv1.MachineSkipRemediationAnnotation
	remediate = clusterv1.RemediateMachineAnnotation
	// blockMove keeps clusterctl from moving the Cluster.
	blockMove = "clusterctl.cluster.x-k8s.io/block-move"
)

func has(m *clusterv1.Machine, key string) bool {
	_, ok := m.Annotations[key]
	return ok
}

// isProtected waits until an updater is at work, and checks that no MachineHealthCheck looks at the
// Machine then, and that clusterctl does not move it.
func isProtected(m *clusterv1.Machine) string {
	if why := updating(m); why != "" {
		return why
	}
	if !has(m, skip) {
		return "its updater is at work, and remediation is not paused: " + describe(m)
	}
	if !has(m, blockMove) {
		return "its updater is at work, and its Cluster can be moved: " + describe(m)
	}
	return ""
}

// isFree waits until no upgrade is recorded, and remediation is as it was before.
func isFree(m *clusterv1.Machine) string {
	for _, key := range []string{
		skip, v1alpha1.RemediationPausedAnnotation, remediate, v1alpha1.InPlaceUpgradeAnnotation,
		blockMove,
	} {
		if has(m, key) {
			return describe(m)
		}
	}
	return ""
}

// pause pauses the Cluster of a pool, as clusterctl does before it moves one.
func pause(t *testing.T, plane *wire.Plane, pool *wire.Pool, paused bool) {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: wire.ClusterName}}
	patch := fmt.Appendf(nil, `{"spec": {"paused": %t}}`, paused)
	if err := plane.Client.Patch(t.Context(), cluster, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
}

// TestRemediationIsPaused: no MachineHealthCheck looks at a Machine from the record of its upgrade
// to the end of that record, whatever ends it.
func TestRemediationIsPaused(t *testing.T) {
	plane := wire.Start(t)
	extension := plane.Run(t)
	for i, tt := range []struct {
		name string
		// act acts on a Machine whose updater is at work, and may let the updater finish.
		act  func(t *testing.T, pool *wire.Pool, finish func())
		want func(*clusterv1.Machine) string
	}{
		{"the upgrade ends", func(_ *testing.T, _ *wire.Pool, finish func()) { finish() }, isDone},
		{"the annotation is removed", func(t *testing.T, pool *wire.Pool, finish func()) {
			t.Helper()
			pool.Annotate(t, "a", map[string]any{toAnnotation: nil})
			finish()
		}, isFree},
		{"the record is removed", func(t *testing.T, pool *wire.Pool, _ func()) {
			t.Helper()
			pool.Annotate(t, "a", map[string]any{toAnnotation: nil, v1alpha1.InPlaceUpgradeAnnotation: nil})
		}, isFree},
		{"a person removes the protection", func(t *testing.T, pool *wire.Pool, finish func()) {
			t.Helper()
			pool.Annotate(t, "a", map[string]any{skip: nil})
			awaitMachine(t, plane, pool.Namespace, "a", "is protected again", isProtected)
			finish()
		}, isFree},
		{"the Cluster is paused", func(t *testing.T, pool *wire.Pool, finish func()) {
			t.Helper()
			pause(t, plane, pool, true)
			finish()
			awaitMachine(t, plane, pool.Namespace, "a", "can be moved", func(m *clusterv1.Machine) string {
				if has(m, blockMove) {
					return describe(m)
				}
				return ""
			})
			pause(t, plane, pool, false)
		}, isDone},
		{"the process dies", func(t *testing.T, _ *wire.Pool, finish func()) {
			t.Helper()
			extension.Kill(t)
			finish()
			extension = plane.Run(t)
		}, isDone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := plane.NewPool(t, "a")
			hold := make(chan struct{})
			updater := fmt.Sprintf("trust-paused-%d", i)
			register(t, plane, pool, updater, hold)
			awaitReachable(t, plane, updater)
			pool.Annotate(t, "a", map[string]any{toAnnotation: option})
			awaitMachine(t, plane, pool.Namespace, "a", "is protected", isProtected)
			tt.act(t, pool, func() { close(hold) })
			awaitMachine(t, plane, pool.Namespace, "a", "is at the end", tt.want)
			awaitMachine(t, plane, pool.Namespace, "a", "is free", isFree)
		})
	}
}

// TestRemediationThatAPersonHasSkipped stays skipped after the upgrade.
func TestRemediationThatAPersonHasSkipped(t *testing.T) {
	plane := wire.Start(t)
	plane.Run(t)
	pool := plane.NewPool(t, "a")
	register(t, plane, pool, "trust-skipped", nil)
	pool.Annotate(t, "a", map[string]any{skip: ""})
	pool.Annotate(t, "a", map[string]any{toAnnotation: option})
	m := awaitMachine(t, plane, pool.Namespace, "a", "is done", isDone)
	if !has(m, skip) || has(m, v1alpha1.RemediationPausedAnnotation) {
		t.Error(describe(m))
	}
}

// TestRemediationThatWasAskedFor: an upgrade does not begin on a Machine that is about to be
// replaced, says so, and begins once that is over.
func TestRemediationThatWasAskedFor(t *testing.T) {
	plane := wire.Start(t)
	plane.Run(t)
	pool := plane.NewPool(t, "a")
	updater := register(t, plane, pool, "trust-asked", nil)
	set := func(conditions ...metav1.Condition) {
		m := pool.Machine(t, "a")
		m.Status.Conditions = conditions
		if err := plane.Client.Status().Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	set(metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: "WaitingForRemediation", LastTransitionTime: metav1.Now()})
	pool.Annotate(t, "a", map[string]any{toAnnotation: option})
	m := awaitMachine(t, plane, pool.Namespace, "a", "waits", hasReason("Remediating"))
	if message := condition(m).Message; !strings.Contains(message, "MachineHealthCheck") || has(m, skip) {
		t.Errorf("the condition says %q; %s", message, describe(m))
	}
	if n := len(updater.Requests(wire.UpdateMachine.Hook)); n > 0 {
		t.Errorf("the updater was called %d times", n)
	}
	set()
	awaitMachine(t, plane, pool.Namespace, "a", "is done", isDone)
}

// TestRemediationAfterAFailure: a Machine whose upgrade failed finally is handed to remediation,
// once, if its policy says so; otherwise it waits for a person, and remediation stays paused.
func TestRemediationAfterAFailure(t *testing.T) {
	plane := wire.Start(t)
	plane.Run(t)
	for i, action := range []v1alpha1.UpdateFailureAction{v1alpha1.FailureRemediate, v1alpha1.FailureWait} {
		t.Run(string(action), func(t *testing.T) {
			pool := plane.NewPool(t, "a")
			updater := register(t, plane, pool, fmt.Sprintf("trust-failing-%d", i), nil)
			updater.Update = func(*runtimehooksv1.UpdateMachineRequest) wire.Answer {
				return wire.Answer{Status: runtimehooksv1.ResponseStatusFailure, Message: "disk full"}
			}
			policy := &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: "in-place"}}
			plane.Get(t, policy)
			before := client.MergeFrom(policy.DeepCopy())
			policy.Spec.OnFailure = action
			if err := plane.Client.Patch(t.Context(), policy, before); err != nil {
				t.Fatal(err)
			}
			pool.Annotate(t, "a", map[string]any{toAnnotation: option})
			m := awaitMachine(t, plane, pool.Namespace, "a", "has failed", func(m *clusterv1.Machine) string {
				if m.Annotations[statusAnnotation] == "failed" {
					return ""
				}
				return describe(m)
			})
			if handed := action == v1alpha1.FailureRemediate; has(m, remediate) != handed || has(m, skip) == handed {
				t.Error(describe(m))
			}
		})
	}
}
