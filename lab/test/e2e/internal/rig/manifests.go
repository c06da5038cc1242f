package rig

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"text/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/manifest"
	"github.com/windlass-dev/windlass/lab/internal/setup"
)

// ClassName is the name of every ClusterClass.
const ClassName = "small"

// StartupVariable is the class's one variable: how long a worker's machine takes to start.
const StartupVariable = "startup"

// Class is a ClusterClass with machines in memory, a class of workers named "worker", and the variable StartupVariable. Either it lists Versions, or
// Extension makes the plans. Machines of the control plane never start at the version Imageless.
type Class struct {
	Versions  []string
	Extension string
	Imageless string
}

var classManifest = template.Must(template.New("class").Parse(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: small}
spec:
{{- if .Versions}}
  kubernetesVersions: [{{range $i, $v := .Versions}}{{if $i}}, {{end}}{{$v}}{{end}}]
{{- end}}
{{- if .Extension}}
  upgrade: {external: {generateUpgradePlanExtension: {{.Extension}}}}
{{- end}}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: small}
    machineInfrastructure:
      templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: DevMachineTemplate, name: control-plane}
  infrastructure:
    templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: DevClusterTemplate, name: small}
  workers:
    machineDeployments:
    - class: worker
      bootstrap:
        templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: worker}
      infrastructure:
        templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: DevMachineTemplate, name: worker}
  variables:
  - name: startup
    required: true
    schema: {openAPIV3Schema: {type: string, default: 1s}}
  patches:
  - name: startup
    definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: DevMachineTemplate
        matchResources: {machineDeploymentClass: {names: [worker]}}
      jsonPatches:
      - op: replace
        path: /spec/template/spec/backend/inMemory/vm/provisioning/startupDuration
        valueFrom: {variable: startup}
{{- if .Imageless}}
  - name: imageless
    enabledIf: {{printf "'{{ with .builtin.controlPlane }}{{ eq .version %q }}{{ end }}'" .Imageless}}
    definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
        kind: DevMachineTemplate
        matchResources: {controlPlane: true}
      jsonPatches:
      - {op: replace, path: /spec/template/spec/backend/inMemory/vm/provisioning/startupDuration, value: 24h}
{{- end}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevClusterTemplate
metadata: {name: small}
spec: {template: {spec: {backend: {inMemory: {}}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: small}
spec:
  template:
    spec:
      kubeadmConfigSpec:
        clusterConfiguration: {apiServer: {certSANs: [localhost, 127.0.0.1]}}
        initConfiguration: {nodeRegistration: {criSocket: unix:///var/run/containerd/containerd.sock}}
        joinConfiguration: {nodeRegistration: {criSocket: unix:///var/run/containerd/containerd.sock}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevMachineTemplate
metadata: {name: control-plane}
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
metadata: {name: worker}
spec: {template: {spec: {backend: {inMemory: {vm: {provisioning: {startupDuration: 1s}}, node: {provisioning: {startupDuration: 1s}}}}}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: worker}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {criSocket: unix:///var/run/containerd/containerd.sock}}}}}
`))

// ApplyClass creates the class and its templates in a namespace, and waits until Clusters can be made from it.
func (p *Plane) ApplyClass(ctx context.Context, t *testing.T, namespace string, class Class) {
	t.Helper()
	var text strings.Builder
	if err := classManifest.Execute(&text, class); err != nil {
		t.Fatal(err)
	}
	p.Apply(ctx, t, namespace, text.String())
}

// Apply applies manifests in a namespace, and waits until Clusters can be made from their ClusterClasses.
func (p *Plane) Apply(ctx context.Context, t *testing.T, namespace, manifests string, changes ...func(*unstructured.Unstructured)) {
	t.Helper()
	objects, err := manifest.ReadObjects([]string{manifest.Stdin}, strings.NewReader(manifests))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		for _, object := range objects {
			change(object)
		}
	}
	if err := setup.ApplyAll(ctx, p.Client, namespace, objects); err != nil {
		t.Fatal(err)
	}
}

// Group is a MachineDeployment of a Cluster.
type Group struct {
	Name        string
	Replicas    int32
	Annotations map[string]string
}

// NewCluster describes a Cluster of the class.
func NewCluster(key types.NamespacedName, version string, controlPlane int32, groups ...Group) *clusterv1.Cluster {
	c := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: clusterv1.ClusterSpec{
			ClusterNetwork: clusterv1.ClusterNetwork{
				Services: clusterv1.NetworkRanges{CIDRBlocks: []string{"10.128.0.0/12"}}, Pods: clusterv1.NetworkRanges{CIDRBlocks: []string{"192.168.0.0/16"}},
				ServiceDomain: "cluster.local",
			},
			Topology: clusterv1.Topology{
				ClassRef: clusterv1.ClusterClassRef{Name: ClassName}, Version: version, ControlPlane: clusterv1.ControlPlaneTopology{Replicas: &controlPlane},
			},
		},
	}
	for _, g := range groups {
		c.Spec.Topology.Workers.MachineDeployments = append(c.Spec.Topology.Workers.MachineDeployments, g.Topology())
	}
	return c
}

// Topology is how a Cluster describes the group.
func (g Group) Topology() clusterv1.MachineDeploymentTopology {
	return clusterv1.MachineDeploymentTopology{
		Class: "worker", Name: g.Name, Replicas: &g.Replicas, Metadata: clusterv1.ObjectMeta{Annotations: g.Annotations},
	}
}

// Change changes a Cluster, again where a controller has written it in between.
func (p *Plane) Change(ctx context.Context, t *testing.T, key types.NamespacedName, change func(*clusterv1.Cluster)) {
	t.Helper()
	if err := p.TryChange(ctx, key, change); err != nil {
		t.Fatal(err)
	}
}

// SetTarget sets the version that a Cluster is to go to.
func (p *Plane) SetTarget(ctx context.Context, t *testing.T, key types.NamespacedName, to string) {
	t.Helper()
	p.Change(ctx, t, key, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = to })
}

// TryChange is Change where a refusal is expected.
func (p *Plane) TryChange(ctx context.Context, key types.NamespacedName, change func(*clusterv1.Cluster), options ...client.PatchOption) error {
	cluster := &clusterv1.Cluster{}
	if err := p.Client.Get(ctx, key, cluster); err != nil {
		return fmt.Errorf("reading Cluster %s: %w", key, err)
	}
	changed := cluster.DeepCopy()
	change(changed)
	if err := p.Client.Patch(ctx, changed, client.MergeFrom(cluster), options...); err != nil {
		return fmt.Errorf("changing Cluster %s: %w", key, err)
	}
	return nil
}

// Annotate sets annotations of a Cluster; nil removes one.
func (p *Plane) Annotate(ctx context.Context, t *testing.T, key types.NamespacedName, annotations map[string]any) {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	AnnotateObject(ctx, t, p.Client, cluster, annotations)
}
