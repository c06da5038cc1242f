// Package hosts holds the updaters for Linux hosts: of the kinds Kubeadm, RKE2 and K3s. They upgrade Kubernetes on the machine that is there, step by
// step, as packages core/hosts and hoststep do.
//
// Nothing about an upgrade is kept here: how far it has come is read from the host with each request. What a process remembers is which words it has said
// and logged.
package hosts
