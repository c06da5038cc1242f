// Package peers_test runs the product beside peers that are broken or hostile: API servers of
// workload clusters, remote updaters, updaters that machines are handed over to, k8sd, and runtime
// extensions. There is one test for each fault of each peer.
package peers_test

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	updatesv1 "github.com/windlass-dev/windlass/api/updates/v1alpha1"
	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// parallel is how many tests run at once unless -parallel tells otherwise. They wait more than they
// compute.
const parallel = "64"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	wire.Main(m)
}

func discard() *log.Logger { return log.New(io.Discard, "", 0) }

// patience is how long a test waits for what must happen; far beyond what a busy machine needs.
const patience = 3 * time.Minute

// nowhere matches no namespace: the updaters of this suite are asked whether they are there, and
// for no machine.
func nowhere() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"peers.test/none": "true"}}
}

// create creates an object that belongs to no namespace and ends with the test.
func create(t *testing.T, plane *wire.Plane, object client.Object) {
	t.Helper()
	plane.Create(t, object)
	t.Cleanup(func() {
		if err := plane.Client.Delete(context.WithoutCancel(t.Context()), object); err != nil {
			t.Error(err)
		}
	})
}

// checkShown checks what is shown of a fault: it names the fault, it is short, and it holds nothing
// that the peer sent.
func checkShown(t *testing.T, shown, want string) {
	t.Helper()
	if !strings.Contains(shown, want) {
		t.Errorf("shown is %q, want %q in it", shown, want)
	}
	if strings.Contains(shown, marked) {
		t.Errorf("shown is what the peer sent: %q", shown)
	}
	if len(shown) > 2<<10 {
		t.Errorf("shown are %d bytes", len(shown))
	}
}

// checkProcess checks that a process is well: it answers a hook while a peer is broken, and has had
// little memory.
func checkProcess(t *testing.T, extension *wire.Process) {
	t.Helper()
	if answer := extension.Call(t, wire.Hook{Hook: "Discovery"}, &runtimehooksv1.DiscoveryRequest{}); answer.Status != runtimehooksv1.ResponseStatusSuccess {
		t.Errorf("Discovery answers %+v", answer)
	}
	checkMemory(t, extension)
}

func checkMemory(t *testing.T, process *wire.Process) {
	t.Helper()
	if memory, limit := process.Memory(t), wire.MemoryLimit(t); memory > limit {
		t.Errorf("the process had %d MiB, and the manifest gives it %d", memory>>20, limit>>20)
	}
}

// TestFaults has each fault of each kind of peer, all at the same time, so that the process meets
// all of them at once.
func TestFaults(t *testing.T) {
	t.Parallel()
	plane := wire.Start(t)
	extension := plane.Run(t)
	for name, test := range map[string]func(*testing.T, *wire.Plane, *wire.Process){
		"APIServers": apiServers, "Updaters": updaters, "K8sd": k8sds, "Extensions": extensions,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, plane, extension)
		})
	}
}

// updaters has each fault of a remote updater of each protocol. The Ready condition names it, and
// is True again once the updater is well.
func updaters(t *testing.T, plane *wire.Plane, extension *wire.Process) {
	t.Helper()
	wants := map[string]string{
		"endless": "the answer has more than", "slow": "did not answer within 2s", "redirecting": "redirects are not followed", "429": "HTTP status 429",
		"garbage": "the answer is not the JSON", "wrong certificate": "certificate is not trusted", "truncated": "unexpected EOF",
	}
	for protocol, healthy := range map[v1alpha1.UpdaterProtocol]http.Handler{
		v1alpha1.RuntimeHooksProtocol: wire.NewUpdater(t),
		v1alpha1.HandOverProtocol: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(updatesv1.HandOverResponse{ // The caller may be gone.
				APIVersion: updatesv1.APIVersion, Kind: updatesv1.HandOverResponseKind, Reason: "nothing offered",
			})
		}),
	} {
		for _, f := range faults {
			t.Run(string(protocol)+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, f, healthy)
				// All but the slow one answer at once: their fault shows, however busy the machine is.
				patient := int32(20)
				if f.name == "slow" {
					patient = 2
				}
				updater := &v1alpha1.Updater{
					ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(string(protocol)) + "-" + strings.ReplaceAll(f.name, " ", "-")},
					Spec: v1alpha1.UpdaterSpec{NamespaceSelector: nowhere(), Remote: &v1alpha1.RemoteUpdater{
						Protocol: protocol, URL: p.URL, CABundle: p.Authority.PEM, TimeoutSeconds: patient, FailurePolicy: v1alpha1.UpdaterFail,
					}},
				}
				create(t, plane, updater)
				shown := awaitReady(t, plane, updater, metav1.ConditionFalse)
				checkShown(t, shown, wants[f.name])
				checkShown(t, shown, updater.Name)
				checkProcess(t, extension)
				p.well.Store(true)
				// A change of the spec has it asked at once, not after a minute.
				before := client.MergeFrom(updater.DeepCopy())
				updater.Spec.Remote.TimeoutSeconds = 10
				if err := plane.Client.Patch(t.Context(), updater, before); err != nil {
					t.Fatal(err)
				}
				awaitReady(t, plane, updater, metav1.ConditionTrue)
				p.checkNothingLeaked(t)
			})
		}
	}
}

// awaitReady waits until the Ready condition of an Updater's current spec has a status, and returns
// its message.
func awaitReady(t *testing.T, plane *wire.Plane, updater *v1alpha1.Updater, want metav1.ConditionStatus) (message string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := wire.Await(ctx, plane.Client, &v1alpha1.UpdaterList{}, func(seen *v1alpha1.Updater) bool {
		ready := meta.FindStatusCondition(seen.Status.Conditions, v1alpha1.ReadyCondition)
		if seen.Name != updater.Name || ready == nil || ready.ObservedGeneration < updater.Generation || ready.Status != want {
			return false
		}
		message = ready.Message
		return true
	})
	if err != nil {
		t.Fatalf("Updater %s does not become Ready=%s: %v", updater.Name, want, err)
	}
	return message
}
