package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

// upgradeHooks are the hooks that the extension is registered for.
var upgradeHooks = []wire.Hook{
	wire.BeforeClusterUpgrade, wire.BeforeControlPlaneUpgrade, wire.AfterControlPlaneUpgrade, wire.BeforeWorkersUpgrade,
	wire.AfterWorkersUpgrade, wire.AfterClusterUpgrade,
}

// extension is a runtime extension that keeps a journal of what it is called for.
type extension struct {
	// look says where the control plane is when a hook is called.
	look func() string

	server    *httptest.Server
	authority *loopback.Authority
	mu        sync.Mutex
	// journal has no entry twice in a row, because hooks that block are called again and again.
	journal []string
	// blocked are the hooks that ask to be called again; changed is closed and replaced with each call.
	blocked map[string]bool
	changed chan struct{}
	// plans are the answers to GenerateUpgradePlan, by the Cluster's name. Without any, it is not served.
	plans map[string]runtimehooksv1.GenerateUpgradePlanResponse
}

// newExtension serves until the test ends, and creates the ExtensionConfig of a namespace.
func newExtension(t *testing.T, plane *wire.Plane, namespace string, look func() string) *extension {
	t.Helper()
	e := &extension{look: look, blocked: map[string]bool{}, changed: make(chan struct{})}
	e.serve(t, plane, namespace)
	return e
}

// serve serves until the test ends, and creates the ExtensionConfig of a namespace.
func (e *extension) serve(t *testing.T, plane *wire.Plane, namespace string) {
	t.Helper()
	e.authority = loopback.NewAuthority(t, "extension")
	e.server = httptest.NewUnstartedServer(e)
	e.server.TLS = e.authority.Server(t)
	e.server.StartTLS()
	t.Cleanup(e.server.Close)
	e.register(t, plane, namespace)
}

// register creates the ExtensionConfig of a namespace.
func (e *extension) register(t *testing.T, plane *wire.Plane, namespace string) {
	t.Helper()
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: runtimev1.ExtensionConfigSpec{
		ClientConfig:      runtimev1.ClientConfig{URL: e.server.URL, CABundle: e.authority.PEM},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
	}}
	plane.Create(t, config)
	// The managers of later tests must not wait for an extension that is gone. The test's own context has ended by then.
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := plane.Client.Delete(ctx, config); err != nil {
			t.Error(err)
		}
	})
}

// ServeHTTP answers a hook.
func (e *extension) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for _, hook := range upgradeHooks {
		if r.URL.Path == hook.Path() {
			_ = json.NewEncoder(w).Encode(e.answer(hook.Hook, r)) // The caller may be gone.
			return
		}
	}
	if e.plans != nil && r.URL.Path == wire.GenerateUpgradePlan.Path() {
		var request runtimehooksv1.GenerateUpgradePlanRequest
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(e.plans[request.Cluster.Name]) // The caller may be gone.
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/discovery") {
		http.NotFound(w, r)
		return
	}
	response := runtimehooksv1.DiscoveryResponse{CommonResponse: runtimehooksv1.CommonResponse{Status: runtimehooksv1.ResponseStatusSuccess}}
	hooks := upgradeHooks
	if e.plans != nil {
		hooks = []wire.Hook{wire.GenerateUpgradePlan}
	}
	for _, hook := range hooks {
		response.Handlers = append(response.Handlers, runtimehooksv1.ExtensionHandler{
			Name: hook.Handler, RequestHook: runtimehooksv1.GroupVersionHook{APIVersion: runtimehooksv1.GroupVersion.String(), Hook: hook.Hook},
		})
	}
	_ = json.NewEncoder(w).Encode(response) // The caller may be gone.
}

func (e *extension) answer(hook string, r *http.Request) wire.Answer {
	var request struct {
		KubernetesVersion   string `json:"kubernetesVersion"`
		ToKubernetesVersion string `json:"toKubernetesVersion"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return wire.Answer{Status: runtimehooksv1.ResponseStatusFailure, Message: err.Error()}
	}
	e.note(fmt.Sprintf("%s %s%s while the control plane is at %s", hook, request.ToKubernetesVersion, request.KubernetesVersion, e.look()))
	e.mu.Lock()
	defer e.mu.Unlock()
	answer := wire.Answer{Status: runtimehooksv1.ResponseStatusSuccess}
	if e.blocked[hook] {
		answer.Message, answer.RetryAfterSeconds = "not now", 1
	}
	return answer
}

// note adds an entry to the journal.
func (e *extension) note(entry string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.journal); n == 0 || e.journal[n-1] != entry {
		e.journal = append(e.journal, entry)
	}
	close(e.changed)
	e.changed = make(chan struct{})
}

// block sets whether a hook asks to be called again.
func (e *extension) block(hook wire.Hook, blocks bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.blocked[hook.Hook] = blocks
}

// entries returns the journal.
func (e *extension) entries() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string{}, e.journal...)
}

// want checks the journal.
func (e *extension) want(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, e.entries()); diff != "" {
		t.Errorf("the hooks (-want +got):\n%s", diff)
	}
}

// await waits until the hook is called again after now.
func (e *extension) await(t *testing.T, hook wire.Hook) {
	t.Helper()
	deadline := deadline(t)
	for {
		e.mu.Lock()
		changed := e.changed
		e.mu.Unlock()
		select {
		case <-changed:
		case <-deadline.Done():
			t.Fatalf("%s was not called; what was: %q", hook.Hook, e.entries())
		}
		if entries := e.entries(); strings.HasPrefix(entries[len(entries)-1], hook.Hook+" ") {
			return
		}
	}
}
