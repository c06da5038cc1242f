// Package cloudconfig reads the user data that Cluster API's kubeadm bootstrap provider writes for a machine, and turns it
// into files and one script for a host. It is pure.
//
// It knows the modules of cloud-init that this provider uses: bootcmd, write_files, users and runcmd, in cloud-init's order.
// It ignores ntp, because the hosts of one machine share its clock. It refuses all others by name: a host on which part of
// its configuration is missing would fail later, and for no visible reason.
package cloudconfig
