//go:build linux

package real_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	windlassv1alpha1 "github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/kube"
	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
)

// testSingle upgrades the only control plane machine of a cluster in place, by annotation.
// Meanwhile the API server that knows its Node restarts.
func (u *upgrade) testSingle(t *testing.T) {
	t.Helper()
	ctx := u.ctx
	c := u.createReal(ctx, t, clusterManifest, shape{
		Name: "single", Version: u.from.Version.String(), ControlPlanes: 1,
	})
	c.await(ctx, t)
	c.checkNodes(ctx, t)
	c.checkVersions(ctx, t, u.from)
	before := c.identities(ctx, t)
	if err := setup.WriteHostLogins(ctx, c.Plane, c.site, c.key()); err != nil {
		t.Fatal(err)
	}
	for machine := range before {
		c.windlass(ctx, t, "upgrade", "machine", machine, "-n", c.Name,
			"--to", "version="+u.to.Version.String())
	}
	// The version of the KubeadmControlPlane stays: Cluster API would replace its only machine.
	c.Version, c.outdated = u.to.Version.String(), true
	c.await(ctx, t)
	c.checkNodes(ctx, t)
	c.checkVersions(ctx, t, u.to)
	if diff := cmp.Diff(before, c.identities(ctx, t)); diff != "" {
		t.Errorf("the Machine or its Node is another one (-before +after):\n%s", diff)
	}
	c.delete(ctx, t)
}

// keptGroup is the MachineDeployment, in the topology, whose machines are updated in place.
const keptGroup = "kept"

// testSeveral has stock Cluster API create 3 control plane machines, two workers and a MachinePool.
// It freezes a member of etcd for a moment. Cluster API removes two of the machines. Then the
// engine upgrades all that is left: it updates one worker in place, replaces the other one at the
// same time, and replaces the pool last, while the control plane is scaled to 3 machines again. A
// PodDisruptionBudget holds the drains of both workers until it permits evictions.
func (u *upgrade) testSeveral(t *testing.T) {
	t.Helper()
	ctx := u.ctx
	c := u.createReal(ctx, t, classManifest, shape{
		Name: "several", Version: u.from.Version.String(), ControlPlanes: 3,
		Workers: 1, Kept: 1, Pool: 2,
	})
	c.await(ctx, t)
	c.checkNodes(ctx, t)
	c.checkVersions(ctx, t, u.from)
	c.testFrozenEtcd(ctx, t)
	c.scale(ctx, t, 1)
	c.await(ctx, t)
	c.checkNodes(ctx, t)
	if err := setup.SwitchEngine(ctx, c.Plane, c.Windlass, setup.EngineWindlass); err != nil {
		t.Fatal(err)
	}
	c.keepGroup(ctx, t)
	before := c.keptIdentities(ctx, t)
	w := c.startWeb(ctx, t, u.from)
	c.Version = u.to.Version.String()
	c.patch(ctx, t, c.cluster(), `{"spec":{"topology":{"version":%q}}}`, c.Version)
	w.testDrains(ctx, t)
	c.awaitPoolLast(ctx, t)
	c.awaitPoolEvent(ctx, t)
	c.scale(ctx, t, 3)
	c.await(ctx, t)
	c.checkNodes(ctx, t)
	if diff := cmp.Diff(before, c.keptIdentities(ctx, t)); diff != "" {
		t.Errorf("the kept Machine or its Node is another one (-before +after):\n%s", diff)
	}
	c.checkVersions(ctx, t, u.to)
	c.delete(ctx, t)
}

