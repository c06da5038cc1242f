// Package webhook serves admission webhooks. The guard is one of Machines: where an UpdatePolicy forbids to replace machines, it refuses
// requests that would. Cluster and ClusterClass take the place of Cluster API's own webhooks for these in windlass manager.
package webhook
