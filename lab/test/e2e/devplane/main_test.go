// Package devplane_test starts real planes. Its tests run when WINDLASS_E2E=1 is set; the first run builds Kubernetes and
// Cluster API.
package devplane_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/programs"
)

// Roles of this binary beside that of the tests.
const (
	// serveRole serves HTTPS: serve ADDRESS CERT-DIR.
	serveRole = "serve"
	// startRole starts an attached plane and waits to be killed: start SUPERVISOR STATE-DIR ASSETS-DIR.
	startRole = "start"
)

func TestMain(m *testing.M) {
	flag.Parse()
	switch flag.Arg(0) {
	case "":
		code := m.Run()
		programs.Remove()
		os.Exit(code)
	case serveRole:
		exitWith(serve(flag.Arg(1), flag.Arg(2)))
	case startRole:
		if err := startAndDrop(flag.Arg(1), flag.Arg(2), flag.Arg(3)); err != nil {
			exitWith(err)
		}
		select {}
	default:
		exitWith(fmt.Errorf("unknown role %q", flag.Arg(0)))
	}
}

// startAndDrop starts a plane, loses the handle, and says so once the plane is known to run without it.
func startAndDrop(supervisor, state, assets string) error {
	ctx := context.Background()
	if _, err := devplane.Start(ctx, devplane.Config{SupervisorPath: supervisor, StateDir: state, AssetsDir: assets}); err != nil {
		return err
	}
	goruntime.GC()
	goruntime.GC()
	plane, err := devplane.Connect(ctx, state)
	if err != nil {
		return fmt.Errorf("after a collection of garbage: %w", err)
	}
	status, err := plane.Status(ctx)
	if err != nil {
		return fmt.Errorf("after a collection of garbage: %w", err)
	}
	if status.Phase != devplane.PhaseRunning {
		return fmt.Errorf("after a collection of garbage the plane is %s: %s", status.Phase, status.Message)
	}
	_, err = fmt.Fprintln(os.Stdout, "started")
	return err
}

func exitWith(err error) {
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(address, certDir string) error {
	server := &http.Server{
		Addr:              address,
		Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		ReadHeaderTimeout: time.Minute,
	}
	return server.ListenAndServeTLS(filepath.Join(certDir, "tls.crt"), filepath.Join(certDir, "tls.key"))
}

// built is what all tests share: the programs and the plane's parts.
var built = sync.OnceValues(func() (b binaries, err error) {
	if b.source, err = devplane.FindSource("."); err != nil {
		return b, err
	}
	if b.Paths, err = programs.Build(); err != nil {
		return b, err
	}
	b.assets = devplane.DefaultOutDir(b.source)
	err = devplane.Build(context.Background(), devplane.BuildOptions{SourceDir: b.source, Progress: reportSteps()})
	return b, err
})

// reportSteps shows that something goes on: the first build takes minutes.
func reportSteps() func(devplane.Event) {
	last := ""
	return func(e devplane.Event) {
		if e.Step != last {
			_, _ = fmt.Fprintf(os.Stderr, "%6.1fs %s\n", e.Elapsed.Seconds(), e.Message)
		}
		last = e.Step
	}
}

type binaries struct {
	programs.Paths
	assets, source string
}

func setUp(t *testing.T) binaries {
	t.Helper()
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to start real planes")
	}
	b, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b binaries) config(t *testing.T) devplane.Config {
	t.Helper()
	return devplane.Config{SupervisorPath: b.Lab, AssetsDir: b.assets, StateDir: filepath.Join(t.TempDir(), "state")}
}

// start starts a plane that ends with the test, and checks that nothing is left of it then.
func start(t *testing.T, config devplane.Config) *devplane.Plane {
	t.Helper()
	plane, err := devplane.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	status := statusOf(t, plane)
	t.Logf("the plane was up after %.1f s, isolated: %v", status.ReadyAfter.Seconds(), status.Isolated)
	t.Cleanup(func() { stop(t, plane, config.StateDir) })
	return plane
}

func stop(t *testing.T, plane *devplane.Plane, stateDir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	status, err := plane.Status(ctx)
	var ended *devplane.NotRunningError
	if err != nil && !errors.As(err, &ended) {
		t.Error(err)
	}
	if err := plane.Stop(ctx); err != nil {
		t.Error(err)
	}
	if left := running(status); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if err := devplane.RemoveState(stateDir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(stateDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state is left: %v", err)
	}
}

// mustBeChild keeps a test from sending a signal to somebody else's process.
func mustBeChild(t *testing.T, pid, parent int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "ppid=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		t.Fatalf("looking for the parent of process %d: %v", pid, err)
	}
	if got := strings.TrimSpace(string(out)); got != strconv.Itoa(parent) {
		t.Fatalf("the parent of process %d is %s and not %d: it is left alone", pid, got, parent)
	}
}

func statusOf(t *testing.T, plane *devplane.Plane) devplane.Status {
	t.Helper()
	status, err := plane.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func childOf(t *testing.T, plane *devplane.Plane, name string) devplane.ChildStatus {
	t.Helper()
	for _, child := range statusOf(t, plane).Children {
		if child.Name == name {
			return child
		}
	}
	t.Fatalf("there is no child %s", name)
	return devplane.ChildStatus{}
}

func newClient(t *testing.T, plane *devplane.Plane) client.Client {
	t.Helper()
	c, err := client.New(plane.RESTConfig(), client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually polls, for what no watch tells.
func eventually(t *testing.T, timeout time.Duration, what string, condition func() (bool, error)) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(timeout)
	for {
		ok, err := condition()
		if ok && err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s (last error: %v)", what, timeout, err)
		}
		<-ticker.C
	}
}
