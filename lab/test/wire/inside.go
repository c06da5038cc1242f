package wire

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// Inside is a process in the plane's network, where a program may listen on all addresses. The test is not in that network. The
// process ends with the test.
type Inside struct {
	// Ports are those that it was given, by name.
	Ports map[string]uint16

	plane     *Plane
	name, log string
}

// RunInside starts a program in the plane's network, and waits until its /healthz or /readyz at readyPath of the port "health" answers.
// In args, $(KUBECONFIG), $(PORT_x) for each x in ports, and $(CERT_DIR) are replaced.
func (p *Plane) RunInside(t *testing.T, name, program string, args []string, readyPath string, ports ...string) *Inside {
	t.Helper()
	if isolation == devplane.IsolationNone {
		t.Fatal("the plane has no network of its own: use Main, not MainOnLoopback")
	}
	child, err := p.inner.AddChild(t.Context(), devplane.Child{
		Name: name, Path: program, Args: args, Ports: append([]string{"health"}, ports...), ServingCertificate: true,
		Ready: devplane.Readiness{URL: "http://127.0.0.1:$(PORT_health)" + readyPath, Timeout: startTimeout},
	})
	if err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	i := &Inside{Ports: child.Ports, plane: p, name: name, log: child.LogFile}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of %s:\n%s", name, tail(i.Log(t)))
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if _, err := p.inner.RemoveChild(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return i
}

// Log is what the process has written so far.
func (i *Inside) Log(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(i.log)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// CheckNotRestarted fails the test unless the process has run since it was started, without an end in between.
func (i *Inside) CheckNotRestarted(t *testing.T) {
	t.Helper()
	status, err := i.plane.inner.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range status.Children {
		if child.Name == i.name && (child.State != devplane.ChildReady || child.Starts != 1) {
			t.Errorf("%s is %s after %d starts: %+v", i.name, child.State, child.Starts, child.LastExit)
		}
	}
}
