// Package access_test checks who may call the hooks, and what the extension's ServiceAccount may do with the manifests in config/ installed. With
// --client-ca-name, only callers that present a certificate are served: Cluster API's core manager and `windlass manager`, as real processes.
package access_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

func TestMain(m *testing.M) { wire.Main(m) }

// patience is how long a caller may take to read its certificate again; far beyond what a busy machine needs.
const patience = 3 * time.Minute

// extension is `windlass extension` with a client CA.
type extension struct {
	plane   *wire.Plane
	process *wire.Inside
	serving *loopback.Authority
	// caFile is the client CA.
	caFile string
	config *runtimev1.ExtensionConfig
}

// startExtension starts an extension that trusts the certificates of an authority. Names are unique, so that each has a log of its own.
func startExtension(t *testing.T, name string, callers *loopback.Authority) *extension {
	t.Helper()
	e := &extension{plane: wire.Start(t), serving: loopback.NewAuthority(t, "serving")}
	dir := t.TempDir()
	e.serving.Issue(t, "windlass", time.Now().Add(time.Hour)).WriteTo(t, dir)
	e.caFile = filepath.Join(dir, "callers.crt")
	e.trust(t, callers)
	e.process = e.plane.RunInside(t, name, e.plane.Executable, []string{
		"extension", "--kubeconfig=$(KUBECONFIG)", "--bind-address=127.0.0.1", "--port=$(PORT_hooks)", "--guard-port=$(PORT_guard)",
		"--health-addr=127.0.0.1:$(PORT_health)", "--cert-dir=" + dir, "--client-ca-name=callers.crt",
		"--diagnostics-address=127.0.0.1:$(PORT_diagnostics)",
	}, "/readyz", "hooks", "guard", "diagnostics")
	return e
}

// trust replaces the client CA in one step, as a kubelet does.
func (e *extension) trust(t *testing.T, callers *loopback.Authority) {
	t.Helper()
	if err := os.WriteFile(e.caFile+".new", callers.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(e.caFile+".new", e.caFile); err != nil {
		t.Fatal(err)
	}
}

// startManager starts a core manager, and registers the extension with it.
func (e *extension) startManager(t *testing.T, name, program string, args ...string) *wire.Inside {
	t.Helper()
	manager := e.plane.RunInside(t, name, program, append(args,
		"--kubeconfig=$(KUBECONFIG)", "--leader-elect=false", "--webhook-port=$(PORT_webhook)", "--webhook-cert-dir=$(CERT_DIR)",
		"--health-addr=127.0.0.1:$(PORT_health)", "--diagnostics-address=127.0.0.1:$(PORT_diagnostics)", "--insecure-diagnostics",
		"--feature-gates=ClusterTopology=true,RuntimeSDK=true",
	), "/readyz", "webhook", "diagnostics")
	e.config = &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{
			URL: "https://127.0.0.1:" + strconv.Itoa(int(e.process.Ports["hooks"])), CABundle: e.serving.PEM,
		}},
	}
	e.plane.Create(t, e.config)
	t.Cleanup(func() {
		if err := e.plane.Client.Delete(context.WithoutCancel(t.Context()), e.config); err != nil {
			t.Error(err)
		}
	})
	return manager
}

// await asks the manager to call the extension again and again, until the outcome is the wanted one. Without calls a change of files goes unnoticed.
func (e *extension) await(t *testing.T, step string, want metav1.ConditionStatus) {
	t.Helper()
	deadline := time.Now().Add(patience)
	var found *metav1.Condition
	for i := 0; time.Now().Before(deadline); i++ {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"again":"%s %d"}}}`, step, i)
		if err := e.plane.Client.Patch(t.Context(), e.config, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := wire.Await(ctx, e.plane.Client, &runtimev1.ExtensionConfigList{}, func(seen *runtimev1.ExtensionConfig) bool {
			if seen.Name != e.config.Name {
				return false
			}
			found = meta.FindStatusCondition(seen.Status.Conditions, runtimev1.ExtensionConfigDiscoveredCondition)
			return found != nil && found.Status == want && (want != metav1.ConditionTrue || len(seen.Status.Handlers) > 0)
		})
		cancel()
		if err == nil {
			return
		}
	}
	t.Fatalf("%s: the extension is not Discovered=%s: %+v", step, want, found)
}

// checkLog waits until the extension's log tells why it refused a call: it writes the line after the caller has the answer.
func (e *extension) checkLog(t *testing.T, reason string) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(time.Minute)
	for !strings.Contains(e.process.Log(t), reason) {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("the extension did not refuse a call because of %q", reason)
		}
	}
}

// TestClientCertificates exchanges certificates and CAs under a running caller and a running extension.
func TestClientCertificates(t *testing.T) {
	plane := wire.Start(t)
	for _, tt := range []struct {
		name, program string
		args          []string
	}{
		{name: "cluster-api", program: plane.CoreManager},
		{name: "windlass-manager", program: plane.Executable, args: []string{"manager"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first, second := loopback.NewAuthority(t, "first"), loopback.NewAuthority(t, "second")
			e := startExtension(t, "extension-for-"+tt.name, first)
			soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Minute)
			good := first.Issue(t, "caller", soon)
			dir := t.TempDir()
			good.WriteTo(t, dir)
			manager := e.startManager(t, tt.name, tt.program, append(tt.args,
				"--runtime-extension-client-cert-file="+filepath.Join(dir, "tls.crt"), "--runtime-extension-client-key-file="+filepath.Join(dir, "tls.key"))...)
			e.await(t, "a certificate of the CA", metav1.ConditionTrue)

			first.Issue(t, "caller", past).WriteTo(t, dir)
			e.await(t, "an expired certificate", metav1.ConditionFalse)
			e.checkLog(t, "certificate has expired")
			good.WriteTo(t, dir)
			e.await(t, "a valid certificate again", metav1.ConditionTrue)

			second.Issue(t, "caller", soon).WriteTo(t, dir)
			e.await(t, "a certificate of another CA", metav1.ConditionFalse)
			e.checkLog(t, "signed by unknown authority")
			e.trust(t, second)
			e.await(t, "a new CA", metav1.ConditionTrue)

			// The caller keeps its connections, and its certificate.
			e.trust(t, first)
			e.await(t, "the CA of the caller withdrawn", metav1.ConditionFalse)
			manager.CheckNotRestarted(t)
			e.process.CheckNotRestarted(t)
		})
	}
}

// TestNoClientCertificate calls as Cluster API does by default.
func TestNoClientCertificate(t *testing.T) {
	e := startExtension(t, "extension-for-anonymous", loopback.NewAuthority(t, "callers"))
	e.startManager(t, "anonymous", e.plane.CoreManager)
	e.await(t, "no certificate", metav1.ConditionFalse)
	e.checkLog(t, "client didn't provide a certificate")
}
