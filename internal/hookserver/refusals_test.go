package hookserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/internal/inplace/engine"
)

// refusalsOf returns what a registry counts, by hook and reason.
func refusalsOf(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := []string{family.GetName()}
			for _, label := range m.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			counts[strings.Join(labels, " ")] = m.GetCounter().GetValue()
		}
	}
	return counts
}

// TestRefusalsAreSeen forges calls of two hooks through a port. Each counts, and some lines of the
// log have the address of the caller. Calls of this process, and other errors, do not count.
func TestRefusalsAreSeen(t *testing.T) {
	t.Parallel()
	const calls, most = 50, 5
	registry, updates := prometheus.NewRegistry(), &scriptedUpdates{}
	refusals, err := hookserver.NewRefusals(registry)
	if err != nil {
		t.Fatal(err)
	}
	hooks, err := hookserver.New(hookserver.Options{
		Endpoint: hookserver.Endpoint{Port: 1, CertDir: t.TempDir()},
		Updates:  updates, Gates: gates{}, Refusals: refusals,
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	call := func(ctx context.Context) {
		ctx = log.IntoContext(ctx, logger)
		for _, h := range hooks.Handlers() {
			switch f := h.HandlerFunc.(type) {
			case func(
				context.Context, *runtimehooksv1.UpdateMachineRequest, *runtimehooksv1.UpdateMachineResponse,
			):
				f(ctx, &runtimehooksv1.UpdateMachineRequest{}, &runtimehooksv1.UpdateMachineResponse{})
			case func(
				context.Context, *runtimehooksv1.BeforeClusterUpgradeRequest,
				*runtimehooksv1.BeforeClusterUpgradeResponse,
			):
				request := &runtimehooksv1.BeforeClusterUpgradeRequest{ToKubernetesVersion: "v1.32.0"}
				request.Cluster.Name = "forged"
				f(ctx, request, &runtimehooksv1.BeforeClusterUpgradeResponse{})
			}
		}
	}
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { call(r.Context()) })
	port := httptest.NewServer(hookserver.NewIntake()(handler))
	defer port.Close()
	send := func() {
		body := strings.NewReader("{}")
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, port.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := port.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	updates.err = &engine.UnaskedError{Reason: engine.NotMarked, Message: "Machine a/b has no annotation"}
	call(t.Context())
	for range calls {
		send()
	}
	updates.err = &engine.UnaskedError{Reason: engine.KindUnknown, Message: "a kind keeps no contract"}
	send()
	want := map[string]float64{
		"windlass_hook_refusals_total UpdateMachine " + engine.NotMarked:         calls,
		"windlass_hook_refusals_total BeforeClusterUpgrade " + gate.NotDueReason: calls + 1,
	}
	if diff := cmp.Diff(want, refusalsOf(t, registry)); diff != "" {
		t.Errorf("the counts differ (-want +got):\n%s", diff)
	}
	seen := 0
	for _, line := range lines {
		if strings.Contains(line, "Refused a call of a hook") {
			seen++
			if !strings.Contains(line, "127.0.0.1") {
				t.Errorf("the line %q has no address", line)
			}
		}
	}
	if seen == 0 || seen > most {
		t.Errorf("%d calls cause %d lines, want 1 to %d", 2*calls, seen, most)
	}
}

// TestRefusalsAreListed holds that the page about metrics lists each reason.
func TestRefusalsAreListed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(page), "| `reason` of `windlass_hook_refusals_total` |")
	row, _, _ = strings.Cut(row, "\n")
	for _, reason := range []string{
		engine.NotMarked, engine.RequestDiffers, engine.CurrentDiffers, engine.DesiredDiffers, gate.NotDueReason,
	} {
		if !strings.Contains(row, "`"+reason+"`") {
			t.Errorf("the page does not list the reason %s", reason)
		}
	}
}
