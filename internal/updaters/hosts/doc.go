// Package hosts contains the updaters for Linux hosts: of the kinds Kubeadm, RKE2 and K3s. They upgrade
// Kubernetes on the machine step by step, as package linuxhost decides.
//
// No state of an upgrade is kept here: each request reads from the host how far it has come. A process
// remembers only which messages it has returned and logged.
package hosts
