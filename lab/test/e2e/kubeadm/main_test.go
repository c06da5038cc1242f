//go:build linux

// Package kubeadm_test has real kubeadm create and extend clusters on Linux hosts, upgrades them with
// "windlass updater kubeadm run", and restores them from its snapshots of etcd. Etcd, API servers,
// controllers and kubelets are real; pods are processes.
package kubeadm_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/internal/node"
	"github.com/windlass-dev/windlass/lab/internal/programs"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/pkg/version"
)

const (
	repository = "../../../.."
	// timeout is for everything after the builds, longTimeout in the long form; far beyond what a busy
	// machine needs.
	timeout, longTimeout = 30 * time.Minute, 90 * time.Minute
)

func TestMain(m *testing.M) {
	code := m.Run()
	programs.Remove()
	os.Exit(code)
}

// TestClusters has one cluster a subtest.
func TestClusters(t *testing.T) {
	ctx, w := start(t)
	t.Run("clusters", func(t *testing.T) {
		t.Run("two control planes", func(t *testing.T) { t.Parallel(); w.testJoin(ctx, t) })
		t.Run("upgrade of one", func(t *testing.T) { t.Parallel(); w.testUpgrade(ctx, t) })
		for pod, key := range map[string]string{
			"etcd": "etcd/server.key", "kube-apiserver": "apiserver.key",
		} {
			t.Run("power cut in the restart of "+pod, func(t *testing.T) { w.testPowerCut(ctx, t, pod, key) })
		}
		t.Run("power cuts of two", func(t *testing.T) { w.testPowerCuts(ctx, t) })
	})
}

// world is what all hosts share.
type world struct {
	from, to kube.Release
	store    kube.Store
	// runtime is the program of the container runtime, and windlass that of the product.
	runtime, windlass string
}

// start builds what is needed. Its context ends with the test's time.
func start(t *testing.T) (context.Context, *world) {
	t.Helper()
	if os.Getenv("WINDLASS_E2E") != "1" {
		t.Skip("set WINDLASS_E2E=1 to run real control planes")
	}
	hosts.Require(t)
	w := &world{from: build(t, 35), to: build(t, 36)}
	//nolint:usetesting // Hosts have a /tmp of their own.
	dir, err := os.MkdirTemp("/var/tmp", "windlass-kubeadm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if w.store, err = kube.NewStore(dir, w.from, w.to); err != nil {
		t.Fatal(err)
	}
	runtime, err := programs.BuildRuntime()
	if err != nil {
		t.Fatal(err)
	}
	if w.runtime, err = w.store.Add(runtime); err != nil {
		t.Fatal(err)
	}
	paths, err := programs.Build()
	if err != nil {
		t.Fatal(err)
	}
	w.windlass = paths.Windlass
	if err := node.AllowWatches(); err != nil {
		t.Fatal(err)
	}
	limit := timeout
	if os.Getenv("WINDLASS_LONG") == "1" {
		limit = longTimeout
	}
	cause := fmt.Errorf("it took longer than %s", limit)
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, cause)
	t.Cleanup(cancel)
	return ctx, w
}

func build(t *testing.T, minor uint32) kube.Release {
	t.Helper()
	release, err := kube.BuildRelease(t.Context(), repository, version.Minor{Major: 1, Minor: minor})
	if err != nil {
		t.Fatal(err)
	}
	return release
}
