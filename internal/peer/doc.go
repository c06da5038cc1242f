// Package peer makes the HTTP clients for servers that somebody else runs: API servers of workload
// clusters, runtime extensions, updaters, k8sd. A peer may be broken or hostile. Every client made
// here bounds time, headers and body, follows no redirect, and verifies TLS unless its tls.Config
// says otherwise. No other package of the product makes an HTTP client or transport;
// TestOnlyConstructor enforces that.
package peer
