package rig

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/lab/internal/history"
)

// MachineOf returns the Machine of a fact; nil where it is about another object.
func MachineOf(f history.Fact) *clusterv1.Machine {
	m, _ := f.Object.(*clusterv1.Machine)
	return m
}

// ProgressOf returns how far the update of an object is; nil where there is none.
func ProgressOf(o client.Object) *inplace.Progress {
	return Annotation[inplace.Progress](o, v1alpha1.UpdateProgressAnnotation)
}

// Annotation decodes an annotation; nil where there is none, or another than expected.
func Annotation[T any](o client.Object, key string) *T {
	text, ok := o.GetAnnotations()[key]
	value := new(T)
	if !ok || json.Unmarshal([]byte(text), value) != nil {
		return nil
	}
	return value
}

// Census is which Machines there ever were in a namespace, and which of them are deleted or being deleted.
type Census struct{ All, Deleted []string }

// Census returns the Machines of a namespace that match. A nil match means all.
func (p *Plane) Census(namespace string, match func(*clusterv1.Machine) bool) Census {
	var c Census
	for uid, f := range p.History.Machines(namespace) {
		if match != nil && !match(MachineOf(f)) {
			continue
		}
		name := f.Name + " " + string(uid)
		c.All = append(c.All, name)
		if f.Deleting {
			c.Deleted = append(c.Deleted, name)
		}
	}
	slices.Sort(c.All)
	slices.Sort(c.Deleted)
	return c
}

// CheckCensus fails the test where a Machine was created or deleted.
func CheckCensus(t *testing.T, before, after Census) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("Machines were created or deleted (-before +after):\n%s", diff)
	}
}

// Cached reads an object from the cache; false where it does not exist.
func (p *Plane) Cached(ctx context.Context, t *testing.T, namespace, name string, object client.Object) bool {
	t.Helper()
	err := p.History.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, object)
	if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	return err == nil
}

// MachinesOf lists the Machines of a MachineDeployment, or of the control plane where name is empty, by name.
func (p *Plane) MachinesOf(ctx context.Context, t *testing.T, namespace, name string) []clusterv1.Machine {
	t.Helper()
	list := &clusterv1.MachineList{}
	selector := client.ListOption(client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: name})
	if name == "" {
		selector = client.HasLabels{clusterv1.MachineControlPlaneLabel}
	}
	if err := p.History.List(ctx, list, client.InNamespace(namespace), selector); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b clusterv1.Machine) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list.Items
}

// Blocked returns the condition that says why an update does not go on; nil where there is none or it is not True.
func Blocked(conditions []metav1.Condition) *metav1.Condition {
	c := meta.FindStatusCondition(conditions, v1alpha1.UpdateBlockedCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return c
}
