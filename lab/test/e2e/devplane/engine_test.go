package devplane_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/hookserver"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// TestEngines starts a plane with our manager, exchanges it for the stock one and back, and kills it.
func TestEngines(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	config := b.config(t)
	var err error
	if config.Children, err = setup.EngineWindlass.Children(b.Windlass); err != nil {
		t.Fatal(err)
	}
	plane := start(t, config)
	c := newClient(t, plane)
	running := func(want setup.Engine) {
		t.Helper()
		status := statusOf(t, plane)
		if got, ok := setup.RunningEngine(status); !ok || got != want || status.Phase != devplane.PhaseRunning {
			t.Fatalf("engine %q, %v, phase %s, want %s", got, ok, status.Phase, want)
		}
		testWebhooks(t, c)
	}
	running(setup.EngineWindlass)
	testCluster(t, c)
	for _, engine := range []setup.Engine{setup.EngineStock, setup.EngineStock, setup.EngineWindlass} {
		if err := setup.SwitchEngine(t.Context(), plane, b.Windlass, engine); err != nil {
			t.Fatal(err)
		}
		running(engine)
	}
	if _, err := plane.StartChild(t.Context(), devplane.CoreManager); err == nil || !strings.Contains(err.Error(), "stop it before") {
		t.Errorf("starting the stock manager beside ours: %v", err)
	}
	if _, err := plane.KillChild(t.Context(), setup.ManagerName); err != nil {
		t.Fatal(err)
	}
	if engine, ok := setup.RunningEngine(statusOf(t, plane)); ok {
		t.Errorf("after a kill %s is running", engine)
	}
	if _, err := plane.StartChild(t.Context(), setup.ManagerName); err != nil {
		t.Fatal(err)
	}
	running(setup.EngineWindlass)
	child := childOf(t, plane, setup.ManagerName)
	if child.CPU == 0 || child.PeakResidentBytes < child.ResidentBytes || child.ResidentBytes == 0 {
		t.Errorf("it has used %s and %d of at most %d bytes", child.CPU, child.ResidentBytes, child.PeakResidentBytes)
	}
}

// TestManagerServesTheExtension has the manager do what the extension does: its own calls do not leave the process, others' come by HTTPS.
func TestManagerServesTheExtension(t *testing.T) {
	t.Parallel()
	b := setUp(t)
	plane := start(t, b.config(t))
	c := newClient(t, plane)
	if err := setup.Register(t.Context(), plane, b.Windlass); err != nil {
		t.Fatal(err)
	}
	// An extension that does not answer keeps the handlers of all others from being known.
	if err := c.Delete(t.Context(), object(extensionConfigVersion, "ExtensionConfig", "", setup.ExtensionName)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{setup.ExtensionName, devplane.CoreManager} {
		if _, err := plane.StopChild(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	manager, err := setup.Manager(b.Windlass)
	if err != nil {
		t.Fatal(err)
	}
	manager.Objects = append(manager.Objects, bindExtensionRoles(t)...)
	manager.Ports, manager.ServingCertificate = []string{"hooks"}, true
	manager.Args = append(manager.Args, "--extension-port=$(PORT_hooks)", "--extension-bind-address=127.0.0.1", "--extension-cert-dir=$(CERT_DIR)", "--extension-config=in-process")
	status, err := plane.AddChild(t.Context(), manager)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := plane.CABundle()
	if err != nil {
		t.Fatal(err)
	}
	// Nobody serves this address: who knows the handlers has asked the process itself.
	registration := object(extensionConfigVersion, "ExtensionConfig", "", "in-process")
	registration.Object["spec"] = map[string]any{"clientConfig": map[string]any{"url": "https://127.0.0.1:1", "caBundle": base64.StdEncoding.EncodeToString(ca)}}
	create(t, c, registration)
	eventually(t, time.Minute, "the handlers are known", func() (bool, error) {
		found := object(extensionConfigVersion, "ExtensionConfig", "", "in-process")
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
			return false, err
		}
		handlers, _, err := unstructured.NestedSlice(found.Object, "status", "handlers")
		return len(handlers) >= 4, err
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	inside := &http.Client{Transport: &http.Transport{DialContext: plane.DialContext, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	url := fmt.Sprintf("https://127.0.0.1:%d/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery", status.Ports["hooks"])
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := inside.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if data, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(data), hookserver.GenerateUpgradePlanHandler) {
		t.Errorf("discovery answers %s: %s, %v", response.Status, data, err)
	}
}

// bindExtensionRoles gives the manager's ServiceAccount the extension's ClusterRoles, as docs/how-to/run-the-engine.md has an operator do.
func bindExtensionRoles(t *testing.T) []json.RawMessage {
	t.Helper()
	var bindings []json.RawMessage
	for _, role := range []string{"windlass-extension", "windlass-extension-namespaced", "windlass-extension-providers"} {
		data, err := json.Marshal(rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: role + "-in-the-manager"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{
				Kind: rbacv1.ServiceAccountKind, Namespace: setup.ManagerAccount.Namespace, Name: setup.ManagerAccount.Name,
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		bindings = append(bindings, data)
	}
	return bindings
}

const extensionConfigVersion = "runtime.cluster.x-k8s.io/v1beta2"
