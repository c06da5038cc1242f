package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/pkg/version"
)

// upgradedAnnotations are all that an upgrade to toVersion leaves on a Machine.
var upgradedAnnotations = map[string]string{keys.Status: "done", keys.Release: toVersion, v1alpha1.InPlaceUpgradeKubeletAnnotation: toVersion + " " + wanted}

func inplaceVersion(s string) version.Version { return version.MustParse(s) }

// typed is a MachineDeployment as its own type.
func typed(t *testing.T, u *unstructured.Unstructured) client.Object {
	t.Helper()
	md := &clusterv1.MachineDeployment{}
	if err := convert(u.Object, md); err != nil {
		t.Fatal(err)
	}
	return md
}

// applyCondition does what server-side apply does to a list of conditions by their types, for which the fake client takes no list.
func (w *upgradeWorld) applyCondition(ctx context.Context, configuration runtime.ApplyConfiguration) error {
	w.applies++
	intent := &unstructured.Unstructured{}
	if err := convert(configuration, &intent.Object); err != nil {
		return err
	}
	object := unstructuredOf(intent.GroupVersionKind())
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(intent), object); err != nil {
		return err
	}
	if v := intent.GetResourceVersion(); v != "" {
		object.SetResourceVersion(v)
	}
	conditions := slices.DeleteFunc(capi.Conditions(object), func(c metav1.Condition) bool { return c.Type == v1alpha1.InPlaceUpgradeCondition })
	conditions = append(conditions, capi.Conditions(intent)...)
	var list []any
	if err := convert(conditions, &list); err != nil {
		return err
	}
	if err := unstructured.SetNestedSlice(object.Object, list, "status", "conditions"); err != nil {
		return err
	}
	var changed client.Object = object
	if typed, err := w.client.Scheme().New(object.GroupVersionKind()); err == nil {
		if err := convert(object.Object, typed); err != nil {
			return err
		}
		var ok bool
		if changed, ok = typed.(client.Object); !ok {
			return fmt.Errorf("%T is no object", typed)
		}
	}
	if err := w.client.Status().Update(ctx, changed); err != nil {
		return err
	}
	if applied, ok := configuration.(client.Object); ok {
		applied.SetResourceVersion(changed.GetResourceVersion())
	}
	return nil
}

// convert puts a value into another type by way of JSON.
func convert(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encoding a condition: %w", err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("decoding a condition: %w", err)
	}
	return nil
}
