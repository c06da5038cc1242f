package handover_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/internal/recordjson/formtest"
)

// TestForms: implementers are built with the types of another release.
func TestForms(t *testing.T) {
	t.Parallel()
	i := newImplementer(t)
	u := i.connect(t)
	names := []updatesv1.ObjectName{{Namespace: "ns", Name: "m-0"}}
	raw := func(kind string) runtime.RawExtension {
		return runtime.RawExtension{Raw: []byte(`{"kind":"` + kind + `"}`)}
	}
	objects := &updatesv1.Objects{Machine: raw("Machine"), InfrastructureMachine: raw("I"), BootstrapConfig: raw("B")}
	compact := cmp.Transformer("compact", func(raw runtime.RawExtension) string {
		var text bytes.Buffer
		if err := json.Compact(&text, raw.Raw); err != nil {
			return err.Error()
		}
		return text.String()
	})
	formtest.Form[updatesv1.HandOverRequest]{
		Name: "hand-over-request", Once: true, Enums: []string{"phase"},
		Maps: []string{"machine", "infrastructureMachine", "bootstrapConfig"},
		Value: updatesv1.HandOverRequest{
			APIVersion: updatesv1.APIVersion, Kind: updatesv1.HandOverRequestKind, Phase: updatesv1.Start, OperationID: "u1-1",
			Deadline: metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Local()), Reason: "a person gave it up",
			Cluster:  updatesv1.ObjectName{Namespace: "ns", Name: "c"},
			Owner:    updatesv1.Owner{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineDeployment", Namespace: "ns", Name: "md-0"},
			Machines: names, Group: names, Free: 1, Desired: objects, Current: objects,
			Budget: &updatesv1.Budget{AtOnce: 2, First: 1, Stay: 3},
		},
		Write: func(value updatesv1.HandOverRequest, _ string) (string, error) {
			var sent []byte
			i.answer = func(w http.ResponseWriter, r *http.Request) {
				sent, _ = io.ReadAll(r.Body)
				_, _ = io.WriteString(w, response(true, ""))
			}
			_, err := u.Send(t.Context(), value)
			return string(sent), err
		},
		Read: func(text string) (read updatesv1.HandOverRequest, err error) {
			err = json.Unmarshal([]byte(text), &read)
			return read, err
		},
	}.Test(t, compact)
	formtest.Form[updatesv1.HandOverResponse]{
		Name: "hand-over-response", Once: true,
		Value: updatesv1.HandOverResponse{
			APIVersion: updatesv1.APIVersion, Kind: updatesv1.HandOverResponseKind, Accepted: true, Reason: "as you wish", Machines: names,
		},
		Write: func(value updatesv1.HandOverResponse, _ string) (string, error) {
			written, err := json.Marshal(value)
			return string(written), err
		},
		Read: func(text string) (updatesv1.HandOverResponse, error) {
			i.answer = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
			return u.Send(t.Context(), updatesv1.HandOverRequest{Phase: updatesv1.Offer})
		},
	}.Test(t)
}
