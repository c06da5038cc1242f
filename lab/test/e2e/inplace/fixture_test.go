package inplace_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"text/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/demo"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// pool is a MachineDeployment of a cluster without a ClusterClass, and the policy for it. Such a one can be sent to any version
// at any time, which keeps tests short.
type pool struct {
	Name     string
	Replicas int32
	// MaxUnavailable is how many machines Cluster API hands over at once.
	MaxUnavailable int32
	// Policy is the spec of the pool's UpdatePolicy, without strategy and targets.
	Policy v1alpha1.UpdatePolicySpec
}

const (
	// poolsCluster is the cluster with the pools, in the namespace of the same name.
	poolsCluster = "pools"
	// controlPlaneVersion is newer than any version that pools are sent to.
	controlPlaneVersion = "v1.31.99"
	firstVersion        = "v1.31.0"
)

var clusterManifest = template.Must(template.New("cluster").Parse(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: {{.Name}}, namespace: {{.Name}}}
spec:
  clusterNetwork:
    services: {cidrBlocks: [10.128.0.0/12]}
    pods: {cidrBlocks: [192.168.0.0/16]}
    serviceDomain: cluster.local
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: {{.Name}}}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: {{.Name}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevCluster
# The in-memory provider expects some annotation to be there.
metadata: {name: {{.Name}}, namespace: {{.Name}}, annotations: {example.com/any: ""}}
spec: {backend: {inMemory: {}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: {{.Name}}, namespace: {{.Name}}}
spec:
  replicas: 1
  version: {{.Version}}
  kubeadmConfigSpec:
    clusterConfiguration: {apiServer: {certSANs: [localhost, 127.0.0.1]}}
  machineTemplate:
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: control-plane}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevMachineTemplate
metadata: {name: control-plane, namespace: {{.Name}}}
spec:
  template:
    spec:
      backend:
        inMemory:
          vm: {provisioning: {startupDuration: 1s}}
          node: {provisioning: {startupDuration: 1s}}
          apiServer: {provisioning: {startupDuration: 1s}}
          etcd: {provisioning: {startupDuration: 1s}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevMachineTemplate
metadata: {name: worker, namespace: {{.Name}}}
spec: {template: {spec: {backend: {inMemory: {vm: {provisioning: {startupDuration: 1s}}, node: {provisioning: {startupDuration: 1s}}}}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevMachineTemplate
metadata: {name: worker-slow, namespace: {{.Name}}}
spec: {template: {spec: {backend: {inMemory: {vm: {provisioning: {startupDuration: 2s}}, node: {provisioning: {startupDuration: 1s}}}}}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: worker, namespace: {{.Name}}}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {criSocket: unix:///var/run/containerd/containerd.sock}}}}}
{{- range .Pools}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: {{.Name}}, namespace: {{$.Name}}}
spec:
  clusterName: {{$.Name}}
  replicas: {{.Replicas}}
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: {{.MaxUnavailable}}}}}
  selector: {matchLabels: {pool: {{.Name}}}}
  template:
    metadata: {labels: {pool: {{.Name}}}}
    spec:
      clusterName: {{$.Name}}
      version: {{$.WorkerVersion}}
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: worker}}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: worker}
{{- end}}
`))

// createPools creates the cluster with its pools, in a namespace of its own, and their policies. It does not wait.
func (p *plane) createPools(ctx context.Context, t *testing.T, name string, pools []pool) {
	t.Helper()
	p.namespace(ctx, t, name)
	for _, pool := range pools {
		if strings.HasPrefix(pool.Name, flightPrefix) {
			continue // They share one, which their test makes.
		}
		spec := pool.Policy
		spec.Strategy = v1alpha1.ExternalUpdate
		spec.Targets = []v1alpha1.UpdateTarget{{ClusterName: name, MachineDeployments: []v1alpha1.MachineDeploymentName{v1alpha1.MachineDeploymentName(pool.Name)}}}
		p.createPolicy(ctx, t, name, pool.Name, spec)
	}
	var text strings.Builder
	err := clusterManifest.Execute(&text, map[string]any{"Name": name, "Version": controlPlaneVersion, "WorkerVersion": firstVersion, "Pools": pools})
	if err != nil {
		t.Fatal(err)
	}
	p.Apply(ctx, t, name, text.String())
}

func (p *plane) createPolicy(ctx context.Context, t *testing.T, namespace, name string, spec v1alpha1.UpdatePolicySpec) {
	t.Helper()
	policy := &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	if err := p.client.Create(ctx, policy); err != nil {
		t.Fatal(err)
	}
}

// awaitPool waits until all machines of a pool are ready at a version, and no update of them is under way.
func (p *plane) awaitPool(ctx context.Context, t *testing.T, name, version string, replicas int) {
	t.Helper()
	p.History.Await(ctx, t, fmt.Sprintf("waiting for pool %s at %s", name, version), func() string {
		machines := p.machinesOf(ctx, t, poolsCluster, name)
		if len(machines) != replicas {
			return fmt.Sprintf("there are %d machines of %d", len(machines), replicas)
		}
		for i := range machines {
			if missing := notAt(&machines[i], version); missing != "" {
				return missing
			}
		}
		return ""
	})
}

// notAt says why a Machine does not count as being at a version; empty where it does.
func notAt(m *clusterv1.Machine, version string) string {
	switch {
	case m.Spec.Version != version:
		return fmt.Sprintf("Machine %s asks for %s", m.Name, m.Spec.Version)
	case progressOf(m) != nil || m.Annotations[clusterv1.UpdateInProgressAnnotation] != "":
		return fmt.Sprintf("Machine %s is being updated", m.Name)
	case m.Status.NodeInfo == nil || m.Status.NodeInfo.KubeletVersion != version:
		return fmt.Sprintf("Machine %s has node %+v", m.Name, m.Status.NodeInfo)
	case conditionOf(m.Status.Conditions, clusterv1.MachineReadyCondition) != "True":
		return fmt.Sprintf("Machine %s is not ready", m.Name)
	}
	return ""
}

func conditionOf(conditions []metav1.Condition, kind string) string {
	for _, c := range conditions {
		if c.Type == kind {
			return string(c.Status)
		}
	}
	return ""
}

// machineDeployment names a pool, for patches.
func machineDeployment(name string) *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: poolsCluster, Name: name}}
}

// send sends a pool to a version.
func (p *plane) send(ctx context.Context, t *testing.T, name, version string) {
	t.Helper()
	patch(ctx, t, p.client, machineDeployment(name), map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"version": version}}}})
}

// blockedOwner waits until a pool's MachineDeployment says that its update does not go on, and returns why.
func (p *plane) blockedOwner(ctx context.Context, t *testing.T, name string, accept func(*metav1.Condition) bool) *metav1.Condition {
	t.Helper()
	var found *metav1.Condition
	p.History.Await(ctx, t, "waiting until "+name+" says why it is not updated", func() string {
		object := &clusterv1.MachineDeployment{}
		p.get(ctx, t, poolsCluster, name, object)
		found = blocked(object.Status.Conditions)
		if found == nil || !accept(found) {
			return fmt.Sprintf("its condition is %+v", found)
		}
		return ""
	})
	return found
}

// applyScenario applies the objects of a scenario of the demo, and its Cluster.
func (p *plane) applyScenario(ctx context.Context, t *testing.T, s demo.Scenario) {
	t.Helper()
	if err := setup.ApplyAll(ctx, p.client, s.Namespace, s.Objects); err != nil {
		t.Fatal(err)
	}
	cluster := s.Cluster.DeepCopy()
	cluster.Namespace = s.Namespace
	if err := setup.Apply(ctx, p.client, cluster); err != nil {
		t.Fatal(err)
	}
}
