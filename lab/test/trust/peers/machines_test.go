package peers_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// in matches one namespace.
func in(namespace string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
}

// apiServers has each fault of the API server of a workload cluster. The answer of
// UpdateMachine, which Cluster API shows on the Machine, names it, and the update goes on once the
// server is well.
func apiServers(t *testing.T, plane *wire.Plane, extension *wire.Process) {
	t.Helper()
	wants := map[string]string{
		"endless": "the answer has more than 16 MiB", "slow": "no complete answer in time", "redirecting": "a redirect (HTTP status 307)",
		"429": "too many requests", "garbage": "not one of an API server", "wrong certificate": "certificate signed by unknown authority",
		"truncated": "the connection ended before the answer was complete",
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			pool := plane.NewPool(t, "a")
			updater := wire.NewUpdater(t)
			updater.Update = func(request *runtimehooksv1.UpdateMachineRequest) wire.Answer {
				pool.Workload.SetNode(request.Desired.Machine.Name, request.Desired.Machine.Spec.Version)
				return wire.Answer{Status: runtimehooksv1.ResponseStatusSuccess}
			}
			object := updater.Object("api-server-" + strings.ReplaceAll(f.name, " ", "-"))
			object.Spec.NamespaceSelector = in(pool.Namespace)
			create(t, plane, object)
			p := newPeer(t, f, pool.Workload)
			lead(t, plane, pool, p)
			if answer := extension.Call(t, wire.CanUpdateMachineSet, pool.Question(t)); answer.Status != runtimehooksv1.ResponseStatusSuccess {
				t.Fatalf("CanUpdateMachineSet: %+v", answer)
			}
			pool.Move(t, "a")
			shown := awaitUpdate(t, extension, pool, func(a wire.Answer) bool { return strings.Contains(a.Message, wants[f.name]) })
			checkShown(t, shown.Message, wants[f.name])
			checkShown(t, shown.Message, pool.Namespace+"/"+wire.ClusterName)
			checkProcess(t, extension)
			p.well.Store(true)
			awaitUpdate(t, extension, pool, func(a wire.Answer) bool { return a.RetryAfterSeconds == 0 })
			p.checkNothingLeaked(t)
		})
	}
}

// lead makes the kubeconfig of a pool's Cluster lead to a peer.
func lead(t *testing.T, plane *wire.Plane, pool *wire.Pool, p *peer) {
	t.Helper()
	secret := wire.KubeconfigSecret(t, pool.Namespace, wire.ClusterName, p.URL, p.Authority.PEM, pool.Workload.Token)
	if err := plane.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

// awaitUpdate calls UpdateMachine for machine a as Cluster API does, until an answer is accepted.
func awaitUpdate(t *testing.T, extension *wire.Process, pool *wire.Pool, accept func(wire.Answer) bool) wire.Answer {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		answer := extension.Call(t, wire.UpdateMachine, pool.Update(t, "a"))
		switch {
		case accept(answer):
			return answer
		case answer.Status != runtimehooksv1.ResponseStatusSuccess || answer.RetryAfterSeconds == 0 || time.Now().After(deadline):
			t.Fatalf("UpdateMachine answers %+v", answer)
		}
		t.Logf("UpdateMachine answers %+v", answer)
		extension.Wait(t, answer)
	}
}

// k8sds has each fault of the k8sd of a machine. The answer of UpdateMachine names it. Whether
// k8sd began what a broken answer was about is not known, so nothing is asked for again; another
// machine is updated once k8sd is well.
func k8sds(t *testing.T, plane *wire.Plane, extension *wire.Process) {
	t.Helper()
	wants := map[string]string{
		"endless": "k8sd's answer is longer than", "slow": "no complete answer in time", "redirecting": "k8sd answered 307", "429": "k8sd answered 429",
		"garbage": "not one of k8sd", "wrong certificate": "certificate signed by unknown authority", "truncated": "unexpected EOF",
	}
	healthy := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"type":"sync","metadata":{"changeId":"7","change-id":"7"}}`)) // The caller may be gone.
	})
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, f, healthy)
			first, second := newK8sdPool(t, plane, p, "1-"+f.name), newK8sdPool(t, plane, p, "2-"+f.name)
			begin := func(pool *wire.Pool) {
				if answer := extension.Call(t, wire.CanUpdateMachineSet, pool.Question(t)); answer.Status != runtimehooksv1.ResponseStatusSuccess {
					t.Fatalf("CanUpdateMachineSet: %+v", answer)
				}
				pool.Move(t, "a")
			}
			begin(first)
			shown := awaitUpdate(t, extension, first, func(a wire.Answer) bool { return strings.Contains(a.Message, wants[f.name]) })
			checkShown(t, shown.Message, wants[f.name])
			checkShown(t, shown.Message, "k8sd")
			checkProcess(t, extension)
			p.well.Store(true)
			asked := p.asked.Load()
			begin(second)
			awaitUpdate(t, extension, second, func(wire.Answer) bool { return p.asked.Load() > asked })
			p.checkNothingLeaked(t)
		})
	}
}

// newK8sdPool creates a pool whose machine's k8sd is a peer.
func newK8sdPool(t *testing.T, plane *wire.Plane, p *peer, name string) *wire.Pool {
	t.Helper()
	pool := plane.NewPool(t, "a")
	address, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		t.Fatal(err)
	}
	plane.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: wire.ClusterName + "-token"},
		Data:       map[string][]byte{"node-token-a": []byte("token-of-a-node")},
	})
	create(t, plane, &v1alpha1.Updater{
		ObjectMeta: metav1.ObjectMeta{Name: "k8sd-" + strings.ReplaceAll(name, " ", "-")},
		Spec: v1alpha1.UpdaterSpec{
			NamespaceSelector: in(pool.Namespace), Transitions: v1alpha1.Transitions{MaxMinors: 1},
			InProcess: &v1alpha1.InProcessUpdater{Kind: v1alpha1.K8sdUpdater, K8sd: &v1alpha1.K8sdConfig{
				Reach: v1alpha1.K8sdDirect, DirectHost: address.Hostname(), Port: int32(port),
				TLS: v1alpha1.K8sdTLS{CABundle: p.Authority.PEM}, Channel: "{minor}-classic/stable",
			}},
		},
	})
	return pool
}
