package rig

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
)

// Pool is a MachineDeployment of a cluster without a ClusterClass, and the policy for it. Such a one can be sent to any version
// at any time, which keeps tests short.
type Pool struct {
	Name     string
	Replicas int32
	// MaxUnavailable is how many machines Cluster API hands over at once.
	MaxUnavailable int32
	// MaxSurge is how many machines may be there beyond Replicas. 0 by default.
	MaxSurge int32
	// Policy is the spec of the pool's UpdatePolicy, without strategy and targets.
	Policy v1alpha1.UpdatePolicySpec
	// NoPolicy leaves the policy to the test.
	NoPolicy bool
}

const (
	// PoolsCluster is the cluster with the pools, in the namespace of the same name.
	PoolsCluster = "pools"
	// PoolsControlPlane is newer than any version that pools are sent to.
	PoolsControlPlane = "v1.31.99"
	// FirstVersion is where pools begin.
	FirstVersion = "v1.31.0"
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
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: {{.MaxSurge}}, maxUnavailable: {{.MaxUnavailable}}}}}
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

// CreatePools creates the cluster with its pools, in a namespace of its own, and their policies. It does not wait.
func (p *Plane) CreatePools(ctx context.Context, t *testing.T, name string, pools []Pool) {
	t.Helper()
	p.Namespace(ctx, t, name, nil)
	for _, pool := range pools {
		if pool.NoPolicy {
			continue
		}
		spec := pool.Policy
		spec.Strategy = v1alpha1.ExternalUpdate
		spec.Targets = []v1alpha1.UpdateTarget{{ClusterName: name, MachineDeployments: []v1alpha1.MachineDeploymentName{v1alpha1.MachineDeploymentName(pool.Name)}}}
		p.CreatePolicy(ctx, t, name, pool.Name, spec)
	}
	var text strings.Builder
	err := clusterManifest.Execute(&text, map[string]any{"Name": name, "Version": PoolsControlPlane, "WorkerVersion": FirstVersion, "Pools": pools})
	if err != nil {
		t.Fatal(err)
	}
	p.Apply(ctx, t, name, text.String())
}

// CreatePolicy creates an UpdatePolicy.
func (p *Plane) CreatePolicy(ctx context.Context, t *testing.T, namespace, name string, spec v1alpha1.UpdatePolicySpec) {
	t.Helper()
	policy := &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	if err := p.Client.Create(ctx, policy); err != nil {
		t.Fatal(err)
	}
}

// AwaitPool waits until all machines of a pool are ready at a version, and no update of them is under way.
func (p *Plane) AwaitPool(ctx context.Context, t *testing.T, name, version string, replicas int) {
	t.Helper()
	p.History.Await(ctx, t, fmt.Sprintf("waiting for pool %s at %s", name, version), func() string {
		machines := p.MachinesOf(ctx, t, PoolsCluster, name)
		if len(machines) != replicas {
			return fmt.Sprintf("there are %d machines of %d", len(machines), replicas)
		}
		for i := range machines {
			if missing := NotAt(&machines[i], version); missing != "" {
				return missing
			}
		}
		return ""
	})
}

// NotAt says why a Machine does not count as being at a version; empty where it does.
func NotAt(m *clusterv1.Machine, version string) string {
	switch {
	case m.Spec.Version != version:
		return fmt.Sprintf("Machine %s asks for %s", m.Name, m.Spec.Version)
	case ProgressOf(m) != nil || m.Annotations[clusterv1.UpdateInProgressAnnotation] != "":
		return fmt.Sprintf("Machine %s is being updated", m.Name)
	case m.Status.NodeInfo == nil || m.Status.NodeInfo.KubeletVersion != version:
		return fmt.Sprintf("Machine %s has node %+v", m.Name, m.Status.NodeInfo)
	case ConditionOf(m.Status.Conditions, clusterv1.MachineReadyCondition) != "True":
		return fmt.Sprintf("Machine %s is not ready", m.Name)
	}
	return ""
}

