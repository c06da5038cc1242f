// Package rig is what end-to-end tests of engines share: a development plane with the engine that is wanted, small Clusters of a ClusterClass, and
// the history of everything that happened to them.
package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/demo"
	"github.com/windlass-dev/windlass/internal/devplane"
)

// Plane is a plane on which one of the engines runs.
type Plane struct {
	*devplane.Plane
	Client client.WithWatch
	// History sees everything that happens on the plane.
	History *History
	// StateDir holds the logs.
	StateDir   string
	executable string
}

// Start starts a plane that ends with the test.
func Start(ctx context.Context, t *testing.T, engine demo.Engine) *Plane {
	t.Helper()
	return start(ctx, t, func(executable, _ string) []devplane.Child { return engine.Children(executable) })
}

// StartAs is Start where the engine's process has a name and arguments of its own; such a plane's engine cannot be switched.
func StartAs(ctx context.Context, t *testing.T, engine demo.Engine, name string, args ...string) *Plane {
	t.Helper()
	return start(ctx, t, func(executable, assets string) []devplane.Child {
		child := demo.Manager(executable)
		if engine == demo.EngineStock {
			child.Path, child.Args = filepath.Join(assets, "bin", devplane.CoreManager), nil
		}
		child.Name, child.Args = name, append(child.Args, args...)
		return []devplane.Child{child}
	})
}

func start(ctx context.Context, t *testing.T, children func(executable, assets string) []devplane.Child) *Plane {
	t.Helper()
	executable, err := Windlass()
	if err != nil {
		t.Fatal(err)
	}
	source, err := devplane.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	if err := devplane.Build(ctx, devplane.BuildOptions{SourceDir: source}); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	assets := devplane.DefaultOutDir(source)
	started, err := devplane.Start(ctx, devplane.Config{
		StateDir: state, AssetsDir: assets, SupervisorPath: executable, Children: children(executable, assets),
	})
	if err != nil {
		t.Fatal(err)
	}
	//nolint:contextcheck // The test's own context has ended when the plane is stopped.
	t.Cleanup(func() { stop(t, started, state) })
	c := newClient(t, started.RESTConfig())
	return &Plane{Plane: started, Client: c, History: Follow(ctx, t, started.RESTConfig(), c.Scheme()), StateDir: state, executable: executable}
}

// Executable is the windlass binary that the plane runs.
func (p *Plane) Executable() string { return p.executable }

// Switch puts the other engine in the place of the one that runs.
func (p *Plane) Switch(ctx context.Context, t *testing.T, to demo.Engine) {
	t.Helper()
	if err := demo.SwitchEngine(ctx, p.Plane, p.executable, to); err != nil {
		t.Fatal(err)
	}
}

// Remove removes what the tests of a package have built.
func Remove() {
	if binDir != "" {
		_ = os.RemoveAll(binDir) // the system's temporary directory is cleaned anyway
	}
}

// binDir is made by the first test that needs it.
var binDir string

// Windlass is the path of the binary, built once for this run.
var Windlass = sync.OnceValues(func() (string, error) {
	source, err := devplane.FindSource(".")
	if err != nil {
		return "", err
	}
	if binDir, err = os.MkdirTemp("", "windlass-rig-"); err != nil {
		return "", err
	}
	path := filepath.Join(binDir, "windlass")
	build := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-o", path, "./cmd/windlass")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building windlass: %w\n%s", err, out)
	}
	previous := os.Getenv("WINDLASS_PREVIOUS")
	if previous == "" {
		return path, nil
	}
	alternating := filepath.Join(binDir, "alternating")
	script := fmt.Sprintf(alternate, path, previous)
	return alternating, os.WriteFile(alternating, []byte(script), 0o700)
})

// alternate is a program that runs another binary each time the extension or the manager starts. Tests
// that kill them then upgrade Windlass, and go back, in the middle of what they test.
const alternate = `#!/bin/bash
new=%q previous=%q
case "$1" in extension | manager)
	exec {lock}>>"$0.starts" && flock "$lock" && echo "$1" >&"$lock" && starts=$(wc -l <"$0.starts") && exec {lock}>&-
	((starts %% 2)) || exec "$previous" "$@" ;;
esac
exec "$new" "$@"
`

func stop(t *testing.T, p *devplane.Plane, state string) {
	t.Helper()
	if t.Failed() {
		logLog(t, filepath.Join(state, "logs", demo.ManagerName+".log"))
	}
	//nolint:usetesting // The test's own context has ended by now.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(p.Stop(ctx), devplane.RemoveState(state)); err != nil {
		t.Error(err)
	}
}

// logLog keeps what the manager said, for a test that failed.
func logLog(t *testing.T, file string) {
	t.Helper()
	const tail = 20_000
	data, err := os.ReadFile(file)
	if err != nil {
		t.Log(err)
		return
	}
	if keep := os.Getenv("WINDLASS_KEEP_LOGS"); keep != "" {
		if err := os.WriteFile(filepath.Join(keep, filepath.Base(file)), data, 0o600); err != nil {
			t.Log(err)
		}
	}
	t.Logf("the end of %s:\n%s", filepath.Base(file), data[max(0, len(data)-tail):])
}

func newClient(t *testing.T, config *rest.Config) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, runtimev1.AddToScheme} {
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

// Namespace makes a namespace with these labels.
func (p *Plane) Namespace(ctx context.Context, t *testing.T, name string, labels map[string]string) {
	t.Helper()
	if err := p.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
		t.Fatal(err)
	}
}
