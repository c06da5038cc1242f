// Package guardwebhook serves admission webhooks. The guard is the webhook of Machines: where an
// UpdatePolicy forbids replacing machines, it refuses requests that would replace one. The webhooks of
// Clusters, ClusterClasses, MachineDeployments and MachineSets replace those of Cluster API in windlass
// manager.
package guardwebhook
