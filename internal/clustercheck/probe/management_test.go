package probe_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/doctor"
	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/preflight"
)

// TestPreflightTopology: what the Cluster's condition says is reported, also without the API server.
func TestPreflightTopology(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"reached": newAPI(nil).ServeHTTP, "hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		o := look(t, handler)
		o.Topology = preflight.Topology{Cluster: "prod", Failure: "it is immutable", Fix: "rotate it"}
		o.Scaled = []doctor.Scaled{{Subject: "MachineDeployment md-0", Message: "it is scaled"}}
		o.Webhooks.Faults = []preflight.Obstacle{{Subject: "Certificate a/b", Message: "it expires", Later: true}}
		found := outcomes(run(t, o))
		for _, id := range []clustercheck.ID{
			preflight.TopologyReconciles, preflight.AutoscalerInRollout, preflight.ManagementWebhooks,
		} {
			if found[id] != clustercheck.Warned {
				t.Errorf("%s: %s is %q", name, id, found[id])
			}
		}
	}
}

// TestSilentPreflight holds that an API server which does not answer ends no check later than its time.
func TestSilentPreflight(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	server := newAPI(nil)
	o := look(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/nodes" {
			server.ServeHTTP(w, r)
			return
		}
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	})
	defer close(ended)
	o.Timeout = 100 * time.Millisecond
	o.Requested = func(ctx context.Context) ([]gate.API, error) { <-ctx.Done(); return nil, ctx.Err() }
	for _, f := range run(t, o) {
		fromNodes := []clustercheck.ID{
			clustercheck.Nodes, preflight.VersionSkew, preflight.ControlPlaneCanMove,
			preflight.UpdateExtensions, preflight.ManagementWebhooks, preflight.MachineRequirements,
			preflight.TopologyReconciles, preflight.AutoscalerInRollout, preflight.NewMachinesCanJoin,
		}
		if f.Outcome == clustercheck.Passed && !slices.Contains(fromNodes, f.ID) {
			t.Errorf("%s passed without an answer: %s", f.ID, f.Message)
		}
	}
}
