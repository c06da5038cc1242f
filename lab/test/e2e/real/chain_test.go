//go:build linux

package real_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/kube"
)

// TestChain upgrades a cluster of a ClusterClass by two minors, by one change of its topology. A
// client writes meanwhile. The control plane stops at the minor between. The workers do not.
func TestChain(t *testing.T) {
	if !long() {
		t.Skip("set WINDLASS_LONG=1 to upgrade a cluster by two minors")
	}
	host := prepare(t, "v1.34.4", "v1.35.4", "v1.36.3")
	var versions []v1alpha1.Version
	for _, release := range host.Releases {
		versions = append(versions, v1alpha1.Version(release.Version.String()))
	}
	u := &upgrade{from: host.Releases[0], to: host.Releases[2]}
	u.startPlane(t, host)
	c := u.createChained(t, versions)
	// The engine must not create machines only because it is another one.
	before := c.identities(u.ctx, t)
	if err := setup.SwitchEngine(u.ctx, c.Plane, c.Windlass, setup.EngineWindlass); err != nil {
		t.Fatal(err)
	}
	c.await(u.ctx, t)
	if diff := cmp.Diff(before, c.identities(u.ctx, t)); diff != "" {
		t.Errorf("Machines or their Nodes are others before the upgrade (-before +after):\n%s", diff)
	}

	w := c.startWriter(u.ctx, t)
	began := time.Now()
	c.Version = u.to.Version.String()
	c.patch(u.ctx, t, c.cluster(), `{"spec":{"topology":{"version":%q}}}`, c.Version)
	between := host.Releases[1].Version.String()
	want := []string{
		controlPlane + between, controlPlane + c.Version,
		machineDeployment + c.Version, machinePool + c.Version,
	}
	if diff := cmp.Diff(want, c.followKubelets(u.ctx, t, u.from)); diff != "" {
		t.Errorf("the order in which kubelets reported versions (-want +got):\n%s", diff)
	}
	c.await(u.ctx, t)
	w.check(u.ctx, t, time.Since(began))
	c.checkNodes(u.ctx, t)
	c.checkVersions(u.ctx, t, u.to)
	c.delete(u.ctx, t)
}

// createChained has stock Cluster API create a control plane machine, a worker of a
// MachineDeployment and one of a MachinePool. An UpgradeGraph has the versions of upgrades.
func (u *upgrade) createChained(t *testing.T, versions []v1alpha1.Version) *realCluster {
	t.Helper()
	s := shape{
		Name: "chained", Version: u.from.Version.String(), ControlPlanes: 1, Workers: 1, Pool: 1,
		PlanExtension: "generate-upgrade-plan." + setup.ExtensionName,
	}
	u.create(u.ctx, t, &v1alpha1.UpgradeGraph{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Spec: v1alpha1.UpgradeGraphSpec{
			Classes:  []v1alpha1.ClassReference{{Name: s.Name, Namespace: s.Name}},
			Versions: versions,
		},
	})
	c := u.createReal(u.ctx, t, classManifest, s)
	c.await(u.ctx, t)
	c.checkNodes(u.ctx, t)
	c.checkVersions(u.ctx, t, u.from)
	return c
}

// What Machines belong to, before the version of a kubelet.
const (
	controlPlane      = "control plane "
	machineDeployment = "MachineDeployment "
	machinePool       = "MachinePool "
)

// followKubelets waits until the kubelets of all Machines are at the Cluster's version. It returns
// which versions they reported first in which part of the Cluster, without the release from which
// the upgrade began.
func (c *realCluster) followKubelets(
	ctx context.Context, t *testing.T, from kube.Release,
) []string {
	t.Helper()
	w, err := c.client.Watch(ctx, &clusterv1.MachineList{}, client.InNamespace(c.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var reported []string
	known, machines := map[string]bool{}, map[types.UID]clusterv1.Machine{}
	for event := range w.ResultChan() {
		machine, ok := event.Object.(*clusterv1.Machine)
		if !ok {
			t.Fatalf("following the Machines of %s: %+v", c.Name, event.Object)
		}
		machines[machine.UID] = *machine
		if event.Type == watch.Deleted {
			delete(machines, machine.UID)
		}
		info := machine.Status.NodeInfo
		if info != nil && info.KubeletVersion != from.Version.String() {
			report := partOf(machine) + info.KubeletVersion
			if !known[report] {
				reported = append(reported, report)
			}
			known[report] = true
		}
		if c.missing(slices.Collect(maps.Values(machines))) == "" {
			return reported
		}
	}
	t.Fatalf("following the Machines of %s: %q: %v", c.Name, reported, context.Cause(ctx))
	return nil
}

func partOf(machine *clusterv1.Machine) string {
	if _, is := machine.Labels[clusterv1.MachineControlPlaneLabel]; is {
		return controlPlane
	}
	if machine.Labels[clusterv1.MachinePoolNameLabel] != "" {
		return machinePool
	}
	return machineDeployment
}
