package snapshot

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windlass-dev/windlass/internal/risks"
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
	infos := make([]*corev1.NodeSystemInfo, 0, len(o.Machines))
	for _, m := range o.Machines {
		infos = append(infos, m.Status.NodeInfo)
	}
	f.Hosts = risks.HostsOf(infos)
	if o.ControlPlane == nil {
		return f
	}
	fields := o.ControlPlane.Object
	f.Distribution = risks.DistributionOfKind(o.ControlPlane.GetKind())
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
