//go:build linux

package hosts_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

const (
	// machineCluster is the Cluster of the Machine, in the namespace of the same name.
	machineCluster = "hosts"
	// configFile is a file on hosts that the bootstrap config brings.
	configFile = "/etc/e2e.conf"
)

// config is what the bootstrap config says in one state of the MachineDeployment.
type config struct {
	Namespace, Name, Path, Content string
	MaxPods                        int64
}

func newConfig(name string, maxPods int64) config {
	return config{Namespace: machineCluster, Name: "worker-" + name, Path: configFile, Content: name, MaxPods: maxPods}
}

// testMachine upgrades the host of a Machine in place, by the router, asked by stock Cluster API. Then the host answers with
// another key, which ends an update for good until a person has looked at it.
func (p *plane) testMachine(ctx context.Context, t *testing.T) {
	t.Helper()
	first, second, third := newConfig("first", 50), newConfig("second", 60), newConfig("third", 70)
	host := p.newMachine(ctx, t, "machine", fmt.Sprintf("--max-pods=%d", first.MaxPods))
	before := p.adopt(ctx, t, host, first)
	pod := host.addPod(ctx, t)

	p.upgradeControlPlane(ctx, t)
	p.createManifest(ctx, t, configManifest, second)
	p.send(ctx, t, second, map[string]any{"version": p.to.version.String()})
	after := p.awaitUpToDate(ctx, t, p.to.version.String(), second)
	if after.Name != before.Name || after.UID != before.UID {
		t.Errorf("the Machine is %s %s, was %s %s: it was replaced", after.Name, after.UID, before.Name, before.UID)
	}
	host.checkUpgraded(ctx, t, second.MaxPods)
	host.checkConfig(t, second)
	if err := p.client.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("the router drains, but the node's pod is still there: %v", err)
	}
	p.checkLog(ctx, t, before.Name)

	host.ChangeHostKey() //nolint:contextcheck // It has a time of its own.
	p.createManifest(ctx, t, configManifest, third)
	p.send(ctx, t, third, nil)
	p.checkRefused(ctx, t, host, second)

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: machineCluster, Name: loginSecret}}
	p.patch(ctx, t, secret, map[string]any{"data": map[string]any{"known_hosts": host.KnownHosts()}})
	p.patch(ctx, t, before, map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.UpdateRetryAnnotation: ""}}})
	after = p.awaitUpToDate(ctx, t, p.to.version.String(), third)
	if after.UID != before.UID {
		t.Error("the Machine was replaced")
	}
	host.checkUpgraded(ctx, t, third.MaxPods)
	host.checkConfig(t, third)
}

// adopt makes a Cluster and a MachineDeployment whose only Machine is the host. The test is the infrastructure provider.
func (p *plane) adopt(ctx context.Context, t *testing.T, host *machine, c config) *clusterv1.Machine {
	t.Helper()
	host.Write(configFile, []byte(c.Content))
	kubeconfig, err := os.ReadFile(p.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	p.createProviderKinds(ctx, t)
	p.create(ctx, t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: machineCluster}})
	p.createSecrets(ctx, t, machineCluster, host, kubeconfig)
	p.createRules(ctx, t, machineCluster)
	p.createManifest(ctx, t, configManifest, c)
	p.createManifest(ctx, t, clusterManifest, map[string]any{
		"Name": machineCluster, "From": p.from.version, "Port": p.port, "Config": c.Name,
	})
	provided := await(ctx, t, p, "waiting for the infrastructure machine", providerList(hostMachineKind), func(*unstructured.Unstructured) string { return "" },
		client.InNamespace(machineCluster))
	p.patch(ctx, t, provided, map[string]any{
		"spec": map[string]any{"providerID": host.providerID()},
		"status": map[string]any{
			"initialization": map[string]any{"provisioned": true},
			"addresses":      []any{map[string]any{"type": "InternalIP", "address": host.Address()}},
		},
	})
	return p.awaitUpToDate(ctx, t, p.from.version.String(), c)
}

// upgradeControlPlane is what a control plane provider would do before its workers' turn.
func (p *plane) upgradeControlPlane(ctx context.Context, t *testing.T) {
	t.Helper()
	v := map[string]any{"version": p.to.version.String()}
	p.patch(ctx, t, providerObject(hostControlPlaneKind, machineCluster, machineCluster), map[string]any{"spec": v, "status": v})
}

// send has the MachineDeployment desire another bootstrap config, and further fields of the Machine's spec.
func (p *plane) send(ctx context.Context, t *testing.T, c config, fields map[string]any) {
	t.Helper()
	desired := map[string]any{"bootstrap": map[string]any{"configRef": map[string]any{"name": c.Name}}}
	maps.Copy(desired, fields)
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: machineCluster, Name: "worker"}}
	p.patch(ctx, t, deployment, spec(map[string]any{"template": map[string]any{"spec": desired}}))
}

