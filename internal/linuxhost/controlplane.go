package linuxhost

import (
	"cmp"
	"fmt"
)

// lacksCluster tells, when an attempt begins, that the version of the cluster cannot be read. In
// the middle of an attempt that is waited for: the API server may be away for a moment.
func lacksCluster(steps []Step, s Seen) *Failure {
	f := s.Facts
	if !f.ControlPlane || !f.Kubectl || f.Verb != "" || !f.Cluster.IsZero() ||
		f.Job.Attempt == s.Attempt || !isLeft(steps, s, KubeadmUpgrade) {
		return nil
	}
	return newFailure(ConfigUnreadable, KubeadmUpgrade, "%s. Nothing was changed. Fix: have kubectl "+
		"--kubeconfig /etc/kubernetes/admin.conf -n kube-system get cm kubeadm-config succeed on the "+
		"host; kubeadm certs check-expiration shows whether admin.conf has expired", describeUnread(f))
}

// describeUnread says that the version of the cluster cannot be read. Without it nobody knows
// whether the machine is the first of its control plane.
func describeUnread(f Facts) string {
	return "the ConfigMap kube-system/kubeadm-config cannot be read with the host's kubectl and " +
		"admin.conf: " + cmp.Or(f.ClusterProblem, "it has no kubernetesVersion")
}

// holdRestart says why a restart of the kubelet has to wait; empty if it can begin. A kubelet of
// another minor restarts the host's member of etcd: if another member is down, etcd would lose its
// quorum by that. kubeadm asked the members before it restarted this one, which may be long ago. A
// kubelet of an unknown version counts as one of another minor.
func holdRestart(g Goal, step Step, f Facts) string {
	sameMinor := !f.Running.IsZero() && f.Running.Minor() == g.Version.Minor()
	if step.Name != Restart || f.EtcdPeerProblem == "" || sameMinor {
		return ""
	}
	return fmt.Sprintf("the kubelet %s is not restarted, because it would restart etcd, and another "+
		"member of etcd is not healthy: %s. Fix: repair that member, or remove it from etcd; the "+
		"upgrade then continues by itself", g.Version, f.EtcdPeerProblem)
}
