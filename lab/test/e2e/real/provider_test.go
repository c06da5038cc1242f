//go:build linux

package real_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/provider/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/provider/site"
)

// userData waits in the middle for a file, and counts how often it runs.
const userData = `## template: jinja
#cloud-config
bootcmd:
- echo boot >> /var/lib/boots
write_files:
- path: /etc/secret
  encoding: base64
  content: aGVsbG8=
- path: /etc/secret
  owner: nobody:nogroup
  permissions: '0400'
  append: true
  content: ' {{ ds.meta_data.local_hostname }}'
users:
- {name: admin, sudo: 'ALL=(ALL) NOPASSWD:ALL', groups: 'adm, people'}
runcmd:
- name={{ ds.meta_data.local_hostname }}
- echo run >> /var/lib/runs
- until [ -e /run/continue ]; do sleep 0.05; done
- mkdir /run/cluster-api && [ "$name" = {{ ds.meta_data.local_hostname }} ] && echo success > /run/cluster-api/bootstrap-success.complete
`

// TestProvider has the stock core manager use the provider, with user data that stands in for kubeadm.
func TestProvider(t *testing.T) {
	ctx, p := start(t, []string{devplane.KubeadmBootstrapManager, devplane.KubeadmControlPlaneManager})
	const namespace = "provider"
	p.createNamespace(ctx, t, namespace)
	p.createCluster(ctx, t, namespace)
	t.Run("cluster", func(t *testing.T) { p.testCluster(ctx, t, namespace) })
	t.Run("machine", func(t *testing.T) { p.testMachine(ctx, t, namespace) })
	t.Run("refused", func(t *testing.T) { p.testRefused(ctx, t, namespace) })
	t.Run("interrupted", func(t *testing.T) { p.testInterrupted(ctx, t, namespace) })
	t.Run("class", func(t *testing.T) { p.testClass(ctx, t) })
	t.Run("deletion", func(t *testing.T) { p.testDeletion(ctx, t, namespace) })
}

func (p *plane) createCluster(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	at := metav1.ObjectMeta{Namespace: name, Name: name}
	p.create(ctx, t,
		&v1alpha1.HostCluster{ObjectMeta: at, Spec: v1alpha1.HostClusterSpec{FailureDomains: []string{"one", "two"}}},
		&clusterv1.Cluster{ObjectMeta: at, Spec: clusterv1.ClusterSpec{InfrastructureRef: hostRef("HostCluster", name)}},
	)
}

func hostRef(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: kind, Name: name}
}

// createMachine makes a Machine of the control plane with user data.
func (p *plane) createMachine(ctx context.Context, t *testing.T, namespace, name, data string) *v1alpha1.HostMachine {
	t.Helper()
	at := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		clusterv1.MachineControlPlaneLabel: "", clusterv1.ClusterNameLabel: namespace,
	}}
	hostMachine := &v1alpha1.HostMachine{ObjectMeta: *at.DeepCopy()}
	p.create(ctx, t,
		&corev1.Secret{ObjectMeta: *at.DeepCopy(), Data: map[string][]byte{"value": []byte(data)}},
		hostMachine,
		&clusterv1.Machine{ObjectMeta: at, Spec: clusterv1.MachineSpec{
			ClusterName: namespace, Version: "v1.36.3", FailureDomain: "two", InfrastructureRef: hostRef("HostMachine", name),
			Bootstrap: clusterv1.Bootstrap{DataSecretName: new(name)},
		}},
	)
	return hostMachine
}

func (p *plane) testCluster(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	cluster := p.awaitCluster(ctx, t, name, func(c *clusterv1.Cluster) string {
		if provisioned := c.Status.Initialization.InfrastructureProvisioned; provisioned == nil || !*provisioned {
			return fmt.Sprintf("its conditions are %+v", c.Status.Conditions)
		}
		return setup.NotTrue(c.Status.Conditions, clusterv1.ClusterInfrastructureReadyCondition)
	})
	if endpoint := cluster.Spec.ControlPlaneEndpoint; endpoint.Host == "" || endpoint.Port != 6443 {
		t.Errorf("the endpoint is %+v", endpoint)
	}
	var domains []string
	for _, domain := range cluster.Status.FailureDomains {
		domains = append(domains, domain.Name)
	}
	if diff := cmp.Diff([]string{"one", "two"}, domains); diff != "" {
		t.Error(diff)
	}
}

