package snapshot

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/capi"
	"github.com/windlass-dev/windlass/internal/risks"
	"github.com/windlass-dev/windlass/internal/settings"
)

// etcdPath is where the control plane of kubeadm configures etcd.
var etcdPath = []string{"spec", "kubeadmConfigSpec", "clusterConfiguration", "etcd"}

// RiskFacts returns what a Cluster's objects tell of its control plane that known risks depend on.
// It leaves out which etcd runs.
func RiskFacts(o Objects) risks.Facts {
	f := risks.Facts{Distribution: risks.DistributionOfKind(o.Cluster.Spec.ControlPlaneRef.Kind)}
	if n := ControlPlaneReplicas(o); n != nil {
		f.Machines = int(*n)
	}
	f.Hosts = hostsOf(o)
	if o.ControlPlane == nil {
		return f
	}
	fields := o.ControlPlane.Object
	f.Distribution = risks.DistributionOfKind(o.ControlPlane.GetKind())
	f.Cluster = controlPlaneFacts(o.ControlPlane)
	if o.ControlPlane.GetKind() == "K0smotronControlPlane" {
		f.EtcdStays = true // k0smotron runs etcd in a StatefulSet, with an image of its own.
	}
	if f.Distribution != risks.Kubeadm {
		return f
	}
	f.Etcd = risks.Stacked
	etcd, _, err := unstructured.NestedMap(fields, etcdPath...)
	if err != nil {
		return f
	}
	external, _, err := unstructured.NestedMap(etcd, "external")
	if err == nil && len(external) > 0 {
		f.Etcd = risks.External
	}
	tag, _, err := unstructured.NestedString(etcd, "local", "imageTag")
	if err == nil {
		f.PinnedEtcd = risks.EtcdOfTag(tag)
	}
	return f
}

// k0sPaths are where control planes of k0s have a ClusterConfig, by their kind.
var k0sPaths = map[string][]string{
	"K0sControlPlane":       {"spec", "k0sConfigSpec", "k0s"},
	"K0smotronControlPlane": {"spec", "k0sConfig"},
}

// controlPlaneFacts returns the facts that a control plane object shows. A datastore that it does not name
// is not known, and a ClusterConfig of k0s may be in the workload cluster as well.
func controlPlaneFacts(o *unstructured.Unstructured) map[risks.ClusterFact]risks.Answer {
	facts := make(map[risks.ClusterFact]risks.Answer)
	datastorePath := []string{"spec", "spec", "controlPlane", "datastoreType"}
	datastore, _, err := unstructured.NestedString(o.Object, datastorePath...)
	if err == nil && datastore != "" && o.GetKind() == "CK8sControlPlane" {
		facts[risks.DqliteDatastore] = risks.Answer{
			Known: true, Holds: datastore == "k8s-dqlite",
			Seen: "CK8sControlPlane " + o.GetName() + " has datastoreType " + datastore,
		}
	}
	if o.GetKind() == "RKE2ControlPlane" && suppliesNginx(o.Object) {
		facts[risks.NginxImagesMissing] = risks.Answer{Known: true}
	}
	path, isK0s := k0sPaths[o.GetKind()]
	config, _, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	fields, isMap := config.(map[string]any)
	if !isK0s || err != nil || !isMap {
		return facts
	}
	if pins := risks.PinnedImages(fields); pins != "" {
		facts[risks.K0sPinnedImages] = risks.Answer{
			Known: true, Holds: true,
			Seen: o.GetKind() + " " + o.GetName() + ", " + strings.Join(path, ".") + ": " + pins,
		}
	}
	return facts
}

// suppliesNginx reports whether a control plane of RKE2 disables the packaged ingress-nginx, or names a
// registry. Otherwise only its hosts show where images are from.
func suppliesNginx(fields map[string]any) bool {
	disabled, _, err := unstructured.NestedStringSlice(fields,
		"spec", "serverConfig", "disableComponents", "pluginComponents")
	if err == nil && slices.Contains(disabled, "rke2-ingress-nginx") {
		return true
	}
	registry, _, err := unstructured.NestedString(fields, "spec", "agentConfig", "systemDefaultRegistry")
	if err == nil && registry != "" {
		return true
	}
	registries, _, err := unstructured.NestedMap(fields, "spec", "privateRegistriesConfig")
	return err == nil && len(registries) > 0
}

// hostsOf returns the kinds of machines of a Cluster; none if it has no Machines here. Of a Machine
// without a Node nothing is known, and neither of machines in a MachinePool that has no Machines.
func hostsOf(o Objects) []risks.Host {
	if len(o.Machines) == 0 {
		return nil
	}
	hosts, pooled := make([]risks.Host, 0, len(o.Machines)), map[string]int32{}
	for _, m := range o.Machines {
		host := risks.HostOf(m.Status.NodeInfo)
		host.Unverified = IsUnverified(o, m)
		hosts = append(hosts, host)
		pooled[m.Labels[clusterv1.MachinePoolNameLabel]]++
	}
	for _, pool := range o.MachinePools {
		if n := pool.Status.Replicas; n != nil && *n > pooled[pool.Name] {
			hosts = append(hosts, risks.Host{})
			break
		}
	}
	return risks.Kinds(hosts)
}

// IsUnverified reports whether a machine like m joins although kubeadm's check SystemVerification fails, as far
// as the objects tell.
func IsUnverified(o Objects, m *clusterv1.Machine) bool {
	if !capi.IsControlPlane(m) {
		return slices.Contains(o.Unverified, m.Labels[clusterv1.MachineDeploymentNameLabel])
	}
	return o.ControlPlane != nil && settings.IgnoresVerification(settings.Object{
		Kind: o.ControlPlane.GetKind(), Content: o.ControlPlane.Object,
	})
}
