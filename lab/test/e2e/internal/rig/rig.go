// Package rig is what end-to-end tests of engines share: a development plane with the engine that is wanted, small Clusters of a ClusterClass, and
// the history of everything that happened to them.
package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// Plane is a plane on which one of the engines runs.
type Plane struct {
	*devplane.Plane
	Client client.WithWatch
	// History sees everything that happens on the plane.
	History History
	// StateDir holds the logs.
	StateDir string
	// Programs are the ones that the plane runs.
	Programs programs.Paths
}

// Option changes a plane's configuration.
type Option func(*devplane.Config)

// AuditAll has the API server record the requests of all users, not of ServiceAccounts alone.
func AuditAll(c *devplane.Config) { c.AuditAll = true }

// Start starts a plane that ends with the test.
func Start(ctx context.Context, t *testing.T, engine setup.Engine, options ...Option) *Plane {
	t.Helper()
	return start(ctx, t, func(executable, _ string) ([]devplane.Child, error) { return engine.Children(executable) }, options...)
}

// StartWithExtension is Start, with the extension and its guard.
func StartWithExtension(ctx context.Context, t *testing.T, engine setup.Engine, options ...Option) *Plane {
	t.Helper()
	p := Start(ctx, t, engine, options...)
	p.AddExtension(ctx, t)
	return p
}

// AddExtension starts the extension and its guard on a plane.
func (p *Plane) AddExtension(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := setup.Register(ctx, p.Plane, p.Programs.Windlass); err != nil {
		t.Fatal(err)
	}
	err := p.History.Include(ctx, &clusterv1.MachineSet{}, &eventsv1.Event{}, &v1alpha1.Updater{}, &v1alpha1.UpdatePolicy{})
	if err != nil {
		t.Fatal(err)
	}
}

// StartAs is Start where the engine's process has a name and arguments of its own; such a plane's engine cannot be switched.
func StartAs(
	ctx context.Context, t *testing.T, engine setup.Engine, name string, args []string, options ...Option,
) *Plane {
	t.Helper()
	return start(ctx, t, func(executable, assets string) ([]devplane.Child, error) {
		child, err := setup.Manager(executable)
		if engine == setup.EngineStock {
			child.Path, child.Args = filepath.Join(assets, "bin", devplane.CoreManager), nil
		}
		child.Name, child.Args = name, append(child.Args, args...)
		return []devplane.Child{child}, err
	}, options...)
}

func start(
	ctx context.Context, t *testing.T, children func(executable, assets string) ([]devplane.Child, error), options ...Option,
) *Plane {
	t.Helper()
	paths, err := programs.Build()
	if err != nil {
		t.Fatal(err)
	}
	paths = alternate(t, paths)
	source, err := devplane.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	if err := devplane.Build(ctx, devplane.BuildOptions{SourceDir: source}); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	assets := devplane.DefaultOutDir(source)
	processes, err := children(paths.Windlass, assets)
	if err != nil {
		t.Fatal(err)
	}
	config := devplane.Config{
		StateDir: state, AssetsDir: assets, SupervisorPath: paths.Lab, Children: processes, Audit: true,
	}
	for _, option := range options {
		option(&config)
	}
	started, err := devplane.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	//nolint:contextcheck // The test's own context has ended when the plane is stopped.
	t.Cleanup(func() { Stop(t, started, state) })
	CheckRefusals(t, started)
	LogFailure(t, state, setup.ManagerName, setup.ExtensionName)
	c, err := setup.Connect(started)
	if err != nil {
		t.Fatal(err)
	}
	return &Plane{Plane: started, Client: c, History: Follow(ctx, t, started.RESTConfig(), c.Scheme()), StateDir: state, Programs: paths}
}

// Switch puts the other engine in the place of the one that runs.
func (p *Plane) Switch(ctx context.Context, t *testing.T, to setup.Engine) {
	t.Helper()
	if err := setup.SwitchEngine(ctx, p.Plane, p.Programs.Windlass, to); err != nil {
		t.Fatal(err)
	}
}

// alternate replaces the program windlass by one that runs another binary each time the extension or
// the manager starts, if WINDLASS_PREVIOUS names that binary. Tests that kill them then upgrade Windlass,
// and go back, in the middle of what they test.
func alternate(t *testing.T, paths programs.Paths) programs.Paths {
	t.Helper()
	previous := os.Getenv("WINDLASS_PREVIOUS")
	if previous == "" {
		return paths
	}
	alternating := filepath.Join(t.TempDir(), "alternating")
	script := fmt.Sprintf(alternateScript, paths.Windlass, previous)
	if err := os.WriteFile(alternating, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	paths.Windlass = alternating
	return paths
}

const alternateScript = `#!/bin/bash
new=%q previous=%q
case "$1" in extension | manager)
	exec {lock}>>"$0.starts" && flock "$lock" && echo "$1" >&"$lock" && starts=$(wc -l <"$0.starts") && exec {lock}>&-
	((starts %% 2)) || exec "$previous" "$@" ;;
esac
exec "$new" "$@"
`

// Stop stops a plane and removes its state, for the end of a test.
func Stop(t *testing.T, p *devplane.Plane, state string) {
	t.Helper()
	//nolint:usetesting // The test's own context has ended by now.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(p.Stop(ctx), devplane.RemoveState(state)); err != nil {
		t.Error(err)
	}
}

// LogFailure logs the end of the logs of processes when the test has failed. Call it after what stops the plane is registered.
func LogFailure(t *testing.T, stateDir string, processes ...string) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, process := range processes {
			logLog(t, filepath.Join(stateDir, "logs", process+".log"))
		}
	})
}

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

// Namespace makes a namespace with these labels.
func (p *Plane) Namespace(ctx context.Context, t *testing.T, name string, labels map[string]string) {
	t.Helper()
	if err := p.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
		t.Fatal(err)
	}
}