// testMachine kills the provider in the middle of a bootstrap, then has the host suffer.
func (p *plane) testMachine(ctx context.Context, t *testing.T, namespace string) {
	t.Helper()
	const name = "machine"
	p.createMachine(ctx, t, namespace, name, userData)
	m := p.awaitReason(ctx, t, namespace, name, v1alpha1.BootstrappingReason)
	p.checkMachine(ctx, t, m)
	p.run(ctx, t, m, "until [ -e /var/lib/runs ]; do sleep 0.05; done")
	// It is killed, starts again, and ends before the bootstrap does.
	if _, err := p.KillChild(ctx, setup.HostProviderName); err != nil {
		t.Fatal(err)
	}
	if _, err := p.StopChild(ctx, setup.HostProviderName); err != nil {
		t.Fatal(err)
	}
	p.run(ctx, t, m, "touch /run/continue; systemctl start cloud-final") // returns when the unit has ended
	if _, err := p.StartChild(ctx, setup.HostProviderName); err != nil {
		t.Fatal(err)
	}
	p.awaitReason(ctx, t, namespace, name, v1alpha1.HostRunningReason)
	await(ctx, t, p, &v1alpha1.HostMachineList{}, namespace, name, func(m *v1alpha1.HostMachine) string {
		if !m.Status.Bootstrapped {
			return "success is not recorded"
		}
		return ""
	})
	want := "boot\nrun\nhello machine\n400 nobody nogroup\nadm people\n"
	got := p.run(ctx, t, m, "cat /var/lib/boots /var/lib/runs /etc/secret; echo; stat -c '%a %U %G' /etc/secret; id -nG admin | cut -d' ' -f2-")
	if diff := cmp.Diff(want, strings.ReplaceAll(got, "\n\n", "\n")); diff != "" {
		t.Error(diff)
	}
	p.checkFaults(ctx, t, m)
	// The host answers before the unit has ended that counts boots.
	counts := "until [ $(wc -l </var/lib/boots) -ge 2 ]; do sleep 0.05; done; " +
		"cat /var/lib/boots /var/lib/runs"
	if got, want := p.run(ctx, t, m, counts), "boot\nboot\nrun\n"; got != want {
		t.Errorf("after a power cut: %q, want %q", got, want)
	}
	p.checkPaused(ctx, t, m)
}

// checkMachine sees that the Machine has what its infrastructure tells.
func (p *plane) checkMachine(ctx context.Context, t *testing.T, m *v1alpha1.HostMachine) {
	t.Helper()
	machine := await(ctx, t, p, &clusterv1.MachineList{}, m.Namespace, m.Name, func(machine *clusterv1.Machine) string {
		if provisioned := machine.Status.Initialization.InfrastructureProvisioned; provisioned == nil || !*provisioned {
			return fmt.Sprintf("its conditions are %+v", machine.Status.Conditions)
		}
		return ""
	})
	if err := p.client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
		t.Fatal(err)
	}
	if machine.Spec.ProviderID != "host:///"+string(m.UID) || machine.Status.FailureDomain != "two" {
		t.Errorf("provider ID %q, failure domain %q", machine.Spec.ProviderID, machine.Status.FailureDomain)
	}
	want := clusterv1.MachineAddresses{
		{Type: clusterv1.MachineInternalIP, Address: m.InternalIP()}, {Type: clusterv1.MachineHostName, Address: m.Name},
	}
	if diff := cmp.Diff(want, machine.Status.Addresses); diff != "" {
		t.Error(diff)
	}
}

