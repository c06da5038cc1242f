package guardwebhook

import (
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/internal/guard"
)

// FuzzParseMachine gives the guard any bytes as a Machine. It never panics, what it keeps is bounded, and what it cannot read is no
// request that needs no count.
func FuzzParseMachine(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"name":"a","uid":"u","ownerReferences":[{"controller":true}],"annotations":null},"spec":{"clusterName":"c"},"status":{"v1beta2":{"conditions":[{}]}}}`,
		`{"metadata":{"generateName":"a-","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"clusterName":"c"}}`,
		`{"metadata":{"name":"a","labels":{"cluster.x-k8s.io/deployment-name":""}},"spec":{"clusterName":"c"},"status":{"conditions":null}}`,
		`null`, `[]`, `{`, ``,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, isDeletion bool) {
		operation, admissionOperation := guard.Create, admissionv1.Create
		if isDeletion {
			operation, admissionOperation = guard.Delete, admissionv1.Delete
		}
		request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionOperation, Object: runtime.RawExtension{Raw: raw}, OldObject: runtime.RawExtension{Raw: raw},
		}}
		m, err := parseMachine(operation, request)
		if err != nil {
			g := NewGuard(GuardOptions{})
			if response := g.refuseError(t.Context(), operation, request, BadRequestReason, err); response.Allowed || response.Result.Code != http.StatusBadRequest {
				t.Errorf("%+v", response)
			}
			return
		}
		if m.facts.Name == "" || m.cluster == "" || m.uid == "" || len(m.uid)+len(m.facts.Name)+len(m.cluster) > 3*maxName {
			t.Errorf("%+v", m)
		}
		if verdict, ok := guard.DecideAlone(operation, m.facts); ok && (!verdict.Allowed || !isDeletion) {
			t.Errorf("%+v without a count", verdict)
		}
		if reference := m.reference(); reference.Kind != "Machine" || reference.APIVersion != "cluster.x-k8s.io/v1beta2" {
			t.Errorf("%+v", reference)
		}
	})
}
