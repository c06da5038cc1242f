//go:build linux

package real_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	windlassv1 "github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
)

// testFaults tries the upgrade with a member of etcd that is dead. It begins by itself when the
// member is repaired. Then the power of two machines is cut while kubeadm upgrades them: etcd
// restarts on the first one, the API server on the second. Cluster API has written the version to
// kubeadm's ConfigMap before, so that "kubeadm upgrade node" runs on the first one, too.
func (u *upgrade) testFaults(t *testing.T) {
	c := u.createKept(t, "faults")
	before := c.identities(u.ctx, t)
	victim := c.newestHost(u.ctx, t)
	c.breakMember(u.ctx, t, victim)
	nodes := c.watchNodes(u.ctx, t)
	c.checkRefused(t, u, victim)
	nodes.checkUntouched(t, c.ControlPlanes)
	w := c.startWriter(u.ctx, t)
	began := time.Now()
	c.repairMember(u.ctx, t, victim)
	done := map[string]bool{}
	for _, pod := range []string{"etcd", "kube-apiserver"} {
		machine := c.awaitUpdating(u.ctx, t, done)
		done[machine] = true
		c.cutPower(u.ctx, t, machine, pod)
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

// cutPower cuts the power of a machine's host in the middle of "kubeadm upgrade", and boots it
// again: kubeadm has written a pod's new manifest, and the pod's old process has ended. The kubelet
// would start the new one in less than a second, so it is stopped until the cut, and the moment
// lasts.
func (c *realCluster) cutPower(ctx context.Context, t *testing.T, machine, pod string) {
	t.Helper()
	host := c.host(ctx, t, machine)
	moment := c.run(ctx, t, host, `cd /etc/kubernetes; pod=`+pod+`
until [ -e manifests/$pod.yaml ] && ls tmp/kubeadm-backup-manifests-*/$pod.yaml; do
  sleep 0.05
done >/dev/null 2>&1
while pgrep -x $pod; do sleep 0.01; done >/dev/null
pkill -STOP -x kubelet
ps -eo comm=,args=`)
	c.patch(ctx, t, host, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.PowerOffAnnotation)
	c.awaitReason(ctx, t, c.Name, machine, v1alpha1.HostFaultReason)
	c.patch(ctx, t, host, `{"metadata":{"annotations":{%q:null}}}`, v1alpha1.PowerOffAnnotation)
	c.awaitReason(ctx, t, c.Name, machine, v1alpha1.HostRunningReason)
	checkMoment(t, moment, pod)
	t.Logf("the power of %s was cut while kubeadm restarted %s", machine, pod)
}

// checkMoment sees in a host's list of programs that "kubeadm upgrade" runs, and a pod's does not.
func checkMoment(t *testing.T, programs, pod string) {
	t.Helper()
	upgrades := false
	for line := range strings.Lines(programs) {
		name, _, _ := strings.Cut(line, " ")
		if name == pod {
			t.Errorf("the power was cut after %s had started again", pod)
		}
		upgrades = upgrades || name == "kubeadm" && strings.Contains(line, " upgrade ")
	}
	if !upgrades {
		t.Errorf("the power was not cut while kubeadm upgraded: these ran:\n%s", programs)
	}
}

func (c *realCluster) host(ctx context.Context, t *testing.T, name string) *v1alpha1.HostMachine {
	t.Helper()
	host := &v1alpha1.HostMachine{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: c.Name, Name: name}, host); err != nil {
		t.Fatal(err)
	}
	return host
}

// newestHost returns the host of the control plane machine that was created last.
func (c *realCluster) newestHost(ctx context.Context, t *testing.T) *v1alpha1.HostMachine {
	t.Helper()
	newest := slices.MaxFunc(c.machines(ctx, t), func(a, b clusterv1.Machine) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return c.host(ctx, t, newest.Name)
}

// breakMember takes the data of a host's member of etcd away. etcd does not start with a file in
// the place of its folder. Without the folder it may start, and get the data from the other
// members.
func (c *realCluster) breakMember(ctx context.Context, t *testing.T, host *v1alpha1.HostMachine) {
	t.Helper()
	c.run(ctx, t, host, `cd /var/lib/etcd
mv member ../etcd-member && touch member && pkill -KILL -x etcd`)
}

// repairMember gives the data back. A kubelet that starts does not wait for the end of
// CrashLoopBackOff, which is up to 5 minutes later.
func (c *realCluster) repairMember(ctx context.Context, t *testing.T, host *v1alpha1.HostMachine) {
	t.Helper()
	c.run(ctx, t, host, `set -e
systemctl stop kubelet
rm /var/lib/etcd/member
mv /var/lib/etcd-member /var/lib/etcd/member
systemctl start kubelet`)
}

// checkRefused asks for the upgrade while the member of etcd on a host is dead: by annotation,
// which it cancels, and by the version of the KubeadmControlPlane. Both must wait, with the reason,
// and drain nothing: the caller watches the Nodes. The updater asks each member. Stock Cluster API
// asks a member that answers, and calls the dead one healthy. It waits because of the pods of its
// machine, once it has noticed them. That machine must not be the oldest, which comes first:
// Cluster API would try to replace it.
func (c *realCluster) checkRefused(t *testing.T, u *upgrade, victim *v1alpha1.HostMachine) {
	t.Helper()
	ctx, at, to := u.ctx, c.Version, u.to.Version.String()
	const key = windlassv1.DefaultInPlaceUpgradePrefix + "to"
	c.patch(ctx, t, c.controlPlane(), `{"metadata":{"annotations":{%q:%q}}}`, key, "version="+to)
	says := func(m *clusterv1.Machine) string {
		is := meta.FindStatusCondition(m.Status.Conditions, windlassv1.InPlaceUpgradeCondition)
		if is == nil || !strings.Contains(is.Message, "not all members of etcd are healthy") {
			return fmt.Sprintf("Machine %s: %+v", m.Name, is)
		}
		t.Logf("%s: %s", m.Name, is.Message)
		return ""
	}
	machine, err := setup.Await(
		ctx, c.client, &clusterv1.MachineList{}, says, client.InNamespace(c.Name))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the dead member is that of %s, and %s was to be upgraded first", victim.Name, machine.Name)
	c.checkUntouched(ctx, t, at)
	c.windlass(ctx, t, "upgrade", "controlplane", c.Name, "-n", c.Name, "--cancel")
	c.awaitUnhealthyPod(ctx, t, victim.Name)
	sent := time.Now().Truncate(time.Second)
	c.send(ctx, t, to)
	c.awaitEvent(ctx, t, sent, "ControlPlaneUnhealthy", "Machine "+victim.Name)
	c.checkUntouched(ctx, t, at)
}

// awaitUnhealthyPod waits until Cluster API does not call the pod of etcd on a machine healthy.
func (c *realCluster) awaitUnhealthyPod(ctx context.Context, t *testing.T, machine string) {
	t.Helper()
	const condition = controlplanev1.KubeadmControlPlaneMachineEtcdPodHealthyCondition
	check := func(m *clusterv1.Machine) string {
		if setup.NotTrue(m.Status.Conditions, condition) == "" {
			return condition + " is True"
		}
		return ""
	}
	await(ctx, t, c.plane, &clusterv1.MachineList{}, c.Name, machine, check)
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
