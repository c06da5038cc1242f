// Package pod runs scripts on the host of a node through a privileged Pod there, for those who forbid SSH. It works while the node's kubelet does.
//
// The Pod is made when the first script comes, used by all who run scripts on the node, and deleted by Close; who dies before has it ended by
// its deadline. Who closes it while somebody else uses it makes their script a lost one. One Host uses one Pod: after another one has
// taken its place, the node's host may be another one, too, and all scripts are lost.
//
// The workload cluster's RBAC must allow, in the Pod's namespace: get, create and delete of pods; get and create of pods/exec (WebSockets are
// opened with GET, SPDY with POST). The namespace must admit privileged Pods (pod-security.kubernetes.io/enforce: privileged). The image needs
// sleep and nsenter; the host needs bash.
package pod
