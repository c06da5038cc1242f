//go:build linux

package hosts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	repository = "../../../.."
	// timeout is for everything after the builds; far beyond what a busy machine needs.
	timeout = 10 * time.Minute
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}

// TestHosts runs everything on one plane, whose API server is that of the management cluster and of the workload cluster.
func TestHosts(t *testing.T) {
	ctx, p := start(t)
	t.Run("on hosts", func(t *testing.T) {
		t.Run("worker", func(t *testing.T) { t.Parallel(); p.testWorker(ctx, t) })
		t.Run("machine", func(t *testing.T) { t.Parallel(); p.testMachine(ctx, t) })
		t.Run("class", func(t *testing.T) { t.Parallel(); p.testClass(ctx, t) })
		t.Run("annotated", func(t *testing.T) { t.Parallel(); p.testAnnotated(ctx, t) })
	})
	t.Run("registration", func(t *testing.T) { p.testRegistration(ctx, t) })
	t.Run("diagnostics", func(t *testing.T) { p.testDiagnostics(ctx, t) })
	t.Run("rights", func(t *testing.T) { p.checkRights(t) })
}

// plane is a plane with the extension, and the cluster of the hosts' nodes on it.
type plane struct {
	*devplane.Plane
	programs.Paths
	client client.WithWatch
	// rig is the same plane, for Clusters of simulated machines.
	rig *rig.Plane
	// access has the objects that the ServiceAccounts of both programs have their rights from.
	access map[types.NamespacedName][]json.RawMessage
	ca     *authority
	// port is that of the API server, on 127.0.0.1 here and in the hosts.
	port     int
	from, to release
}

// start builds what is needed, and starts a plane that ends with the test. Its context ends with the test's time.
func start(t *testing.T) (context.Context, *plane) {
	t.Helper()
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run tests on a development plane")
	}
	hosts.Require(t)
	paths, err := programs.Build()
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{Paths: paths, from: build(t, version.Minor{Major: 1, Minor: 35}), to: build(t, version.Minor{Major: 1, Minor: 36})}
	if err := devplane.Build(t.Context(), devplane.BuildOptions{SourceDir: repository}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, fmt.Errorf("it took longer than %s", timeout))
	t.Cleanup(cancel)
	state := filepath.Join(t.TempDir(), "state")
	p.Plane, err = devplane.Start(ctx, devplane.Config{
		StateDir: state, AssetsDir: devplane.DefaultOutDir(repository), SupervisorPath: paths.Lab,
		// The extension connects to the hosts, to which this machine's network leads, and not a plane's own.
		Isolation: devplane.IsolationNone,
		Audit:     true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rig.Stop(t, p.Plane, state) })
	rig.CheckRefusals(t, p.Plane)
	rig.LogFailure(t, state, setup.ExtensionName, setup.ManagerName)
	if p.client, err = setup.Connect(p.Plane); err != nil {
		t.Fatal(err)
	}
	p.port = portOf(t, p.RESTConfig())
	p.ca = newAuthority(t)
	p.trust(t, filepath.Join(state, "certs", "ca.crt"))
	p.rig = &rig.Plane{
		Plane: p.Plane, Client: p.client, StateDir: state, Programs: paths,
		History: rig.Follow(ctx, t, p.RESTConfig(), p.client.Scheme()),
	}
	p.install(ctx, t)
	p.addUpdaters(ctx, t)
	p.makeCluster(ctx, t)
	p.awaitTrust(ctx, t)
	return ctx, p
}

// build builds kubeadm and the kubelet of a minor, and reads them.
func build(t *testing.T, minor version.Minor) release {
	t.Helper()
	binaries, err := kube.Build(t.Context(), repository, minor)
	if err != nil {
		t.Fatal(err)
	}
	r := release{version: binaries.Version}
	for path, content := range map[string]*[]byte{binaries.Kubeadm: &r.kubeadm, binaries.Kubelet: &r.kubelet} {
		if *content, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func portOf(t *testing.T, config *rest.Config) int {
	t.Helper()
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(server.Port())
	if err != nil {
		t.Fatalf("the API server's address is %q: %v", config.Host, err)
	}
	return port
}
