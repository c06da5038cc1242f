// Package hosts_test upgrades Kubernetes on Linux hosts: real kubeadm and kubelets of two minors, on hosts with an sshd and units of
// their own, whose nodes are those of a development plane's API server. It is done with "windlass updater kubeadm run", and
// through stock Cluster API by an Updater of kind Kubeadm.
//
// What is real: kubeadm and the kubelet's flags, files, certificates, Node and version; the API server, which keeps the cluster's
// kubeadm-config and kubelet-config; evictions; SSH, units and their restarts; Cluster API's core and bootstrap managers.
//
// What is not:
//   - "kubeadm join" and TLS bootstrap: nobody on the plane signs certificates for kubelets. The test puts in place what a join leaves on
//     a host, with a certificate by a CA of its own that the API server trusts. A kubelet's certificate is not rotated. Cluster API's bootstrap
//     data for the join is made, and not run.
//   - A control plane on a host: the plane's API server and etcd are one process and no static pods. "kubeadm upgrade apply", snapshots of
//     etcd and the kubelet's endpoint are tested with stand-ins, in package linuxhost.
//   - A container runtime, cgroups, mounts and cAdvisor: the kubelet has Kubernetes' own stand-ins for them. So kubeadm's check
//     SystemVerification, which looks at cgroups, is ignored.
//   - The Node authorizer, NodeRestriction, and controllers for node lifecycle and certificates: the plane has none. That a node is lost when its
//     host has no power shows on no Node, so nothing here waits for it.
//   - An infrastructure provider and a control plane provider: the test does what they would, with kinds of its own.
package hosts_test
