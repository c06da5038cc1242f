package peers_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/test/wire"
)

// extensions has each fault of a runtime extension that `windlass manager` calls. The
// Discovered condition names it, and is True once the extension is well.
func extensions(t *testing.T, plane *wire.Plane, _ *wire.Process) {
	t.Helper()
	// The manager must not touch the Clusters of the other tests.
	manager := plane.RunManager(t, "--feature-gates=ClusterTopology=true,RuntimeSDK=true,InPlaceUpdates=true", "--namespace", plane.Namespace(t))
	healthy := wire.NewUpdater(t)
	wants := map[string]string{
		"endless": "it has more than 20 MiB", "slow": "none within 10s", "redirecting": "HTTP status 307", "429": "HTTP status 429",
		"garbage": "it does not decode", "wrong certificate": "certificate is not accepted", "truncated": "the connection ended before the answer was complete",
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, f, healthy)
			config := &runtimev1.ExtensionConfig{
				ObjectMeta: metav1.ObjectMeta{Name: "extension-" + strings.ReplaceAll(f.name, " ", "-")},
				Spec: runtimev1.ExtensionConfigSpec{
					ClientConfig: runtimev1.ClientConfig{URL: p.URL, CABundle: p.Authority.PEM}, NamespaceSelector: nowhere(),
				},
			}
			create(t, plane, config)
			shown := awaitDiscovered(t, plane, config.Name, metav1.ConditionFalse, wants[f.name])
			if f.name == "429" {
				// The start of a failed answer is shown beside its status, because the operator
				// registered the extension.
				shown = strings.ReplaceAll(shown, marked, "")
			}
			checkShown(t, shown, wants[f.name])
			checkShown(t, shown, config.Name)
			manager.AwaitReady(t)
			checkMemory(t, manager)
			p.well.Store(true)
			// A change has it asked at once, not after a backoff.
			change := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"peers.test/well":"true"}}}`))
			if err := plane.Client.Patch(t.Context(), config, change); err != nil {
				t.Fatal(err)
			}
			awaitDiscovered(t, plane, config.Name, metav1.ConditionTrue, "")
			p.checkNothingLeaked(t)
		})
	}
}

// awaitDiscovered waits until the Discovered condition of an ExtensionConfig has a status and a
// word in its message, which it returns.
func awaitDiscovered(t *testing.T, plane *wire.Plane, name string, want metav1.ConditionStatus, word string) (message string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := wire.Await(ctx, plane.Client, &runtimev1.ExtensionConfigList{}, func(seen *runtimev1.ExtensionConfig) bool {
		discovered := meta.FindStatusCondition(seen.Status.Conditions, runtimev1.ExtensionConfigDiscoveredCondition)
		if seen.Name != name || discovered == nil {
			return false
		}
		message = discovered.Message
		return discovered.Status == want && strings.Contains(message, word)
	})
	if err != nil {
		t.Fatalf("ExtensionConfig %s does not become Discovered=%s with %q: %v; the last message is %q", name, want, word, err, message)
	}
	return message
}