// ConditionOf returns the status of a condition; empty where there is none.
func ConditionOf(conditions []metav1.Condition, kind string) string {
	for _, c := range conditions {
		if c.Type == kind {
			return string(c.Status)
		}
	}
	return ""
}

// MachineDeployment names a pool, for patches.
func MachineDeployment(name string) *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: PoolsCluster, Name: name}}
}

// Send sends a pool to a version.
func (p *Plane) Send(ctx context.Context, t *testing.T, name, version string) {
	t.Helper()
	Patch(ctx, t, p.Client, MachineDeployment(name), map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"version": version}}}})
}

// BlockedOwner waits until a pool's MachineDeployment says that its update does not go on, and returns why.
func (p *Plane) BlockedOwner(ctx context.Context, t *testing.T, name string, accept func(*metav1.Condition) bool) *metav1.Condition {
	t.Helper()
	var found *metav1.Condition
	p.History.Await(ctx, t, "waiting until "+name+" says why it is not updated", func() string {
		object := &clusterv1.MachineDeployment{}
		p.Cached(ctx, t, PoolsCluster, name, object)
		found = Blocked(object.Status.Conditions)
		if found == nil || !accept(found) {
			return fmt.Sprintf("its condition is %+v", found)
		}
		return ""
	})
	return found
}

// OnlyMachine returns a pool's only Machine.
func (p *Plane) OnlyMachine(ctx context.Context, t *testing.T, pool string) *clusterv1.Machine {
	t.Helper()
	machines := p.MachinesOf(ctx, t, PoolsCluster, pool)
	if len(machines) != 1 {
		t.Fatalf("pool %s has %d machines, want 1", pool, len(machines))
	}
	return &machines[0]
}

// AwaitMachine waits until check returns "" for a pool's only Machine.
func (p *Plane) AwaitMachine(ctx context.Context, t *testing.T, pool, what string, check func(*clusterv1.Machine) string) *clusterv1.Machine {
	t.Helper()
	var found *clusterv1.Machine
	p.History.Await(ctx, t, what, func() string {
		machines := p.MachinesOf(ctx, t, PoolsCluster, pool)
		if len(machines) != 1 {
			return fmt.Sprintf("pool %s has %d machines", pool, len(machines))
		}
		found = &machines[0]
		return check(found)
	})
	return found
}

// AwaitFailed waits until the update of a pool's only Machine has failed for good, for the n-th time.
func (p *Plane) AwaitFailed(ctx context.Context, t *testing.T, pool string, n int) *clusterv1.Machine {
	t.Helper()
	return p.AwaitMachine(ctx, t, pool, "waiting for the final failure of the update of "+pool, func(m *clusterv1.Machine) string {
		c, progress := Blocked(m.Status.Conditions), ProgressOf(m)
		if c == nil || c.Reason != v1alpha1.UpdateFailedReason || progress == nil || progress.Phase != inplace.Failed || progress.Operations < n {
			return fmt.Sprintf("its condition is %+v, its progress %+v", c, progress)
		}
		return ""
	})
}

// Marked reports whether Cluster API has marked a Machine as updating.
func Marked(m *clusterv1.Machine) bool {
	_, is := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	return is
}

// Workload is WorkloadOf for a Cluster in the namespace of the same name.
func (p *Plane) Workload(ctx context.Context, t *testing.T, cluster string) client.Client {
	t.Helper()
	return p.WorkloadOf(ctx, t, client.ObjectKey{Namespace: cluster, Name: cluster})
}

// WorkloadOf returns a client for a workload cluster, whose API server only the plane's own processes reach directly.
func (p *Plane) WorkloadOf(ctx context.Context, t *testing.T, cluster client.ObjectKey) client.Client {
	t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}
	if err := p.Client.Get(ctx, key, secret); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return p.DialContext(ctx, network, address)
	}
	c, err := client.New(config, client.Options{Scheme: p.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Labelled selects by one label.
func Labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}
