//go:build linux

package real_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	windlassv1 "github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
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

// testFaults tries the upgrade with a member of etcd that is dead, then cuts the power of the first
// and the second machine while kubeadm changes etcd on them.
func (u *upgrade) testFaults(t *testing.T) {
	c := u.createKept(t, "faults")
	before := c.identities(u.ctx, t)
	c.checkDeadMember(t, u)
	w := c.startWriter(u.ctx, t)
	began := time.Now()
	c.send(u.ctx, t, u.to.Version.String())
	done := map[string]bool{}
	for range 2 {
		machine := c.awaitUpdating(u.ctx, t, done)
		done[machine] = true
		c.cutPower(u.ctx, t, machine)
	}
	c.await(u.ctx, t)
	w.check(u.ctx, t, time.Since(began))
	c.checkNodes(u.ctx, t)
	c.checkVersions(u.ctx, t, u.to)
	if diff := cmp.Diff(before, c.identities(u.ctx, t)); diff != "" {
		t.Errorf("Machines or their Nodes are others (-before +after):\n%s", diff)
	}
	c.delete(u.ctx, t)
}

// awaitUpdating waits until Cluster API updates a Machine that is not among those that are done,
// and returns its name.
func (c *realCluster) awaitUpdating(
	ctx context.Context, t *testing.T, done map[string]bool,
) string {
	t.Helper()
	check := func(m *clusterv1.Machine) string {
		if _, updates := m.Annotations[clusterv1.UpdateInProgressAnnotation]; !updates || done[m.Name] {
			return fmt.Sprintf("%s is not being updated: %+v", m.Name, m.Status.Conditions)
		}
		return ""
	}
	machine, err := setup.Await(
		ctx, c.client, &clusterv1.MachineList{}, check, client.InNamespace(c.Name))
	if err != nil {
		t.Fatal(err)
	}
	return machine.Name
}

// cutPower cuts the power of a machine's host when kubeadm has begun to change etcd there, and
// boots it again.
func (c *realCluster) cutPower(ctx context.Context, t *testing.T, machine string) {
	t.Helper()
	host := c.host(ctx, t, machine)
	c.run(ctx, t, host, `cd /etc/kubernetes
until ls tmp/kubeadm-backup-manifests-*/etcd.yaml >/dev/null 2>&1; do sleep 0.05; done
pgrep -f "kubeadm upgrade" >/dev/null`)
	t.Logf("kubeadm changes etcd on %s: its power is cut", machine)
	c.patch(ctx, t, host, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.PowerOffAnnotation)
	c.awaitReason(ctx, t, c.Name, machine, v1alpha1.HostFaultReason)
	c.patch(ctx, t, host, `{"metadata":{"annotations":{%q:null}}}`, v1alpha1.PowerOffAnnotation)
	c.awaitReason(ctx, t, c.Name, machine, v1alpha1.HostRunningReason)
}

func (c *realCluster) host(ctx context.Context, t *testing.T, name string) *v1alpha1.HostMachine {
	t.Helper()
	host := &v1alpha1.HostMachine{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: c.Name, Name: name}, host); err != nil {
		t.Fatal(err)
	}
	return host
}

// checkDeadMember takes the data of one member of etcd away and asks for the upgrade, by annotation
// and by the version of the KubeadmControlPlane. Both must wait, with the reason, and drain nothing.
// Then it gives the data back. Stock Cluster API may call the member healthy all the time.
func (c *realCluster) checkDeadMember(t *testing.T, u *upgrade) {
	t.Helper()
	ctx, at := u.ctx, c.Version
	victim := c.controlPlaneHosts(ctx, t)[1]
	c.run(ctx, t, &victim, "mv /var/lib/etcd/member /var/lib/etcd-member && pkill -KILL -x etcd")
	const key = windlassv1.DefaultInPlaceUpgradePrefix + "to"
	c.patch(ctx, t, c.controlPlane(), `{"metadata":{"annotations":{%q:%q}}}`,
		key, "version="+u.to.Version.String())
	machine, err := setup.Await(ctx, c.client, &clusterv1.MachineList{}, func(m *clusterv1.Machine) string {
		is := meta.FindStatusCondition(m.Status.Conditions, windlassv1.InPlaceUpgradeCondition)
		if is == nil || !strings.Contains(is.Message, "not all members of etcd are healthy") {
			return fmt.Sprintf("Machine %s: %+v", m.Name, is)
		}
		t.Logf("%s: %s", m.Name, is.Message)
		return ""
	}, client.InNamespace(c.Name))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the dead member is that of %s, and %s was to be upgraded first", victim.Name, machine.Name)
	c.checkUntouched(ctx, t, at)
	c.windlass(ctx, t, "upgrade", "controlplane", c.Name, "-n", c.Name, "--cancel")
	sent := time.Now().Truncate(time.Second)
	c.send(ctx, t, u.to.Version.String())
	c.awaitEvent(ctx, t, sent, "ControlPlaneUnhealthy", "Machine "+victim.Name)
	c.checkUntouched(ctx, t, at)
	c.send(ctx, t, at)
	c.run(ctx, t, &victim,
		"rm -rf /var/lib/etcd/member && mv /var/lib/etcd-member /var/lib/etcd/member")
	c.await(ctx, t)
}

// awaitEvent waits for an Event of the control plane that was seen since a time.
func (c *realCluster) awaitEvent(
	ctx context.Context, t *testing.T, since time.Time, reason, part string,
) {
	t.Helper()
	event, err := setup.Await(ctx, c.client, &corev1.EventList{}, func(e *corev1.Event) string {
		old := e.LastTimestamp.Unix() < since.Unix()
		if old || e.Reason != reason || !strings.Contains(e.Message, part) {
			return fmt.Sprintf("no Event of reason %s has %q", reason, part)
		}
		return ""
	}, client.InNamespace(c.Name), client.MatchingFields{"involvedObject.name": c.Name})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Cluster API's Event: %s", event.Message)
}

// checkUntouched sees that no Node was cordoned, and that all are at a version.
func (c *realCluster) checkUntouched(ctx context.Context, t *testing.T, version string) {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := c.connect(ctx, t).List(ctx, nodes); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		if node.Spec.Unschedulable || node.Status.NodeInfo.KubeletVersion != version {
			t.Errorf("Node %s: unschedulable: %t, kubelet %s",
				node.Name, node.Spec.Unschedulable, node.Status.NodeInfo.KubeletVersion)
		}
	}
}
