package conformance_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/conformance"
)

// receiver is a hand-over updater that keeps all rules, but for the one that a test has it break.
type receiver struct {
	// change changes an answer; nil changes none. seen is how often the phase was asked.
	change func(seen int, request *updatesv1.HandOverRequest, response *updatesv1.HandOverResponse)

	mu          sync.Mutex
	seen        map[updatesv1.Phase]int
	annotations map[string]string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request := &updatesv1.HandOverRequest{}
	if err := json.NewDecoder(q.Body).Decode(request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &updatesv1.HandOverResponse{APIVersion: updatesv1.APIVersion, Kind: updatesv1.HandOverResponseKind, Accepted: true}
	known := len(request.Machines) == 1 && request.Machines[0].Name == "worker-0"
	switch request.Phase {
	case updatesv1.Offer, updatesv1.Cancel:
	case updatesv1.Choose:
		response.Machines = request.Machines
	case updatesv1.Start:
		if response.Accepted = known; known {
			r.annotations[v1alpha1.UpdatedAnnotation] = request.OperationID
		}
	case updatesv1.HandOver:
		fallthrough // It is not for a single machine.
	default:
		response.Accepted, response.Reason = false, "unknown"
	}
	r.seen[request.Phase]++
	if r.change != nil {
		r.change(r.seen[request.Phase], request, response)
	}
	_ = json.NewEncoder(w).Encode(response) // The caller may be gone.
}

// receive runs the battery against a receiver.
func receive(t *testing.T, r *receiver) *conformance.Report {
	t.Helper()
	r.seen, r.annotations = make(map[updatesv1.Phase]int), map[string]string{}
	server := httptest.NewTLSServer(r)
	t.Cleanup(server.Close)
	whole, err := conformance.DefaultFixture()
	if err != nil {
		t.Fatal(err)
	}
	updating, err := conformance.ParseFixture([]byte(fixture))
	if err != nil {
		t.Fatal(err)
	}
	whole.UpdateMachine = updating.UpdateMachine
	now := time.Unix(0, 0)
	report, err := conformance.RunHandOver(t.Context(), conformance.Options{
		URL: server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		Fixture: whole, AllowUpdates: true, Operation: "op", Restart: func(context.Context) error { return nil },
		Now:  func() time.Time { return now },
		Wait: func(ctx context.Context, _ time.Duration) error { now = now.Add(time.Minute); return ctx.Err() },
	}, func(context.Context, types.NamespacedName) (map[string]string, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return map[string]string{
			v1alpha1.UpdatedAnnotation:      r.annotations[v1alpha1.UpdatedAnnotation],
			v1alpha1.UpdateFailedAnnotation: r.annotations[v1alpha1.UpdateFailedAnnotation],
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestGoodHandOverUpdater(t *testing.T) {
	t.Parallel()
	for _, point := range receive(t, &receiver{}).Points {
		if point.Status != conformance.Pass || point.Title == "" || point.Source == "" {
			t.Errorf("%+v", point)
		}
	}
}

// TestBadHandOverUpdaters has each rule broken, and expects its point to fail.
func TestBadHandOverUpdaters(t *testing.T) {
	t.Parallel()
	type change = func(r *receiver, seen int, request *updatesv1.HandOverRequest, response *updatesv1.HandOverResponse)
	in := func(phase updatesv1.Phase, from int, edit func(r *receiver, request *updatesv1.HandOverRequest, response *updatesv1.HandOverResponse)) change {
		return func(r *receiver, seen int, request *updatesv1.HandOverRequest, response *updatesv1.HandOverResponse) {
			if request.Phase == phase && seen >= from {
				edit(r, request, response)
			}
		}
	}
	declines := func(_ *receiver, _ *updatesv1.HandOverRequest, response *updatesv1.HandOverResponse) {
		response.Accepted = false
	}
	accepts := func(_ *receiver, _ *updatesv1.HandOverRequest, response *updatesv1.HandOverResponse) {
		response.Accepted = true
	}
	for id, change := range map[string]change{
		"hand-over.answers": in(updatesv1.Offer, 1, func(_ *receiver, _ *updatesv1.HandOverRequest, response *updatesv1.HandOverResponse) {
			response.Kind = "Other"
		}),
		"hand-over.unknown-phase":    in("Conformance", 1, accepts),
		"hand-over.offer":            in(updatesv1.Offer, 2, declines),
		"hand-over.offer-repeatable": in(updatesv1.Offer, 6, declines),
		"hand-over.choose": in(updatesv1.Choose, 1, func(_ *receiver, _ *updatesv1.HandOverRequest, response *updatesv1.HandOverResponse) {
			response.Machines = []updatesv1.ObjectName{{Namespace: "ns", Name: "another"}}
		}),
		"hand-over.unknown-machine":  in(updatesv1.Start, 1, accepts),
		"hand-over.cancel-unknown":   in(updatesv1.Cancel, 1, declines),
		"hand-over.start-repeatable": in(updatesv1.Start, 3, declines),
		"hand-over.restart":          in(updatesv1.Start, 4, declines),
		"hand-over.marks": in(updatesv1.Start, 1, func(r *receiver, _ *updatesv1.HandOverRequest, _ *updatesv1.HandOverResponse) {
			delete(r.annotations, v1alpha1.UpdatedAnnotation)
			r.annotations[v1alpha1.UpdateFailedAnnotation] = "op: no disk"
		}),
		"hand-over.done-again": in(updatesv1.Cancel, 2, declines),
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := &receiver{}
			r.change = func(seen int, request *updatesv1.HandOverRequest, response *updatesv1.HandOverResponse) {
				change(r, seen, request, response)
			}
			report := receive(t, r)
			if diff := cmp.Diff(id, ids(report, conformance.Fail)[0]); diff != "" {
				t.Errorf("the first point that fails (-want +got)\n%s\n%+v", diff, report.Points)
			}
		})
	}
}

// TestHandOverWithoutUpdates skips what would change a machine.
func TestHandOverWithoutUpdates(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(&receiver{seen: make(map[updatesv1.Phase]int), annotations: map[string]string{}})
	t.Cleanup(server.Close)
	report, err := conformance.RunHandOver(t.Context(), conformance.Options{
		URL: server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"hand-over.start-repeatable", "hand-over.restart", "hand-over.marks", "hand-over.done-again"}
	if diff := cmp.Diff(want, ids(report, conformance.Skipped)); diff != "" || report.Count(conformance.Fail) > 0 {
		t.Errorf("skipped (-want +got)\n%s\n%+v", diff, report.Points)
	}
}

// TestHandOverDeclinedOffer sends no Start for the fixture's machine after its offer was declined, and gives the reason.
func TestHandOverDeclinedOffer(t *testing.T) {
	t.Parallel()
	var started []updatesv1.ObjectName
	report := receive(t, &receiver{change: func(_ int, request *updatesv1.HandOverRequest, response *updatesv1.HandOverResponse) {
		switch request.Phase {
		case updatesv1.Offer:
			response.Accepted, response.Reason = false, "frozen"
		case updatesv1.Start:
			started = append(started, request.Machines...)
		case updatesv1.Choose, updatesv1.Cancel, updatesv1.HandOver:
		}
	}})
	reasons := map[string]string{}
	for _, point := range report.Points {
		if point.Status == conformance.Skipped {
			reasons[point.ID] = point.Reason
		}
	}
	const why = "the offer was not accepted: frozen"
	want := map[string]string{
		"hand-over.offer":            "it declines: frozen. Fix: give a change and a Machine that it accepts with --fixture",
		"hand-over.start-repeatable": why, "hand-over.restart": why, "hand-over.marks": why, "hand-over.done-again": why,
	}
	if diff := cmp.Diff(want, reasons); diff != "" || report.Count(conformance.Fail) > 0 {
		t.Errorf("skipped (-want +got)\n%s\n%+v", diff, report.Points)
	}
	if slices.ContainsFunc(started, func(m updatesv1.ObjectName) bool { return m.Name == "worker-0" }) {
		t.Errorf("a Start was sent for %v", started)
	}
}

// TestHandOverWithoutItsProtocol runs the battery of the hooks against a hand-over updater.
func TestHandOverWithoutItsProtocol(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(&receiver{seen: make(map[updatesv1.Phase]int), annotations: map[string]string{}})
	t.Cleanup(server.Close)
	report, err := conformance.Run(t.Context(), conformance.Options{
		URL: server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	})
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, point := range report.Points {
		if point.Status == conformance.Fail {
			failed = append(failed, point.ID+": "+point.Reason)
		}
	}
	want := []string{"discovery.answers: the answer is a HandOverResponse: this is a hand-over updater. Fix: add --protocol HandOver"}
	if diff := cmp.Diff(want, failed); diff != "" {
		t.Errorf("failed (-want +got)\n%s", diff)
	}
}
