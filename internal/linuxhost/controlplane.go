package linuxhost

import "cmp"

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