// awaitUpToDate waits until the Machine runs at a version, up to date with a bootstrap config and Ready, and sees that it is the only one.
func (p *plane) awaitUpToDate(ctx context.Context, t *testing.T, version string, c config) *clusterv1.Machine {
	t.Helper()
	// The Machine is up to date with its MachineSet; that one says with what.
	set := await(ctx, t, p, "waiting for the MachineSet with "+c.Name, &clusterv1.MachineSetList{}, func(s *clusterv1.MachineSet) string {
		if desired := s.Spec.Template.Spec; desired.Version != version || desired.Bootstrap.ConfigRef.Name != c.Name {
			return "there is none"
		}
		return ""
	}, client.InNamespace(machineCluster))
	m := await(ctx, t, p, "waiting for the Machine at "+version+" with "+c.Name, &clusterv1.MachineList{}, func(m *clusterv1.Machine) string {
		_, updating := m.Annotations[clusterv1.UpdateInProgressAnnotation]
		switch {
		case m.Labels[clusterv1.MachineSetNameLabel] != set.Name || updating || m.Annotations[v1alpha1.UpdateProgressAnnotation] != "":
			return fmt.Sprintf("it is being updated: %s; its conditions are %+v", m.Annotations[v1alpha1.UpdateProgressAnnotation], m.Status.Conditions)
		case m.Status.NodeInfo == nil || m.Status.NodeInfo.KubeletVersion != version:
			return fmt.Sprintf("its node is %+v; its conditions are %+v", m.Status.NodeInfo, m.Status.Conditions)
		case !meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineReadyCondition) ||
			!meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineUpToDateCondition):
			return fmt.Sprintf("its conditions are %+v", m.Status.Conditions)
		}
		return ""
	}, client.InNamespace(machineCluster))
	machines := &clusterv1.MachineList{}
	if err := p.client.List(ctx, machines, client.InNamespace(machineCluster)); err != nil || len(machines.Items) != 1 {
		t.Errorf("there are %d Machines, want 1: %v", len(machines.Items), err)
	}
	return m
}

// checkConfig sees that the host has the file of the bootstrap config.
func (m *machine) checkConfig(t *testing.T, c config) {
	t.Helper()
	if content, err := m.Read(configFile); err != nil || string(content) != c.Content {
		t.Errorf("%s has %q, want %q: %v", configFile, content, c.Content, err)
	}
}

// checkLog sees that the log of the Machine's update tells of its steps, and that people can read it.
func (p *plane) checkLog(ctx context.Context, t *testing.T, machine string) {
	t.Helper()
	kept := &corev1.ConfigMap{}
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: machineCluster, Name: machine + v1alpha1.UpdateLogSuffix}, kept); err != nil {
		t.Fatal(err)
	}
	logs := exec.CommandContext(ctx, p.Windlass, "logs", "machine", machine, "--namespace", machineCluster, "--kubeconfig", p.KubeconfigPath())
	printed, err := logs.CombinedOutput()
	if err != nil {
		t.Fatalf("windlass logs machine: %v\n%s", err, printed)
	}
	t.Logf("windlass logs machine %s\n%s", machine, printed)
	for name, text := range map[string]string{"ConfigMap": kept.Data[v1alpha1.UpdateLogKey], "command": string(printed)} {
		for _, step := range []string{"fetch-kubelet", "write-files", "kubeadm-upgrade", "install-kubelet", "kubelet-arguments", "restart"} {
			if !strings.Contains(text, step) {
				t.Errorf("the log of the update, by the %s, says nothing of step %s:\n%s", name, step, text)
			}
		}
	}
}

// checkRefused sees that a host with another key is left alone, and that the Machine says so for good. Its node was not cordoned, though the policy
// drains: the updater has said before that it cannot begin.
func (p *plane) checkRefused(ctx context.Context, t *testing.T, host *machine, is config) {
	t.Helper()
	const reason = "HostKeyNotTrusted"
	await(ctx, t, p, "waiting for the final failure of the update", &clusterv1.MachineList{}, func(m *clusterv1.Machine) string {
		c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.UpdateBlockedCondition)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.UpdateFailedReason || !strings.Contains(c.Message, reason) {
			return fmt.Sprintf("its conditions are %+v", m.Status.Conditions)
		}
		return ""
	}, client.InNamespace(machineCluster))
	if node := host.awaitNode(ctx, t, p.to.version); node.Spec.Unschedulable {
		t.Error("the updater cannot begin, but the node was cordoned")
	}
	host.checkConfig(t, is)
}