// checkFaults has the host suffer from each fault, and recover.
func (p *plane) checkFaults(ctx context.Context, t *testing.T, m *v1alpha1.HostMachine) {
	t.Helper()
	// The limit is far below the delay of the slow disk.
	const writes, syncs = "dd if=/dev/zero of=/var/lib/x bs=1M count=1 2>/dev/null",
		"timeout -s KILL 1 sync /etc/secret"
	for _, fault := range []struct {
		annotation, value, message, inside string
		unreachable                        bool
	}{
		{v1alpha1.DiskFullAnnotation, "true", "a full disk", "! " + writes + " && " + syncs, false},
		{v1alpha1.NetworkLostAnnotation, "true", "no network", writes + " && " + syncs, true},
		{v1alpha1.SlowDiskAnnotation, "1h", "a slow disk (1h0m0s)", writes + " && ! " + syncs, false},
		{v1alpha1.PowerOffAnnotation, "true", "no power", "", true},
	} {
		p.patch(ctx, t, m, `{"metadata":{"annotations":{%q:%q}}}`, fault.annotation, fault.value)
		suffers := p.awaitReason(ctx, t, m.Namespace, m.Name, v1alpha1.HostFaultReason)
		ready := meta.FindStatusCondition(suffers.Status.Conditions, clusterv1.ReadyCondition)
		if !strings.HasSuffix(ready.Message, fault.message) {
			t.Errorf("%s: %s", fault.annotation, ready.Message)
		}
		if fault.inside != "" {
			p.run(ctx, t, m, fault.inside)
		} else if _, err := p.site.Run(ctx, string(m.UID), "true"); err == nil {
			t.Error("a host without power ran a script")
		}
		if err := dialHost(m); (err != nil) != fault.unreachable {
			t.Errorf("with %s, connecting to the host: %v", fault.message, err)
		}
		p.patch(ctx, t, m, `{"metadata":{"annotations":{%q:null}}}`, fault.annotation)
		p.awaitReason(ctx, t, m.Namespace, m.Name, v1alpha1.HostRunningReason)
		p.run(ctx, t, m, writes+" && "+syncs)
		if err := dialHost(m); err != nil {
			t.Errorf("after %s: %v", fault.message, err)
		}
	}
}

// dialHost connects to the host's sshd.
func dialHost(m *v1alpha1.HostMachine) error {
	connection, err := net.DialTimeout("tcp", net.JoinHostPort(m.InternalIP(), "22"), 10*time.Second)
	if err != nil {
		return fmt.Errorf("connecting to host %s: %w", m.Name, err)
	}
	return connection.Close()
}

// checkPaused sees that a HostMachine that is paused is left alone.
func (p *plane) checkPaused(ctx context.Context, t *testing.T, m *v1alpha1.HostMachine) {
	t.Helper()
	paused := func(want metav1.ConditionStatus) {
		t.Helper()
		await(ctx, t, p, &v1alpha1.HostMachineList{}, m.Namespace, m.Name, func(m *v1alpha1.HostMachine) string {
			condition := meta.FindStatusCondition(m.Status.Conditions, clusterv1.PausedCondition)
			if condition == nil || condition.Status != want {
				return fmt.Sprintf("Paused is %+v", condition)
			}
			return ""
		})
	}
	p.patch(ctx, t, m, `{"metadata":{"annotations":{%q:""}}}`, clusterv1.PausedAnnotation)
	paused(metav1.ConditionTrue)
	p.patch(ctx, t, m, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.DiskFullAnnotation)
	p.patch(ctx, t, m, `{"metadata":{"annotations":{%q:null,%q:null}}}`, clusterv1.PausedAnnotation, v1alpha1.DiskFullAnnotation)
	paused(metav1.ConditionFalse)
	host, err := p.site.Host(ctx, string(m.UID))
	if err != nil || host.Condition != (site.Condition{}) {
		t.Errorf("the host has %+v: %v", host.Condition, err)
	}
}

