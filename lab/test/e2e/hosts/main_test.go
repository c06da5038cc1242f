//go:build linux

package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/demo"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/kube"
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
	})
}

// plane is a plane with the extension, and the cluster of the hosts' nodes on it.
type plane struct {
	*devplane.Plane
	programs.Paths
	client client.WithWatch
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
		Without:   []string{devplane.KubeadmControlPlaneManager, devplane.InMemoryManager},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p.Plane, state) })
	p.client, p.port = newClient(t, p.RESTConfig()), portOf(t, p.RESTConfig())
	p.ca = newAuthority(t)
	p.trust(t, filepath.Join(state, "certs", "ca.crt"))
	if err := demo.Register(ctx, p.Plane, paths.Windlass); err != nil {
		t.Fatal(err)
	}
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

func stop(t *testing.T, p *devplane.Plane, state string) {
	t.Helper()
	if t.Failed() {
		logLog(t, filepath.Join(state, "logs", demo.ExtensionName+".log"))
	}
	//nolint:usetesting // The test's own context has ended by now.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(p.Stop(ctx), devplane.RemoveState(state)); err != nil {
		t.Error(err)
	}
}

// logLog keeps what the extension said, for a test that failed.
func logLog(t *testing.T, file string) {
	t.Helper()
	const tail = 20_000
	data, err := os.ReadFile(file)
	if err != nil {
		t.Log(err)
		return
	}
	t.Logf("the end of %s:\n%s", filepath.Base(file), data[max(0, len(data)-tail):])
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

func newClient(t *testing.T, config *rest.Config) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
