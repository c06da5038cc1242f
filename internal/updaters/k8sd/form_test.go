package k8sd

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/recordjson/formtest"
)

// oneMachine is a Machines that keeps the annotations of one.
type oneMachine map[string]string

func (m oneMachine) Machine(context.Context, types.NamespacedName) (Machine, error) {
	return Machine{Annotations: m}, nil
}

func (m oneMachine) Annotate(_ context.Context, _ types.NamespacedName, _ string, changes map[string]*string) error {
	m[v1alpha1.RefreshAnnotation] = *changes[v1alpha1.RefreshAnnotation]
	return nil
}

func TestForm(t *testing.T) {
	t.Parallel()
	formtest.Form[refresh]{
		Name: "k8sd-refresh", Enums: []string{"state"}, Refuses: true,
		Value: refresh{
			Operation: "u1-1", Option: "channel=1.32-classic/stable", Requested: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
			Kubelet: "v1.31.9", ChangeID: "7", State: running, Message: "change 7 is Doing",
		},
		Write: func(value refresh, before string) (string, error) {
			m := oneMachine{v1alpha1.RefreshAnnotation: before}
			u := &Updater{options: Options{Machines: m}}
			err := u.recordAfter(t.Context(), attempt{machine: Machine{Annotations: m}}, value)
			return m[v1alpha1.RefreshAnnotation], err
		},
		Read: func(text string) (refresh, error) {
			return parseRecord(map[string]string{v1alpha1.RefreshAnnotation: text})
		},
	}.Test(t)
}
