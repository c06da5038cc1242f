// Package annotated_test holds what upgrades that annotations ask for may do for a tenant, over the
// wire: objects of a real API server go in, and what the process writes and calls comes out.
package annotated_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

const (
	toAnnotation      = v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeTo
	statusAnnotation  = v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeStatus
	releaseAnnotation = v1alpha1.DefaultInPlaceUpgradePrefix + v1alpha1.InPlaceUpgradeRelease

	// option asks for the version that wire.Pool updates to.
	option = "version=" + wire.To
	// patience is far beyond what a busy machine needs.
	patience = time.Minute
)

func TestMain(m *testing.M) { wire.Main(m) }

// awaitMachine returns a Machine once it is as it should be: once why returns nothing.
func awaitMachine(t *testing.T, p *wire.Plane, namespace, name, what string, why func(*clusterv1.Machine) string) *clusterv1.Machine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	last := "it does not exist"
	var found *clusterv1.Machine
	err := wire.Await(ctx, p.Client, &clusterv1.MachineList{}, func(m *clusterv1.Machine) bool {
		if m.Name != name {
			return false
		}
		found, last = m, why(m)
		return last == ""
	}, client.InNamespace(namespace))
	if err != nil {
		t.Fatalf("waiting %s until Machine %s/%s %s: %s", patience, namespace, name, what, last)
	}
	return found
}

// isDone waits for the end of an upgrade.
func isDone(m *clusterv1.Machine) string {
	if m.Annotations[statusAnnotation] == "done" && m.Annotations[releaseAnnotation] == option && m.Annotations[toAnnotation] == "" {
		return ""
	}
	return describe(m)
}

// hasReason waits for the reason of the condition that shows how an upgrade stands.
func hasReason(reason string) func(*clusterv1.Machine) string {
	return func(m *clusterv1.Machine) string {
		if c := condition(m); c != nil && c.Reason == reason {
			return ""
		}
		return describe(m)
	}
}

func condition(m *clusterv1.Machine) *metav1.Condition {
	return meta.FindStatusCondition(m.Status.Conditions, v1alpha1.InPlaceUpgradeCondition)
}

func describe(m *clusterv1.Machine) string {
	return fmt.Sprintf("its annotations are %v, its condition is %+v", m.Annotations, condition(m))
}

// edit changes the metadata of a Machine.
func edit(t *testing.T, p *wire.Plane, m *clusterv1.Machine, metadata map[string]any) {
	t.Helper()
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Client.Patch(t.Context(), m, client.RawPatch(types.MergePatchType, data)); err != nil {
		t.Fatal(err)
	}
}

// show gives a Machine the condition of an upgrade that is long over, as the process that ended
// before wrote it.
func show(t *testing.T, p *wire.Plane, m *clusterv1.Machine) {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": v1alpha1.InPlaceUpgradeCondition, "status": "True", "reason": "Left", "message": "left by an earlier process", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}}}
	object.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	object.SetNamespace(m.Namespace)
	object.SetName(m.Name)
	if err := p.Client.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("windlass-in-place-upgrade")); err != nil {
		t.Fatal(err)
	}
}
