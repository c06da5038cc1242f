package snapshot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/snapshot"
	"github.com/windlass-dev/windlass/pkg/version"
)

func fact(name risks.ClusterFact, a risks.Answer) map[risks.ClusterFact]risks.Answer {
	facts := make(map[risks.ClusterFact]risks.Answer)
	facts[name] = a
	return facts
}

// TestRiskFacts reads control planes, also those that make no sense.
func TestRiskFacts(t *testing.T) {
	t.Parallel()
	kubeadm := func(etcd any) map[string]any {
		return map[string]any{"kind": "KubeadmControlPlane", "spec": map[string]any{
			"replicas": int64(3), "kubeadmConfigSpec": map[string]any{
				"clusterConfiguration": map[string]any{"etcd": etcd},
			},
		}}
	}
	local := func(tag any) any { return map[string]any{"local": map[string]any{"imageTag": tag}} }
	canonical := func(datastore any) map[string]any {
		return map[string]any{"kind": "CK8sControlPlane", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{
			"spec": map[string]any{"controlPlane": map[string]any{"datastoreType": datastore}},
		}}
	}
	canonicalFacts := func(holds bool, datastore string) risks.Facts {
		return risks.Facts{Distribution: risks.Canonical, Cluster: fact(risks.DqliteDatastore, risks.Answer{
			Known: true, Holds: holds, Seen: "CK8sControlPlane a has datastoreType " + datastore,
		})}
	}
	k0s := func(images any) any {
		return map[string]any{"spec": map[string]any{"images": images}}
	}
	rke2 := func(spec map[string]any) map[string]any {
		return map[string]any{"kind": "RKE2ControlPlane", "spec": spec}
	}
	nginxSupplied := risks.Facts{
		Distribution: risks.RKE2, Cluster: fact(risks.NginxImagesMissing, risks.Answer{Known: true}),
	}
	stacked := risks.Facts{Distribution: risks.Kubeadm, Etcd: risks.Stacked, Machines: 3}
	pinned, external := stacked, stacked
	pinned.PinnedEtcd = version.MustParse("v3.5.26")
	external.Etcd = risks.External
	for name, tt := range map[string]struct {
		object map[string]any
		want   risks.Facts
	}{
		"none yet":     {want: risks.Facts{Distribution: risks.RKE2}},
		"stacked":      {kubeadm(nil), stacked},
		"pinned":       {kubeadm(local("3.5.26-0")), pinned},
		"a wrong tag":  {kubeadm(local("latest")), stacked},
		"a tag's type": {kubeadm(local(int64(3))), stacked},
		"external":     {kubeadm(map[string]any{"external": map[string]any{"endpoints": []any{"e"}}}), external},
		"etcd's type":  {kubeadm("etcd"), stacked},
		"another kind": {map[string]any{"kind": "AWSManagedControlPlane"}, risks.Facts{Distribution: risks.Other}},
		"dqlite":       {canonical("k8s-dqlite"), canonicalFacts(true, "k8s-dqlite")},
		"Canonical":    {canonical("etcd"), canonicalFacts(false, "etcd")},
		"its default":  {canonical(nil), risks.Facts{Distribution: risks.Canonical}},
		"k0s' images": {
			map[string]any{"kind": "K0sControlPlane", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{
				"k0sConfigSpec": map[string]any{"k0s": k0s(map[string]any{"kubeproxy": map[string]any{"version": "v1.29.4"}})},
			}},
			risks.Facts{Distribution: risks.K0s, Cluster: fact(risks.K0sPinnedImages, risks.Answer{
				Known: true, Holds: true,
				Seen: "K0sControlPlane a, spec.k0sConfigSpec.k0s: spec.images names kubeproxy v1.29.4",
			})},
		},
		"k0s' policy": {
			map[string]any{"kind": "K0smotronControlPlane", "spec": map[string]any{
				"k0sConfig": k0s(map[string]any{"default_pull_policy": "Never"}),
			}},
			risks.Facts{Distribution: risks.K0s, EtcdStays: true},
		},
		"RKE2":              {rke2(nil), risks.Facts{Distribution: risks.RKE2}},
		"RKE2 offline":      {rke2(map[string]any{"agentConfig": map[string]any{"airGapped": true}}), risks.Facts{Distribution: risks.RKE2}},
		"without nginx":     {rke2(map[string]any{"serverConfig": map[string]any{"disableComponents": map[string]any{"pluginComponents": []any{"rke2-ingress-nginx"}}}}), nginxSupplied},
		"another component": {rke2(map[string]any{"serverConfig": map[string]any{"disableComponents": map[string]any{"pluginComponents": []any{"rke2-coredns"}}}}), risks.Facts{Distribution: risks.RKE2}},
		"default registry":  {rke2(map[string]any{"agentConfig": map[string]any{"systemDefaultRegistry": "r.example"}}), nginxSupplied},
		"registries":        {rke2(map[string]any{"privateRegistriesConfig": map[string]any{"mirrors": map[string]any{"docker.io": map[string]any{}}}}), nginxSupplied},
		"its own words":     {map[string]any{"kind": "K0sControlPlane"}, risks.Facts{Distribution: risks.K0s}},
	} {
		o := snapshot.Objects{Cluster: &clusterv1.Cluster{}}
		o.Cluster.Spec.ControlPlaneRef.Kind = "RKE2ControlPlane"
		machine := &clusterv1.Machine{}
		machine.Status.NodeInfo = &corev1.NodeSystemInfo{KernelVersion: "6.8.0", OSImage: "os"}
		o.Machines = []*clusterv1.Machine{machine, {}, machine}
		tt.want.Hosts = []risks.Host{{}, {Kernel: "6.8.0", OS: "os"}}
		if tt.object != nil {
			o.ControlPlane = &unstructured.Unstructured{Object: tt.object}
		}
		if tt.object != nil && tt.want.Cluster == nil {
			tt.want.Cluster = make(map[risks.ClusterFact]risks.Answer)
		}
		if diff := cmp.Diff(tt.want, snapshot.RiskFacts(o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRiskHosts: a machine of which nothing is known, and one in a MachinePool without Machines, may be of any
// kind. What kubeadm ignores is that of the machine's own group.
func TestRiskHosts(t *testing.T) {
	t.Parallel()
	const old = "4.18.0"
	machine := func(labels ...string) *clusterv1.Machine {
		m := &clusterv1.Machine{}
		m.Labels = map[string]string{labels[0]: labels[1]}
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KernelVersion: old}
		return m
	}
	worker := machine(clusterv1.MachineDeploymentNameLabel, "md-0")
	pooled := machine(clusterv1.MachinePoolNameLabel, "mp-0")
	first := machine(clusterv1.MachineControlPlaneLabel, "")
	pool := &clusterv1.MachinePool{}
	pool.Name, pool.Status.Replicas = "mp-0", new(int32(1))
	ignores := map[string]any{"joinConfiguration": map[string]any{"nodeRegistration": map[string]any{
		"ignorePreflightErrors": []any{"Swap", "systemVERIFICATION"},
	}}}
	known, unverified := risks.Host{Kernel: old}, risks.Host{Kernel: old, Unverified: true}
	for name, tt := range map[string]struct {
		objects snapshot.Objects
		spec    map[string]any
		want    []risks.Host
	}{
		"no machines":              {snapshot.Objects{MachinePools: []*clusterv1.MachinePool{pool}}, nil, nil},
		"a worker":                 {snapshot.Objects{Machines: []*clusterv1.Machine{worker}}, ignores, []risks.Host{known}},
		"a pool":                   {snapshot.Objects{Machines: []*clusterv1.Machine{worker}, MachinePools: []*clusterv1.MachinePool{pool}}, nil, []risks.Host{{}, known}},
		"a pool with its Machines": {snapshot.Objects{Machines: []*clusterv1.Machine{worker, pooled}, MachinePools: []*clusterv1.MachinePool{pool}}, nil, []risks.Host{known}},
		"a control plane":          {snapshot.Objects{Machines: []*clusterv1.Machine{first}}, nil, []risks.Host{known}},
		"a control plane ignores":  {snapshot.Objects{Machines: []*clusterv1.Machine{first, worker}}, ignores, []risks.Host{known, unverified}},
		"workers ignore":           {snapshot.Objects{Machines: []*clusterv1.Machine{first, worker}, Unverified: []string{"md-0"}}, nil, []risks.Host{known, unverified}},
		"all ignore":               {snapshot.Objects{Machines: []*clusterv1.Machine{first, worker}, Unverified: []string{"md-0"}}, ignores, []risks.Host{unverified}},
	} {
		o := tt.objects
		o.Cluster = &clusterv1.Cluster{}
		o.ControlPlane = &unstructured.Unstructured{Object: map[string]any{
			"kind": "KubeadmControlPlane", "spec": map[string]any{"kubeadmConfigSpec": tt.spec},
		}}
		if diff := cmp.Diff(tt.want, snapshot.RiskFacts(o).Hosts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
