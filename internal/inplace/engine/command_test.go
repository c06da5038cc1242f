package engine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/engine"
)

// forged are annotations, or labels, of which a person may have set all.
func forged() map[string]string {
	return map[string]string{
		v1alpha1.OperationIDAnnotation: "forged", v1alpha1.InPlaceUpgradeOptionAnnotation: "version=v1.31.99", v1alpha1.InPlaceUpgradeFollowAnnotation: "true", v1alpha1.PrefetchAnnotation: "true",
		v1alpha1.DefaultInPlaceUpgradePrefix + "to": "revision=1", "example.com/upgrade-to": "revision=2", "example.com/team": "kept",
	}
}

// TestUpdateRequest holds that nothing that a person set on the objects reaches an updater under a reserved key, and that the command does.
func TestUpdateRequest(t *testing.T) {
	t.Parallel()
	metadata, err := json.Marshal(forged())
	if err != nil {
		t.Fatal(err)
	}
	raw := runtime.RawExtension{Raw: []byte(`{"kind":"K","metadata":{"name":"a","annotations":` + string(metadata) + `,"labels":` + string(metadata) + `},"spec":{"n":9007199254740993}}`)}
	objects := runtimehooksv1.UpdateMachineRequestObjects{
		Machine:               clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: forged(), Labels: forged()}, Status: clusterv1.MachineStatus{Phase: "Running"}},
		InfrastructureMachine: raw, BootstrapConfig: raw,
	}
	before := *objects.DeepCopy()
	for name, tt := range map[string]struct {
		command engine.Command
		want    map[string]string
	}{
		"Cluster API asks": {engine.Command{Operation: "id-1"}, map[string]string{v1alpha1.OperationIDAnnotation: "id-1"}},
		"the attempt is over": {
			engine.Command{
				Operation: "id-3", Cancel: "too late",
				Deadline: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("east", 3600)),
			},
			map[string]string{
				v1alpha1.OperationIDAnnotation: "id-3", v1alpha1.CancelAnnotation: "too late",
				v1alpha1.DeadlineAnnotation: "2026-01-02T02:04:05Z",
			},
		},
		"it may not begin yet": {
			engine.Command{Operation: "id-4", Prefetch: true},
			map[string]string{v1alpha1.OperationIDAnnotation: "id-4", v1alpha1.PrefetchAnnotation: "true"},
		},
		"an annotation asks": {engine.Command{Operation: "id-2", Option: "revision=7", Follow: true}, map[string]string{
			v1alpha1.OperationIDAnnotation: "id-2", v1alpha1.InPlaceUpgradeOptionAnnotation: "revision=7", v1alpha1.InPlaceUpgradeFollowAnnotation: "true",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, err := engine.UpdateRequest(objects, tt.command, engine.ReservedKeys("example.com/upgrade-"))
			if err != nil {
				t.Fatal(err)
			}
			tt.want["example.com/team"] = "kept"
			if diff := cmp.Diff(tt.want, request.Desired.Machine.Annotations); diff != "" {
				t.Errorf("annotations (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"example.com/team": "kept"}, request.Desired.Machine.Labels); diff != "" {
				t.Errorf("labels (-want +got)\n%s", diff)
			}
			const want = `{"kind":"K","metadata":{"annotations":{"example.com/team":"kept"},"labels":{"example.com/team":"kept"},"name":"a"},"spec":{"n":9007199254740993}}`
			for part, got := range map[string]runtime.RawExtension{"infrastructure": request.Desired.InfrastructureMachine, "bootstrap": request.Desired.BootstrapConfig} {
				if string(got.Raw) != want {
					t.Errorf("%s: %s", part, got.Raw)
				}
			}
			if request.Desired.Machine.Status.Phase != "" {
				t.Error("the updater is shown the status")
			}
			if diff := cmp.Diff(before, objects); diff != "" {
				t.Errorf("the objects were changed (-before +after)\n%s", diff)
			}
		})
	}
}

// TestUpdateRequestWithoutObjects keeps absent objects absent, and refuses what is no object.
func TestUpdateRequestWithoutObjects(t *testing.T) {
	t.Parallel()
	for raw, fails := range map[string]bool{"": false, "null": false, "[]": true, "{": true, `{"metadata":3}`: false} {
		objects := runtimehooksv1.UpdateMachineRequestObjects{BootstrapConfig: runtime.RawExtension{Raw: []byte(raw)}}
		request, err := engine.UpdateRequest(objects, engine.Command{Operation: "o"}, engine.ReservedKeys(""))
		if (err != nil) != fails || err != nil && !strings.Contains(err.Error(), "bootstrap config") {
			t.Errorf("%q: %v", raw, err)
		}
		if err == nil && string(request.Desired.BootstrapConfig.Raw) != raw {
			t.Errorf("%q became %s", raw, request.Desired.BootstrapConfig.Raw)
		}
	}
}
