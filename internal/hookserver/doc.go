// Package hookserver serves the runtime hooks of Cluster API. Each hook is a function in three parts: decode the request
// into values, ask the core, encode the answer. A request that cannot be answered gets a response with the status
// Failure, whose message Cluster API shows in the Cluster's TopologyReconciled condition.
package hookserver
