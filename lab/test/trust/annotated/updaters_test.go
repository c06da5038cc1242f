package annotated_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// register creates an Updater for the machines of a pool. It changes a machine's node at once, or,
// with hold, works until the test closes that channel.
func register(t *testing.T, p *wire.Plane, pool *wire.Pool, name string, hold <-chan struct{}) *wire.Updater {
	t.Helper()
	updater := wire.NewUpdater(t)
	updater.Update = func(request *runtimehooksv1.UpdateMachineRequest) wire.Answer {
		select {
		case <-hold:
		default:
			if hold != nil {
				return wire.Answer{Status: runtimehooksv1.ResponseStatusSuccess, Message: "at work", RetryAfterSeconds: 1}
			}
		}
		pool.Workload.SetNode(request.Desired.Machine.Name, request.Desired.Machine.Spec.Version)
		return wire.Answer{Status: runtimehooksv1.ResponseStatusSuccess}
	}
	object := updater.Object(name)
	object.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": pool.Namespace}}
	p.Create(t, object)
	return updater
}

// awaitReachable waits until the extension knows an Updater: a request before that is refused for good.
func awaitReachable(t *testing.T, p *wire.Plane, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := wire.Await(ctx, p.Client, &v1alpha1.UpdaterList{}, func(u *v1alpha1.Updater) bool {
		return u.Name == name && meta.IsStatusConditionTrue(u.Status.Conditions, v1alpha1.ReadyCondition)
	})
	if err != nil {
		t.Fatalf("waiting %s until Updater %s is reachable: %v", patience, name, err)
	}
}

// updating waits until an updater is at work.
func updating(m *clusterv1.Machine) string {
	if strings.Contains(m.Annotations[v1alpha1.InPlaceUpgradeAnnotation], `"phase":"Updating"`) {
		return ""
	}
	return describe(m)
}

// TestRecordNamesAForeignUpdater: a tenant writes the record of an upgrade, and names an Updater
// that is reserved for another namespace. That Updater is never called, and the condition says why.
func TestRecordNamesAForeignUpdater(t *testing.T) {
	plane := wire.Start(t)
	pool, other := plane.NewPool(t, "a"), plane.NewPool(t, "b")
	register(t, plane, pool, "trust-own", make(chan struct{}))
	foreign := register(t, plane, other, "trust-foreign", nil)
	plane.Run(t)
	pool.Annotate(t, "a", map[string]any{toAnnotation: option})
	m := awaitMachine(t, plane, pool.Namespace, "a", "is being updated", updating)
	forged := strings.ReplaceAll(m.Annotations[v1alpha1.InPlaceUpgradeAnnotation], "trust-own", "trust-foreign")
	pool.Annotate(t, "a", map[string]any{v1alpha1.InPlaceUpgradeAnnotation: forged})
	awaitMachine(t, plane, pool.Namespace, "a", "says why the Updater is not called", func(m *clusterv1.Machine) string {
		if c := condition(m); c != nil && strings.Contains(c.Message, "trust-foreign") && strings.Contains(c.Message, "namespaceSelector") {
			return ""
		}
		if len(foreign.Requests(wire.UpdateMachine.Hook)) > 0 {
			t.Fatal("an Updater for another namespace was called")
		}
		return describe(m)
	})
	if n := len(foreign.Requests(wire.UpdateMachine.Hook)); n > 0 {
		t.Errorf("an Updater for another namespace was called %d times", n)
	}
}
