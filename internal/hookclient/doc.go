// Package hookclient calls runtime extensions. Its Client implements sigs.k8s.io/cluster-api/exp/runtime/client.Client, so that
// Cluster API's reconcilers use it as ours do; wire format, discovery and aggregation are Cluster API's. It is the only place of
// timeouts, TLS and failure policies, and there is one function that calls a hook, whatever hook it is.
package hookclient
