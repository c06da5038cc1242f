package hookserver_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/internal/gate"
	"github.com/windlass-dev/windlass/internal/hookserver"
)

// gates answers by the name of the Cluster, and says in its answers what it was asked.
type gates struct{}

func (gates) Ask(_ context.Context, cluster *clusterv1.Cluster, step gate.Step) (gate.Verdict, error) {
	switch cluster.Name {
	case "broken":
		return gate.Verdict{}, errors.New("listing the UpgradeGates: no")
	case "open":
		return gate.Verdict{}, nil
	case "forged":
		return gate.Verdict{}, &gate.NotDueError{Step: step, Why: "the control plane is at v1.31.1"}
	default:
		return gate.Verdict{RetryAfter: 1200 * time.Millisecond, Findings: []gate.Finding{{Gate: "g", Reason: gate.NotApproved, Message: fmt.Sprintf("%s at %s", cluster.Name, step.Hook)}}}, nil
	}
}

// lifecycleHooks are the hooks, in the words of messages, with the field of the request that holds the version.
var lifecycleHooks = []struct {
	hook                 runtimecatalog.Hook
	name, words, version string
}{
	{runtimehooksv1.BeforeClusterUpgrade, "before-cluster-upgrade", "before cluster", "toKubernetesVersion"},
	{runtimehooksv1.BeforeControlPlaneUpgrade, "before-control-plane-upgrade", "before control plane", "toKubernetesVersion"},
	{runtimehooksv1.AfterControlPlaneUpgrade, "after-control-plane-upgrade", "after control plane", "kubernetesVersion"},
	{runtimehooksv1.BeforeWorkersUpgrade, "before-workers-upgrade", "before workers", "toKubernetesVersion"},
	{runtimehooksv1.AfterWorkersUpgrade, "after-workers-upgrade", "after workers", "kubernetesVersion"},
	{runtimehooksv1.AfterClusterUpgrade, "after-cluster-upgrade", "after cluster", "kubernetesVersion"},
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	ca, dir := newAuthority(t), t.TempDir()
	ca.install(t, dir, 2)
	url := serve(t, hookserver.Options{Endpoint: hookserver.Endpoint{CertDir: dir}, Graphs: graphs{stable()}, Gates: gates{}})
	trusting := client(&tls.Config{RootCAs: ca.Pool()})
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"generate-upgrade-plan": "GenerateUpgradePlan Fail 10"}
	for _, h := range lifecycleHooks {
		gvh, err := catalog.GroupVersionHook(h.hook)
		if err != nil {
			t.Fatal(err)
		}
		want[h.name] = gvh.Hook + " Fail 10"
		ask := func(body string) runtimehooksv1.CommonRetryResponse {
			var got runtimehooksv1.CommonRetryResponse
			post(t, trusting, url+runtimecatalog.GVHToPath(gvh, h.name), []byte(body), &got)
			return got
		}
		request := func(cluster, version string) string {
			encoded, err := json.Marshal(map[string]any{
				"apiVersion": gvh.GroupVersion().String(), "kind": gvh.Hook + "Request", "fromKubernetesVersion": "v1.31.1", h.version: version,
				"settings": map[string]string{"graph": "stable"}, "cluster": clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: cluster}},
			})
			if err != nil {
				t.Fatal(err)
			}
			return string(encoded)
		}
		held := ask(request("held", "v1.32.4"))
		message := fmt.Sprintf("gate g: %s v1.32.4: held at %s", h.words, h.words)
		if held.Status != runtimehooksv1.ResponseStatusSuccess || held.RetryAfterSeconds != 2 || held.Message != message {
			t.Errorf("%s: a step that is held got %+v, want %q", h.name, held, message)
		}
		if open := ask(request("open", "v1.32.4")); open.Status != runtimehooksv1.ResponseStatusSuccess || open.RetryAfterSeconds != 0 || open.Message != "" {
			t.Errorf("%s: a step that may go on got %+v", h.name, open)
		}
		for _, body := range []string{request("broken", "v1.32.4"), request("open", "latest"), request("open", ""), "", `{"cluster":1}`} {
			if got := ask(body); got.Status != runtimehooksv1.ResponseStatusFailure || got.Message == "" || got.RetryAfterSeconds != 0 {
				t.Errorf("%s: %q got %+v", h.name, body, got)
			}
		}
		// Who forges a call learns nothing from the answer.
		if got := ask(request("forged", "v1.32.4")); got.Status != runtimehooksv1.ResponseStatusFailure || got.Message != "the Cluster does not show that this hook is due" {
			t.Errorf("%s: a call that is not due got %+v", h.name, got)
		}
		if long := ask(request(strings.Repeat("x", 10_000), "v1.32.4")); len(long.Message) > 2048 || long.RetryAfterSeconds != 2 {
			t.Errorf("%s: a message of %d bytes, retry %d", h.name, len(long.Message), long.RetryAfterSeconds)
		}
	}
	path, body := encode(t, runtimehooksv1.Discovery, &runtimehooksv1.DiscoveryRequest{})
	var discovered runtimehooksv1.DiscoveryResponse
	post(t, trusting, url+path, body, &discovered)
	got := map[string]string{}
	for _, h := range discovered.Handlers {
		got[h.Name] = fmt.Sprintf("%s %s %d", h.RequestHook.Hook, *h.FailurePolicy, *h.TimeoutSeconds)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("discovery (-want +got):\n%s", diff)
	}
}
