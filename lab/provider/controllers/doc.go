// Package controllers reconciles the kinds of the lab's infrastructure provider with a site, by Cluster API's contract v1beta2.
//
// A host's id at the site is the UID of its HostMachine, and a load balancer's that of its HostCluster: so the provider finds them
// again after a restart, and no two objects share one. All that a host does is in the host. The provider can be killed at any line.
package controllers