// keepGroup has the machines of the group for it updated in place.
func (c *realCluster) keepGroup(ctx context.Context, t *testing.T) {
	t.Helper()
	target := windlassv1alpha1.UpdateTarget{
		MachineDeployments: []windlassv1alpha1.MachineDeploymentName{keptGroup},
	}
	err := errors.Join(
		setup.KeepHosts(ctx, c.Plane, c.key(), target),
		setup.WriteHostLogins(ctx, c.Plane, c.site, c.key()),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// keptIdentities returns the identities of the machines that are updated in place.
func (c *realCluster) keptIdentities(ctx context.Context, t *testing.T) map[string]identity {
	t.Helper()
	kept := c.identities(ctx, t)
	for _, machine := range c.machines(ctx, t) {
		if machine.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] != keptGroup {
			delete(kept, machine.Name)
		}
	}
	if len(kept) != c.Kept {
		t.Errorf("%d machines are in the group %s, want %d", len(kept), keptGroup, c.Kept)
	}
	return kept
}

// awaitPoolLast waits until the MachinePool is sent to the Cluster's version, and sees that all
// other machines are there already.
func (c *realCluster) awaitPoolLast(ctx context.Context, t *testing.T) {
	t.Helper()
	check := func(pool *clusterv1.MachinePool) string {
		if at := pool.Spec.Template.Spec.Version; at != c.Version {
			return "it is at " + at
		}
		return ""
	}
	await(ctx, t, c.plane, &clusterv1.MachinePoolList{}, c.Name, c.Name+"-pool", check)
	others := 0
	for _, machine := range c.machines(ctx, t) {
		if machine.Labels[clusterv1.MachinePoolNameLabel] != "" {
			continue
		}
		others++
		if info := machine.Status.NodeInfo; info == nil || info.KubeletVersion != c.Version {
			t.Errorf("the MachinePool was sent to %s before Machine %s was there: %+v",
				c.Version, machine.Name, info)
		}
	}
	if want := c.ControlPlanes + c.Workers + c.Kept; others != want {
		t.Errorf("beside the MachinePool's there are %d Machines, want %d", others, want)
	}
}

// awaitPoolEvent waits for the Event on the MachinePool by which the engine says that no machine of
// it is updated in place.
func (c *realCluster) awaitPoolEvent(ctx context.Context, t *testing.T) {
	t.Helper()
	const reason = "NotUpdatedInPlace" // as docs/limits.md has it
	check := func(e *eventsv1.Event) string {
		about := e.Regarding.Kind == "MachinePool" && e.Regarding.Name == c.Name+"-pool"
		if !about || e.Reason != reason || !strings.Contains(e.Note, c.Version) {
			return fmt.Sprintf("no Event %s of the MachinePool is about %s; the last one is %s of %s %s: %s",
				reason, c.Version, e.Reason, e.Regarding.Kind, e.Regarding.Name, e.Note)
		}
		return ""
	}
	event, err := setup.Await(ctx, c.client, &eventsv1.EventList{}, check, client.InNamespace(c.Name))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the engine's Event on the MachinePool: %s", event.Note)
}

func (c *realCluster) machines(ctx context.Context, t *testing.T) []clusterv1.Machine {
	t.Helper()
	machines := &clusterv1.MachineList{}
	if err := c.client.List(ctx, machines, client.InNamespace(c.Name)); err != nil {
		t.Fatal(err)
	}
	return machines.Items
}

// identity is what an update in place keeps.
type identity struct{ Machine, Node types.UID }

// identities returns those of all Machines of the Cluster, by name.
func (c *realCluster) identities(ctx context.Context, t *testing.T) map[string]identity {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := c.connect(ctx, t).List(ctx, nodes); err != nil {
		t.Fatal(err)
	}
	uids := map[string]types.UID{}
	for _, node := range nodes.Items {
		uids[node.Name] = node.UID
	}
	found := map[string]identity{}
	for _, machine := range c.machines(ctx, t) {
		node := uids[machine.Status.NodeRef.Name]
		found[machine.Name] = identity{Machine: machine.UID, Node: node}
	}
	return found
}

// windlass runs the command against the plane, and returns what it prints. It must succeed.
func (p *plane) windlass(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, p.Windlass, append(args, "--kubeconfig", p.KubeconfigPath())...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("windlass %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	t.Logf("windlass %s\n%s", strings.Join(args, " "), output)
	return string(output)
}

// checkVersions asks the API server and etcd on each control plane host which version they are.
func (c *realCluster) checkVersions(ctx context.Context, t *testing.T, release kube.Release) {
	t.Helper()
	const script = `set -e; cd /etc/kubernetes/pki/etcd
kubectl --kubeconfig /etc/kubernetes/admin.conf \
  --server "https://$(hostname -I | cut -d' ' -f1):6443" get --raw /version
etcdctl --cacert ca.crt --cert healthcheck-client.crt --key healthcheck-client.key \
  endpoint status --write-out json`
	hosts := c.controlPlaneHosts(ctx, t)
	if len(hosts) != c.ControlPlanes {
		t.Errorf("%d control plane hosts, want %d", len(hosts), c.ControlPlanes)
	}
	for _, host := range hosts {
		decoder := json.NewDecoder(strings.NewReader(c.run(ctx, t, &host, script)))
		var served struct{ GitVersion string }
		var members []struct{ Status struct{ Version string } }
		if err := errors.Join(decoder.Decode(&served), decoder.Decode(&members)); err != nil {
			t.Fatal(err)
		}
		want := []string{release.Version.String(), release.EtcdVersion()}
		got := []string{served.GitVersion}
		for _, m := range members {
			got = append(got, m.Status.Version)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("host %s: API server and etcd (-want +got):\n%s", host.Name, diff)
		}
	}
}

// controlPlaneHosts returns the hosts of the Cluster's control plane.
func (c *realCluster) controlPlaneHosts(ctx context.Context, t *testing.T) []v1alpha1.HostMachine {
	t.Helper()
	found := &v1alpha1.HostMachineList{}
	err := c.client.List(ctx, found, client.InNamespace(c.Name),
		client.HasLabels{clusterv1.MachineControlPlaneLabel})
	if err != nil {
		t.Fatal(fmt.Errorf("listing the hosts of %s: %w", c.Name, err))
	}
	return found.Items
}
