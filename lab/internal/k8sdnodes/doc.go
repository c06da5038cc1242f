// Package k8sdnodes plays k8sd on the nodes of all Machines of a management cluster, for simulated machines
// and for Windlass' updater of kind K8sd.
package k8sdnodes