func (p *plane) testRefused(ctx context.Context, t *testing.T, namespace string) {
	t.Helper()
	p.createMachine(ctx, t, namespace, "refused", "#cloud-config\nmounts: [[a, b]]")
	m := p.awaitReason(ctx, t, namespace, "refused", v1alpha1.UserDataRefusedReason)
	ready := meta.FindStatusCondition(m.Status.Conditions, clusterv1.ReadyCondition)
	if !strings.Contains(ready.Message, "mounts") {
		t.Errorf("the message is %q", ready.Message)
	}
	// Cluster API shows it at the Machine.
	await(ctx, t, p, &clusterv1.MachineList{}, namespace, "refused", func(machine *clusterv1.Machine) string {
		condition := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
		if condition == nil || condition.Reason != v1alpha1.UserDataRefusedReason {
			return fmt.Sprintf("InfrastructureReady is %+v", condition)
		}
		return ""
	})
}

// testInterrupted cuts the power in the middle of a bootstrap, and has another one fail.
func (p *plane) testInterrupted(ctx context.Context, t *testing.T, namespace string) {
	t.Helper()
	p.createMachine(ctx, t, namespace, "interrupted", userData)
	p.createMachine(ctx, t, namespace, "failed", "#cloud-config\nruncmd: ['echo no >&2', 'false']")
	m := p.awaitReason(ctx, t, namespace, "interrupted", v1alpha1.BootstrappingReason)
	p.run(ctx, t, m, "until [ -e /var/lib/runs ]; do sleep 0.05; done")
	p.patch(ctx, t, m, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.PowerOffAnnotation)
	p.awaitReason(ctx, t, namespace, "interrupted", v1alpha1.HostFaultReason)
	p.patch(ctx, t, m, `{"metadata":{"annotations":{%q:null}}}`, v1alpha1.PowerOffAnnotation)
	p.awaitReason(ctx, t, namespace, "interrupted", v1alpha1.BootstrapFailedReason)
	failed := p.awaitReason(ctx, t, namespace, "failed", v1alpha1.BootstrapFailedReason)
	ready := meta.FindStatusCondition(failed.Status.Conditions, clusterv1.ReadyCondition)
	for _, part := range []string{"exit status 1", "no", "Fix:"} {
		if !strings.Contains(ready.Message, part) {
			t.Errorf("the message has no %q: %s", part, ready.Message)
		}
	}
}

// testDeletion deletes the Cluster, and with it all machines.
func (p *plane) testDeletion(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	before, err := p.site.Hosts(ctx)
	names := make([]string, 0, len(before))
	for _, host := range before {
		names = append(names, host.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"failed", "interrupted", "machine"}, names); diff != "" || err != nil {
		t.Errorf("%v: %s", err, diff)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}}
	if err := p.client.Delete(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	p.awaitGone(ctx, t, &clusterv1.ClusterList{}, cluster)
	if after, err := p.site.Hosts(ctx); err != nil || len(after) != 0 {
		t.Errorf("after the deletion there are hosts %+v: %v", after, err)
	}
}

// testClass has Cluster API make all kinds from a ClusterClass, and change them with their templates.
func (p *plane) testClass(ctx context.Context, t *testing.T) {
	t.Helper()
	const name = "class"
	p.createReal(ctx, t, classManifest, shape{Name: name, Version: "v1.36.3", ControlPlanes: 1, Workers: 1, Pool: 1})
	awaitDomains := func(want int) {
		t.Helper()
		p.awaitCluster(ctx, t, name, func(c *clusterv1.Cluster) string {
			if n := len(c.Status.FailureDomains); n != want {
				return fmt.Sprintf("it has %d failure domains", n)
			}
			return setup.NotTrue(c.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition)
		})
	}
	awaitDomains(1)
	pools := &v1alpha1.HostMachinePoolList{}
	if err := p.client.List(ctx, pools, client.InNamespace(name)); err != nil || len(pools.Items) != 1 {
		t.Fatalf("%d pools, %v", len(pools.Items), err)
	}
	if size := pools.Items[0].Spec.DiskSize; size == nil || size.String() != "1Gi" {
		t.Errorf("the pool's machines have a disk of %s", size)
	}
	at := metav1.ObjectMeta{Namespace: name, Name: name}
	p.patch(ctx, t, &v1alpha1.HostClusterTemplate{ObjectMeta: at}, `{"spec":{"template":{"spec":{"failureDomains":["one","two"]}}}}`)
	awaitDomains(2)
}
