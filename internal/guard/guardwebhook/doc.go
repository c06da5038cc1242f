// Package guardwebhook serves admission webhooks. The guard is the webhook of Machines: where an
// UpdatePolicy forbids replacing machines, it refuses requests that would replace one. The webhooks of
// Clusters and ClusterClasses replace Cluster API's own in windlass manager.
package guardwebhook
