package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/internal/conformance"
	"github.com/windlass-dev/windlass/internal/updaterserver/servertest"
	"github.com/windlass-dev/windlass/test/loopback"
)

// running is the example as it runs in a test. It can be restarted.
type running struct {
	options options
	ca      []byte
	stop    func()
}

func start(t *testing.T, script string) *running {
	t.Helper()
	dir := t.TempDir()
	r := &running{options: options{
		bindAddress: "127.0.0.1", port: loopback.FreePort(t), certDir: dir, stateDir: filepath.Join(dir, "state"),
		inventory: filepath.Join(dir, "inventory.json"), command: filepath.Join(dir, "update.sh"),
	}}
	r.ca = servertest.WriteCertificate(t, dir)
	if err := os.WriteFile(r.options.inventory, []byte(`{"default/worker-0": "10.0.0.7"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.options.command, []byte("#!/bin/sh\ncd "+dir+"\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	r.start(t)
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *running) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx, r.options) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.ca)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: pool}}
	loopback.Eventually(t, "the example listens", func() bool {
		connection, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.options.port)))
		return err == nil && connection.Close() == nil
	})
}

const updateFixture = `
updateMachine:
  desired:
    machine:
      apiVersion: cluster.x-k8s.io/v1beta2
      kind: Machine
      metadata: {namespace: default, name: worker-0}
      spec:
        clusterName: cluster
        version: v1.32.1
        bootstrap: {}
        infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachine, name: worker-0}
`

// The tests of this package do not run in parallel: a script cannot be run while a child that another test forks has it open for writing.

// TestConformance verifies the example as its author would.
func TestConformance(t *testing.T) {
	// The first run waits to be killed by the restart; the second does the work.
	r := start(t, "echo $1 $2 >>runs\nif test $(wc -l <runs) = 1; then exec sleep 600; fi\n")
	fixture, err := conformance.DefaultFixture()
	if err != nil {
		t.Fatal(err)
	}
	updating, err := conformance.ParseFixture([]byte(updateFixture))
	if err != nil {
		t.Fatal(err)
	}
	fixture.UpdateMachine = updating.UpdateMachine
	report, err := conformance.Run(t.Context(), conformance.Options{
		URL: "https://127.0.0.1:" + strconv.Itoa(r.options.port), CABundle: r.ca, Fixture: fixture, AllowUpdates: true,
		Restart: func(context.Context) error {
			r.awaitRun(t)
			r.stop()
			r.start(t) //nolint:contextcheck // It lives as long as the test, not as the request to restart it.
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range report.Points {
		if point.Status != conformance.Pass {
			t.Errorf("%s: %s: %s", point.ID, point.Status, point.Reason)
		}
	}
	content, err := os.ReadFile(filepath.Join(r.options.certDir, "runs"))
	if want := strings.Repeat("10.0.0.7 v1.32.1\n", 2); err != nil || string(content) != want {
		t.Errorf("the command was run as %q, %v, want %q", content, err, want)
	}
}

// awaitRun waits until the command has begun.
func (r *running) awaitRun(t *testing.T) {
	t.Helper()
	loopback.Eventually(t, "the command has begun", func() bool {
		content, err := os.ReadFile(filepath.Join(r.options.certDir, "runs"))
		return err == nil && len(content) > 0
	})
}

func TestAFailureStaysUntilAnotherAttempt(t *testing.T) {
	r := start(t, "echo $2 >>runs\nif test $(wc -l <runs) = 1; then echo no disk; exit 3; fi\n")
	u := &updater{work: t.Context(), hosts: map[string]string{"a/b": "10.0.0.7"}, stateDir: t.TempDir(), command: r.options.command, jobs: map[string]*job{}}
	ended := func(operation string) error {
		t.Helper()
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for range ticker.C {
			if working, err := u.advance("a/b", "v1.32.1", operation); !working {
				return err
			}
		}
		return nil
	}
	for range 2 {
		if err := ended("one"); err == nil || !strings.Contains(err.Error(), "no disk") {
			t.Errorf("the first attempt ended with %v", err)
		}
	}
	if err := ended("two"); err != nil {
		t.Errorf("the second attempt ended with %v", err)
	}
	if err := ended("one"); err != nil {
		t.Errorf("the machine is at the version, and the answer is %v", err)
	}
	content, err := os.ReadFile(filepath.Join(r.options.certDir, "runs"))
	if got := strings.Count(string(content), "\n"); err != nil || got != 2 {
		t.Errorf("the command was run %d times, %v", got, err)
	}
}

func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.json")
	if err := os.WriteFile(broken, []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, inventory := range []string{filepath.Join(dir, "none.json"), broken} {
		if err := run(t.Context(), options{inventory: inventory, stateDir: dir}); err == nil || !strings.Contains(fmt.Sprint(err), "inventory") {
			t.Errorf("with %s the error is %v", inventory, err)
		}
	}
}
