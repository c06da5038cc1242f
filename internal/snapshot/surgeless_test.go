package snapshot

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/policy"
)

// TestSurgeless: a rollout that removes a machine first is a danger for a control plane of one and of two.
func TestSurgeless(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		replicas  int64
		surge     any
		inPlace   bool
		fatal, ok bool
	}{
		"one":               {replicas: 1, surge: int64(0), fatal: true, ok: true},
		"one, as text":      {replicas: 1, surge: "0", fatal: true, ok: true},
		"two":               {replicas: 2, surge: int64(0), ok: true},
		"three":             {replicas: 3, surge: int64(0)},
		"none":              {replicas: 0, surge: int64(0)},
		"one, and one more": {replicas: 1, surge: int64(1)},
		"one, by default":   {replicas: 1},
		"one that is kept":  {replicas: 1, surge: int64(0), inPlace: true},
	} {
		spec := map[string]any{"replicas": tt.replicas}
		if tt.surge != nil {
			spec["rolloutStrategy"] = map[string]any{"rollingUpdate": map[string]any{"maxSurge": tt.surge}}
		}
		o := Objects{Cluster: &clusterv1.Cluster{}, ControlPlane: &unstructured.Unstructured{Object: map[string]any{
			"kind": "RKE2ControlPlane", "spec": spec,
		}}}
		f, fatal, ok := Surgeless(o, policy.Policy{InPlace: tt.inPlace})
		if fatal != tt.fatal || ok != tt.ok || ok == (f.Message == "" || f.Fix == "") {
			t.Errorf("%s: %+v, %t, %t", name, f, fatal, ok)
		}
	}
}
