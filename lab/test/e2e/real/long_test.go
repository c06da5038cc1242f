//go:build linux

package real_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// longTimeout is for the long form.
const longTimeout = 90 * time.Minute

func long() bool { return os.Getenv("WINDLASS_LONG") == "1" }

// TestControlPlanes upgrades control planes of 3 machines, one after another, because times are
// compared.
func TestControlPlanes(t *testing.T) {
	if !long() {
		t.Skip("set WINDLASS_LONG=1 to upgrade control planes of 3 machines")
	}
	u := startUpgrade(t)
	t.Run("in place", u.testInPlace)
	t.Run("replaced", u.testReplaced)
	t.Run("faults", u.testFaults)
}

// createKept creates a control plane of 3 machines that are never replaced.
func (u *upgrade) createKept(t *testing.T, name string) *realCluster {
	t.Helper()
	c := u.createReal(u.ctx, t, clusterManifest, shape{
		Name: name, Version: u.from.Version.String(), ControlPlanes: 3, NoSurge: true,
	})
	c.await(u.ctx, t)
	if err := setup.KeepHosts(u.ctx, c.Plane, c.key()); err != nil {
		t.Fatal(err)
	}
	if err := setup.WriteHostLogins(u.ctx, c.Plane, c.site, c.key()); err != nil {
		t.Fatal(err)
	}
	return c
}

// testInPlace has KubeadmControlPlane update its machines in place, by the extension.
func (u *upgrade) testInPlace(t *testing.T) {
	c := u.createKept(t, "kept")
	before := c.identities(u.ctx, t)
	c.upgrade(t, u)
	if diff := cmp.Diff(before, c.identities(u.ctx, t)); diff != "" {
		t.Errorf("Machines or their Nodes are others (-before +after):\n%s", diff)
	}
	c.delete(u.ctx, t)
}

// testReplaced has KubeadmControlPlane replace its machines.
func (u *upgrade) testReplaced(t *testing.T) {
	c := u.createReal(u.ctx, t, clusterManifest, shape{
		Name: "replaced", Version: u.from.Version.String(), ControlPlanes: 3,
	})
	c.await(u.ctx, t)
	before := c.identities(u.ctx, t)
	c.upgrade(t, u)
	for name := range c.identities(u.ctx, t) {
		if _, kept := before[name]; kept {
			t.Errorf("Machine %s was not replaced", name)
		}
	}
	c.delete(u.ctx, t)
}

// upgrade sends the control plane to the next release, and waits until it is there, while a client
// writes. It logs how long it took, and what the client saw.
func (c *realCluster) upgrade(t *testing.T, u *upgrade) {
	t.Helper()
	w := c.startWriter(u.ctx, t)
	began := time.Now()
	c.send(u.ctx, t, u.to.Version.String())
	c.await(u.ctx, t)
	took := time.Since(began)
	w.check(u.ctx, t, took)
	c.checkNodes(u.ctx, t)
	c.checkVersions(u.ctx, t, u.to)
}

// send sends the control plane to a version.
func (c *realCluster) send(ctx context.Context, t *testing.T, version string) {
	t.Helper()
	c.Version = version
	c.patch(ctx, t, c.controlPlane(), `{"spec":{"version":%q}}`, version)
}

func (c *realCluster) controlPlane() *controlplanev1.KubeadmControlPlane {
	return &controlplanev1.KubeadmControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Name, Name: c.Name},
	}
}
